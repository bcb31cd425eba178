"""The system flag of a pull request: which of its other fields count.

Upstream: PullSysFlag.
"""

from __future__ import annotations

COMMIT_OFFSET = 0x1
SUSPEND = 0x2
SUBSCRIPTION = 0x4
CLASS_FILTER = 0x8
LITE_PULL = 0x10


def pull_flag(
    *,
    commit_offset: bool = False,
    suspend: bool = False,
    subscription: bool = False,
    class_filter: bool = False,
    lite_pull: bool = False,
) -> int:
    """Upstream: PullSysFlag.buildSysFlag."""
    return (
        commit_offset * COMMIT_OFFSET
        | suspend * SUSPEND
        | subscription * SUBSCRIPTION
        | class_filter * CLASS_FILTER
        | lite_pull * LITE_PULL
    )


def has_commit_offset(flag: int) -> bool:
    return bool(flag & COMMIT_OFFSET)


def has_suspend(flag: int) -> bool:
    return bool(flag & SUSPEND)


def has_subscription(flag: int) -> bool:
    return bool(flag & SUBSCRIPTION)


def has_class_filter(flag: int) -> bool:
    return bool(flag & CLASS_FILTER)


def has_lite_pull(flag: int) -> bool:
    return bool(flag & LITE_PULL)


def without_commit_offset(flag: int) -> int:
    return flag & ~COMMIT_OFFSET


def without_suspend(flag: int) -> int:
    return flag & ~SUSPEND

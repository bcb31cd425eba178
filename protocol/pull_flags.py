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

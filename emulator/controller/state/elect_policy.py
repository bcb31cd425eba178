"""Which replica becomes the master.

The master stays while it is alive, unless another is designated.  Otherwise the replica with the
newest epoch wins, then that with the longest log, then that with the smallest priority.
Only members of the sync-state set can win: they have all messages that were acknowledged.  An
unclean election goes on to all replicas of the name, and may lose messages.

Upstream: DefaultElectPolicy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rocketmq_emulator.controller.state.live_brokers import BrokerLiveInfo

LiveInfo: TypeAlias = "Callable[[int], BrokerLiveInfo | None]"  # None: it is not alive


class Candidates(NamedTuple):
    """The replicas of one name, by id: ``others`` only for an unclean election."""

    in_sync: Iterable[int]
    others: Iterable[int]
    old_master: int | None
    designated: int | None


def elect(candidates: Candidates, live_info: LiveInfo) -> int | None:
    """The id of the new master, which may be the old one; None if nobody can be it."""
    for ids in (candidates.in_sync, candidates.others):
        alive = {number: info for number in sorted(ids) if (info := live_info(number))}
        winner = _among(alive, candidates)
        if winner is not None:
            return winner
    return None


def _among(alive: dict[int, BrokerLiveInfo], candidates: Candidates) -> int | None:
    old, designated = candidates.old_master, candidates.designated
    if old in alive and designated in (None, old):
        return old
    if designated is not None:
        return designated if designated in alive else None
    order = functools.cmp_to_key(compare)
    return min(alive, key=lambda number: order(alive[number]), default=None)


def compare(one: BrokerLiveInfo, other: BrokerLiveInfo) -> int:
    """Negative if *one* is the better master.

    As in upstream the difference is cut to 32 bits: if one log is from 2 to 4 GiB longer than
    the other, the shorter one wins.
    """
    if one.epoch != other.epoch:
        return _as_int(other.epoch - one.epoch)
    if one.max_offset != other.max_offset:
        return _as_int(other.max_offset - one.max_offset)
    return _as_int(one.election_priority - other.election_priority)


def _as_int(value: int) -> int:
    """Java's cast of a long to an int."""
    return (value + 2**31) % 2**32 - 2**31

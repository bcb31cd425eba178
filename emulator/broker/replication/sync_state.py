"""Which slaves are in sync: the set that the controller knows, and the one that a master wants.

The master asks for a change and goes on; until the controller has answered, the members of both
sets count.  So no message is confirmed without a slave that may be elected.  A slave counts as
caught up whenever its report reaches the end that the log had at the last frame; while nothing is
left to send to it, it is caught up all the time.

Upstream: AutoSwitchHAService (syncStateSet, remoteSyncStateSet, connectionCaughtUpTimeTable).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rocketmq_emulator.settings.releases import SYNC_STATE_SET_CHECK_GOES_ON, Release

SLAVES_KEPT_MAX = 1_000  # ours: of those that have caught up; ids come from peers


class ShrinkPlan(NamedTuple):
    """The set without slow slaves, and why each of them is not in it."""

    wanted: frozenset[int]
    reasons: dict[int, str]
    fails: bool = False  # upstream's check ends with an exception, and nothing changes


class SyncState:
    """The ids of a master and of its slaves that are in sync."""

    def __init__(self) -> None:
        self.local: frozenset[int] = frozenset()  # as the controller says
        self.wanted: frozenset[int] | None = None  # while a change is under way
        self._caught_up_ms: dict[int, int] = {}

    @property
    def union(self) -> frozenset[int]:
        """All that must have a message.  Upstream: getSyncStateSet."""
        return self.local | (self.wanted or frozenset())

    @property
    def count(self) -> int:
        """The size of the larger set.  Upstream: inSyncReplicasNums."""
        return max(len(self.local), len(self.wanted or ()))

    def use(self, ids: Collection[int]) -> None:
        """The controller's set; no change is under way any more.  Upstream: setSyncStateSet."""
        self.local, self.wanted = frozenset(ids), None

    def want(self, ids: Iterable[int]) -> bool:
        """A change is under way; False if the same one was before.

        Upstream: markSynchronizingSyncStateSet.
        """
        before, self.wanted = self.wanted, frozenset(ids)
        return before != self.wanted

    def caught_up(self, slave_id: int, at_ms: int) -> None:
        """A slave had all of the log.  Upstream: updateConnectionLastCaughtUpTime."""
        known = self._caught_up_ms
        known[slave_id] = max(known.pop(slave_id, 0), at_ms)
        if len(known) > SLAVES_KEPT_MAX:
            del known[next(iter(known))]

    def shrunk(
        self, own_id: int | None, now_ms: int, silent_ms_max: int, release: Release
    ) -> ShrinkPlan:
        """The set without slaves that were not caught up for too long, or never connected.

        Upstream: maybeShrinkSyncStateSet.  Before 5.1.4 it removed the master, too, while it went
        through the set: that ended the check, unless the master came last.
        """
        reasons: dict[int, str] = {}
        goes_on = release >= SYNC_STATE_SET_CHECK_GOES_ON
        for slave_id, caught_up_ms in self._caught_up_ms.items():
            behind_ms = now_ms - caught_up_ms
            if slave_id in self.local and behind_ms > silent_ms_max:
                reasons[slave_id] = f"it was not caught up for {behind_ms} ms"
        left = _in_order_of_java(self.local, lambda each: each not in reasons)
        for place, slave_id in enumerate(left, 1):
            if slave_id in self._caught_up_ms or (slave_id == own_id and goes_on):
                continue
            if not goes_on and place < len(left):
                return ShrinkPlan(self.local, {}, fails=True)
            if slave_id != own_id:
                reasons[slave_id] = "it has not connected"
        return ShrinkPlan(self.local - reasons.keys(), reasons)


def _in_order_of_java(ids: Collection[int], is_kept: Callable[[int], bool]) -> list[int]:
    """The *ids* as ``new HashSet<>(size)`` of Java has them, if they are small numbers."""
    buckets = 1
    while buckets < len(ids) or len(ids) > buckets * 3 // 4:
        buckets *= 2
    return [each for each in sorted(ids, key=lambda each: (each % buckets, each)) if is_kept(each)]

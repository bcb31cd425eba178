"""Of which queues a broadcasting member has lost its offset: there it begins at the end.

Such a member keeps its offsets itself, in a file, and where the plan names no folder the file
is gone with the process.  Until 4.9.8 and 5.2.0 each write, every five seconds, replaces the file
by the offsets of the queues that are held just then, and while none is held nothing is written.
So a queue that was given up, because its broker was missing in a route, has none when it is back.

Upstream: LocalFileOffsetStore.persistAll, RebalancePushImpl.computePullFromWhereWithException.
"""

from __future__ import annotations

import msgspec

from emulator.checks.scene import Scene, Seat
from emulator.facts import Queue, QueuesClaimed, QueuesReleased
from emulator.releases import LOCAL_OFFSETS_MERGE, Release

WRITTEN_EVERY_US = 5_000_000


class _Share(msgspec.Struct):
    """What one process holds, and held; and what the processes before it held."""

    from_us: int
    held: set[Queue]
    given_up_us: dict[Queue, int]
    of_others: set[Queue]


class LocalOffsets:
    """Of every broadcasting member, by its claims and releases."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._shares: dict[tuple[str, str], _Share] = {}

    def released(self, fact: QueuesReleased, node: str, now_us: int) -> None:
        """The member on *node* gave queues up."""
        if (share := self._shares.get((fact.group, node))) is not None:
            share.held.difference_update(fact.queues)
            share.given_up_us.update(dict.fromkeys(fact.queues, now_us))

    def claimed(self, fact: QueuesClaimed, node: str, now_us: int) -> list[Queue]:
        """Which of the queues that the member on *node* had before it has no offset of."""
        seat = self._scene.seat(fact.group, node)
        if seat is None:
            return []
        share = self._share(fact.group, seat)
        lost = set()
        if not self._scene.keeps_offsets(fact.group):
            lost |= share.of_others.intersection(fact.queues)
        if share.held and _overwrites(seat):
            since_us = now_us - WRITTEN_EVERY_US
            given_up_us = share.given_up_us
            lost |= {each for each in fact.queues if given_up_us.get(each, now_us) <= since_us}
        share.held.update(fact.queues)
        share.of_others.difference_update(fact.queues)
        for queue in fact.queues:
            share.given_up_us.pop(queue, None)
        return [queue for queue in fact.queues if queue in lost]

    def _share(self, group: str, seat: Seat) -> _Share:
        """Of the process that runs now."""
        found = self._shares.get((group, seat.node))
        if found is None or found.from_us != seat.from_us:
            had: set[Queue] = set()
            if found is not None:
                had = found.held | found.given_up_us.keys() | found.of_others
            found = self._shares[group, seat.node] = _Share(seat.from_us, set(), {}, had)
        return found


def _overwrites(seat: Seat) -> bool:
    """Its release writes the held queues alone; pull consumers have the others in memory."""
    started = seat.started
    if started.consumer_kind != "push":
        return False
    return not LOCAL_OFFSETS_MERGE.reached(Release.parse(started.release))

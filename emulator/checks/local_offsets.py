"""Of which queues a broadcasting member has lost its offset: there it begins at the end.

Such a member keeps its offsets itself, in a file, and where the plan names no folder the file
is gone with the process.  It is written 10 s after the start and then every 5 s, late if a
NameServer does not answer: what a process held for a shorter time is not in it.  Until 4.9.8 and
5.2.0 each write replaces the file by the offsets of the queues that are held just then, and while
none is held nothing is written.  So a queue whose broker was missing in a route has none when it
is back: the member had given it up, or had begun without it.  So has one that the first pass of a
process comes to after a write, as another broker kept it waiting: a pass asks for each queue's
offset in turn, and holds at once what it has asked for.

Upstream: LocalFileOffsetStore.persistAll, RebalanceImpl.updateProcessQueueTableInRebalance,
RebalancePushImpl.computePullFromWhereWithException, MQClientInstance.startScheduledTask.
In every release a queue has an offset once something of it was consumed, or a pull was answered
that there is nothing.  One that was given up before, as its broker ended with the first pull, has
none, in memory or in the file.

Upstream: LocalFileOffsetStore.persistAll, RebalancePushImpl.computePullFromWhereWithException,
MQClientInstance.startScheduledTask; DefaultMQPushConsumerImpl.correctTagsOffset.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from emulator.checks.holds import Hold
from emulator.checks.queue_records import ASKED_US, QueueReading
from emulator.checks.scene import Scene, Seat
from emulator.facts import MemberJoined, PullAnswered, Queue, QueuesClaimed, QueuesReleased
from emulator.journal import Entry
from emulator.releases import LOCAL_OFFSETS_MERGE, Release

WRITTEN_FIRST_US = 10_000_000
WRITTEN_EVERY_US = 5_000_000
LATE_US = 3_000_000  # one thread does all that is periodic, and waits so long for a NameServer


class _Share(msgspec.Struct):
    """What one process holds, and held; and what the processes before it held."""

    from_us: int
    claimed_us: int  # for the first time
    held: dict[Queue, int] = {}  # since when
    given_up_us: dict[Queue, int] = {}
    of_others: set[Queue] = set()
    unwritten: set[Queue] = set()  # of these: no process had the time to write an offset
    overwritten: set[Queue] = set()  # the file was written without them


class LocalOffsets:
    """Of every broadcasting member, by its claims and releases."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._shares: dict[tuple[str, str], _Share] = {}
        self._clients: dict[str, str] = {}  # by address
        self._answered: dict[str, set[tuple[str, Queue]]] = {}  # by group: client, queue

    def joined(self, fact: MemberJoined, entry: Entry) -> None:
        """Whose connection that is."""
        self._clients[fact.peer] = fact.client

    def answered(self, fact: PullAnswered) -> None:
        """A pull of a broadcasting member; from an address that is not known: of all of them."""
        client = self._clients.get(fact.peer, "")
        self._answered.setdefault(fact.group, set()).add((client, fact.queue))

    def released(self, fact: QueuesReleased, node: str, now_us: int) -> None:
        """The member on *node* gave queues up."""
        share = self._shares.get((fact.group, node))
        seat = self._scene.seat(fact.group, node)
        if share is not None and seat is not None:
            _overwrite(share, seat, now_us)
            for queue in fact.queues:
                share.held.pop(queue, None)
            share.given_up_us.update(dict.fromkeys(fact.queues, now_us))

    def claimed(
        self, fact: QueuesClaimed, node: str, now_us: int, consumed: Collection[Queue]
    ) -> list[Queue]:
        """Which of the queues that the member on *node* had before it has no offset of.

        It has consumed something of the *consumed* ones.
        """
        seat = self._scene.seat(fact.group, node)
        if seat is None:
            return []
        share = self._share(fact.group, seat, now_us)
        lost = share.unwritten.intersection(fact.queues)
        if not self._scene.keeps_offsets(fact.group):
            lost |= share.of_others.intersection(fact.queues)
        _overwrite(share, seat, now_us)
        lost |= share.overwritten.intersection(fact.queues)
        if share.claimed_us == now_us and _overwrites(seat):
            lost |= {each for each in fact.queues if self._was_late(share, fact, each, now_us)}
        lost |= self._unanswered(fact, seat, share).difference(consumed)
        share.held.update(dict.fromkeys(fact.queues, now_us))
        for queue in fact.queues:
            share.given_up_us.pop(queue, None)
            share.of_others.discard(queue)
            share.unwritten.discard(queue)
            share.overwritten.discard(queue)
        return [queue for queue in fact.queues if queue in lost]

    def _was_late(self, share: _Share, fact: QueuesClaimed, queue: Queue, now_us: int) -> bool:
        """The first pass held others when the file was written, and had not come to *queue*."""
        if queue not in share.of_others or queue.broker == fact.queues[0].broker:
            return False
        brokers = self._scene.topics.brokers_of(queue.topic) - {queue.broker}
        return any(
            self._scene.touched(brokers, at_us, min(at_us + LATE_US, now_us))
            for at_us in _writes(share, now_us)
            if at_us >= now_us - ASKED_US
        )

    def _unanswered(self, fact: QueuesClaimed, seat: Seat, share: _Share) -> set[Queue]:
        """What this process gave up before any pull of it was answered to its member."""
        answered = self._answered.get(fact.group)
        if answered is None or seat.started.consumer_kind != "push":
            return set()  # perhaps the journal has no answers
        given_up = share.given_up_us.keys() & set(fact.queues)
        clients = seat.started.client, ""
        return {q for q in given_up if all((each, q) not in answered for each in clients)}

    def _share(self, group: str, seat: Seat, now_us: int) -> _Share:
        """Of the process that runs now."""
        found = self._shares.get((group, seat.node))
        if found is None or found.from_us != seat.from_us:
            new = _Share(seat.from_us, now_us)
            if found is not None:
                new.of_others = found.held.keys() | found.given_up_us.keys() | found.of_others
                ended_us = self._scene.last_end_us(group, seat.node)
                new.unwritten = found.unwritten | _too_new(found, ended_us)
                if ended_us is not None:
                    _overwrite(found, seat, ended_us)
                new.overwritten = found.overwritten
            found = self._shares[group, seat.node] = new
        return found


def left_open(reading: QueueReading, hold: Hold, end: int, since_us: int) -> list[int]:
    """What *hold* left open although it was given, or passed over, before *since_us*."""
    found = []
    for first, behind in reading.done.holes(reading.start, min(end, reading.given_to)):
        for offset in range(first, behind):
            given = hold.in_hand.get(offset) or hold.late.get(offset)
            if given is not None:
                at_us: int | None = given.mono_us
            else:
                at_us = next((at for at, leapt in reading.leaps if leapt > offset), None)
            if at_us is not None and at_us < since_us:
                found.append(offset)
    return found


def _too_new(share: _Share, ended_us: int | None) -> set[Queue]:
    """What the process that had *share* can have held without writing its offset."""
    if ended_us is None:
        return set()
    if ended_us - share.from_us <= WRITTEN_FIRST_US:
        return set(share.held) - share.of_others
    since_us = ended_us - WRITTEN_EVERY_US
    return {queue for queue, claimed_us in share.held.items() if claimed_us >= since_us}


def _overwrite(share: _Share, seat: Seat, now_us: int) -> None:
    """With what has been held up to now the file was written, and without the others."""
    if not share.held or not _overwrites(seat):
        return
    given_up = share.given_up_us.items()
    share.overwritten |= {each for each, at_us in given_up if _may_write(share, at_us, now_us)}
    if _may_write(share, share.claimed_us, now_us):
        share.overwritten |= share.of_others


def _writes(share: _Share, now_us: int) -> range:
    """When its process wrote its file, up to now."""
    return range(share.from_us + WRITTEN_FIRST_US, now_us + 1, WRITTEN_EVERY_US)


def _may_write(share: _Share, since_us: int, until_us: int) -> bool:
    """The process wrote its file between, every 5 s, or began to do so a little before."""
    first_us = share.from_us + WRITTEN_FIRST_US
    last_us = until_us - (until_us - first_us) % WRITTEN_EVERY_US
    return max(first_us, since_us - LATE_US) <= last_us


def _overwrites(seat: Seat) -> bool:
    """Its release writes the held queues alone; pull consumers have the others in memory."""
    started = seat.started
    if started.consumer_kind != "push":
        return False
    return not LOCAL_OFFSETS_MERGE.reached(Release.parse(started.release))

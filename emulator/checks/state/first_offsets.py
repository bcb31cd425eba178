"""The start offset of a reader without an offset, or that lost it: the first message or the end.

A broker answers 0 to a group without an offset while the queue has its first message; since 5.1.0
not for an empty queue: the member then asks for the end offset, which may have moved in between.
A broadcasting member writes its offsets to a file 10 s after the start, then every 5 s (late if a
NameServer does not answer); without a folder in the plan the file is lost with the process.  Until
4.9.8 and 5.2.0 the file keeps only queues held at the write: a queue given up, or not claimed yet,
has no offset.  A queue with a consumed message, or a pull answered empty, has one in any release.
Upstream: ConsumerManageProcessor.queryConsumerOffset, LocalFileOffsetStore.persistAll,
RebalancePushImpl and RebalanceLitePullImpl.computePullFromWhereWithException,
RebalanceImpl.updateProcessQueueTableInRebalance, MQClientInstance.startScheduledTask,
DefaultMQPushConsumerImpl.correctTagsOffset.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from rocketmq_emulator.checks.state.cluster_state import ClusterState, ConsumerRecord
from rocketmq_emulator.checks.state.queue_claims import QueueClaim
from rocketmq_emulator.checks.state.queue_records import ASKED_US, QueueReading, QueueRecords
from rocketmq_emulator.facts import (
    MemberJoined,
    PullAnswered,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.settings.releases import (
    EMPTY_QUEUE_HAS_NO_OFFSET,
    LOCAL_OFFSETS_MERGE,
    Release,
)

# A member asks for the group's offset (5 s at most) and, without one, for the end offset (3 s).
BEGIN_US = 8_000_000
PULL_US = 3_000_000  # from a lite pull member's claim to its first pull, if threads are busy


def start_offset_of(reader: str, records: QueueRecords, offset: int | None) -> int:
    """The start of *reader*, new to the queue, if a member claims the queue at *offset*."""
    is_new_to_all = records.first == 0 and not records.dropped_to and "@" not in reader
    return 0 if offset is None or is_new_to_all else offset


def may_start_at_end(cluster: ClusterState, reading: QueueReading, now_us: int) -> bool:
    """Whether the group has no offset, and the queue was empty at the query, or still is."""
    run, records = cluster.run, reading.records
    if reading.is_broadcast or reading.reported_offsets or records.first not in (None, 0):
        return False
    if run is None or Release.parse(run.release) < EMPTY_QUEUE_HAS_NO_OFFSET:
        return False
    if records.first is None:
        return True
    first_us = records.stored_us(0)
    return first_us is not None and first_us > now_us - BEGIN_US


def start_recheck_until_us(cluster: ClusterState, group: str, claimed: Entry) -> int:
    """Until when the member that claimed may query its start again; 0: it does not.

    Upstream: DefaultLitePullConsumerImpl.nextPullOffset, just before the first pull of a queue.
    """
    consumer = cluster.consumer(group, claimed.node)
    is_lite = consumer is not None and consumer.started.consumer_kind == "lite_pull"
    return claimed.mono_us + PULL_US if is_lite else 0


# Offsets that a broadcasting member keeps itself --------------------------------------


WRITTEN_FIRST_US = 10_000_000
WRITTEN_EVERY_US = 5_000_000
LATE_US = 3_000_000  # one thread runs all periodic tasks; it waits so long for a NameServer


class _Share(msgspec.Struct):
    """The queues that a process holds and held, and those of earlier processes."""

    from_us: int
    claimed_us: int  # for the first time
    held: dict[Queue, int] = {}  # since when
    given_up_us: dict[Queue, int] = {}
    of_others: set[Queue] = set()
    unwritten: set[Queue] = set()  # of these: no process could write an offset
    overwritten: set[Queue] = set()  # last write left them out


class LocalOffsets:
    """Finds which offsets each broadcasting member has lost, by its claims and releases."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._shares: dict[tuple[str, str], _Share] = {}
        self._clients: dict[str, str] = {}  # by address
        self._answered: dict[str, set[tuple[str, Queue]]] = {}  # by group: client, queue

    def joined(self, fact: MemberJoined, entry: Entry) -> None:
        """Note the client of a connection."""
        self._clients[fact.peer] = fact.client

    def client_of(self, peer: str) -> str:
        """The client with the address *peer*; empty if it is not known."""
        return self._clients.get(peer, "")

    def answered(self, fact: PullAnswered) -> None:
        """Note a pull answered empty; an unknown address stands for all members.

        Messages for a queue that was given up meanwhile are dropped, and set no offset.
        Upstream: DefaultMQPushConsumerImpl.pullMessage (only answers without messages call
        correctTagsOffset), ConsumeMessageConcurrentlyService.ConsumeRequest.run.
        """
        if fact.message_count:
            return
        client = self.client_of(fact.peer)
        self._answered.setdefault(fact.group, set()).add((client, fact.queue))

    def released(self, fact: QueuesReleased, node: str, now_us: int) -> None:
        """The member on *node* gave queues up."""
        share = self._shares.get((fact.group, node))
        consumer = self._cluster.consumer(fact.group, node)
        if share is not None and consumer is not None:
            _overwrite(share, consumer, now_us)
            for queue in fact.queues:
                share.held.pop(queue, None)
            share.given_up_us.update(dict.fromkeys(fact.queues, now_us))

    def claimed(
        self, fact: QueuesClaimed, node: str, now_us: int, consumed: Collection[Queue]
    ) -> list[Queue]:
        """The claimed queues that the member on *node* held before, and has no offset of.

        It has consumed messages of the queues in *consumed*.
        """
        consumer = self._cluster.consumer(fact.group, node)
        if consumer is None:
            return []
        share = self._share(fact.group, consumer, now_us)
        lost = share.unwritten.intersection(fact.queues)
        if not self._cluster.keeps_offsets(fact.group):
            lost |= share.of_others.intersection(fact.queues)
        _overwrite(share, consumer, now_us)
        lost |= share.overwritten.intersection(fact.queues)
        if share.claimed_us == now_us and _overwrites(consumer):
            lost |= {each for each in fact.queues if self._was_late(share, fact, each, now_us)}
        lost |= self._unanswered(fact, consumer, share).difference(consumed)
        share.held.update(dict.fromkeys(fact.queues, now_us))
        for queue in fact.queues:
            share.given_up_us.pop(queue, None)
            share.of_others.discard(queue)
            share.unwritten.discard(queue)
            share.overwritten.discard(queue)
        return [queue for queue in fact.queues if queue in lost]

    def _was_late(self, share: _Share, fact: QueuesClaimed, queue: Queue, now_us: int) -> bool:
        """Whether the file was written in the first pass, before *queue* was claimed."""
        if queue not in share.of_others or queue.broker == fact.queues[0].broker:
            return False
        brokers = self._cluster.topics.brokers_of(queue.topic) - {queue.broker}
        return any(
            self._cluster.touched(brokers, at_us, min(at_us + LATE_US, now_us))
            for at_us in _writes(share, now_us)
            if at_us >= now_us - ASKED_US
        )

    def _unanswered(
        self, fact: QueuesClaimed, consumer: ConsumerRecord, share: _Share
    ) -> set[Queue]:
        """The queues that this process gave up before a pull of them was answered empty."""
        answered = self._answered.get(fact.group)
        if answered is None or consumer.started.consumer_kind != "push":
            return set()  # the journal may have no PullAnswered
        given_up = share.given_up_us.keys() & set(fact.queues)
        clients = consumer.started.client, ""
        return {q for q in given_up if all((each, q) not in answered for each in clients)}

    def _share(self, group: str, consumer: ConsumerRecord, now_us: int) -> _Share:
        """The share of the process that runs now; made if need be."""
        found = self._shares.get((group, consumer.node))
        if found is None or found.from_us != consumer.from_us:
            new = _Share(consumer.from_us, now_us)
            if found is not None:
                new.of_others = found.held.keys() | found.given_up_us.keys() | found.of_others
                ended_us = self._cluster.last_end_us(group, consumer.node)
                new.unwritten = found.unwritten | _too_new(found, ended_us)
                if ended_us is not None:
                    _overwrite(found, consumer, ended_us)
                new.overwritten = found.overwritten
            found = self._shares[group, consumer.node] = new
        return found


def left_open(reading: QueueReading, hold: QueueClaim, end: int, since_us: int) -> list[int]:
    """The offsets that *hold* did not finish, given or passed over before *since_us*."""
    found = []
    for first, behind in reading.done.holes(reading.start, min(end, reading.given_to)):
        for offset in range(first, behind):
            given = hold.in_flight.get(offset) or hold.earlier_in_flight.get(offset)
            if given is not None:
                at_us: int | None = given.mono_us
            else:
                at_us = next(
                    (at for at, leapt in reading.ahead_deliveries if leapt > offset), None
                )
            if at_us is not None and at_us < since_us:
                found.append(offset)
    return found


def _too_new(share: _Share, ended_us: int | None) -> set[Queue]:
    """The queues of *share* whose offsets its process may not have written before its end."""
    if ended_us is None:
        return set()
    if ended_us - share.from_us <= WRITTEN_FIRST_US:
        return set(share.held) - share.of_others
    since_us = ended_us - WRITTEN_EVERY_US
    return {queue for queue, claimed_us in share.held.items() if claimed_us >= since_us}


def _overwrite(share: _Share, consumer: ConsumerRecord, now_us: int) -> None:
    """Mark queues that a write up to now left out, as the process did not hold them."""
    if not share.held or not _overwrites(consumer):
        return
    given_up = share.given_up_us.items()
    share.overwritten |= {each for each, at_us in given_up if _may_write(share, at_us, now_us)}
    if _may_write(share, share.claimed_us, now_us):
        share.overwritten |= share.of_others


def _writes(share: _Share, now_us: int) -> range:
    """When the process wrote its file, up to *now_us*."""
    return range(share.from_us + WRITTEN_FIRST_US, now_us + 1, WRITTEN_EVERY_US)


def _may_write(share: _Share, since_us: int, until_us: int) -> bool:
    """Whether the process wrote its file in that time, or began to, up to 3 s before."""
    first_us = share.from_us + WRITTEN_FIRST_US
    last_us = until_us - (until_us - first_us) % WRITTEN_EVERY_US
    return max(first_us, since_us - LATE_US) <= last_us


def _overwrites(consumer: ConsumerRecord) -> bool:
    """Whether its release writes held queues only; pull consumers keep all in memory."""
    started = consumer.started
    if started.consumer_kind != "push":
        return False
    return not LOCAL_OFFSETS_MERGE.reached(Release.parse(started.release))

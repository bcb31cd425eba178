"""What groups read at slaves: older offsets of orderly consumers, and messages of another log.

An orderly member asks for its offset again when it gets the lock anew, also where it has claimed
the queue before (DefaultMQPushConsumerImpl.pullMessage, isPreviouslyLocked).  A slave answers with
its own, which may be older; the first pull may ask the master again.

A master that lost the end of its log with its power writes other messages at the same offsets, and
its slave keeps the old ones (``replicas``).  A group that reads from such a slave gets these, and
passes the master's messages at their offsets, which it never gets.  So it does if its filter takes
none of the old ones: the answer only names the next offset.  RocketMQ compares no logs, so these
messages are not owed, and counted.  Of a broadcasting group that is the member that has pulled.
Upstream: PullMessageProcessor (NO_MATCHED_MESSAGE), DefaultMQPushConsumerImpl.pullMessage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.queue_claims import QueueClaim
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import MemberJoined, PullAnswered, Queue, QueuesLocked
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.codes import ResponseCode

OTHER_LOG = "other log"  # QueueReading.excused


class SlaveReads:
    """The messages of *queues* that slaves gave to groups."""

    def __init__(self, cluster: ClusterState, queues: Mapping[Queue, QueueRecords]) -> None:
        self._cluster = cluster
        self._queues = queues
        # By group and queue, then client: when a slave last gave it the lock of the queue.
        self._locked_us: dict[tuple[str, Queue], dict[str, int]] = {}
        self._clients: dict[tuple[str, str, str], str] = {}  # of slaves, by group and address

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MemberJoined: self._joined,
            PullAnswered: self._answered,
            QueuesLocked: self._locked,
        }

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        if entry.node in self._cluster.replicas.slaves:
            self._clients[entry.node, fact.group, fact.peer] = fact.client

    def _locked(self, fact: QueuesLocked, entry: Entry) -> None:
        for queue in fact.granted:
            if entry.node != queue.broker:
                known = self._locked_us.setdefault((fact.group, queue), {})
                known[fact.client] = entry.mono_us

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        if entry.node == fact.queue.broker:
            if fact.message_count and (self._cluster.replicas.slaves or self._locked_us):
                self._answered_at_master(fact)
            return
        if fact.message_count or fact.response_code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            self._answered_at_slave(fact, entry)

    def _answered_at_slave(self, fact: PullAnswered, entry: Entry) -> None:
        slave = self._cluster.replicas.slaves.get(entry.node)
        records = self._queues.get(fact.queue)
        for reading in () if records is None else records.readings:
            if reading.reader.partition("@")[0] != fact.group:
                continue
            if not self._is_of(reading, fact, entry.node):
                continue
            if fact.message_count and fact.group in self._cluster.orderly:
                for claim in reading.claims.values():
                    _begins_again(claim, fact.offset)
            if slave is not None and slave.differs_from is not None:
                offsets = range(fact.offset, fact.next_offset)
                for offset in _others(reading, offsets, slave.differs_from):
                    reading.of_other_logs.add(offset)
                    reading.excuse(offset, offset + 1, OTHER_LOG)

    def _is_of(self, reading: QueueReading, fact: PullAnswered, slave: str) -> bool:
        """Whether the pull is of this reader: of members that broadcast, the one that asked."""
        node = reading.reader.partition("@")[2]
        client = self._clients.get((slave, fact.group, fact.peer))
        consumer = self._cluster.consumer(fact.group, node)
        return not node or client is None or consumer is None or consumer.started.client == client

    def _answered_at_master(self, fact: PullAnswered) -> None:
        records = self._queues.get(fact.queue)
        for reading in () if records is None else records.readings:
            if reading.reader.partition("@")[0] != fact.group:
                continue
            if reading.of_other_logs:
                reading.of_other_logs.difference_update(range(fact.offset, fact.next_offset))
            if (locked_us := self._locked_us.get((fact.group, fact.queue))) is not None:
                for claim in reading.claims.values():
                    consumer = self._cluster.consumer(fact.group, claim.node)
                    client = "" if consumer is None else consumer.started.client
                    if locked_us.get(client, -1) >= claim.began_us:
                        _begins_again(claim, fact.offset)


def _begins_again(claim: QueueClaim, offset: int) -> None:
    if claim.ended_us is None and offset < claim.start:
        claim.move_to(offset, "older_offsets")


def _others(reading: QueueReading, offsets: range, differs_from: int) -> Iterator[int]:
    """The *offsets* whose messages at the master are not those that the slave has there."""
    for offset in offsets:
        position = reading.records.position_of(offset)
        if position is not None and position >= differs_from:
            yield offset

"""The progress of each reader in each queue: messages given, consumed and committed.

The checkers of delivery share this state, kept as runs of offsets: a queue whose messages come in
order takes a few numbers, however long the journal.  Memory grows only with open items: holes
(messages consumed out of order), pending messages (``pending_messages``), unflushed records, and
records of messages that some group has not yet consumed (about 430 bytes each, at most
``MESSAGES_KEPT_MAX`` a queue).  The stored messages themselves are in ``stored_messages``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.first_offsets import (
    WRITTEN_FIRST_US,
    LocalOffsets,
    left_open,
    may_start_at_end,
    start_offset_of,
    start_recheck_until_us,
)
from rocketmq_emulator.checks.state.queue_claims import QueueClaim
from rocketmq_emulator.checks.state.queue_records import (
    ASKED_US,
    LISTENER_US_MAX,
    PASSES_MAX,
    QueueReading,
    QueueRecords,
)
from rocketmq_emulator.checks.state.replicas import CALL_US_MAX
from rocketmq_emulator.checks.state.stored_messages import StoredMessages, skip_unwanted
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ConsumerStarted,
    ConsumerStopped,
    GroupOffsetMoved,
    LogRecovered,
    MemberJoined,
    MessageConsumed,
    MessageGivenToListener,
    MessagePolled,
    MetadataSynced,
    MetadataTakenBack,
    OffsetCommitted,
    OffsetRepaired,
    OldestDropped,
    PowerLost,
    PullAnswered,
    PullFailed,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SeekRequested,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.facts.replication import CONSUMER_OFFSETS_TABLE

GIVEN_US = 10_000_000  # after a release a listener gets no more messages of the queue
LOCAL_WRITTEN_US = 6_000_000  # a broadcasting member writes its offsets every 5 s
NEVER_US = -1
ROUTINE_CODES = (0, 19, 20)  # found, no new message, no message that the group wants
WRITTEN_US = 15_000_000  # a broker writes offsets every 5 s; a loss of power loses the last ones

Readings = dict[Queue, QueueReading]
Given = MessageGivenToListener | MessageConsumed | MessagePolled


class Progress:
    """The state by queue and by reader: a group, or ``group@node`` if it broadcasts."""

    def __init__(self, cluster: ClusterState, messages: StoredMessages) -> None:
        self._cluster = cluster
        self.messages = messages
        self.readers: dict[str, Readings] = {}
        self.has_given = False  # the journal has MessageGivenToListener
        # Of the current message or offset, consumed, polled or committed:
        self.reading: QueueReading = QueueReading(
            "", Queue("", "", 0), 0, QueueRecords(Queue("", "", 0))
        )
        self.is_repeat = False  # it was consumed before
        self.has_passed = False  # unfinished messages are before the offset
        self.given: Entry | None = None  # where the consumed message was given to the listener
        # Claims without an offset, of queues of which nothing else is known yet.
        self._claims: dict[tuple[str, Queue], list[tuple[str, EntryKey]]] = {}
        self._claimers: set[tuple[str, str]] = set()  # groups and nodes with QueuesClaimed
        self._ended: dict[
            tuple[str, Queue], QueueClaim
        ] = {}  # claims of broadcasting members' last processes
        self._local = LocalOffsets(cluster)
        self._copied: dict[str, list[tuple[QueueReading, int]]] = {}  # by slave: its last copy

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            ConsumerStarted: self._started,
            ConsumerStopped: self._stopped,
            MemberJoined: self._local.joined,
            MessageGivenToListener: self._given,
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
            PullAnswered: self._pulled,
            PullFailed: self._refused,
            OffsetCommitted: self._committed,
            GroupOffsetMoved: self._moved,
            SeekRequested: self._sought,
            OffsetRepaired: self._repaired,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            OldestDropped: self._oldest_dropped,
            PowerLost: self._offsets_are_older,
            LogRecovered: self._offsets_are_older,
            BrokerRoleChanged: self._role_changed,
            MetadataSynced: self._offsets_copied,
            MetadataTakenBack: self._offsets_taken_back,
        }

    # Queries ------------------------------------------------------------------------------

    def reader(self, group: str, node: str) -> str:
        """The reader of *group* on *node*: the group, or ``group@node`` if it broadcasts."""
        return f"{group}@{node}" if group in self._cluster.broadcast else group

    def readings(self) -> Iterator[tuple[str, QueueReading]]:
        """Every reader with each of its readings."""
        for reader in sorted(self.readers):
            for queue in sorted(self.readers[reader]):
                yield reader, self.readers[reader][queue]

    def reading_of(self, reader: str, queue: Queue, offset: int) -> QueueReading:
        """The reading of *queue* by *reader*; if there is none, one that begins at *offset*."""
        readings = self.readers.get(reader)
        if readings is None:
            readings = self.readers[reader] = {}
        found = readings.get(queue)
        if found is None:
            records = self.messages.records(queue)
            found = readings[queue] = QueueReading(reader, queue, offset, records)
            records.readings.append(found)
            for node, claimed in self._claims.pop((reader, queue), ()):
                found.claimed(node, claimed, None)
            if not self._cluster.takes_all(reader.partition("@")[0], queue.topic):
                records.filtered.append(found)
                for place, labels in records.message_records.with_labels(offset):
                    skip_unwanted(self._cluster, found, place, labels)
        return found

    # Consumption --------------------------------------------------------------------------

    def _given(self, fact: MessageGivenToListener, entry: Entry) -> None:
        self.has_given = True
        reading = self._reading_at(fact.group, fact.queue, fact.offset, entry.node)
        hold = self._gives(reading, fact, entry)
        hold.in_flight[fact.offset] = entry
        if hold.ended_us is not None and self._is_long_over(hold, entry):
            reading.misdelivered.add(fact.offset)

    def _is_long_over(self, hold: QueueClaim, entry: Entry) -> bool:
        """Whether the member gave the queue up long ago, and was not paused since."""
        ended_us, now_us = hold.ended_us or 0, entry.mono_us
        if now_us - ended_us <= GIVEN_US:
            return False
        return self._cluster.undisturbed_us((hold.node,), ended_us, now_us) > GIVEN_US

    def _gives(
        self, reading: QueueReading, fact: Given, entry: Entry, *, polled: bool = False
    ) -> QueueClaim:
        offset = fact.offset
        asks_again = fact.group in self._cluster.orderly
        hold = reading.gives(entry.node, offset, entry, polled=polled, asks_again=asks_again)
        if hold.claimed is None and (fact.group, entry.node) in self._claimers:
            self._has_no_claim(reading, hold, offset, entry)
        stands = reading.records.message_records.key_at(offset)
        if stands is not None:
            self.messages.seen["given"] += 1
            if stands != fact.uniq_key:
                self._given_another(reading, offset, fact.uniq_key, entry)
        return hold

    def _has_no_claim(
        self, reading: QueueReading, hold: QueueClaim, offset: int, entry: Entry
    ) -> None:
        """Mark a message of a queue without a claim, which may be noted late, but not for long."""
        began_us, now_us = hold.began_us, entry.mono_us
        if self._cluster.undisturbed_us((hold.node,), began_us, now_us) > ASKED_US:
            reading.misdelivered.add(offset)

    def _given_another(self, reading: QueueReading, offset: int, key: str, entry: Entry) -> None:
        """Note that another message is stored at *offset*, unless the given one was lost."""
        records = reading.records
        if records.lost.had(offset, key):
            self.messages.excused_lost_places += 1
            return
        what = (
            f"{entry.node} was given {key} as offset {offset} of {place_of(reading.queue)}, where "
            f"{records.key_at(offset)} is stored"
        )
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.messages.note_anomaly(
            "other message", what, *records.entries_of_message(offset), here
        )

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        offset, node = fact.offset, entry.node
        reading = self._reading_at(fact.group, fact.queue, offset, node)
        self.reading = reading
        reading.consumed_us = entry.mono_us
        hold = reading.claims.get(node)
        self.given = None if hold is None else hold.finishes(offset)
        if hold is None or self.given is None:  # the journal has no MessageGivenToListener for it
            hold = self._gives(reading, fact, entry)
        is_broadcast = reading.reader != fact.group
        if fact.ok or is_broadcast:  # broadcasting members drop failures
            self.is_repeat = reading.takes(offset, fact.uniq_key)
            if reading.failed:
                reading.failed.pop(offset, None)
            if fact.uniq_key in self.messages.pending.failures:
                self.messages.pending.takes(fact.uniq_key, fact.group, fact.queue, offset)
            if is_broadcast:
                reading.note_own_offset(entry.mono_us)
        else:
            self.is_repeat = offset in reading.done and offset not in reading.skipped
            # A failure with another place already: a second owner of the queue got the message.
            has_place = offset in reading.failed and self.messages.pending.is_settled(
                reading, offset
            )
            reading.failed[offset] = fact.uniq_key
            hold.to_redeliver.add(offset)
            if not self.is_repeat and not has_place:
                self.messages.pending.fails(
                    fact.uniq_key, fact.group, reading.records, offset, entry
                )

    def _reading_at(self, group: str, queue: Queue, offset: int, node: str) -> QueueReading:
        if group in self._cluster.broadcast:
            group = f"{group}@{node}"
        try:
            return self.readers[group][queue]
        except KeyError:
            return self.reading_of(group, queue, offset)

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        reading = self._reading_at(fact.group, fact.queue, fact.offset, entry.node)
        self.reading = reading
        reading.consumed_us = entry.mono_us
        self._gives(reading, fact, entry, polled=True)
        self.is_repeat = reading.takes(fact.offset, fact.uniq_key)

    def _pulled(self, fact: PullAnswered, entry: Entry) -> None:
        # In a log that its successor does not have.
        is_left = entry.node != fact.queue.broker and self._cluster.roles.is_replaced(entry.node)
        if fact.group in self._cluster.broadcast:
            self._local.answered(fact)
            if is_left and (known := self._reading_of_peer(fact)) is not None:
                known.reads_on(fact.next_offset)
            return  # the fact does not name the member
        try:
            reading = self.readers[fact.group][fact.queue]
        except KeyError:
            reading = self.reading_of(fact.group, fact.queue, fact.offset)
        if is_left:
            reading.reads_on(fact.next_offset)
        elif fact.response_code == 0 and fact.next_offset > reading.pulled_to:
            reading.pulled_to = fact.next_offset
        reading.last_pull = entry
        if fact.response_code not in ROUTINE_CODES:
            reading.refused_pull = entry

    def _reading_of_peer(self, fact: PullAnswered) -> QueueReading | None:
        """The queue as the broadcasting member reads it whose pull was answered, if known.

        It goes on behind messages that its expression filters, too.
        Upstream: DefaultMQPushConsumerImpl.correctTagsOffset.
        """
        client = self._local.client_of(fact.peer)
        for consumer in self._cluster.consumers.get(fact.group, ()):
            if client and consumer.started.client == client:
                return self.readers.get(f"{fact.group}@{consumer.node}", {}).get(fact.queue)
        return None

    def _refused(self, fact: PullFailed, entry: Entry) -> None:
        readings = self.readers.get(self.reader(fact.group, entry.node), {})
        if (reading := readings.get(fact.queue)) is not None:
            reading.refused_pull = entry

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        try:
            reading = self.readers[fact.group][fact.queue]
        except KeyError:
            reading = self.reading_of(fact.group, fact.queue, fact.offset)
        self.reading = reading
        before = reading.committed or 0
        if self._reaches_master(fact, entry.node):
            reading.commits(fact.offset, entry.mono_us)
        else:
            reading.committed = fact.offset
        self.has_passed = fact.offset > reading.done.first_missing(reading.start)
        if self.has_passed and len(reading.passes) < PASSES_MAX:
            new = self.messages.pending.unsettled(reading, max(reading.start, before), fact.offset)
            if next(new, None) is not None:
                here = EntryKey(entry.mono_us, entry.node, entry.seq)
                reading.passes.append((fact.offset, here))

    def _reaches_master(self, fact: OffsetCommitted, node: str) -> bool:
        """Whether the master has the offset, or gets it back from the slave that acts for it.

        A member whose routes lack the master commits at a slave, whose next copy of the master's
        offsets replaces that: the master never has it.
        Upstream: RemoteBrokerOffsetStore.updateConsumeOffsetToBroker, which asks any broker of
        the name; SlaveSynchronize.syncConsumerOffset; BrokerPreOnlineService.syncMetadataReverse.
        """
        return node == fact.queue.broker or node in self.messages.escapes.acting

    # Claims -------------------------------------------------------------------------------

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process: the claims of the last one have ended."""
        for name in (fact.group, f"{fact.group}@{entry.node}"):
            for reading in self.readers.get(name, {}).values():
                ended = reading.claims.pop(entry.node, None)
                if ended is not None and name != fact.group:
                    self._ended[name, reading.queue] = ended
                    if ended.ended_us is None:
                        ended.ended_us = self._cluster.last_end_us(fact.group, entry.node)
                for known in list(reading.records.filtered):
                    if known is reading:
                        reading.records.filtered.remove(known)
                if not self._cluster.takes_all(fact.group, reading.queue.topic):
                    reading.records.filtered.append(reading)

    def _stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        for reading in self.readers.get(self.reader(fact.group, entry.node), {}).values():
            reading.released(entry.node, entry.mono_us)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        reader = self.reader(fact.group, entry.node)
        self._claimers.add((fact.group, entry.node))
        forgot: list[Queue] = []
        if fact.group in self._cluster.broadcast:
            consumed = {
                q for q, each in self.readers.get(reader, {}).items() if each.reported_offsets
            }
            forgot = self._local.claimed(fact, entry.node, entry.mono_us, consumed)
        for index, queue in enumerate(fact.queues):
            offset = fact.offsets[index] if fact.offsets else None
            readings = self.readers.get(reader, {})
            if queue in readings or offset is not None:
                reading = self.reading_of(
                    reader, queue, start_offset_of(reader, self.messages.records(queue), offset)
                )
                written_us = self._written_us(fact.group, reading, entry.node)
                if queue in forgot or written_us == NEVER_US:
                    self._begin_anew(reading, offset, entry)
                elif written_us is not None:
                    reading.resume_from_file(offset or 0, written_us)
                hold = reading.claimed(entry.node, key, offset, written_us)
                if offset is not None and offset < hold.start and self._is_slaves(queue, entry):
                    hold.move_to(offset, "older_offsets")
                if may_start_at_end(self._cluster, reading, entry.mono_us):
                    to_us = start_recheck_until_us(self._cluster, fact.group, entry)
                    reading.start_new_group_at(offset or 0, to_us)
                # An orderly member asks again under its lock: it may still get the old offset.
                asks_again = fact.group in self._cluster.orderly
                if offset is not None and not hold.given.ends and not asks_again:
                    reading.resume_from(offset, entry.node, entry.mono_us)
            else:
                self._claims.setdefault((reader, queue), []).append((entry.node, key))

    def _is_slaves(self, queue: Queue, entry: Entry) -> bool:
        """Whether the offset of *queue* that the member of *entry* got may be a slave's.

        Its master had ended when it was asked, or the member's routes lack the master.  The slave
        has what it copied last, or nothing; ``copied_offsets`` judges which it may be.
        A claim follows the queries for all its queues: meanwhile the master may be back.
        Upstream: RemoteBrokerOffsetStore.fetchConsumeOffsetFromBroker, which asks any broker of
        the name if the routes lack the master.
        """
        master = self._cluster.replicas.of(queue.broker)
        if master is None or not master.slaves:
            return False
        if not self._cluster.has_master_address(entry.node, queue.broker):
            return True
        began_us = self._cluster.last_restart_us((queue.broker,))
        return self._cluster.is_gone(queue.broker) or entry.mono_us - began_us < CALL_US_MAX

    def _written_us(self, group: str, reading: QueueReading, node: str) -> int | None:
        """The earliest time of a restarted broadcasting member's own offset of the queue.

        None: it did not restart.  NEVER_US: it had consumed nothing at its last write.
        """
        ended = self._ended.get((reading.reader, reading.queue))
        if ended is None or ended.ended_us is None or group not in self._cluster.broadcast:
            return None
        wrote_us = self._cluster.last_long_end_us(group, node, WRITTEN_FIRST_US)
        written_us = self._cluster.written_since_us(node, wrote_us, LOCAL_WRITTEN_US)
        first_us = reading.reported_offsets.first_us
        has_all = not reading.reported_offsets.is_full  # else it had consumed messages long before
        is_new = first_us is None or (has_all and first_us > written_us)
        return NEVER_US if is_new else written_us

    def _begin_anew(self, reading: QueueReading, offset: int | None, entry: Entry) -> None:
        """A broadcasting member that lost its offset begins at the end of the queue.

        Messages that it could not finish before its end or release are not owed; earlier ones are.
        """
        behind = reading.records.end_offset
        end = behind if offset is None else min(offset, behind)
        hold = self._ended.pop((reading.reader, reading.queue), reading.claims.get(entry.node))
        start = reading.start
        if hold is not None:
            ended_us = entry.mono_us if hold.ended_us is None else hold.ended_us
            since_us = ended_us - LISTENER_US_MAX
            if not self._cluster.touched((entry.node,), since_us, ended_us - 1):
                for forgotten in left_open(reading, hold, end, since_us):
                    reading.excuse(start, forgotten, "began anew")
                    start = forgotten + 1
        reading.excuse(start, end, "began anew")

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        if fact.group in self._cluster.broadcast:
            self._local.released(fact, entry.node, entry.mono_us)
        readings = self.readers.get(self.reader(fact.group, entry.node), {})
        for queue in fact.queues:
            if (reading := readings.get(queue)) is not None:
                reading.released(entry.node, entry.mono_us)

    # Other changes of offsets ---------------------------------------------------------------

    def _moved(self, fact: GroupOffsetMoved, entry: Entry) -> None:
        reading = self.reading_of(fact.group, fact.queue, fact.offset)
        self._go_to(reading, fact.offset, entry)

    def _sought(self, fact: SeekRequested, entry: Entry) -> None:
        reader = self.reader(fact.group, entry.node)
        reading = self.reading_of(reader, fact.queue, fact.offset)
        self._go_to(reading, fact.offset, entry, entry.node)
        reading.seeks(fact.offset, entry.mono_us, entry.node)

    def _go_to(self, reading: QueueReading, offset: int, entry: Entry, node: str = "") -> None:
        """A tool or a seek moved the offset: messages between are skipped, or delivered again."""
        front = reading.done.first_missing(min(reading.start, offset))
        reading.move_to(offset, "older_offsets", entry.mono_us, node)
        reading.excuse(front, offset, "moved")

    def _repaired(self, fact: OffsetRepaired, entry: Entry) -> None:
        reader = self.reader(fact.group, entry.node)
        reading = self.reading_of(reader, fact.queue, fact.corrected)
        records = reading.records
        if fact.corrected > fact.asked:
            # Messages stored in the journal still exist, unless retention has deleted them.
            end = min(fact.corrected, max(records.first or 0, records.dropped_to))
            reading.excuse(fact.asked, end, "not in the log")
        else:
            hold = reading.claims.get(entry.node)
            polled_to = hold.given.ends[-1] if hold is not None and hold.given.ends else 0
            reading.move_to(fact.corrected, "older_offsets", entry.mono_us, entry.node)
            if hold is not None and self._polls(fact.group, entry.node):
                hold.cached = max(polled_to, fact.corrected), fact.asked
            reading.stale_to = fact.asked
            if reading.is_broadcast:
                reading.resume_from(fact.corrected, entry.node, entry.mono_us)

    def _polls(self, group: str, node: str) -> bool:
        """Whether it is a lite pull member: a corrected offset does not clear what it has pulled.

        Upstream: DefaultLitePullConsumerImpl.PullTaskImpl, OFFSET_ILLEGAL.
        """
        consumer = self._cluster.consumer(group, node)
        return consumer is not None and consumer.started.consumer_kind == "lite_pull"

    # Broker restarts and retention ----------------------------------------------------------

    def _oldest_dropped(self, fact: OldestDropped, entry: Entry) -> None:
        for queue, records in self.messages.queues.items():
            if queue.broker == entry.node:
                records.drop_before(fact.min_position)

    def _offsets_are_older(self, fact: PowerLost | LogRecovered, entry: Entry) -> None:
        """After a restart the broker has the offsets that it wrote before its end."""
        broker, now_us = entry.node, entry.mono_us
        ended_us = self._cluster.ended_us(broker, now_us)
        since_us = self._cluster.written_since_us(broker, ended_us, WRITTEN_US)
        self._restore(broker, since_us, now_us)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """An elected slave has the offsets that it copied last."""
        moved = self._cluster.replicas.moved()
        if moved is not None and (elected := moved[1].elected) is not None:
            since_us = elected.knows_to_us(CONSUMER_OFFSETS_TABLE)
            self._restore(entry.node, since_us, entry.mono_us)

    def _restore(self, broker: str, since_us: int, now_us: int) -> None:
        for reading in self._readings_at(broker):
            reading.is_restored(since_us, now_us)

    def _offsets_copied(self, fact: MetadataSynced, entry: Entry) -> None:
        """A slave has the offsets that its master had during the call."""
        slave = self._cluster.replicas.slaves.get(entry.node)
        if slave is None or fact.table != CONSUMER_OFFSETS_TABLE:
            return
        since_us = entry.mono_us - CALL_US_MAX
        self._copied[entry.node] = [
            (reading, reading.reported_offsets.lowest_since(since_us))
            for reading in self._readings_at(slave.master)
            if reading.committed is not None
        ]

    def _offsets_taken_back(self, fact: MetadataTakenBack, entry: Entry) -> None:
        """A returning master has the offsets of a slave: those of its last copy, or later ones.

        Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        if fact.table != CONSUMER_OFFSETS_TABLE or not fact.is_taken:
            return
        for name, slave in self._cluster.replicas.slaves.items():
            if slave.master == entry.node:
                for reading, offset in self._copied.get(name, ()):
                    reading.reported_offsets.add(offset, entry.mono_us)

    def _readings_at(self, broker: str) -> Iterator[QueueReading]:
        for readings in self.readers.values():
            for queue, reading in readings.items():
                if queue.broker == broker:
                    yield reading

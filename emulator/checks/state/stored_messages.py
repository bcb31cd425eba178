"""Which messages were stored, acknowledged and lost, place by place.

This is the half of the progress that facts of brokers and producers show; ``progress`` has the
consumers' half.  A place is an offset of a queue.  After a broker lost the end of its log its
places are used again, and the old messages are dropped.  Wrong places are kept in ``anomalies``.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from rocketmq_emulator.checks.state.broker_restarts import Deliveries, LogEnds
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.escapes import Escapes
from rocketmq_emulator.checks.state.half_messages import HalfMessages
from rocketmq_emulator.checks.state.message_labels import MessageLabels, labels_of
from rocketmq_emulator.checks.state.pending_messages import PendingMessages, WaitingCopy, group_of
from rocketmq_emulator.checks.state.promises import stays_in_log
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    DelayedDelivered,
    HalfMessageSent,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LogRecovered,
    MessageSent,
    MessageSentBack,
    MessageStored,
    Queue,
    RunStarted,
    TimerMessageDelivered,
    TimerMessagePutAside,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
)

KEYS_MAX = 1 << 16  # then the numbers in keys begin again
KEY_CHARS, PROCESS_CHARS = 32, 20  # of a unique key, and of its part that names the process
ANOMALIES_MAX = 1_000  # anomalies that are kept

Kind: TypeAlias = Literal[
    "gap",
    "used twice",
    "acked twice",
    "acked elsewhere",
    "other message",
    "not stored",
    "came twice",
    "no queue",
]


class PlaceAnomaly(NamedTuple):
    """A wrong place: its kind, *what* is wrong, and the entries that show it."""

    kind: Kind
    what: str
    entries: tuple[EntryKey, ...]


class StoredMessages:
    """Every queue's records, and the messages pending between queues."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.queues: dict[Queue, QueueRecords] = {}
        self.pending = PendingMessages()
        self.halves = HalfMessages()
        self.has_sent = False
        self.anomalies: list[PlaceAnomaly] = []
        self.seen: Counter[str] = Counter()  # how often a rule about places applied
        self.copy: WaitingCopy | None = None  # the waiting copy of the current delivery
        self._newest: dict[str, tuple[MessageStored, Entry]] = {}  # by broker: stored last
        self.excused_unnoted = 0  # stored by a broker killed before it noted them
        self.excused_forgotten = 0  # delivered twice: their broker lost its last deliveries
        self.of_replaced = 0  # acknowledged by masters that did not know of their successor yet
        self.excused_lost_places = 0  # delivered although their brokers had lost them
        self.stored_us = 0  # when the last consumable message was stored
        self._deliveries = Deliveries(cluster, self.pending)
        self._ends = LogEnds(cluster, self.queues, self.pending, self.halves)
        cluster.roles.note_left_behind = self._left_behind
        self._may_escape = False
        self.escapes = Escapes(cluster, self.records, self.pending, self.halves)  # own table

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            RunStarted: self._run_started,
            MessageStored: self._stored,
            MessageSent: self._sent,
            MessageSentBack: self._sent_back,
            TimerMessagePutAside: self._put_aside,
            DelayedDelivered: self._delivered,
            TimerMessageDelivered: self._timer_delivered,
            HalfMessageStored: self._half_stored,
            HalfMessageSent: self._half_sent,
            TransactionChecked: self._checked,
            ImmuneHalfStoredAgain: self._checked,
            TransactionEnded: self._transaction_ended,
            TransactionGivenUp: self._given_up,
            LogRecovered: self._recovered,
            **self._ends.table(),
        }

    # Queries ------------------------------------------------------------------------------

    def records(self, queue: Queue) -> QueueRecords:
        """The records of *queue*, made if need be."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueRecords(queue)
        return found

    # Handlers -----------------------------------------------------------------------------

    def _run_started(self, fact: RunStarted, entry: Entry) -> None:
        self._may_escape = self._cluster.slaves_may_act
        settings = self._cluster.plan.get("cluster", {}).get("broker_settings", {})
        if levels := settings.get("delay_levels"):
            self.pending.delays_ms = parse_delay_levels(levels).delay_ms

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        records = self.queues.get(fact.queue)
        if records is None:
            records = self.records(fact.queue)
        if records.first is None:
            self._has_queue(fact, entry)
        elif fact.offset != records.end_offset:
            self._stored_elsewhere(fact, entry, records)
        records.unnoted = False
        records.store(fact, entry)
        if records.topic_kind == "half":
            self.halves.newest[entry.node] = fact
            self._ends.stored(entry.node, fact.position + fact.size_bytes, records, fact.offset)
            return
        self._newest[entry.node] = fact, entry
        self.pending.stored(fact, records)
        if self._may_escape:
            self.escapes.stored(fact, records)
        if records.topic_kind == "topic":
            self.stored_us = entry.mono_us
        elif records.topic_kind == "waiting":
            self.pending.waits(fact, entry, records)
        else:
            self._comes_back(fact, entry, records)
        if records.acked_unstored:
            self._comes_early(fact, records)
        for reading in records.filtered:
            skip_unwanted(self._cluster, reading, fact.offset, labels_of(fact))
        self._ends.stored(entry.node, fact.position + fact.size_bytes, records, fact.offset)

    def _left_behind(self, fact: MessageStored) -> None:
        """A replaced master stored it."""
        self.records(fact.queue).lost.leave_behind(fact.offset, fact.uniq_key)
        self.pending.goes_to_replaced(fact)

    def _has_queue(self, fact: MessageStored, entry: Entry) -> None:
        """Note the first message of a queue that its topic does not have."""
        if not self._cluster.topics.has(fact.queue):
            what = f"{place_of(fact.queue)} gets messages, but its topic has no such queue"
            self.note_anomaly("no queue", what, EntryKey(entry.mono_us, entry.node, entry.seq))

    def _comes_back(self, fact: MessageStored, entry: Entry, records: QueueRecords) -> None:
        """A failed message has another place, as a retry or a dead letter."""
        if fact.uniq_key in self.pending.failures:
            self.pending.passes_on(fact, entry)
        if records.topic_kind == "retry":
            records.acked.add(fact.offset)
            records.unsafe.add(fact.offset)
            self.stored_us = entry.mono_us

    def _stored_elsewhere(self, fact: MessageStored, entry: Entry, records: QueueRecords) -> None:
        """Note a message that is not stored at the next offset, although no log lost its end."""
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        if fact.offset < records.end_offset:
            what = (
                f"{place_of(fact.queue)} has two messages at offset {fact.offset}: "
                f"{records.key_at(fact.offset)} and {fact.uniq_key}"
            )
            self.note_anomaly("used twice", what, *records.entries_of_message(fact.offset), here)
            self._ends.cut_queue(records, fact.offset)
        elif self._ends.explains_gap(records, fact.offset - records.end_offset):
            self.excused_unnoted += fact.offset - records.end_offset
        else:
            what = (
                f"{place_of(fact.queue)} goes on at offset {fact.offset} where "
                f"{records.end_offset} is next: the offsets between cannot be read"
            )
            self.note_anomaly("gap", what, here)

    def _delivered(self, fact: DelayedDelivered, entry: Entry) -> None:
        queue = Queue(SCHEDULE_TOPIC, entry.node, fact.delay_level - 1)
        self._comes(fact.queue, queue, None, fact.late_by_ms, entry)

    def _timer_delivered(self, fact: TimerMessageDelivered, entry: Entry) -> None:
        waited = Queue(TIMER_TOPIC, entry.node, 0)
        self._comes(fact.queue, waited, fact.offset, fact.late_by_ms, entry)

    def _comes(
        self, target: Queue, waited: Queue, offset: int | None, late_ms: int, entry: Entry
    ) -> None:
        """A waiting copy is delivered: its promise now holds for its new place.

        The new place is the record that the broker stored just before this fact.  *late_ms* is how
        late the delivery is by the broker's clock.
        """
        self.copy = None
        stored, at = self._newest.get(entry.node, (None, None))
        if stored is None or at is None or at.seq + 1 != entry.seq or stored.queue != target:
            what = f"{entry.node} notes a delivery to {place_of(target)}, but stored no message"
            self.note_anomaly("not stored", what, EntryKey(entry.mono_us, entry.node, entry.seq))
            return
        records = self.records(target)
        self.pending.is_no_send(stored.uniq_key, records, stored.offset)
        key = stored.uniq_key
        delivered_at_us = self._deliveries.delivered_at_us(key, target, entry)
        was_sent = self.escapes.sent.get(key) == waited.broker  # its slave did so before, or after
        if not self._deliveries.is_redelivery(
            key, waited, late_ms, delivered_at_us, entry, was_sent=was_sent
        ):
            self.copy = self.pending.comes(key, waited, offset, target, entry)
        if self.copy is None and delivered_at_us:
            if was_sent or self._deliveries.use_forgotten(delivered_at_us, entry):
                self.excused_forgotten += 1
            else:
                what = f"{key} was delivered to {place_of(target)} for the second time"
                self.note_anomaly(
                    "came twice", what, EntryKey(entry.mono_us, entry.node, entry.seq)
                )
        delivered_at_us.append(entry.mono_us)
        if self._cluster.replicas.masters:
            self.escapes.delivered(key, entry.node)
        if self.copy is not None and self.copy.sent is not None:
            records.acked.add(stored.offset)
            records.unsafe.add(stored.offset)  # not flushed at delivery either
            records.sent[stored.offset] = self.copy.sent

    def _comes_early(self, fact: MessageStored, records: QueueRecords) -> None:
        """The producer's acknowledgement is earlier in the journal than the storing."""
        known = records.acked_unstored.pop(fact.offset, None)
        if known is not None and known[0] == fact.uniq_key:
            records.acked.add(fact.offset)
            records.sent[fact.offset] = known[1]
        elif known is not None:
            records.acked_unstored[-1 - len(records.acked_unstored)] = (
                known  # the place has another message
            )

    def _recovered(self, fact: LogRecovered, entry: Entry) -> None:
        self._ends.recovered(fact, entry)
        for queue, records in self.queues.items():
            if queue.broker == entry.node and records.unnoted and records.acked_unstored:
                self._adopt(records, fact, entry)

    def _adopt(self, records: QueueRecords, fact: LogRecovered, entry: Entry) -> None:
        """Add acknowledged messages that the broker recovered and never noted as stored."""
        for offset in sorted(
            each for each in records.acked_unstored if each >= records.end_offset
        ):
            count = offset - records.end_offset + 1
            if not self._ends.explains_gap(records, count):
                return
            self.excused_unnoted += count
            key = records.acked_unstored[offset][0]
            stored = MessageStored(records.queue, offset, fact.end_position, key, 0)
            records.store(stored, entry)
            self._comes_early(stored, records)

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        self.has_sent = True
        if self._cluster.roles.is_of_replaced(fact):
            self.of_replaced += 1
            return
        queue, offset = fact.queue, fact.offset
        records = self.queues.get(queue)
        if records is None:
            records = self.records(queue)
        places = self.pending.open_sends.pop(fact.uniq_key, None)
        is_here = records.key_at(offset) == fact.uniq_key
        if places is None and not is_here and self._cluster.roles.was_left_behind(fact):
            self.of_replaced += 1
            return
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        is_simple = places == [(records, offset)]  # stored once, at that place: nearly always
        if not is_simple and places and self._is_elsewhere(fact, records, places, here):
            return
        if fact.status != "SEND_OK":
            records.unsafe.add(offset)
        self.seen["acked"] += 1
        if offset >= records.end_offset:
            if records.lost.is_unused(offset, fact.uniq_key):
                self._sent_and_cut(fact, records, here)
            else:
                records.acked_unstored[offset] = fact.uniq_key, here
        elif not records.acked.add(offset):
            what = f"offset {offset} of {place_of(queue)} was acknowledged to two sends"
            self.note_anomaly("acked twice", what, *records.entries_of_message(offset), here)
        else:
            records.sent[offset] = here
            if not is_simple:
                self._compare_places(fact, records, places, here)

    def _compare_places(
        self,
        fact: MessageSent,
        records: QueueRecords,
        places: list[tuple[QueueRecords, int]] | None,
        here: EntryKey,
    ) -> None:
        """Compare the acknowledged place with the places where its message was stored."""
        if places is None:
            self._match_batch_key(fact, records, here)
        elif (records, fact.offset) not in places:
            self._is_acked_elsewhere(fact, records, here)
        elif len(places) > 1:  # a batch whose members share this key, or stored twice
            places.remove((records, fact.offset))
            self.pending.open_sends[fact.uniq_key] = places

    def _sent_and_cut(self, fact: MessageSent, records: QueueRecords, here: EntryKey) -> None:
        """The acknowledgement came after the broker had lost the message."""
        store = self._cluster.stores.get(fact.queue.broker)
        if stays_in_log(store, "power_off", fact.status):
            records.lost_after_ack.append((fact.offset, (here,)))
        else:
            records.unflushed_lost += 1

    @staticmethod
    def _stands_for(queue: Queue, other: QueueRecords) -> bool:
        """Whether a send to *queue* may be acknowledged with a place of *other*.

        That is so for waiting copies, and for a retry that is made a dead letter at once.
        """
        if other.queue.broker != queue.broker:
            return False
        is_dead = other.topic_kind == "dead" and group_of(other.queue.topic) == group_of(
            queue.topic
        )
        return other.topic_kind == "waiting" or is_dead

    def _is_elsewhere(
        self,
        fact: MessageSent,
        records: QueueRecords,
        places: list[tuple[QueueRecords, int]],
        here: EntryKey,
    ) -> bool:
        """Whether its queue does not have the message, and a queue that stands for it does."""
        if (records, fact.offset) in places:
            return False
        for other, place in places:
            if self._stands_for(fact.queue, other):
                # Two members may send back one message at once: the other send is still open.
                places.remove((other, place))
                if left := [each for each in places if each[0].topic_kind != "topic"]:
                    self.pending.open_sends[fact.uniq_key] = left
                self._sent_elsewhere(fact, other, place, here)
                return True
        return False

    def _sent_elsewhere(
        self, fact: MessageSent, records: QueueRecords, offset: int, here: EntryKey
    ) -> None:
        """Note an acknowledgement for the place in *records*, not in the queue of the send."""
        self.seen["acked"] += 1
        if fact.status != "SEND_OK":
            records.unsafe.add(offset)
        records.acked.add(offset)
        records.sent[offset] = here
        for copy in self.pending.waiting.get(fact.uniq_key, ()):
            if copy.records is records and copy.offset == offset:
                copy.sent = here
                self.pending.sent_on(copy, group_of(fact.topic))

    def _match_batch_key(self, fact: MessageSent, records: QueueRecords, here: EntryKey) -> None:
        """Nothing was stored under its key: a batch may be stored with its first member's key."""
        key = records.key_at(fact.offset)
        if key is None or key == fact.uniq_key:
            return
        if (records.stored_us(fact.offset) or 0) <= self.pending.forgotten_us:
            return  # the place's open send may be dropped
        shared = self.pending.open_sends.get(key, [])
        if (records, fact.offset) not in shared or not self._is_of_batch(key, fact.uniq_key):
            self._is_acked_elsewhere(fact, records, here)
            return
        shared.remove((records, fact.offset))
        if not shared:
            del self.pending.open_sends[key]

    def _is_of_batch(self, key: str, member: str) -> bool:
        """Whether the batch that was stored as *key* may contain the message *member*.

        A batch of one message is stored once, with the key made just after the message's own.
        Upstream: DefaultMQProducer.batch.
        """
        if len(key) != KEY_CHARS or len(member) != KEY_CHARS:
            return key in self.pending.shared_keys
        is_next = number_of(key) - number_of(member) in (1, 1 - KEYS_MAX)
        is_same = key[:PROCESS_CHARS] == member[:PROCESS_CHARS]
        return is_same and (is_next or key in self.pending.shared_keys)

    def _is_acked_elsewhere(
        self, fact: MessageSent, records: QueueRecords, here: EntryKey
    ) -> None:
        key, offset = records.key_at(fact.offset), fact.offset
        if key is None or key == fact.uniq_key:
            return
        what = (
            f"{fact.uniq_key} was acknowledged at offset {offset} of {place_of(fact.queue)}, "
            f"where {key} is stored"
        )
        self.note_anomaly("acked elsewhere", what, *records.entries_of_message(offset), here)

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        self.pending.sent_back(fact.group, fact.origin_position, entry)

    def _put_aside(self, fact: TimerMessagePutAside, entry: Entry) -> None:
        due_us = entry.mono_us + (fact.out_ms - entry.at_ms) * 1_000
        self.pending.put_aside(entry.node, fact.uniq_key, fact.offset, due_us)

    # Transactions -------------------------------------------------------------------------

    def _half_stored(self, fact: HalfMessageStored, entry: Entry) -> None:
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.halves.stored(fact, self.records(Queue(TRANS_HALF_TOPIC, entry.node, 0)), here)

    def _half_sent(self, fact: HalfMessageSent, entry: Entry) -> None:
        self.halves.sent(fact, EntryKey(entry.mono_us, entry.node, entry.seq))

    def _checked(self, fact: TransactionChecked | ImmuneHalfStoredAgain, entry: Entry) -> None:
        self.halves.checked(fact, EntryKey(entry.mono_us, entry.node, entry.seq), entry.node)

    def _given_up(self, fact: TransactionGivenUp, entry: Entry) -> None:
        half = self.halves.at(entry.node, fact.offset)
        if half is not None:
            half.given_up = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _transaction_ended(self, fact: TransactionEnded, entry: Entry) -> None:
        """A committed message is promised from now on; it was stored just before this fact."""
        half = self.halves.at(entry.node, fact.offset)
        if half is not None:
            here = EntryKey(entry.mono_us, entry.node, entry.seq)
            half.ended = half.ended or here
            half.ends.setdefault(fact.offset, here)
            half.commits += fact.outcome == "commit"
        stored, _ = self._newest.get(entry.node, (None, None))
        if fact.outcome == "rollback" or stored is None or stored.uniq_key != fact.uniq_key:
            return
        records, sent = self.records(stored.queue), None if half is None else half.sent
        self.pending.is_no_send(fact.uniq_key, records, stored.offset)
        records.acked.add(stored.offset)
        records.unsafe.add(stored.offset)  # ends are one-way: nobody waits for the flush
        if sent is None:
            return
        records.sent[stored.offset] = sent
        for copy in self.pending.waiting.get(fact.uniq_key, ()):
            if copy.records is records and copy.offset == stored.offset:
                copy.sent = sent

    def note_anomaly(self, kind: Kind, what: str, *entries: EntryKey) -> None:
        """Keep a wrong place; *entries* show it."""
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(PlaceAnomaly(kind, what, entries))


def number_of(key: str) -> int:
    """The number of *key* among those of its process; -1 if it cannot be read."""
    try:
        return int(key[-4:], 16)
    except ValueError:
        return -1


def skip_unwanted(
    cluster: ClusterState, reading: QueueReading, offset: int, labels: MessageLabels
) -> None:
    """Mark the message at *offset* as not owed if the group does not want it."""
    group = reading.reader.partition("@")[0]
    if cluster.wants(group, reading.queue.topic, labels) == "none":
        reading.done.add(offset)
        reading.unwanted.add(offset)
        reading.excused["filtered"] = reading.excused.get("filtered", 0) + 1

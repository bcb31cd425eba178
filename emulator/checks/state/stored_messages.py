"""Which messages have been stored, acknowledged and lost again, place by place.

The half of the progress that brokers and producers tell; what consumers make of it is in
``progress``.  A record is a place in a queue.  Where a broker lost the end of its log the places
are used again: the old ones are forgotten.  What is wrong with places themselves shows here
first, in ``anomalies``.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from rocketmq_emulator.checks.state.broker_restarts import Deliveries, LogEnds
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.pending_messages import PendingMessages, WaitingCopy, group_of
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    DelayedDelivered,
    LogRecovered,
    MessageSent,
    MessageSentBack,
    MessageStored,
    Queue,
    RunStarted,
    TimerMessageDelivered,
    TimerMessagePutAside,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TIMER_TOPIC

KEYS_MAX = 1 << 16  # then their numbers begin again
KEY_CHARS, PROCESS_CHARS = 32, 20  # of a unique key, and of its part that names the process
ANOMALIES_MAX = 1_000  # that are kept

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
    """A place that is not as it should be: *what* of *kind*, and the entries that show it."""

    kind: Kind
    what: str
    entries: tuple[EntryKey, ...]


class StoredMessages:
    """Every queue's records, and the messages that are on their way between queues."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self.queues: dict[Queue, QueueRecords] = {}
        self.pending = PendingMessages()
        self.has_sent = False
        self.anomalies: list[PlaceAnomaly] = []
        self.seen: Counter[str] = Counter()  # how often a rule about places was tried
        self.copy: WaitingCopy | None = (
            None  # of the delivery that is looked at: it has waited until now
        )
        self._newest: dict[str, tuple[MessageStored, Entry]] = {}  # by broker: stored last
        self.excused_unnoted = 0  # that a broker stored, and was killed before it noted them
        self.excused_forgotten = 0  # delivered twice: their broker forgot its last deliveries
        self.excused_lost_places = 0  # messages given out although their brokers had lost them
        self.stored_us = 0  # when the last one was stored that somebody is to consume
        self._deliveries = Deliveries(cluster, self.pending)
        self._ends = LogEnds(cluster, self.queues, self.pending)

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
            LogRecovered: self._recovered,
            **self._ends.table(),
        }

    # What others ask ----------------------------------------------------------------------

    def records(self, queue: Queue) -> QueueRecords:
        """Of *queue*, made if need be."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueRecords(queue)
        return found

    # Messages come ------------------------------------------------------------------------

    def _run_started(self, fact: RunStarted, entry: Entry) -> None:
        settings = self._cluster.plan.get("cluster", {}).get("broker_settings", {})
        if levels := settings.get("delay_levels"):
            self.pending.delays_ms = parse_delay_levels(levels).delay_ms

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        records = self.queues.get(fact.queue)
        if records is None:
            records = self.records(fact.queue)
        if records.first is None and not self._cluster.topics.has(fact.queue):
            what = f"{place_of(fact.queue)} gets messages, and its topic has no such queue"
            self.note_anomaly("no queue", what, EntryKey(entry.mono_us, entry.node, entry.seq))
        if fact.offset != records.end_offset and records.first is not None:
            self._stored_elsewhere(fact, entry, records)
        records.unnoted = False
        records.store(fact, entry)
        self._newest[entry.node] = fact, entry
        self.pending.stored(fact, records)
        if records.topic_kind == "topic":
            self.stored_us = entry.mono_us
        elif records.topic_kind == "waiting":
            self.pending.waits(fact, entry, records)
        else:
            self._comes_back(fact, entry, records)
        if records.acked_unstored:
            self._comes_early(fact, records)
        for reading in records.filtered:
            skip_unwanted(self._cluster, reading, fact.offset, fact.tags)
        self._ends.stored(entry.node, fact.position + fact.size_bytes, records, fact.offset)

    def _comes_back(self, fact: MessageStored, entry: Entry, records: QueueRecords) -> None:
        """A failed message has another place: it comes again as a retry, or is a dead letter."""
        if fact.uniq_key in self.pending.failures:
            self.pending.passes_on(fact, entry)
        if records.topic_kind == "retry":
            records.acked.add(fact.offset)
            records.unsafe.add(fact.offset)
            self.stored_us = entry.mono_us

    def _stored_elsewhere(self, fact: MessageStored, entry: Entry, records: QueueRecords) -> None:
        """Not behind the last message of its queue, though nothing of the log was lost."""
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
                f"{records.end_offset} is next: nobody can read what lies between"
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
        """A copy's time has come: what was promised of it holds for its new place now.

        That is the record that the broker has stored just before it says so.  *due_us* is its
        time by the broker's clock.
        """
        self.copy = None
        stored, at = self._newest.get(entry.node, (None, None))
        if stored is None or at is None or at.seq + 1 != entry.seq or stored.queue != target:
            what = f"{entry.node} says that it delivered to {place_of(target)}, and stored nothing"
            self.note_anomaly("not stored", what, EntryKey(entry.mono_us, entry.node, entry.seq))
            return
        records = self.records(target)
        self.pending.is_no_send(stored.uniq_key, records, stored.offset)
        key = stored.uniq_key
        delivered_at_us = self._deliveries.delivered_at_us(key, target, entry)
        if not self._deliveries.is_redelivery(key, waited, late_ms, delivered_at_us, entry):
            self.copy = self.pending.comes(key, waited, offset, target, entry)
        if self.copy is None and delivered_at_us:
            if self._deliveries.use_forgotten(delivered_at_us, entry):
                self.excused_forgotten += 1
            else:
                what = f"{key} was delivered to {place_of(target)} for the second time"
                self.note_anomaly(
                    "came twice", what, EntryKey(entry.mono_us, entry.node, entry.seq)
                )
        delivered_at_us.append(entry.mono_us)
        if self.copy is not None and self.copy.sent is not None:
            records.acked.add(stored.offset)
            records.unsafe.add(stored.offset)  # nor for that of what comes to its queue
            records.sent[stored.offset] = self.copy.sent

    def _comes_early(self, fact: MessageStored, records: QueueRecords) -> None:
        """It was acknowledged, says its producer's journal, before it was stored."""
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
        """Acknowledged, recovered, and not noted: the acknowledgement stands for MessageStored."""
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
        queue, offset = fact.queue, fact.offset
        records = self.queues.get(queue)
        if records is None:
            records = self.records(queue)
        places = self.pending.open_sends.pop(fact.uniq_key, None)
        if fact.status != "SEND_OK":
            records.unsafe.add(offset)
        here = EntryKey(entry.mono_us, entry.node, entry.seq)
        is_simple = places == [(records, offset)]  # stored once, and there: nearly always
        if not is_simple and places and self._is_elsewhere(fact, records, places, here):
            return
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
        """The place that was acknowledged, with those in which its message was stored."""
        if places is None:
            self._match_batch_key(fact, records, here)
        elif (records, fact.offset) not in places:
            self._is_acked_elsewhere(fact, records, here)
        elif len(places) > 1:  # a batch whose members share this key, or stored twice
            places.remove((records, fact.offset))
            self.pending.open_sends[fact.uniq_key] = places

    def _sent_and_cut(self, fact: MessageSent, records: QueueRecords, here: EntryKey) -> None:
        """The acknowledgement came after its broker had lost the message."""
        promise = self._cluster.stores.get(fact.queue.broker)
        is_promised = promise is not None and promise.flush_disk_type == "SYNC_FLUSH"
        if is_promised and fact.status == "SEND_OK":
            records.lost_after_ack.append((fact.offset, (here,)))
        else:
            records.unflushed_lost += 1

    @staticmethod
    def _stands_for(queue: Queue, other: QueueRecords) -> bool:
        """A send to *queue* may be acknowledged with a place of *other*.

        What waits for its time is, and a retry that its broker makes a dead letter at once.
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
        """Whether its queue has no place of it, and another one has that may be meant."""
        if (records, fact.offset) in places:
            return False
        for other, place in places:
            if self._stands_for(fact.queue, other):
                # Two members may give up one message at once: the other send is answered yet.
                places.remove((other, place))
                if left := [each for each in places if each[0].topic_kind != "topic"]:
                    self.pending.open_sends[fact.uniq_key] = left
                self._sent_elsewhere(fact, other, place, here)
                return True
        return False

    def _sent_elsewhere(
        self, fact: MessageSent, records: QueueRecords, offset: int, here: EntryKey
    ) -> None:
        """It is acknowledged with its place in a queue that is not the one it was sent to."""
        self.seen["acked"] += 1
        records.acked.add(offset)
        records.sent[offset] = here
        for copy in self.pending.waiting.get(fact.uniq_key, ()):
            if copy.records is records and copy.offset == offset:
                copy.sent = here
                self.pending.sent_on(copy, group_of(fact.topic))

    def _match_batch_key(self, fact: MessageSent, records: QueueRecords, here: EntryKey) -> None:
        """Nothing was stored under its key: all members of a batch may have the first one's."""
        key = records.key_at(fact.offset)
        if key is None or key == fact.uniq_key:
            return
        if (records.stored_us(fact.offset) or 0) <= self.pending.forgotten_us:
            return  # whose place it is may be forgotten
        shared = self.pending.open_sends.get(key, [])
        if (records, fact.offset) not in shared or not self._is_of_batch(key, fact.uniq_key):
            self._is_acked_elsewhere(fact, records, here)
            return
        shared.remove((records, fact.offset))
        if not shared:
            del self.pending.open_sends[key]

    def _is_of_batch(self, key: str, member: str) -> bool:
        """The batch that was stored as *key*, its own or its first one's, may have that member.

        That of one message is stored once, with the key that was drawn after the message's own.
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
            f"where {key} stands"
        )
        self.note_anomaly("acked elsewhere", what, *records.entries_of_message(offset), here)

    def _sent_back(self, fact: MessageSentBack, entry: Entry) -> None:
        self.pending.sent_back(fact.group, fact.origin_position, entry)

    def _put_aside(self, fact: TimerMessagePutAside, entry: Entry) -> None:
        due_us = entry.mono_us + (fact.out_ms - entry.at_ms) * 1_000
        self.pending.put_aside(entry.node, fact.uniq_key, fact.offset, due_us)

    def note_anomaly(self, kind: Kind, what: str, *entries: EntryKey) -> None:
        """Something is wrong with a place; *entries* show it."""
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(PlaceAnomaly(kind, what, entries))


def number_of(key: str) -> int:
    """Which one it is of those that its process drew; -1 if that cannot be read."""
    try:
        return int(key[-4:], 16)
    except ValueError:
        return -1


def skip_unwanted(cluster: ClusterState, reading: QueueReading, offset: int, tags: str) -> None:
    """A group that does not want the message at *offset* is not owed it."""
    group = reading.reader.partition("@")[0]
    if cluster.wants(group, reading.queue.topic, tags) == "none":
        reading.done.add(offset)
        reading.unwanted.add(offset)
        reading.excused["filtered"] = reading.excused.get("filtered", 0) + 1

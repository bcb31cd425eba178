"""What a broker loses when it ends: the end of its log, and the record of its last deliveries.

A log loses its end with the power, with the process, or with a deleted topic.  Flushed records
survive a loss of power; a store outside of the process survives a kill.  Later records are gone,
and their places are used again.  If they were acknowledged, the promise of the store decides
whether that is a loss.

A broker writes its progress of delays every 10 s.  A restarted broker resumes from the progress
that it wrote last, and delivers each message again, once, that it had delivered since then.  An
elected slave resumes from the progress that it copied last, every 10 s, unless it is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.half_messages import HalfMessage, HalfMessages, HalfRecord
from rocketmq_emulator.checks.state.pending_messages import PendingMessages, WaitingCopy
from rocketmq_emulator.checks.state.promises import stays_in_log
from rocketmq_emulator.checks.state.queue_positions import RemovedRecords, UnflushedRecords
from rocketmq_emulator.checks.state.queue_records import QueueRecords
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerReset,
    BrokerRoleChanged,
    LogFlushed,
    LogRecovered,
    LogTailCut,
    MessageStored,
    PowerLost,
    Queue,
    StoreOpened,
    TopicDeleted,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.facts.replication import DELAY_OFFSETS_TABLE
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC

RECORD_BYTES_MIN = 91  # of a record without topic, body and properties (CommitLog.calMsgLength)
UNFLUSHED_MAX = 1_000_000  # records of a broker; beyond it the oldest count as flushed


class _LostRecord(NamedTuple):
    """A record that a master lost with the end of its log; a slave may have it."""

    records: QueueRecords
    stored: MessageStored
    half: tuple[HalfMessage, HalfRecord] | None  # if it is of a half message


class LogEnds:
    """The ends of all brokers' logs; lost messages are removed from *queues* and *pending*."""

    def __init__(
        self,
        cluster: ClusterState,
        queues: Mapping[Queue, QueueRecords],
        pending: PendingMessages,
        halves: HalfMessages,
    ) -> None:
        self._cluster = cluster
        self._queues = queues
        self._chains = pending
        self._halves = halves
        self._unflushed = UnflushedRecords[tuple[QueueRecords, int]](UNFLUSHED_MAX)
        self._without_power: set[str] = (
            set()
        )  # brokers that lost power, and have not recovered since
        self._ends: dict[str, int] = {}  # broker → end of its log in the journal
        self._unnoted_bytes: dict[str, int] = {}  # broker → bytes recovered, never noted
        self._removed = RemovedRecords[_LostRecord]()
        self._read_back: set[str] = set()  # brokers that found records at their start

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            StoreOpened: self._store_opened,
            BrokerReset: self._broker_reset,
            BrokerRoleChanged: self._role_changed,
            LogTailCut: self._tail_cut,
            TopicDeleted: self._topic_deleted,
            LogFlushed: self._flushed,
            PowerLost: self._power_lost,
        }

    def stored(self, broker: str, end_position: int, records: QueueRecords, offset: int) -> None:
        """Note that a record of *broker* ends at *end_position*, not flushed yet."""
        self._ends[broker] = end_position
        self._unflushed.stored(broker, end_position, (records, offset))

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        if not fact.outlives_process and entry.node not in self._read_back:
            self._lose_queues(entry.node)
        self._read_back.discard(entry.node)

    def _broker_reset(self, fact: BrokerReset, entry: Entry) -> None:
        self._lose_queues(entry.node)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """An elected slave lacks the messages that it had not copied; here that is no violation.

        The rule ``lost_with_masters`` has the promises of copies.
        """
        if (moved := self._cluster.replicas.moved()) is None:
            return
        move, master = moved
        end, kept = master.end, master.kept
        left: list[_LostRecord] = []
        for records, offset in self._unflushed.lost(entry.node, kept):
            if (record := self._lost_record(records, offset)) is not None:
                left.append(record)
            if (key := records.key_at(offset)) is not None:
                self._chains.is_no_send(key, records, offset)
                if offset not in records.acked:
                    self._cluster.roles.leave_behind(records.queue, offset, key)
            self.cut_queue(records, offset)
        for known in self._removed.elected(entry.node, move.slave):
            if kept <= known.stored.position < end:
                self._restore(known, entry)
        self._removed.left_behind(move.left, left)
        if (unnoted := end - min(self._ends.get(entry.node, end), kept)) > 0:
            self._was_killed_before_it_noted(entry.node, unnoted)  # not of the former master
        self._ends[entry.node] = end
        self._without_power.discard(entry.node)
        if end:
            self._read_back.add(entry.node)

    def _restore(self, known: _LostRecord, entry: Entry) -> None:
        """Put back a record that the elected log has, if it is the next one of its queue."""
        if known.stored.offset == known.records.end_offset:
            known.records.store(known.stored, entry)
            if known.half is not None:
                self._halves.has_again(*known.half, known.stored.offset)

    def _topic_deleted(self, fact: TopicDeleted, entry: Entry) -> None:
        self._lose_queues(entry.node, fact.topic)

    def _lose_queues(self, broker: str, topic: str = "") -> None:
        for queue, records in self._queues.items():
            if queue.broker == broker and topic in ("", queue.topic) and records.end_offset:
                self._lose_queue(records)

    def _lose_queue(self, records: QueueRecords) -> None:
        """Remove all messages of a queue; it begins at offset 0 again."""
        for reading in records.readings:
            left = sum(
                1 for _ in self._chains.unsettled(reading, reading.start, records.end_offset)
            )
            if left:
                known = reading.excused.get("lost with memory", 0)
                reading.excused["lost with memory"] = known + left
        self.cut_queue(records, 0)
        for reading in records.readings:
            reading.reported_offsets.clear()
            reading.committed = None

    def _flushed(self, fact: LogFlushed, entry: Entry) -> None:
        """Flushed messages are safe, unless a slave may be elected that lacks or may lose them.

        Upstream: DefaultElectPolicy.elect takes a slave for its place in the sync-state set; what
        the slave's last loss of power took of its log does not count.
        """
        master = self._cluster.replicas.of(entry.node)
        safe = fact.position
        if master is not None and self._cluster.replicas.may_move(entry.node):
            safe = min(safe, master.flushed_by_all)
        self._unflushed.flushed(entry.node, safe)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        self._without_power.add(entry.node)
        if not self._cluster.replicas.may_move(entry.node):
            self._loses_power(entry, fact.kept_position)
        # Otherwise a slave may be elected that has more.

    def _loses_power(self, entry: Entry, kept_position: int) -> None:
        is_promised = stays_in_log(self._cluster.stores.get(entry.node), "power_off")
        self._cut_log(entry, kept_position, is_promised=is_promised, by_power=True)

    def recovered(self, fact: LogRecovered, entry: Entry) -> None:
        """Cut the log at its recovered end; a store outside of the process survives a kill."""
        if entry.node in self._without_power:
            self._loses_power(entry, fact.end_position)
        is_promised = stays_in_log(self._cluster.stores.get(entry.node), "kill")
        is_promised = is_promised and entry.node not in self._without_power
        self._cut_log(entry, fact.end_position, is_promised=is_promised)
        self._without_power.discard(entry.node)
        unnoted = fact.end_position - self._ends.get(entry.node, fact.end_position)
        if unnoted > 0:
            self._was_killed_before_it_noted(entry.node, unnoted)
        self._ends[entry.node] = fact.end_position
        if fact.message_count:  # also a store in memory, if only the broker's task was killed
            self._read_back.add(entry.node)

    def explains_gap(self, records: QueueRecords, count: int) -> bool:
        """Whether *count* messages fit into bytes that the broker recovered and never noted."""
        broker = records.queue.broker
        left = self._unnoted_bytes.get(broker, 0) - count * RECORD_BYTES_MIN
        if not records.unnoted or left < 0:
            return False
        self._unnoted_bytes[broker] = left
        return True

    def _was_killed_before_it_noted(self, broker: str, unnoted_bytes: int) -> None:
        """The broker was its own process: its store survives, its journal lacks the last lines."""
        self._unnoted_bytes[broker] = unnoted_bytes
        for queue, records in self._queues.items():
            if queue.broker == broker:
                records.unnoted = True

    def _tail_cut(self, fact: LogTailCut, entry: Entry) -> None:
        """Cut the log at its torn end, which only a loss of power may leave."""
        is_promised = stays_in_log(self._cluster.stores.get(entry.node), "kill")
        is_promised = is_promised and entry.node not in self._without_power
        self._cut_log(entry, fact.position, is_promised=is_promised)

    def _cut_log(
        self, entry: Entry, end_position: int, *, is_promised: bool, by_power: bool = False
    ) -> None:
        """Remove records that end beyond *end_position* in the log of the broker of *entry*.

        A loss of power also takes messages acknowledged before their flush: they are not promised.
        """
        may_come_again = self._cluster.replicas.may_move(entry.node)
        lost_records: list[_LostRecord] = []
        for records, offset in self._unflushed.lost(entry.node, end_position):
            if offset in records.acked:
                if is_promised and not (by_power and offset in records.unsafe):
                    here = EntryKey(entry.mono_us, entry.node, entry.seq)
                    records.lost_after_ack.append(
                        (offset, (*records.entries_of_message(offset), here))
                    )
                else:
                    records.unflushed_lost += 1
            if may_come_again and (lost := self._lost_record(records, offset)) is not None:
                lost_records.append(lost)
            self.cut_queue(records, offset)
        self._removed.lost(entry.node, lost_records)

    def _lost_record(self, records: QueueRecords, offset: int) -> _LostRecord | None:
        found = records.message_records.at(offset)
        if found is None:
            return None
        labels, place = found.labels, (records.queue, offset, found.position, found.key, 0)
        stored = MessageStored(*place, labels.tags, user_properties=labels.properties or ())
        half = self._halves.at(records.queue.broker, offset)
        if half is None or records.queue.topic != TRANS_HALF_TOPIC:
            return _LostRecord(records, stored, None)
        return _LostRecord(records, stored, (half, half.by_offset[offset]))

    def cut_queue(self, records: QueueRecords, offset: int) -> None:
        """End the queue at *offset*; later records use the same places."""
        records.cut(offset)
        if records.topic_kind == "waiting":
            self._chains.cut(records, offset)
        elif records.queue.topic == TRANS_HALF_TOPIC:
            self._halves.cut(records.queue.broker, offset)
        for reading in records.readings:
            reading.cut(offset)
            self._chains.reopens(reading, offset)


# Deliveries that a broker lost --------------------------------------------------------


DELIVERIES_MAX = 100_000  # delivered messages that are kept
DUE_US = 1_500_000  # precision of due times in a broker and in the journal
FORGOTTEN_US = 25_000_000
FIRST_WRITTEN_US = 10_000_000  # a new process first writes its progress of delays


class Deliveries:
    """The deliveries of delayed messages by all brokers, by key and queue."""

    def __init__(self, cluster: ClusterState, pending: PendingMessages) -> None:
        self._cluster = cluster
        self._chains = pending
        self._came_us: dict[tuple[str, str, Queue], list[int]] = {}  # by broker, key and target

    def delivered_at_us(self, key: str, target: Queue, entry: Entry) -> list[int]:
        """When the broker of *entry* delivered *key* to *target*; the caller appends to it."""
        found = self._came_us.setdefault((entry.node, key, target), [])
        if len(self._came_us) > DELIVERIES_MAX:
            del self._came_us[next(iter(self._came_us))]
        return found

    def is_redelivery(
        self,
        key: str,
        waited: Queue,
        late_ms: int,
        delivered_at_us: list[int],
        entry: Entry,
        *,
        was_sent: bool = False,
    ) -> bool:
        """Whether the broker may have lost one of *delivered_at_us* and delivers it again.

        *was_sent*: a slave that acted for it has sent one to another broker.

        That is so if no copy in *waited* is due at the time of this delivery, by a clock that
        may have been moved while the copy waited.
        """
        due_us = entry.mono_us - late_ms * 1_000

        def is_other(copy: WaitingCopy) -> bool:
            if copy.due_us is None:
                return False
            since_us = copy.stored.mono_us
            moved_us = self._cluster.clock_moved_us(entry.node, since_us, entry.mono_us)
            return abs(copy.due_us - due_us) > DUE_US + moved_us

        here = (copy for copy in self._chains.waiting.get(key, ()) if copy.records.queue == waited)
        is_known = was_sent or self._forgotten(delivered_at_us, entry) is not None
        return is_known and all(map(is_other, here))

    def use_forgotten(self, delivered_at_us: list[int], entry: Entry) -> bool:
        """Remove the delivery that the broker lost in its restart; False if there is none."""
        forgotten_us = self._forgotten(delivered_at_us, entry)
        if forgotten_us is not None:
            delivered_at_us.remove(forgotten_us)
        return forgotten_us is not None

    def _forgotten(self, delivered_at_us: list[int], entry: Entry) -> int | None:
        """The first of *delivered_at_us* that may be missing in the progress it resumed from.

        Upstream: ScheduleMessageService.start writes it first after 10 s; a process that ended
        before has left the progress of the process before it.
        """
        master = self._cluster.replicas.of(entry.node)
        for until_us in self._cluster.ends_us(entry.node, FIRST_WRITTEN_US):
            since_us = until_us - FORGOTTEN_US + 1
            if master is not None and master.elected is not None and master.elected_us == until_us:
                since_us = master.elected.knows_to_us(DELAY_OFFSETS_TABLE)
            for at_us in delivered_at_us:
                if since_us <= at_us <= until_us <= entry.mono_us:
                    return at_us
        return None

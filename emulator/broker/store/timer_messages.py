"""Timer messages: kept in the timer topic, delivered when their slot is over (5.x).

A message's delivery time is in its record (``TIMER_OUT_MS``), so after a restart the timer topic's
queue has all that is needed; a checkpoint has the part of it that is done.  A slot's messages are
delivered in the order in which they were stored, except those that a delete message of the same
slot names: they were recalled.  A message whose time is further away than the roll window is
stored again when half or all of the window has passed, so that retention does not drop its record.
Upstream checks ten times a slot; here the next delivery is planned.

Upstream: TimerMessageStore.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.store.appender import MAY_BE_STORED_LATER, PutRefused
from rocketmq_emulator.broker.store.escaping import Escape
from rocketmq_emulator.broker.store.timer_metrics import TimerMetrics
from rocketmq_emulator.broker.store.timer_wheel import (
    DOCUMENT,
    Slot,
    SlotRule,
    TimerCheckpoint,
    TimerMoves,
    TimerRecord,
    TimerWheel,
    decode_checkpoint,
    is_damaged,
    read_timer_record,
    slot_fields,
    timer_delete_key,
)
from rocketmq_emulator.clocks.sampled_sums import RATES, SampledSums
from rocketmq_emulator.disk.port import WRITE_ERRORS, refusal
from rocketmq_emulator.facts import (
    DocumentDamaged,
    Queue,
    TimerMessageDelivered,
    TimerMessageDropped,
    TimerMessagePutAside,
    TimerMessageRecalled,
    TimerMessageRolled,
    TimersRecovering,
)
from rocketmq_emulator.protocol.messages.names import TIMER_TOPIC
from rocketmq_emulator.settings.releases import (
    TIMER_DELETE_NAMES_TOPIC,
    TIMER_PUT_GIVEN_UP,
    TIMER_VERSION_COPIED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

DELIVERIES_MAX = 1_000  # ours, in one call: other tasks must not wait long
FOUND_STEP, FOUND_REPORT = 2_000, 50_000  # messages between pauses, and between facts
PUTS_MAX = 3  # TimerDequeuePutMessageService: tries of one delivery
TRIES_PER_SLOT = 2  # TimerDequeuePutMessageService: half of the precision between two tries


class _EscapeTries(NamedTuple):
    """How often a message is sent to another broker, and how long it waits in between."""

    tries_max: int
    wait_ms: Callable[[int], int]  # of the precision


# TimerMessageStore.doPut, TimerDequeuePutMessageService: PUT_TO_REMOTE_BROKER_FAIL.
ESCAPE_TRIES = _EscapeTries(PUTS_MAX, lambda precision_ms: precision_ms // TRIES_PER_SLOT)
ESCAPE_TRIES_BEFORE_5_3_2 = _EscapeTries(4, lambda _precision_ms: 50)


class TimerMessageStore:
    """The waiting messages of *store*; upstream's ticks are counted from *began_ms*.

    ``recover_waiting`` reads those that the store has at the start.
    ``on_planned`` is called when ``next_due_ms`` may have changed.  The shell sets ``wall_ms``:
    each message is stored and noted with the time of its own delivery.  Without it all have the
    time of the round.
    """

    def __init__(
        self,
        store: Store,
        disk: Disk,
        config: BrokerConfig,
        *,
        note: Note,
        rng: random.Random,
        began_ms: int = 0,
    ) -> None:
        self.on_planned: Callable[[], object] = _plan_nothing
        self.wall_ms: Callable[[], int] | None = None
        self.escape: Escape | None = None  # of an acting master
        self.is_dequeuing = not config.is_slave  # else a master delivers the messages
        self._store = store
        self._disk = disk
        self._note = note
        self.enqueued = SampledSums((RATES,), began_ms, began_ms)
        self.dequeued = SampledSums((RATES,), began_ms, began_ms)  # delivered or rolled
        self._config = config
        self._rng = rng
        self._rule = SlotRule.of(config)
        self._first_tick_ms = began_ms
        self._delete_names_topic = config.parsed_release >= TIMER_DELETE_NAMES_TOPIC
        keeps_trying = config.timer_retry_until_success
        self._is_of_5_3_2 = config.parsed_release >= TIMER_PUT_GIVEN_UP
        self._gives_up = self._is_of_5_3_2 and not keeps_trying
        self._begin()
        self._is_write_failing = False
        self._moves = TimerMoves(disk)
        self.metrics = TimerMetrics(disk, config, note=note, now_ms=began_ms)
        saved = disk.read(DOCUMENT)
        self._saved = decode_checkpoint(saved)
        if saved is not None and is_damaged(saved):
            note(DocumentDamaged(f"config/{DOCUMENT}", f"{len(saved)} bytes are too short", ""))
        # If the log lost its tail, the saved progress may exceed the end of the queue.
        end = store.max_offset(TIMER_TOPIC, 0)
        self._saved = self._saved._replace(queue_offset=min(self._saved.queue_offset, end))
        self._read_ms = self._saved.read_ms
        self._next_offset = store.min_offset(TIMER_TOPIC, 0)  # of the first unread record

    def _begin(self) -> None:
        """Set the state without waiting messages."""
        self._wheel = TimerWheel()
        self._is_escaping = False  # the next delivery is under way
        self._puts = 0  # failed tries of the next delivery
        self._held_until_ms = 0  # the time of its next try
        self._persist_at_ms: int | None = None
        self._progress_end = 0  # the log's end after the last delivery
        self._next_offset = 0  # of the first unread record
        self._read_ms = 0

    def reset(self, now_ms: int) -> None:
        """Remove all waiting messages and the progress; to be called after the store's reset."""
        self._begin()
        self._moves.clear()
        self.metrics.reset(now_ms)
        self._first_tick_ms = now_ms
        self.enqueued = SampledSums((RATES,), now_ms, now_ms)
        self.dequeued = SampledSums((RATES,), now_ms, now_ms)
        self._save(now_ms)
        self._saved = TimerCheckpoint()
        self.on_planned()

    def recover_waiting(self) -> Iterator[None]:
        """Read the timer topic, with pauses; to be exhausted before any other method is called."""
        queue = self._store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return
        first, end = self._next_offset, queue.max_offset
        if not self.is_dequeuing:
            end = min(end, self._saved.master_queue_offset)
        for offset in range(first, end):
            self._find(queue, offset)
            self._next_offset = offset + 1
            count = self._next_offset - first
            if count % FOUND_STEP == 0:
                if count % FOUND_REPORT == 0:
                    self._note(TimersRecovering(count, end - first))
                yield

    # For puts -------------------------------------------------------------------------

    def enqueue(self) -> None:
        """Read new records of the timer topic.  Upstream: enqueue, doEnqueue."""
        self._read_new()
        self.on_planned()

    def is_congested(self, out_ms: int) -> bool:
        """Whether a slot refuses a message; between its limit and twice that at random.

        Upstream: TimerMessageStore.isReject, whose odds fall as the slot fills.
        """
        num, few = self._wheel.num(out_ms), self._config.timer_slot_messages_max
        if num <= few:
            return False
        odds = 1_000 * (num - few) / (few + 0.1)
        return num >= 2 * few or self._rng.randrange(1_000) > odds

    # Figures --------------------------------------------------------------------------

    def waiting_count(self) -> int:
        """The number of waiting messages.  Upstream: getAllCongestNum."""
        return self._wheel.total_num()

    def unread_count(self) -> int:
        """The number of unread records in the timer topic.

        Upstream: getEnqueueBehindMessages.
        """
        return max(0, self._store.max_offset(TIMER_TOPIC, 0) - self._next_offset)

    def late_ms(self, now_ms: int) -> int:
        """How long the first waiting slot is overdue.  Upstream: getDequeueBehindMillis."""
        slot = self._wheel.first()
        return 0 if slot is None else max(0, now_ms - slot.at_ms - self._rule.precision_ms)

    # Starting and stopping ------------------------------------------------------------

    def start_dequeue(self) -> None:
        """Deliver messages from now on; those that no master had read by then come at once.

        Upstream: TimerMessageStore.setShouldRunningDequeue.
        """
        self.is_dequeuing = True
        self._read_ms = self._saved.read_ms
        self.read_copied()

    def stop_dequeue(self, now_ms: int) -> None:
        """Deliver nothing from now on: a master does."""
        self.persist(now_ms)
        self.is_dequeuing = False

    def read_copied(self) -> None:
        """Read the records that were copied from a master since the last call."""
        self._read_copied(self._store.max_offset(TIMER_TOPIC, 0))
        self.on_planned()

    def _read_copied(self, end: int) -> None:
        queue = self._store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return
        for offset in range(max(self._next_offset, queue.min_offset), min(end, queue.max_offset)):
            self._find(queue, offset)
            self._next_offset = offset + 1

    # For slaves -----------------------------------------------------------------------

    def checkpoint(self, now_ms: int) -> TimerCheckpoint:
        """The progress, as a slave gets it: upstream's clock of slots has come to *now_ms*.

        It stops at the first slot that is over and still has messages.  While another broker
        delivers it is what that one has reported.
        """
        if not self.is_dequeuing:
            return self._saved
        slot, read_ms = self._wheel.first(), self._rule.slot_at(now_ms)
        if slot is not None:
            read_ms = min(read_ms, slot.at_ms)
        return self._progress(self._saved.saved_ms)._replace(
            read_ms=read_ms, counter=self._saved.counter
        )

    def copy_checkpoint(self, masters: TimerCheckpoint) -> None:
        """Save how far a master has come, and keep the messages that it has read and waits for.

        Upstream: SlaveSynchronize.syncTimerCheckPoint, TimerMessageStore.isRunningEnqueue.
        """
        self._read_copied(masters.master_queue_offset)
        while (slot := self._wheel.first()) is not None and slot.at_ms < masters.read_ms:
            self._wheel.remove_first()
        copied = self._saved._replace(
            read_ms=masters.read_ms,
            queue_offset=min(self._next_offset, masters.master_queue_offset),
            master_queue_offset=masters.master_queue_offset,
        )
        if self._config.parsed_release >= TIMER_VERSION_COPIED:
            copied = copied._replace(
                state_version=masters.state_version,
                saved_ms=masters.saved_ms,
                counter=masters.counter,
            )
        self._read_ms = copied.read_ms
        self._write(copied)

    def take_back(self, slaves: TimerCheckpoint) -> bool:
        """Take a slave's progress unless its version is older; returns whether it is not.

        Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        if self._saved.order > slaves.order:
            return False
        self.copy_checkpoint(slaves)
        self._write(
            self._saved._replace(
                state_version=slaves.state_version,
                saved_ms=slaves.saved_ms,
                counter=slaves.counter,
            )
        )
        return True

    # Advancing time -------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Make all waiting messages due *ms* earlier; then ``next_due_ms`` may be past."""
        self._moves.move(self._next_offset, ms)
        self._wheel.move(ms)
        self.on_planned()

    def first_due_ms(self) -> int | None:
        """When the first slot that has messages is over; None if no message waits."""
        slot = self._wheel.first()
        return None if slot is None else slot.at_ms + self._rule.precision_ms

    # For the shell's timers -----------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When ``run_due`` is to be called next; None while there is nothing to do."""
        due_ms = self._persist_at_ms
        slot = self._wheel.first()
        if slot is not None and not self._is_escaping:
            tick_ms = self._rule.tick_ms(slot.at_ms + self._rule.precision_ms, self._first_tick_ms)
            tick_ms = max(tick_ms, self._held_until_ms)
            due_ms = tick_ms if due_ms is None else min(due_ms, tick_ms)
        return due_ms

    def run_due(self, now_ms: int) -> None:
        """Save the progress if that is due, and deliver the due messages."""
        if self._persist_at_ms is not None and now_ms >= self._persist_at_ms:
            self.persist(now_ms)
        self.deliver_due(now_ms)

    def deliver_due(self, now_ms: int, upto_ms: int | None = None) -> int:
        """Deliver the messages of all slots that are over; returns the number of records done.

        With *upto_ms* only slots that were over at that time.  A delivery for which the disk has
        no room is retried half a slot later.
        """
        count = 0
        while not self._is_escaping and (slot := self._wheel.first()) is not None:
            over_ms = slot.at_ms + self._rule.precision_ms
            if over_ms > min(now_ms, upto_ms or now_ms) or self._held_until_ms > now_ms:
                break
            while (offset := slot.next_offset) is not None:
                if count == DELIVERIES_MAX or not self._dequeue(slot, offset, now_ms):
                    self._progressed(count, now_ms)
                    return count
                self._moves.done(offset)
                slot.next_index += 1
                count += 1
            if not self._moves.is_moved:  # else a slot that is over is no measure of progress
                self._read_ms = max(self._read_ms, over_ms)
            self._wheel.remove_first()
        self._progressed(count, now_ms)
        return count

    def persist(self, now_ms: int, *, at_the_end: bool = False) -> None:
        """Save the progress if it has changed; upstream does so every second.

        With SYNC_FLUSH not before the delivered messages are flushed, unless *at_the_end*.
        """
        if at_the_end:
            self.metrics.persist()
        if self._persist_at_ms is None:
            return
        flushing = self._store.flushing
        is_safe = not flushing.is_sync or flushing.flushed_to >= self._progress_end
        if (is_safe or at_the_end) and self._save(now_ms):
            self._persist_at_ms = None
        else:
            self._persist_at_ms = now_ms + self._config.persist_timers_interval_ms

    # Reading the timer topic ----------------------------------------------------------

    def _find(self, queue: ConsumeQueue, offset: int) -> None:
        """Put a record of an earlier run into the wheel, unless it is done."""
        index = offset - queue.min_offset
        fields = slot_fields(self._store.log.read(queue.positions[index], queue.sizes[index]))
        if fields is None:
            return
        out_ms, store_ms, deletes = fields
        slot_ms, is_roll = self._rule.slot_of(out_ms, store_ms)
        deletes = None if is_roll else deletes
        if offset in self._moves.delivered_early:
            return
        if not self._saved.is_done(out_ms, store_ms, offset, self._rule):
            self._wheel.add(slot_ms, offset, deleted_key=deletes)
        elif deletes is not None and slot_ms >= self._saved.read_ms:
            self._wheel.remember_deleted(slot_ms, deletes)

    def _read_new(self) -> None:
        queue = self._store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return
        for offset in range(max(self._next_offset, queue.min_offset), queue.max_offset):
            if (record := self._record(offset)) is not None:
                self._take(record, offset)
        self._next_offset = queue.max_offset

    def _take(self, record: TimerRecord, offset: int) -> None:
        store_ms = record.message.store_ms
        slot_ms, is_roll = self._moves.slot_of(self._rule, record, offset)
        self._wheel.add(slot_ms, offset, deleted_key=None if is_roll else record.deletes)
        self.enqueued.add(1, 0, store_ms)
        self.metrics.add(record.queue.topic, 1 if record.deletes is None else -1, store_ms)
        if not record.roll_times and record.deletes is None:
            key = record.uniq_key
            self._note(TimerMessagePutAside(record.queue, offset, record.out_ms, key))

    def _record(self, offset: int) -> TimerRecord | None:
        """The record at *offset*; None if it has expired, or is not a timer message."""
        queue = self._store.queue(TIMER_TOPIC, 0)
        if queue is None or offset < queue.min_offset:
            return None
        index = offset - queue.min_offset
        data = self._store.log.read(queue.positions[index], queue.sizes[index])
        return read_timer_record(data, self._config.name)

    # Delivering -----------------------------------------------------------------------

    def _dequeue(self, slot: Slot, offset: int, now_ms: int) -> bool:
        """Deliver, roll, recall or drop one message; False if it is to be tried again."""
        now_ms = now_ms if self.wall_ms is None else self.wall_ms()
        record = self._record(offset)
        if record is None:
            queue = Queue("", self._config.name, 0)
            self._note(TimerMessageDropped(queue, offset, "its record is gone", ""))
            return True
        _, is_roll = self._moves.slot_of(self._rule, record, offset)
        if record.deletes is not None and not is_roll:
            return True
        if self._delete_key(record) in slot.deleted_keys:
            self._note(TimerMessageRecalled(record.queue, offset, record.uniq_key))
            return True
        late_ms = max(0, now_ms - slot.at_ms - self._rule.precision_ms)
        early_ms = min(self._moves.of(offset), late_ms)
        if self.escape is not None and record.queue.topic:
            enqueue_ms = self._rule.slot_at(record.message.store_ms)
            becomes = record.rolled if is_roll else record.delivered
            self._is_escaping = True
            self.escape(becomes(enqueue_ms, now_ms), partial(self._escaped, slot, offset, record))
            return False
        if is_roll:
            self._moves.rolled(self._store.max_offset(TIMER_TOPIC, 0), self._moves.of(offset))
        reason = self._put(record, now_ms, 0 if is_roll else early_ms, is_roll=is_roll)
        if reason is None:
            self._held_until_ms = now_ms + self._rule.precision_ms // TRIES_PER_SLOT
            return False
        self._puts = 0
        self.metrics.add(record.queue.topic, -1, now_ms)
        if reason:
            self._note(TimerMessageDropped(record.queue, offset, reason, record.uniq_key))
        elif is_roll:
            times = record.roll_times + 1
            self._note(TimerMessageRolled(record.queue, offset, times, record.uniq_key))
            self._read_new()
        else:
            late_ms -= early_ms
            self._note(TimerMessageDelivered(record.queue, offset, late_ms, record.uniq_key))
        return True

    def _escaped(
        self, slot: Slot, offset: int, record: TimerRecord, reason: str, now_ms: int
    ) -> None:
        """The outcome of an escape; a message that failed too often is dropped."""
        self._is_escaping = False
        self._puts += 1 if reason else 0
        rule = ESCAPE_TRIES if self._is_of_5_3_2 else ESCAPE_TRIES_BEFORE_5_3_2
        keeps_trying = self._is_of_5_3_2 and not self._gives_up
        if reason and (keeps_trying or self._puts < rule.tries_max):
            self._held_until_ms = now_ms + rule.wait_ms(self._rule.precision_ms)
            self.on_planned()
            return
        self._puts = 0
        if reason:
            self._note(TimerMessageDropped(record.queue, offset, reason, record.uniq_key))
        if self.is_dequeuing:  # else its master goes on from the progress that is saved
            self.metrics.add(record.queue.topic, -1, now_ms)
            self._moves.done(offset)
            slot.next_index += 1
            self._progressed(1, now_ms)
        self.on_planned()

    def _put(
        self, record: TimerRecord, now_ms: int, early_ms: int, *, is_roll: bool
    ) -> str | None:
        """Store it; returns "" if stored, None to try again, else why it can never be stored."""
        if not record.queue.topic:
            return "it does not belong to a topic"
        enqueue_ms = self._rule.slot_at(record.message.store_ms)
        becomes = record.rolled if is_roll else record.delivered
        try:
            put = self._store.put(becomes(enqueue_ms, now_ms), now_ms)
        except PutRefused as refused:
            self._puts += 1
            is_over = self._gives_up and self._puts == PUTS_MAX
            return None if refused.status in MAY_BE_STORED_LATER and not is_over else str(refused)
        self._store.early_deliveries.give(put.position, early_ms)
        self.dequeued.add(1, 0, now_ms)
        return ""

    def _delete_key(self, record: TimerRecord) -> str:
        """The key by which a delete message names this one."""
        topic, key = record.queue.topic, record.uniq_key
        return timer_delete_key(topic, key, names_topic=self._delete_names_topic)

    # Progress -------------------------------------------------------------------------

    def _save(self, now_ms: int) -> bool:
        return self._write(self._progress(now_ms))

    def _write(self, saved: TimerCheckpoint) -> bool:
        try:
            self._moves.persist(self._store.min_offset(TIMER_TOPIC, 0))
            self._disk.replace(DOCUMENT, saved.encode())
            self.metrics.persist()
        except WRITE_ERRORS as error:
            if not self._is_write_failing:  # note the first failure only, not each try
                self._note(refusal(error, DOCUMENT))
            self._is_write_failing = True
            return False
        self._saved, self._is_write_failing = saved, False
        return True

    def _progressed(self, count: int, now_ms: int) -> None:
        if count:
            self._progress_end = self._store.log.end_position
            if self._persist_at_ms is None:
                self._persist_at_ms = now_ms + self._config.persist_timers_interval_ms

    def _progress(self, now_ms: int) -> TimerCheckpoint:
        """The checkpoint: all records before the first waiting message are done."""
        slot = self._wheel.first()
        read_ms, slot_offset = self._read_ms, 0
        if (
            slot is not None
            and not self._moves.is_moved
            and (slot.next_index or slot.at_ms < read_ms)
        ):
            read_ms, slot_offset = slot.at_ms, slot.next_offset or 0
        offset = self._next_offset
        return TimerCheckpoint(
            read_ms=read_ms,
            queue_offset=offset,
            master_queue_offset=offset,
            saved_ms=now_ms,
            counter=self._saved.counter + 1,
            slot_offset=slot_offset,
            precision_ms=self._rule.precision_ms,
            window_slots=self._rule.window_slots,
        )


def _plan_nothing() -> None:
    """The default of ``on_planned``."""

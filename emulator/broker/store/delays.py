"""Delayed messages: stored by delay level, delivered when the level's delay has passed.

A message with a delay is stored in the schedule topic, in its level's queue, with the time it is
due as its index code; a delivery stores it a second time, in its own topic.  Upstream checks every
level ten times a second.  Here the next delivery is planned for the tick at which upstream would
find the message.

Upstream: ScheduleMessageService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.store.appender import MAY_BE_STORED_LATER, PutRefused, stored_again
from rocketmq_emulator.broker.store.escaping import Escape
from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.facts import DelayedDelivered, DelayedMessageDropped, Queue
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.messages.delay_levels import queue_of_level
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
    REAL_QID,
    REAL_TOPIC,
    UNIQ_KEY,
    property_of,
)
from rocketmq_emulator.protocol.messages.records import decode_record
from rocketmq_emulator.settings.releases import OFFSETS_HAVE_VERSION, SLAVE_SYNC_OF_5

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

DOCUMENT = "delayOffset.json"
FIRST_TICK_MS = 1_000  # ScheduleMessageService.FIRST_DELAY_TIME
STEPS_PER_VERSION = 200  # BrokerConfig.delayOffsetUpdateVersionStep: looks count there too
TICK_INTERVAL_MS = 100  # ScheduleMessageService.DELAY_FOR_A_WHILE
DELIVERIES_MAX = 1_000  # ours, in one call: other tasks must not wait long


class _Head(NamedTuple):
    """The first waiting message of a level."""

    level: int
    offset: int
    position: int
    size: int
    due_ms: int


class ScheduleMessageService:
    """The waiting messages of *store*; upstream's ticks are counted from *began_ms*.

    A round of deliveries may take long: the shell sets ``wall_ms``, and each message is stored
    and noted with the time of its own delivery.  Without it all have the time of the round.
    """

    def __init__(
        self, store: Store, disk: Disk, config: BrokerConfig, *, note: Note, began_ms: int = 0
    ) -> None:
        self.wall_ms: Callable[[], int] | None = None
        self.escape: Escape | None = None  # of an acting master; its outcome rings ``on_escaped``
        self.on_escaped: Callable[[], object] = _plan_nothing
        self._escaping: set[int] = set()  # levels whose first message is under way
        self._store = store
        self._levels = store.levels
        self._note = note
        self._broker = config.name
        self._first_tick_ms = began_ms + FIRST_TICK_MS
        self._copied = b""  # a master's table, at a slave
        self._loads_copies = config.parsed_release >= SLAVE_SYNC_OF_5
        self._document = Document(
            disk, DOCUMENT, DelayOffsetSerializeWrapper, config.parsed_release, note
        )
        found = self._document.load()
        saved = found or DelayOffsetSerializeWrapper()
        self.offset_table = self._within_the_log(saved.offset_table)
        self._data_version = saved.data_version
        if self._data_version is None and config.parsed_release >= OFFSETS_HAVE_VERSION:
            self._data_version = DataVersion(timestamp=began_ms)
        # The version that slaves copy must survive a restart, although there is no progress yet.
        self._is_dirty = found is None and self._data_version is not None
        self._progress_count = 0
        self._moved_ms: dict[tuple[int, int], int] = {}  # of waiting messages: by level, offset

    def _within_the_log(self, saved: Mapping[int, int]) -> dict[int, int]:
        """The progress *saved*; it may exceed the end of a queue if the log lost its tail.

        Upstream: ScheduleMessageService.correctDelayOffset.
        """
        return {
            level: min(offset, self._store.max_offset(SCHEDULE_TOPIC, queue_of_level(level)))
            for level, offset in saved.items()
        }

    def start(self, now_ms: int) -> None:
        """Read the saved progress again, and deliver from a second later on.

        Upstream: ScheduleMessageService.start.
        """
        saved = self._document.load()
        if saved is not None:
            self._data_version = saved.data_version or self._data_version
            self.offset_table.update(saved.offset_table)
        self.offset_table = self._within_the_log(self.offset_table)
        self._first_tick_ms = now_ms + FIRST_TICK_MS

    # Advancing time -------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Make all waiting messages due *ms* earlier; then ``next_due_ms`` may be past."""
        self._store.early_deliveries.advance(ms)
        for level, queue, first in self._waiting():
            for offset in range(first, queue.max_offset):
                self._move(level, queue, offset, ms)

    def advance_last(self, level: int, ms: int) -> None:
        """Make the newest waiting message of *level* due *ms* earlier."""
        level = self._levels.clamp(level)
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
        assert queue is not None, "the message was stored in it"
        self._move(level, queue, queue.max_offset - 1, ms)

    def first_due_ms(self, now_ms: int) -> int | None:
        """When the first waiting message is due; None if none waits."""
        return min((self._corrected_due_ms(head, now_ms) for head in self._heads()), default=None)

    def waiting_count(self) -> int:
        """The number of waiting messages."""
        return sum(queue.max_offset - first for _, queue, first in self._waiting())

    def _waiting(self) -> Iterator[tuple[int, ConsumeQueue, int]]:
        """Level, queue and first offset, for each level that has waiting messages."""
        for head in self._heads():
            queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(head.level))
            assert queue is not None, "it has a head"
            yield head.level, queue, head.offset

    def _move(self, level: int, queue: ConsumeQueue, offset: int, ms: int) -> None:
        queue.codes[offset - queue.min_offset] -= ms
        key = level, offset
        self._moved_ms[key] = self._moved_ms.get(key, 0) + ms

    # Delivering -----------------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """When ``deliver_due`` is to be called next; None while no message waits."""
        due_ms = [self._tick_ms(self._corrected_due_ms(head, now_ms)) for head in self._heads()]
        return min(due_ms, default=None)

    def deliver_due(self, now_ms: int, upto_ms: int | None = None) -> int:
        """Deliver the due messages, level by level; returns their number.

        After ``advance`` they are delivered by due time over all levels; with *upto_ms* only
        those due by then.  A delivery for which the disk has no room is retried at a later tick.
        """
        if self._moved_ms:
            return self._deliver_by_time(now_ms, now_ms if upto_ms is None else upto_ms)
        count = 0
        for first in self._heads():
            head: _Head | None = first
            while head is not None and self._corrected_due_ms(head, now_ms) <= now_ms:
                if count == DELIVERIES_MAX:
                    return count
                if not self._deliver(head, now_ms):
                    self._first_tick_ms = self._tick_ms(now_ms + TICK_INTERVAL_MS)
                    return count
                count += 1
                head = self._head(head.level)
        return count

    def _deliver_by_time(self, now_ms: int, upto_ms: int) -> int:
        for count in range(DELIVERIES_MAX):
            heads = [(self._corrected_due_ms(head, now_ms), head) for head in self._heads()]
            if not heads or min(heads)[0] > upto_ms:
                return count
            if not self._deliver(min(heads)[1], now_ms):
                self._first_tick_ms = self._tick_ms(now_ms + TICK_INTERVAL_MS)
                return count
        return DELIVERIES_MAX

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        """The offset table as it is saved and sent."""
        return DelayOffsetSerializeWrapper(
            offset_table=self.offset_table, data_version=self._data_version
        )

    def persist(self) -> None:
        """Save the progress if it has changed; upstream does so every 10 s."""
        if self._is_dirty:
            self._is_dirty = not self._document.save(self.wrapper())

    def copy(self, text: bytes) -> bool:
        """Save *text*, a master's table, as it is; returns whether it differs from the last one.

        In 5.x the table is also read, before that only at the next start.  Raises ``BadFields``
        if it is no table.  Upstream: SlaveSynchronize.syncDelayOffset.
        """
        found = decode_unlimited_body(text, DelayOffsetSerializeWrapper)
        is_new, self._copied = text != self._copied, text
        self._document.save_text(text)
        if self._loads_copies:
            self.offset_table = dict(found.offset_table)
            self._data_version = found.data_version
        return is_new

    def take_back(self, text: bytes) -> bool:
        """``copy`` a slave's table unless its version is older; returns whether it is not.

        Upstream: BrokerPreOnlineService.syncMetadataReverse.
        """
        found = decode_unlimited_body(text, DelayOffsetSerializeWrapper)
        version, own = found.data_version, self._data_version
        if version is None or (own is not None and own.order > version.order):
            return False
        self.copy(text)
        self.offset_table = self._within_the_log(self.offset_table)
        return True

    def reset(self, now_ms: int) -> None:
        """Remove the progress of all levels; to be called after a reset of the store."""
        self.offset_table = {}
        self._moved_ms.clear()
        self._progress_count = 0
        self._first_tick_ms = now_ms
        self._document.save(self.wrapper())
        self._is_dirty = False

    def _heads(self) -> Iterator[_Head]:
        for level in sorted(self._levels.delay_ms):
            if (head := self._head(level)) is not None:
                yield head

    def _head(self, level: int) -> _Head | None:
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
        if queue is None:
            return None
        offset = max(self.offset_table.get(level, 0), queue.min_offset)
        if (
            level in self._escaping or offset >= queue.max_offset
        ):  # a slave's log may be behind the offset that it copied
            return None
        index = offset - queue.min_offset
        return _Head(level, offset, queue.positions[index], queue.sizes[index], queue.codes[index])

    def _corrected_due_ms(self, head: _Head, now_ms: int) -> int:
        """The due time; *now_ms* if it is later than the whole delay (the clock went back).

        Upstream: ScheduleMessageService.correctDeliverTimestamp.
        """
        is_odd = head.due_ms > now_ms + self._levels.delay_ms[head.level]
        return now_ms if is_odd else head.due_ms

    def _tick_ms(self, due_ms: int) -> int:
        """The first tick of upstream's clock at or after *due_ms*."""
        looks = max(0, -(-(due_ms - self._first_tick_ms) // TICK_INTERVAL_MS))
        return self._first_tick_ms + looks * TICK_INTERVAL_MS

    def _deliver(self, head: _Head, now_ms: int) -> bool:
        """Store the message in its own topic; False if the disk cannot take it now."""
        now_ms = now_ms if self.wall_ms is None else self.wall_ms()
        message = decode_record(self._store.log.read(head.position, head.size))
        text = str(message.properties, "utf-8", "replace")
        topic = property_of(text, REAL_TOPIC) or ""
        queue_id = property_of(text, REAL_QID) or ""
        queue = Queue(topic, self._broker, int(queue_id) if queue_id.isdecimal() else 0)
        late_ms = max(0, now_ms - self._corrected_due_ms(head, now_ms))
        early_ms = min(self._moved_ms.get((head.level, head.offset), 0), late_ms)
        reason = ""
        if not topic or topic == TRANS_HALF_TOPIC:
            reason = "it does not belong to a topic"
        else:
            try:
                # Keep all properties, DELAY included: a real broker encodes them before it
                # removes DELAY, so its consumers see that property too.
                again = stored_again(message, topic, queue.queue_id, text)
                if self.escape is not None:
                    self._escaping.add(head.level)
                    self.escape(again, partial(self._escaped, head))
                    return True
                put = self._store.put(again, now_ms)
                self._store.early_deliveries.give(put.position, early_ms)
            except PutRefused as refused:
                if refused.status in MAY_BE_STORED_LATER:
                    return False
                reason = str(refused)
        if reason:
            key = property_of(text, UNIQ_KEY) or ""
            self._note(DelayedMessageDropped(queue, head.level, reason, key))
        else:
            self._note(DelayedDelivered(queue, head.level, late_ms - early_ms))
        self._progressed(head, now_ms)
        return True

    def _escaped(self, head: _Head, reason: str, now_ms: int) -> None:
        """The outcome of an escape; a message that failed is tried again at a later tick."""
        self._escaping.discard(head.level)
        if reason:
            self._first_tick_ms = self._tick_ms(now_ms + TICK_INTERVAL_MS)
        elif self.offset_table.get(head.level, 0) <= head.offset:  # else it was copied meanwhile
            self._progressed(head, now_ms)
        self.on_escaped()

    def _progressed(self, head: _Head, now_ms: int) -> None:
        """Upstream: ScheduleMessageService.updateOffset."""
        self._moved_ms.pop((head.level, head.offset), None)
        self.offset_table[head.level] = head.offset + 1
        self._is_dirty = True
        self._progress_count += 1
        if self._data_version is not None and self._progress_count % STEPS_PER_VERSION == 0:
            self._data_version = self._data_version.next(now_ms)


def _plan_nothing() -> None:
    """The default of ``on_escaped``."""

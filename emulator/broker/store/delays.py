"""Delayed messages: put aside under their level, delivered when the level's time has passed.

A message with a delay is stored in the schedule topic, in its level's queue, with the
time it is due as its index code; delivering stores it a second time, where it belongs.
Upstream looks at every level ten times a second.  Here the next delivery falls on the tick
of that clock at which upstream would see it.

Upstream: ScheduleMessageService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus, stored_again
from rocketmq_emulator.broker.tables.documents import Document
from rocketmq_emulator.facts import DelayedDelivered, DelayedMessageDropped, Queue
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
from rocketmq_emulator.settings.releases import OFFSETS_HAVE_VERSION

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue
    from rocketmq_emulator.broker.store.store import Store
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

DOCUMENT = "delayOffset.json"
FIRST_TICK_MS = 1_000  # ScheduleMessageService.FIRST_DELAY_TIME
TICK_INTERVAL_MS = 100  # ScheduleMessageService.DELAY_FOR_A_WHILE
DELIVERIES_MAX = 1_000  # ours, in one go: other work wants its turn


class _Head(NamedTuple):
    """The first message of a level that still waits."""

    level: int
    offset: int
    position: int
    size: int
    due_ms: int


class ScheduleMessageService:
    """The waiting messages of *store*; *began_ms* is when upstream's clock would have started.

    A round of deliveries may take long: the shell gives ``wall_ms``, and each message is stored
    and noted with the time of its own delivery.  Without it all have that of the round.
    """

    def __init__(
        self, store: Store, disk: Disk, config: BrokerConfig, *, note: Note, began_ms: int = 0
    ) -> None:
        self.wall_ms: Callable[[], int] | None = None
        self._store = store
        self._levels = store.levels
        self._note = note
        self._broker = config.name
        self._first_tick_ms = began_ms + FIRST_TICK_MS
        self._document = Document(
            disk, DOCUMENT, DelayOffsetSerializeWrapper, config.parsed_release, note
        )
        saved = self._document.load() or DelayOffsetSerializeWrapper()
        # Progress beyond the end is of a log that lost its tail: new messages come there again.
        self.offset_table = {
            level: min(offset, store.max_offset(SCHEDULE_TOPIC, queue_of_level(level)))
            for level, offset in saved.offset_table.items()
        }
        self._data_version = saved.data_version
        if self._data_version is None and config.parsed_release >= OFFSETS_HAVE_VERSION:
            self._data_version = DataVersion(timestamp=began_ms)
        self._is_dirty = False
        self._moved_ms: dict[tuple[int, int], int] = {}  # by level and offset, of who waits

    # Advancing time -------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """What waits is due *ms* earlier; ``next_due_ms`` may be in the past then."""
        self._store.early_deliveries.advance(ms)
        for level, queue, first in self._waiting():
            for offset in range(first, queue.max_offset):
                self._move(level, queue, offset, ms)

    def advance_last(self, level: int, ms: int) -> None:
        """What was put aside last under *level* has a head start of *ms*."""
        level = self._levels.clamp(level)
        queue = self._store.queue(SCHEDULE_TOPIC, queue_of_level(level))
        assert queue is not None, "it waits in it"
        self._move(level, queue, queue.max_offset - 1, ms)

    def first_due_ms(self, now_ms: int) -> int | None:
        """When the first of the messages is due that come next."""
        return min((self._corrected_due_ms(head, now_ms) for head in self._heads()), default=None)

    def waiting_count(self) -> int:
        """How many messages wait."""
        return sum(queue.max_offset - first for _, queue, first in self._waiting())

    def _waiting(self) -> Iterator[tuple[int, ConsumeQueue, int]]:
        """Level, queue and first offset of those that have messages waiting."""
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
        """When ``deliver_due`` has something to do; None while nothing waits."""
        due_ms = [self._tick_ms(self._corrected_due_ms(head, now_ms)) for head in self._heads()]
        return min(due_ms, default=None)

    def deliver_due(self, now_ms: int, upto_ms: int | None = None) -> int:
        """Deliver what is due, level by level; how many that were.

        What was moved makes all come by the time they are due, over all levels; with *upto_ms*
        only those that are due by then.  A delivery the disk has no room for is tried again at
        a later look.
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
        """The whole table as it is saved and sent."""
        return DelayOffsetSerializeWrapper(
            offset_table=self.offset_table, data_version=self._data_version
        )

    def persist(self) -> None:
        """Write the progress if it has changed since; upstream does every 10 s."""
        if self._is_dirty:
            self._is_dirty = not self._document.save(self.wrapper())

    def reset(self, now_ms: int) -> None:
        """Nothing waits, and nothing was ever delivered."""
        self.offset_table = {}
        self._moved_ms.clear()
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
        if offset == queue.max_offset:
            return None
        index = offset - queue.min_offset
        return _Head(level, offset, queue.positions[index], queue.sizes[index], queue.codes[index])

    def _corrected_due_ms(self, head: _Head, now_ms: int) -> int:
        """A time further away than the whole delay is of a clock that has gone back since.

        Upstream: ScheduleMessageService.correctDeliverTimestamp.
        """
        is_odd = head.due_ms > now_ms + self._levels.delay_ms[head.level]
        return now_ms if is_odd else head.due_ms

    def _tick_ms(self, due_ms: int) -> int:
        """The first tick of upstream's clock at or after *due_ms*."""
        looks = max(0, -(-(due_ms - self._first_tick_ms) // TICK_INTERVAL_MS))
        return self._first_tick_ms + looks * TICK_INTERVAL_MS

    def _deliver(self, head: _Head, now_ms: int) -> bool:
        """Store the message where it belongs; False if there was no room for it."""
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
                # The properties stay as they were stored, DELAY included: a consumer of a real
                # broker sees it too, where the text is made before the property is taken away.
                again = stored_again(message, topic, queue.queue_id, text)
                put = self._store.put(again, now_ms)
                self._store.early_deliveries.give(put.position, early_ms)
            except PutRefused as refused:
                if refused.status is PutStatus.SERVICE_NOT_AVAILABLE:
                    return False
                reason = str(refused)
        if reason:
            key = property_of(text, UNIQ_KEY) or ""
            self._note(DelayedMessageDropped(queue, head.level, reason, key))
        else:
            self._note(DelayedDelivered(queue, head.level, late_ms - early_ms))
        self._moved_ms.pop((head.level, head.offset), None)
        self.offset_table[head.level] = head.offset + 1
        self._is_dirty = True
        return True

"""One record of the timer topic: what it asks for, which slot it belongs to, what it becomes.

The slot follows from the record alone, so it is the same after a restart.  A message whose
time is further away than the roll window waits in a nearer slot, from which it is stored anew.

Upstream: TimerMessageStore.doEnqueue, convert, convertMessage, buildDeleteKey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emulator.broker.store.appender import MessageToStore, stored_again
from emulator.broker.store.timer_puts import java_long, with_marks
from emulator.facts import Queue
from protocol.names import TIMER_TOPIC
from protocol.properties import (
    REAL_QID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQ_KEY,
    property_of,
)
from protocol.records import Buffer, StoredMessage, decode_record, index_fields

if TYPE_CHECKING:
    from emulator.config import BrokerConfig

LOOKS_A_SLOT = 10  # TimerDequeueGetService: a tenth of the precision between two
WHEEL_SLOTS, WHEEL_BLANK_SLOTS = 7 * 24 * 3600, 60  # TimerMessageStore


class SlotRule(NamedTuple):
    """How long a slot is, and from how many slots ahead on a message rolls."""

    precision_ms: int
    window_slots: int

    @classmethod
    def of(cls, config: BrokerConfig) -> SlotRule:
        """A window that the wheel cannot hold, or hardly any, means nearly the whole wheel."""
        slots, slots_max = config.timer_roll_window_slots, WHEEL_SLOTS - WHEEL_BLANK_SLOTS
        return cls(config.timer_precision_ms, slots if 2 <= slots <= slots_max else slots_max)

    def slot_at(self, at_ms: int) -> int:
        """The slot that a time lies in."""
        return at_ms // self.precision_ms * self.precision_ms

    def look_ms(self, due_ms: int, from_ms: int) -> int:
        """The first tick of upstream's looks at or after *due_ms*; the first is at *from_ms*."""
        interval_ms = self.precision_ms // LOOKS_A_SLOT
        looks = max(0, -(-(due_ms - from_ms) // interval_ms))
        return from_ms + looks * interval_ms

    def slot_of(self, out_ms: int, store_ms: int) -> tuple[int, bool]:
        """The slot of a message stored at *store_ms*, and whether it rolls on from there."""
        write_ms = self.slot_at(store_ms)
        window_ms = self.window_slots * self.precision_ms
        beyond_ms = out_ms - write_ms - window_ms
        if beyond_ms < 0:
            return self.slot_at(out_ms), False
        is_near = beyond_ms < self.window_slots // 3 * self.precision_ms
        # If it is near, leave time enough for the next roll.
        step_ms = self.window_slots // 2 * self.precision_ms if is_near else window_ms
        return write_ms + step_ms, True


class TimerRecord(NamedTuple):
    """A record of the timer topic, and what its properties say."""

    message: StoredMessage
    text: str  # its properties
    queue: Queue  # it was sent to
    uniq_key: str
    out_ms: int

    @property
    def deletes(self) -> str | None:
        """The delete key of the message that this one deletes; None if it deletes none."""
        return property_of(self.text, TIMER_DEL_UNIQKEY)

    @property
    def roll_times(self) -> int:
        """How often it has been stored anew."""
        return java_long(property_of(self.text, TIMER_ROLL_TIMES) or "") or 0

    def delivered(self, enqueue_ms: int, now_ms: int) -> MessageToStore:
        """What is stored in the queue it was sent to.

        REAL_TOPIC and REAL_QID stay in the text, as in the text of upstream's record.
        """
        marks = {TIMER_ENQUEUE_MS: str(enqueue_ms), TIMER_DEQUEUE_MS: str(now_ms)}
        return self._stored_as(self.queue.topic, self.queue.queue_id, marks)

    def rolled(self, enqueue_ms: int, now_ms: int) -> MessageToStore:
        """What is stored in the timer topic, to wait on."""
        marks = {
            TIMER_ENQUEUE_MS: str(enqueue_ms),
            TIMER_ROLL_TIMES: str(self.roll_times + 1),
            TIMER_DEQUEUE_MS: str(now_ms),
        }
        return self._stored_as(TIMER_TOPIC, 0, marks)

    def _stored_as(self, topic: str, queue_id: int, marks: dict[str, str]) -> MessageToStore:
        return stored_again(self.message, topic, queue_id, with_marks(self.text, marks))


def read_timer_record(record: Buffer, broker: str) -> TimerRecord | None:
    """The *record* taken apart; None if it has no time: clients may write into that topic."""
    message = decode_record(record)
    text = str(message.properties, "utf-8", "replace")
    out_ms = java_long(property_of(text, TIMER_OUT_MS) or "")
    if out_ms is None:
        return None
    queue_id = java_long(property_of(text, REAL_QID) or "") or 0
    queue = Queue(property_of(text, REAL_TOPIC) or "", broker, queue_id)
    return TimerRecord(message, text, queue, property_of(text, UNIQ_KEY) or "", out_ms)


def slot_fields(record: Buffer) -> tuple[int, int, str | None] | None:
    """When it is due, when it was stored, and what it deletes; None if it has no time.

    The same as ``read_timer_record`` reads, at a third of the cost: a start reads all of them.
    """
    data = bytes(record)
    *_, store_ms, properties = index_fields(data, 0, len(data))
    text = str(properties, "utf-8", "replace")
    out_ms = java_long(property_of(text, TIMER_OUT_MS) or "")
    if out_ms is None:
        return None
    return out_ms, store_ms, property_of(text, TIMER_DEL_UNIQKEY)


def timer_delete_key(topic: str, uniq_key: str, *, names_topic: bool) -> str:
    """The value of TIMER_DEL_UNIQKEY that names a message; the key alone before 5.3.2."""
    return f"{topic}+{uniq_key}" if names_topic else uniq_key

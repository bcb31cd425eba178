"""The waiting timer messages: the wheel of slots, their records, and the progress on disk.

A slot is ``timer_precision_ms`` long, named by its first millisecond; it has the keys of those of
its messages that delete messages recall.  Upstream's wheel is a file; here only slots in use
exist, in memory.  The slot follows from the record alone, so it is the same after a restart; a
message beyond the roll window waits in a nearer slot and is stored again from there.
``TimerCheckpoint`` (ten big-endian longs in one page: upstream's seven, then progress within a
slot and the slot rule) has the records that are done.  ``TimerMoves`` has the messages that were
delivered early because time was advanced: a start reads all records, and must not deliver them
twice.  By how much the waiting messages were moved is not saved.

Upstream: TimerWheel, Slot, TimerCheckpoint, TimerMessageStore.doEnqueue, convert, convertMessage,
buildDeleteKey.
"""

from __future__ import annotations

import heapq
from array import array
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.broker.store.appender import MessageToStore, stored_again
from rocketmq_emulator.broker.store.put_chain import java_long, with_properties
from rocketmq_emulator.facts import Queue
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import TIMER_TOPIC
from rocketmq_emulator.protocol.messages.properties import (
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
from rocketmq_emulator.protocol.messages.records import (
    Buffer,
    StoredMessage,
    decode_record,
    index_fields,
)

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.settings.config import BrokerConfig


class Slot:
    """The messages of one slot, oldest first; those before ``next_index`` are done."""

    __slots__ = ("at_ms", "deleted_keys", "next_index", "num", "offsets")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.offsets = array("q")
        self.next_index = 0
        self.deleted_keys: set[str] = set()
        self.num = 0  # as upstream counts: a delete message subtracts 1

    @property
    def next_offset(self) -> int | None:
        """The offset of the first message that is not done; None if all are."""
        if self.next_index == len(self.offsets):
            return None
        return self.offsets[self.next_index]


class TimerWheel:
    """Slots by their time; only slots with messages or deleted keys exist."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._times: list[int] = []  # a heap

    def add(self, at_ms: int, offset: int, *, deleted_key: str | None = None) -> None:
        """Put the message at *offset* into a slot; *deleted_key* names the one it deletes."""
        slot = self._slot(at_ms)
        slot.offsets.append(offset)
        if deleted_key is None:
            slot.num += 1
        else:
            slot.num -= 1
            slot.deleted_keys.add(deleted_key)

    def remember_deleted(self, at_ms: int, deleted_key: str) -> None:
        """Add the key of a delete message that was done before a restart to its slot."""
        self._slot(at_ms).deleted_keys.add(deleted_key)

    def num(self, at_ms: int) -> int:
        """The number of messages in a slot.  Upstream: TimerWheel.getNum."""
        slot = self._slots.get(at_ms)
        return 0 if slot is None else slot.num

    def total_num(self) -> int:
        """The number of messages in all slots.  Upstream: TimerWheel.getAllNum."""
        return sum(slot.num for slot in self._slots.values())

    def first(self) -> Slot | None:
        """The slot that is due first; None if there is no slot."""
        return self._slots[self._times[0]] if self._times else None

    def remove_first(self) -> None:
        """Remove the first slot, whose messages are all done."""
        del self._slots[heapq.heappop(self._times)]

    def move(self, ms: int) -> None:
        """Make every slot begin and end *ms* earlier."""
        for slot in self._slots.values():
            slot.at_ms -= ms
        self._slots = {slot.at_ms: slot for slot in self._slots.values()}
        self._times = sorted(self._slots)

    def _slot(self, at_ms: int) -> Slot:
        slot = self._slots.get(at_ms)
        if slot is None:
            slot = self._slots[at_ms] = Slot(at_ms)
            heapq.heappush(self._times, at_ms)
        return slot


# Records of the timer topic, and their slots ------------------------------------------


TICKS_PER_SLOT = 10  # TimerDequeueGetService: a tenth of the precision between two ticks
WHEEL_SLOTS, WHEEL_BLANK_SLOTS = 7 * 24 * 3600, 60  # TimerMessageStore


class SlotRule(NamedTuple):
    """The length of a slot, and the number of slots ahead from which on a message rolls."""

    precision_ms: int
    window_slots: int

    @classmethod
    def of(cls, config: BrokerConfig) -> SlotRule:
        """The rule of *config*; a roll window out of range means nearly the whole wheel."""
        slots, slots_max = config.timer_roll_window_slots, WHEEL_SLOTS - WHEEL_BLANK_SLOTS
        return cls(config.timer_precision_ms, slots if 2 <= slots <= slots_max else slots_max)

    def slot_at(self, at_ms: int) -> int:
        """The slot that contains a time."""
        return at_ms // self.precision_ms * self.precision_ms

    def tick_ms(self, due_ms: int, from_ms: int) -> int:
        """Upstream's first tick at or after *due_ms*; ticks begin at *from_ms*."""
        interval_ms = self.precision_ms // TICKS_PER_SLOT
        looks = max(0, -(-(due_ms - from_ms) // interval_ms))
        return from_ms + looks * interval_ms

    def slot_of(self, out_ms: int, store_ms: int) -> tuple[int, bool]:
        """The slot of a message stored at *store_ms*, and whether it rolls from there."""
        write_ms = self.slot_at(store_ms)
        window_ms = self.window_slots * self.precision_ms
        beyond_ms = out_ms - write_ms - window_ms
        if beyond_ms < 0:
            return self.slot_at(out_ms), False
        is_near = beyond_ms < self.window_slots // 3 * self.precision_ms
        # If the time is near, leave enough time for the next roll.
        step_ms = self.window_slots // 2 * self.precision_ms if is_near else window_ms
        return write_ms + step_ms, True


class TimerRecord(NamedTuple):
    """A record of the timer topic, with the values of its properties."""

    message: StoredMessage
    text: str  # its properties
    queue: Queue  # to which it was sent
    uniq_key: str
    out_ms: int

    @property
    def deletes(self) -> str | None:
        """The delete key of the message that this one deletes; None if it deletes none."""
        return property_of(self.text, TIMER_DEL_UNIQKEY)

    @property
    def roll_times(self) -> int:
        """The number of times it has been rolled."""
        return java_long(property_of(self.text, TIMER_ROLL_TIMES) or "") or 0

    def delivered(self, enqueue_ms: int, now_ms: int) -> MessageToStore:
        """The message to store in the queue to which it was sent.

        REAL_TOPIC and REAL_QID stay in the text, as in the text of upstream's record.
        """
        marks = {TIMER_ENQUEUE_MS: str(enqueue_ms), TIMER_DEQUEUE_MS: str(now_ms)}
        return self._stored_as(self.queue.topic, self.queue.queue_id, marks)

    def rolled(self, enqueue_ms: int, now_ms: int) -> MessageToStore:
        """The message to store in the timer topic, where it waits again."""
        marks = {
            TIMER_ENQUEUE_MS: str(enqueue_ms),
            TIMER_ROLL_TIMES: str(self.roll_times + 1),
            TIMER_DEQUEUE_MS: str(now_ms),
        }
        return self._stored_as(TIMER_TOPIC, 0, marks)

    def _stored_as(self, topic: str, queue_id: int, marks: dict[str, str]) -> MessageToStore:
        return stored_again(self.message, topic, queue_id, with_properties(self.text, marks))


def read_timer_record(record: Buffer, broker: str) -> TimerRecord | None:
    """The decoded *record*; None without a time, since clients may write into that topic."""
    message = decode_record(record)
    text = str(message.properties, "utf-8", "replace")
    out_ms = java_long(property_of(text, TIMER_OUT_MS) or "")
    if out_ms is None:
        return None
    queue_id = java_long(property_of(text, REAL_QID) or "") or 0
    queue = Queue(property_of(text, REAL_TOPIC) or "", broker, queue_id)
    return TimerRecord(message, text, queue, property_of(text, UNIQ_KEY) or "", out_ms)


def slot_fields(record: Buffer) -> tuple[int, int, str | None] | None:
    """Due time, store time and the deleted message's key; None if it has no time.

    Reads the same as ``read_timer_record`` at a third of the cost, for a start, which reads all.
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


# Time that was advanced ---------------------------------------------------------------


MOVES_DOCUMENT = "timerAdvanced.json"


class TimerMoves:
    """Due times moved by ``ADVANCE_TIME``, by timer topic offset.

    *disk* keeps ``delivered_early``, the offsets of messages that were delivered early.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.delivered_early: set[int] = set()
        self._steps: list[tuple[int, int]] = []  # (end offset, ms): offsets below were moved by ms
        self._rolled: dict[int, int] = {}  # by how many ms a message was moved before its roll
        if (saved := disk.read(MOVES_DOCUMENT)) is not None:
            try:
                self.delivered_early.update(msgspec.json.decode(saved, type=list[int]))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return  # these messages are delivered once more

    @property
    def is_moved(self) -> bool:
        """Whether a message was moved since the start."""
        return bool(self._steps)

    def move(self, end_offset: int, ms: int) -> None:
        """Record that all messages below *end_offset* are due *ms* earlier."""
        self._steps.append((end_offset, ms))

    def of(self, offset: int) -> int:
        """By how many ms the message at *offset* was moved."""
        moved_ms = sum(ms for end_offset, ms in self._steps if offset < end_offset)
        return moved_ms + self._rolled.get(offset, 0)

    def slot_of(self, rule: SlotRule, record: TimerRecord, offset: int) -> tuple[int, bool]:
        """As ``SlotRule.slot_of``; includes the moves of a *record* before its roll."""
        out_ms = record.out_ms - self._rolled.get(offset, 0)
        return rule.slot_of(out_ms, record.message.store_ms)

    def rolled(self, offset: int, moved_ms: int) -> None:
        """Record that a message, moved by *moved_ms*, is stored again at *offset*."""
        if moved_ms:
            self._rolled[offset] = moved_ms

    def done(self, offset: int) -> None:
        """Record that the message at *offset* is done."""
        self._rolled.pop(offset, None)
        if self.is_moved:
            self.delivered_early.add(offset)

    def persist(self, min_offset: int) -> None:
        """Save ``delivered_early``, without offsets below *min_offset*, which have expired."""
        self.delivered_early = {offset for offset in self.delivered_early if offset >= min_offset}
        if self.delivered_early or self._disk.read(MOVES_DOCUMENT) is not None:
            self._disk.replace(MOVES_DOCUMENT, msgspec.json.encode(sorted(self.delivered_early)))

    def clear(self) -> None:
        """Forget all moves."""
        self.delivered_early.clear()
        self._steps.clear()
        self._rolled.clear()


# The checkpoint -----------------------------------------------------------------------


DOCUMENT = "timercheck"
FILE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE
_FIELDS = Struct(">10q")
_SENT = Struct(">7q")  # without our own fields: TimerCheckpoint.encode
_OFFSETS_ONLY = Struct(">4q")  # the file of releases that write no data version


class TimerCheckpoint(NamedTuple):
    """The progress: messages below ``queue_offset`` in slots before ``read_ms`` are done.

    In the slot that begins at ``read_ms`` those below ``slot_offset`` are done as well.
    """

    read_ms: int = 0  # lastReadTimeMs
    log_position: int = 0  # lastTimerLogFlushPos: of upstream's timer log, which is not kept here
    queue_offset: int = 0  # lastTimerQueueOffset
    master_queue_offset: int = 0  # masterTimerQueueOffset
    state_version: int = 0  # of the data version, as are the next two
    saved_ms: int = 0
    counter: int = 0
    slot_offset: int = 0
    precision_ms: int = 0  # 0 in a file of upstream's
    window_slots: int = 0

    def is_done(self, out_ms: int, store_ms: int, offset: int, rule: SlotRule) -> bool:
        """Whether the message at *offset* of the timer topic is done.

        *rule* is the present one, used if the file does not have the rule it was written by.
        """
        if offset >= self.queue_offset:
            return False
        if self.precision_ms:
            rule = SlotRule(self.precision_ms, self.window_slots)
        slot_ms, _ = rule.slot_of(out_ms, store_ms)
        return (slot_ms, offset) < (self.read_ms, self.slot_offset)

    @property
    def order(self) -> tuple[int, int, int]:
        """As ``DataVersion.order``."""
        return self.state_version, self.counter, self.saved_ms

    def encode_for_slave(self) -> bytes:
        """The 56 bytes of the answer to GET_TIMER_CHECK_POINT."""
        return _SENT.pack(*self[:7])

    def encode(self) -> bytes:
        """The bytes of the whole file."""
        return _FIELDS.pack(*self).ljust(FILE_BYTES, b"\0")


def decode_checkpoint(data: bytes | None) -> TimerCheckpoint:
    """The saved checkpoint; an empty one if *data* is missing or too short."""
    if data is None or len(data) < _OFFSETS_ONLY.size:
        return TimerCheckpoint()
    if len(data) < _FIELDS.size:
        return TimerCheckpoint(*_OFFSETS_ONLY.unpack_from(data))
    return TimerCheckpoint(*_FIELDS.unpack_from(data))


def decode_sent_checkpoint(data: bytes) -> TimerCheckpoint:
    """A master's checkpoint.  Raises ``BadFields`` if *data* is too short.

    Upstream: TimerCheckpoint.decode.
    """
    if len(data) < _SENT.size:
        raise BadFields(f"a timer checkpoint of {len(data)} bytes; it has {_SENT.size}")
    return TimerCheckpoint(*_SENT.unpack_from(data))


def is_damaged(data: bytes) -> bool:
    """Whether a saved checkpoint is too short to be read."""
    return len(data) < _OFFSETS_ONLY.size

"""How far the timer messages have been delivered: a small binary document.

Eight bytes a field, big-endian, in a file of one page: upstream's seven fields, and behind
them three of ours.  The progress within a slot lets an orderly restart in the middle of a
slot repeat nothing; the slot rule of then keeps a changed configuration from losing anything.

Upstream: TimerCheckpoint.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from emulator.broker.store.timer_records import SlotRule

DOCUMENT = "timercheck"
FILE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE
_FIELDS = Struct(">10q")
_OFFSETS_ONLY = Struct(">4q")  # before releases wrote a data version


class TimerCheckpoint(NamedTuple):
    """Done are messages below ``queue_offset`` of slots before ``read_ms``.

    Of the slot that begins at ``read_ms`` those below ``slot_offset`` are done as well.
    """

    read_ms: int = 0  # lastReadTimeMs
    log_position: int = 0  # lastTimerLogFlushPos: of upstream's timer log, which is not kept here
    queue_offset: int = 0  # lastTimerQueueOffset
    master_queue_offset: int = 0  # masterTimerQueueOffset
    state_version: int = 0  # of the data version, as the next two
    saved_ms: int = 0
    counter: int = 0
    slot_offset: int = 0
    precision_ms: int = 0  # 0 in a file of upstream's
    window_slots: int = 0

    def is_done(self, out_ms: int, store_ms: int, offset: int, rule: SlotRule) -> bool:
        """Whether the message at *offset* of the timer topic needs nothing more.

        *rule* is today's, for a file that does not say by which one it was written.
        """
        if offset >= self.queue_offset:
            return False
        if self.precision_ms:
            rule = SlotRule(self.precision_ms, self.window_slots)
        slot_ms, _ = rule.slot_of(out_ms, store_ms)
        return (slot_ms, offset) < (self.read_ms, self.slot_offset)

    def encode(self) -> bytes:
        """The whole file."""
        return _FIELDS.pack(*self).ljust(FILE_BYTES, b"\0")


def decode_checkpoint(data: bytes | None) -> TimerCheckpoint:
    """What was saved; nothing is done if that cannot be read."""
    if data is None or len(data) < _OFFSETS_ONLY.size:
        return TimerCheckpoint()
    if len(data) < _FIELDS.size:
        return TimerCheckpoint(*_OFFSETS_ONLY.unpack_from(data))
    return TimerCheckpoint(*_FIELDS.unpack_from(data))


def is_damaged(data: bytes) -> bool:
    """Whether nothing can be read from a checkpoint that was saved."""
    return len(data) < _OFFSETS_ONLY.size

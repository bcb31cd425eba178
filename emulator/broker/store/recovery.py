"""What a log says after its process died: every whole record, up to the first bad one.

Nothing but the log is believed: queue offsets, tags and times are read from the records
again.  The scan looks only at what it needs and is strict where a torn write could hide:
lengths must add up, the body must have its CRC, and bytes that cannot be zero must not
be, since a write that never happened leaves zeros.

Upstream: CommitLog.recoverAbnormally, CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from protocol.records import BLANK_BYTES_MIN, BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.disk.port import Segment

_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6


def _head(born_bytes: int, store_bytes: int) -> struct.Struct:
    """Magic, CRC, queue id, queue offset, position, sys flag, store time, body length."""
    return struct.Struct(f">4xIIi4xqqi8x{born_bytes}xq{store_bytes}x4x8xI")


_HEADS = {
    0: _head(8, 8),
    BORN_HOST_V6: _head(20, 8),
    STORE_HOST_V6: _head(8, 20),
    _HOSTS_V6: _head(20, 20),
}
_HEAD_V4 = _HEADS[0]
_SIZE_AND_MAGIC = struct.Struct(">II")
_SHORT = struct.Struct(">H")
_MAGICS = (MAGIC_V1, MAGIC_V2)


# As much of a record as an index needs: topic, queue id, queue offset, position, size, sys
# flag, store time, properties.  A plain tuple, because a log has millions.
Found: TypeAlias = tuple[bytes, int, int, int, int, int, int, bytes]


class LogEnd(Exception):
    """The scan is over: at ``position``, for a ``reason`` ("" where the log simply ends)."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


class _Bad(Exception):
    """No whole record: the reason."""


def scan(log: CommitLog) -> Iterator[Found]:
    """Every good record in order; the iteration ends by raising LogEnd."""
    for number, segment in enumerate(log.segments, 1):
        try:
            yield from _scan_segment(segment)
        except LogEnd as end:
            if not end.reason and any(map(_is_begun, log.segments[number:])):
                raise LogEnd(end.position, "nothing was written there, but more follows") from None
            raise
    raise LogEnd(log.end_position, "")


def _is_begun(segment: Segment) -> bool:
    return any(segment.view[:4])


def _scan_segment(segment: Segment) -> Iterator[Found]:
    """The records of one segment, up to its filler."""
    view, base, limit = segment.view, segment.base, segment.size
    at = 0
    while at + BLANK_BYTES_MIN <= limit:
        size, magic = _SIZE_AND_MAGIC.unpack_from(view, at)
        end = at + size
        if magic == BLANK_MAGIC and end == limit:
            return
        if size == 0:
            raise LogEnd(base + at, "")
        if end > limit or size < _HEAD_V4.size or magic not in _MAGICS:
            raise LogEnd(base + at, f"{size} bytes with magic {magic:#010x} are no record")
        try:
            yield _read(view, base, at, end)
        except (_Bad, struct.error) as bad:
            raise LogEnd(base + at, str(bad)) from None
        at = end


def _read(view: memoryview, base: int, at: int, end: int) -> Found:
    """The record that fills *at* to *end*; raises _Bad if it does not."""
    head = _HEAD_V4
    fields = head.unpack_from(view, at)
    if fields[5] & _HOSTS_V6:
        head = _HEADS[fields[5] & _HOSTS_V6]
        fields = head.unpack_from(view, at)
    magic, crc, queue_id, queue_offset, position, sys_flag, store_ms, body_size = fields
    if position != base + at or queue_id < 0 or queue_offset < 0:
        raise _Bad(f"a record for {position}, queue {queue_id}, offset {queue_offset}")
    body_at = at + head.size
    body_end = body_at + body_size
    tail = bytes(view[body_end:end])
    if magic == MAGIC_V1:
        topic_at, topic_end = 1, 1 + (tail[0] if tail else 0)
    else:
        topic_at, topic_end = 2, 2 + int.from_bytes(tail[:2], "big")
    (properties_size,) = _SHORT.unpack_from(tail, topic_end)
    properties = tail[topic_end + 2 :]
    if len(properties) != properties_size or topic_end == topic_at:
        raise _Bad("its lengths do not add up")
    if crc32(view[body_at:body_end]) & 0x7FFFFFFF != crc:
        raise _Bad("the body does not have its CRC")
    topic = tail[topic_at:topic_end]
    if 0 in topic or (tail[-1] == 0 and properties and _nothing_follows(view, end)):
        raise _Bad("its end was never written")
    return topic, queue_id, queue_offset, position, end - at, sys_flag, store_ms, properties


def _nothing_follows(view: memoryview, end: int) -> bool:
    """Is this the last record?  Zeros inside one that others follow are its own."""
    return int.from_bytes(view[end : end + 4], "big") == 0

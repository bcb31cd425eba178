"""Reading a log after its process died: every whole record, up to the first bad one.

Nothing but the log is believed: queue offsets, tags and times are read from the records
again.  The scan looks only at what it needs and is strict where a torn write could hide:
lengths must add up, the body must have its CRC, and bytes that cannot be zero must not
be, since a write that never happened leaves zeros.

What stands behind the first bad record is lost; ``measure_tail`` says how much that is.

Upstream: CommitLog.recoverAbnormally, CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import bisect
from collections.abc import Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from emulator.disk.blanks import BLOCK_BYTES, is_blank, written_length
from protocol.records import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    POSITION_END,
    SIZE_AND_MAGIC,
    BadRecord,
    IndexFields,
    heads_in,
    index_fields,
)

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.disk.port import Segment


NO_NEXT_FILE = "ends where the next file should begin: that one is missing, or this one was cut"
CHUNK_BYTES = 8 * 1024 * 1024  # more than a message may have: so many zeros are no message


class LostTail(NamedTuple):
    """What is cut off with the tail of a log."""

    message_count: int  # at least this many: a record whose head is damaged is not seen
    written_bytes: int  # up to the last byte that is not zero
    is_torn_write: bool = False  # nothing but the one record that a dying process was writing


def measure_tail(log: CommitLog, position: int) -> Generator[int, None, LostTail]:
    """How much stands in *log* from *position* on, where its first bad record begins.

    Yields how far it is, after every ``CHUNK_BYTES``.
    """
    heads, end, is_sized = set[int](), position, False
    for segment in log.segments:
        for at in range(max(0, position - segment.base), segment.size, CHUNK_BYTES):
            view = segment.view[at : at + CHUNK_BYTES + POSITION_END]
            written_bytes = written_length(view)
            if not written_bytes:
                break  # the rest of this segment was reserved, and never written
            chunk = bytes(view[: written_bytes + POSITION_END])
            if segment.base + at == position:
                is_sized = any(chunk[:4])
                if is_sized:
                    heads.add(position)  # whatever is damaged there was a record
            heads.update(heads_in(chunk, segment.base + at))
            end = segment.base + at + written_bytes
            yield end
    return LostTail(len(heads), end - position, not is_sized and heads <= {position})


def written_end(log: CommitLog) -> int:
    """Where *log* ends, about, before anything of it was read: for a look at the progress.

    Too early where a message holds many zeros.
    """
    last = log.segments[-1]
    blocks = range(last.size // BLOCK_BYTES)  # longer than most messages
    written = bisect.bisect_left(blocks, True, key=partial(_is_blank, last.view))
    return last.base + written * BLOCK_BYTES


def _is_blank(view: memoryview, block: int) -> bool:
    start = block * BLOCK_BYTES
    return is_blank(view[start : start + BLOCK_BYTES])


class LogEnd(Exception):
    """The scan is over: at ``position``, for a ``reason`` ("" where the log simply ends)."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def scan(log: CommitLog) -> Iterator[IndexFields]:
    """Every good record in order; the iteration ends by raising LogEnd."""
    for number, segment in enumerate(log.segments, 1):
        try:
            yield from _scan_segment(segment)
        except LogEnd as end:
            if not end.reason and any(map(_is_begun, log.segments[number:])):
                raise LogEnd(end.position, "nothing was written there, but more follows") from None
            raise
    raise LogEnd(log.end_position, NO_NEXT_FILE)  # a last file has room left, or is cut


def _is_begun(segment: Segment) -> bool:
    return any(segment.view[:4])


def _scan_segment(segment: Segment) -> Iterator[IndexFields]:
    """The records of one segment, up to its filler."""
    view, base, limit = segment.view, segment.base, segment.size
    at = 0
    while at + BLANK_BYTES_MIN <= limit:
        size, magic = SIZE_AND_MAGIC.unpack_from(view, at)
        end = at + size
        if magic == BLANK_MAGIC and end == limit:
            return
        if size == 0:
            raise LogEnd(base + at, "")
        if not at < end <= limit:
            raise LogEnd(
                base + at, f"a record of {size} bytes does not fit there (magic {magic:#010x})"
            )
        try:
            fields = index_fields(view, at, end)
        except BadRecord as bad:
            raise LogEnd(base + at, str(bad)) from None
        topic, queue_id, queue_offset, position, _, _, _, properties = fields
        if position != base + at or queue_id < 0 or queue_offset < 0:
            reason = (
                f"the record says position {position}, queue {queue_id}, offset {queue_offset}"
            )
            raise LogEnd(base + at, reason)
        if not topic or 0 in topic or (properties[-1:] == b"\0" and _is_last(view, end)):
            raise LogEnd(base + at, "its end was never written")
        yield fields
        at = end


def _is_last(view: memoryview, end: int) -> bool:
    """Does nothing follow?  Zeros at the end of a record that others follow are its own."""
    return not any(view[end : end + 4])

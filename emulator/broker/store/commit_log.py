"""All messages of a broker, one after another, in the layout that consumers receive.

An append-only stream of bytes cut into segments.  A record's *position* is absolute and never
reused; no record spans two segments, and a filler ends each segment but the last.  Reading returns
slices of the stored bytes: nothing is encoded twice.
``scan`` reads the log after its process died: every whole record, up to the first bad one.  It
must detect torn writes: lengths must add up, the body must match its CRC, and bytes that cannot be
zero must not be zero, because a write that did not happen leaves zeros.  Everything behind the
first bad record is lost; ``measure_tail`` measures how much that is.

Upstream: CommitLog, MappedFileQueue; CommitLog.recoverAbnormally, checkMessageAndReturnSize.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.disk.port import BLOCK_BYTES, StoreDamaged, erase, is_blank, written_length
from rocketmq_emulator.protocol.error_families import DamagedData, Misuse
from rocketmq_emulator.protocol.messages.records import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    POSITION_END,
    SIZE_AND_MAGIC,
    BadRecord,
    IndexFields,
    encode_blank,
    find_record_positions,
    index_fields,
)

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk, Segment


def _make_no_room(_coming_bytes: int) -> None:
    """The default of ``make_room``: removes nothing."""


class RecordTooLarge(Misuse):
    """The record does not fit into a segment; nothing was stored."""


class LogsDiffer(DamagedData):
    """The bytes of another log do not continue this one; nothing was stored."""


class LogHasHole(StoreDamaged):
    """A segment between two others is missing: the log cannot be continued."""


class CommitLog:
    """The stream on *disk*; new segments get *segment_bytes*, existing ones keep their size.

    ``make_room`` is called with the bytes of each new segment, before it is made.  After
    ``__init__`` the log ends at the end of its last segment: recovery calls ``cut`` to move the
    end behind the last good record.
    """

    def __init__(self, disk: Disk, segment_bytes: int) -> None:
        self._disk = disk
        self.make_room: Callable[[int], None] = _make_no_room
        self._segment_bytes = segment_bytes
        self._segments = [disk.open_segment(base, segment_bytes) for base in disk.segments()]
        self._bases = [segment.base for segment in self._segments]
        self._refuse_holes()
        self.end_position = 0
        self._view = memoryview(b"")  # of the last segment: every append needs it
        self._capacity = self._filled = 0
        if self._segments:
            self._fill_from(self._segments[-1].size)

    @property
    def min_position(self) -> int:
        """The position at which the oldest segment begins."""
        return self._bases[0] if self._bases else self.end_position

    @property
    def last_file_position(self) -> int:
        """Where the last file begins, if files are counted from 0 in the size of new segments."""
        return self.end_position - self.end_position % self._segment_bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, the oldest first.  Records are appended to the last one only."""
        return tuple(self._segments)

    def append(self, record: bytes) -> bool:
        """Store *record*, encoded for ``end_position``; False if it must be encoded again.

        A record carries its position.  If the last segment has no room, a new segment is begun,
        ``end_position`` changes, and the record must be encoded for it.  Raises DiskFull or
        RecordTooLarge; then nothing was stored.  After a crash the log has the whole record or
        nothing of it: the first four bytes, the record's size, are written last, and a size of
        zero ends the log.
        """
        start = self._filled
        end = start + len(record)
        if end + BLANK_BYTES_MIN > self._capacity:
            self._roll(len(record))
            return False
        view = self._view
        view[start + 4 : end] = record[4:]
        view[start : start + 4] = record[:4]
        self._filled = end
        self.end_position += len(record)
        return True

    def append_copied(self, position: int, data: bytes | memoryview) -> None:
        """Append bytes of another log, from *position* on: records, cut anywhere, and fillers.

        An empty log begins in the segment of *position*.  Raises ``LogsDiffer`` if *position* is
        not the end, or the bytes reach across the end of a segment: the other log has files of
        another size.  Raises DiskFull and OSError.  Then nothing was stored.
        Upstream: DefaultMessageStore.appendToCommitLog, MappedFileQueue.getLastMappedFile.
        """
        if not self._segments:
            self._begin_at(position)
        if position != self.end_position:
            raise LogsDiffer(f"this log ends at {self.end_position}, not at {position}")
        if self._filled == self._capacity and data:
            self._open_next(position)
        start, end = self._filled, self._filled + len(data)
        if end > self._capacity:
            raise LogsDiffer(
                f"{len(data)} bytes at {position} reach across the end of a file at "
                f"{self._segments[-1].base + self._capacity}: the other log has files of another "
                "size (mappedFileSizeCommitLog)"
            )
        self._segments[-1].write(start, data)
        self._filled = end
        self.end_position += len(data)

    def read_to_segment_end(self, position: int) -> memoryview:
        """The bytes from *position* to the end of its segment or of the log; none beyond these."""
        if not self.min_position <= position < self.end_position:
            return memoryview(b"")
        segment = self._segments[bisect.bisect_right(self._bases, position) - 1]
        end = min(segment.base + segment.size, self.end_position)
        return segment.view[position - segment.base : end - segment.base]

    def segment_end(self, position: int) -> int:
        """Where the segment of *position*, which is in the log, ends."""
        segment = self._segments[bisect.bisect_right(self._bases, position) - 1]
        return segment.base + segment.size

    def read(self, position: int, size: int) -> memoryview:
        """The stored bytes, not a copy; they stay valid after the segment is removed."""
        if self._bases and position >= self._bases[-1]:
            segment = self._segments[-1]
        else:
            segment = self._segments[bisect.bisect_right(self._bases, position) - 1]
        start = position - segment.base
        return segment.view[start : start + size]

    def last_record(self, segment: Segment) -> int:
        """The position of the last record of a full segment; reads the size of each record."""
        at = last = 0
        while True:
            size, magic = SIZE_AND_MAGIC.unpack_from(segment.view, at)
            if magic == BLANK_MAGIC or size == 0:
                return segment.base + last
            last = at
            at += size

    def drop_oldest(self) -> int:
        """Remove the oldest segment, never the last one; returns its size in bytes."""
        assert len(self._segments) > 1, "the last segment must stay"
        segment = self._segments.pop(0)
        self._bases.pop(0)
        self._disk.remove_segment(segment.base)
        return segment.size

    def cut(self, position: int) -> None:
        """End the log at *position*; all bytes behind it are erased."""
        while self._bases and self._bases[-1] > position:
            self._bases.pop()
            self._disk.remove_segment(self._segments.pop().base)
        if self._segments:
            last = self._segments[-1]
            self._fill_from(position - last.base)
            erase(last.view, self._filled)

    def clear(self) -> None:
        """Remove all segments.  The next segment begins behind them: no position is reused."""
        if self._segments:
            self.end_position = self._segments[-1].base + self._segments[-1].size
        while self._segments:
            self._disk.remove_segment(self._segments.pop().base)
            self._bases.pop()
        self._view = memoryview(b"")
        self._capacity = self._filled = 0

    def begin_anywhere(self) -> None:
        """After ``clear``: the next bytes may have any position, as in a new log of a slave."""
        self.end_position = 0

    def close(self) -> None:
        """Close the segments; their bytes stay on the disk."""
        for segment in self._segments:
            segment.close()

    def _fill_from(self, start: int) -> None:
        last = self._segments[-1]
        self._view = last.view
        self._capacity = last.size
        self._filled = start
        self.end_position = last.base + start

    def _roll(self, record_bytes: int) -> None:
        if record_bytes + BLANK_BYTES_MIN > self._segment_bytes:
            limit = self._segment_bytes - BLANK_BYTES_MIN
            raise RecordTooLarge(f"{record_bytes} bytes, a segment holds {limit}")
        view, filled, left = self._view, self._filled, self._capacity - self._filled
        # Open the new segment first: if the disk is full, nothing has changed.
        self._open_next(self.end_position + left)
        if left:
            filler = encode_blank(left)
            view[filled : filled + len(filler)] = filler

    def _begin_at(self, position: int) -> None:
        self._open_next(position - position % self._segment_bytes)
        self._fill_from(position - self._bases[0])

    def _open_next(self, base: int) -> None:
        self.make_room(self._segment_bytes)
        segment = self._disk.open_segment(base, self._segment_bytes)
        self._segments.append(segment)
        self._bases.append(segment.base)
        self._fill_from(0)

    def _refuse_holes(self) -> None:
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            if before.base + before.size != after.base:
                raise LogHasHole(
                    f"{file_of(before.base)} ends at {before.base + before.size}, but "
                    f"{file_of(after.base)} begins at {after.base}: a file is missing between "
                    "them, has another length, or is of another log"
                )


def file_of(base: int) -> str:
    """The path of the file of the segment at *base*, relative to the store's folder."""
    return f"commitlog/{base:020d}"


# Reading the log after a crash --------------------------------------------------------


NO_NEXT_FILE = "ends where the next file should begin: that one is missing, or this one was cut"
CHUNK_BYTES = 8 * 1024 * 1024  # more than a message may have: a chunk of zeros is no message


class LostTail(NamedTuple):
    """The size of the tail that is cut off a log."""

    message_count: int  # at least so many: a record with a damaged head is not found
    written_bytes: int  # up to the last byte that is not zero
    is_torn_write: bool = False  # only one record, which the process was writing when it died


def measure_tail(log: CommitLog, position: int) -> Generator[int, None, LostTail]:
    """Measure the bytes of *log* from *position* on, where its first bad record begins.

    Yields the position it has reached, after every ``CHUNK_BYTES``.
    """
    heads, end, is_sized = set[int](), position, False
    for segment in log.segments:
        for at in range(max(0, position - segment.base), segment.size, CHUNK_BYTES):
            view = segment.view[at : at + CHUNK_BYTES + POSITION_END]
            written_bytes = written_length(view)
            if not written_bytes:
                break  # the rest of this segment is reserved, but not written
            chunk = bytes(view[: written_bytes + POSITION_END])
            if segment.base + at == position:
                is_sized = any(chunk[:4])
                if is_sized:
                    heads.add(position)  # the damaged bytes at *position* are a record
            heads.update(find_record_positions(chunk, segment.base + at))
            end = segment.base + at + written_bytes
            yield end
    return LostTail(len(heads), end - position, not is_sized and heads <= {position})


def written_end(log: CommitLog) -> int:
    """About where *log* ends, found without reading its records: for reports of progress.

    Too small if a message holds many zeros.
    """
    last = log.segments[-1]
    blocks = range(last.size // BLOCK_BYTES)  # a block is longer than most messages
    written = bisect.bisect_left(blocks, True, key=partial(_is_blank, last.view))
    return last.base + written * BLOCK_BYTES


def _is_blank(view: memoryview, block: int) -> bool:
    start = block * BLOCK_BYTES
    return is_blank(view[start : start + BLOCK_BYTES])


class LogEnd(Exception):
    """The end of a scan: its ``position``, and the ``reason`` ("" for the log's regular end)."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def scan(log: CommitLog) -> Iterator[IndexFields]:
    """All good records in order; raises LogEnd behind the last one."""
    for number, segment in enumerate(log.segments, 1):
        try:
            yield from _scan_segment(segment)
        except LogEnd as end:
            if not end.reason and any(map(_is_begun, log.segments[number:])):
                raise LogEnd(end.position, "nothing was written there, but more follows") from None
            raise
    raise LogEnd(log.end_position, NO_NEXT_FILE)  # a regular last file has room left


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
            reason = f"the record has position {position}, queue {queue_id}, offset {queue_offset}"
            raise LogEnd(base + at, reason)
        if not topic or 0 in topic or (properties[-1:] == b"\0" and _is_last(view, end)):
            raise LogEnd(base + at, "its end was never written")
        yield fields
        at = end


def _is_last(view: memoryview, end: int) -> bool:
    """Whether no record follows; zeros at the end of a record before another one are its own."""
    return not any(view[end : end + 4])

"""A drive in memory, and the disk through which one process uses it.

The drive's bytes stay when the process ends; flushed bytes stay when the power is cut.  It has
two copies of all bytes: the ones that processes read (the kernel's page cache) and the ones on
the *platter*.  A flush copies from the first to the second and takes virtual time.  Changes of
names (new files, renames) reach the platter in the order in which they were made, at the latest
after some seconds, as in a journaling file system.  When the power is cut, chance decides how
much of the rest is on the platter: a prefix of the bytes, a prefix of the names.

When a process is killed its disk is unplugged, so that writes of code that still runs (a
``finally`` that saves its tables) are lost.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from rocketmq_emulator.disk.port import DiskFull, OnFlushed, written_length
from rocketmq_emulator.faults.links_and_drives import (
    DriveFault,
    DriveFaults,
    FailingFlushes,
    NoRoom,
    SlowFlushes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketmq_emulator.sim.clock import VirtualClock


BYTES_MAX = 64 * 1024**3  # anonymous memory uses RAM only where it is written
SEEK_MS, BYTES_PER_S = 1.0, 200_000_000  # a plain solid-state drive
NAMES_COMMIT_US = 5_000_000  # ext4's default commit interval

Name: TypeAlias = "int | str"  # a segment's base or a document


class PowerLoss(NamedTuple):
    """The result of a loss of power, in positions of the log.

    All bytes below ``flushed_to`` were flushed.  The log was written up to ``written_to``; the
    bytes from ``kept_to`` on are lost.  ``reverted`` names the documents that have an old text.
    """

    flushed_to: int
    kept_to: int
    written_to: int
    reverted: tuple[str, ...]


class _Change(NamedTuple):
    """A change of a name: created, removed or given another text; and its time."""

    at_us: int
    name: Name
    content: bytes | int | None  # a document's text, a new segment's size; None: removed
    is_more: bool = False  # the text is appended to the document


class _Flush(NamedTuple):
    """One call of ``flush``; *whole*: from the start, as it is unknown what was flushed."""

    upto: int
    on_done: OnFlushed
    whole: bool


class _Work(msgspec.Struct):
    """The data that the current flushes write.

    At ``since_us`` the part ``left`` (1 to 0) was still to be written; it ends at ``ends_us``.
    """

    copies: dict[tuple[int, int], bytes]
    upto: int
    changes: int
    whole: bool
    size: int
    left: float = 1.0
    since_us: int = 0
    ends_us: int = 0


class VirtualDrive:
    """``bytes_max`` is the limit of segments and documents together.

    A flush takes ``seek_ms`` plus its size divided by ``bytes_per_s``; its result is passed to
    the machine by ``deliver``.  Without a clock no flush ends.  *rng* decides which flushes
    fail.
    """

    def __init__(
        self,
        bytes_max: int = BYTES_MAX,
        *,
        clock: VirtualClock | None = None,
        deliver: Callable[[Callable[[Any], object], Any], object] | None = None,
        rng: Random | None = None,
    ) -> None:
        self.bytes_max = bytes_max
        self.seek_ms = SEEK_MS
        self.bytes_per_s = BYTES_PER_S
        self.segments: dict[int, mmap.mmap] = {}
        self.documents: dict[str, bytes | bytearray] = {}
        self.flushed_to = 0
        self.flush_count = 0
        self._clock = clock
        self._deliver = deliver
        self._rng = rng or Random(0)
        self._durable_segments: dict[int, mmap.mmap] = {}
        self._durable_documents: dict[str, bytes | bytearray] = {}
        self._durable_to = 0  # no byte from here on was ever flushed
        self._changes: list[_Change] = []  # not on the platter yet
        self._committed_count = 0
        self._in_flight: list[_Flush] = []
        self._waiting: list[_Flush] = []
        self._work: _Work | None = None  # of the flushes in ``_in_flight``
        self._work_number = 0
        self._faults = DriveFaults()

    # Use ------------------------------------------------------------------------------

    def used_bytes(self) -> int:
        """The size of segments and documents, as processes read them."""
        return sum(map(len, self.segments.values())) + sum(map(len, self.documents.values()))

    def reserve(self, size: int) -> None:
        """Check that *size* more bytes fit.  Raises ``DiskFull``."""
        if size <= 0:
            return
        used = self.used_bytes()
        bytes_max = self._faults.bytes_max(self.bytes_max, used + size)
        if used + size > bytes_max:
            raise DiskFull(f"{size} bytes do not fit: {used} of {bytes_max} are used")

    def make_segment(self, base: int, size: int) -> None:
        """Create a segment of zeros; its name is not on the platter yet."""
        self.segments[base] = mmap.mmap(-1, size)
        self._changed(base, size)

    def remove_segment(self, base: int) -> None:
        """Remove the segment at *base*, if there is one."""
        if self.segments.pop(base, None) is not None:
            self._changed(base, None)

    def replace(self, name: str, data: bytes, *, flushed: bool) -> None:
        """Give a document another text; with *flushed* it is on the platter at once."""
        self.documents[name] = data
        self._changed(name, data)
        if flushed:
            self._commit_changes(self._committed_count + len(self._changes))

    def append(self, name: str, data: bytes, *, flushed: bool) -> None:
        """Append to a document; with *flushed* that is on the platter at once."""
        _extend(self.documents, name, data)
        self._changed(name, data, is_more=True)
        if flushed:
            self._commit_changes(self._committed_count + len(self._changes))

    def flush(self, upto: int, on_done: OnFlushed, *, whole: bool) -> None:
        """Write the log below *upto* to the platter: the *whole* log, or its unflushed part."""
        if self._clock is None:
            return
        self._waiting.append(_Flush(upto, on_done, whole))
        if not self._in_flight:
            self._begin()

    # Faults ---------------------------------------------------------------------------

    @contextmanager
    def under(self, fault: DriveFault) -> Iterator[None]:
        """*fault* is in force inside the ``with``, and is removed after it, also on error."""
        self.begin(fault)
        try:
            yield
        finally:
            self.end(fault)

    def begin(self, fault: DriveFault) -> None:
        """*fault* is in force from now on, until ``end``."""
        self._faults.begin(fault, self.used_bytes())
        self._change_speed()

    def end(self, fault: DriveFault) -> None:
        """Remove *fault*."""
        self._faults.end(fault)
        self._change_speed()

    def full(self, free_bytes: int = 0) -> AbstractContextManager[None]:
        """Inside, only *free_bytes* are free."""
        return self.under(DriveFault(NoRoom(free_bytes)))

    def failing(self, probability: float = 1.0) -> AbstractContextManager[None]:
        """Inside, a flush fails with *probability* at its end; none of its bytes are written."""
        return self.under(DriveFault(FailingFlushes(probability)))

    def slow(self, seek_ms: float, bytes_per_s: float = inf) -> AbstractContextManager[None]:
        """Inside, a flush takes *seek_ms* at least, and writes *bytes_per_s* at most."""
        return self.under(DriveFault(SlowFlushes(seek_ms, bytes_per_s)))

    def lose_power(self, rng: Random) -> PowerLoss:
        """Drop unflushed bytes and names, except for a part that *rng* draws.

        Unwritten bytes read as they were before: zeros in a new file.
        """
        self._commit_old_changes()
        self._commit_changes(self._committed_count + rng.randint(0, len(self._changes)))
        self._tear(rng)
        written_to = max(self._written_to(), self.flushed_to)
        missing = self.segments.keys() - self._durable_segments.keys()
        kept_to = min(rng.randint(self.flushed_to, written_to), *missing, written_to)
        reverted = sorted(
            {change.name for change in self._changes if isinstance(change.name, str)}
        )
        segments = {}
        for base, platter in self._durable_segments.items():
            # New memory: the killed process may still have views of the old one.
            segments[base] = fresh = mmap.mmap(-1, len(platter))
            fresh[:] = platter[:]
            if (seen := self.segments.get(base)) is not None:
                _copy(seen, fresh, self.flushed_to - base, kept_to - base)
                platter[:] = fresh[:]
        loss = PowerLoss(self.flushed_to, kept_to, written_to, tuple(reverted))
        self.flushed_to = kept_to
        self._durable_to = max(kept_to, self._durable_to)
        self.segments = segments
        self.documents = {name: bytes(text) for name, text in self._durable_documents.items()}
        self._committed_count += len(self._changes)
        self._changes.clear()
        self._in_flight, self._waiting, self._work = [], [], None
        return loss

    # Inside ---------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin one flush for all waiting calls.  Later writes are not part of it."""
        assert self._clock is not None
        self._in_flight, self._waiting = self._waiting, []
        upto = max(flush.upto for flush in self._in_flight)
        whole = any(flush.whole for flush in self._in_flight)
        since = 0 if whole else min(self.flushed_to, upto)
        # A truncated log is zero where the platter still has old bytes: they are overwritten.
        end = max(upto, self._durable_to) if whole else upto
        copies = {
            (base, max(since - base, 0)): memory[max(since - base, 0) : max(end - base, 0)]
            for base, memory in self.segments.items()
            if base < end and base + len(memory) > since
        }
        size = sum(map(len, copies.values()))
        changes = self._committed_count + len(self._changes)
        self._work = _Work(copies, upto, changes, whole, size)
        self._schedule_end(self._work)

    def _change_speed(self) -> None:
        """The rest of the current flush is written at the new speed."""
        if self._work is not None:
            assert self._clock is not None
            self._schedule_end(self._work)

    def _schedule_end(self, work: _Work) -> None:
        assert self._clock is not None
        now_us = self._clock.now_us
        if work.ends_us > work.since_us:
            work.left *= (work.ends_us - now_us) / (work.ends_us - work.since_us)
        took_us = self._faults.flush_us(work.size, self.seek_ms, self.bytes_per_s)
        work.since_us, work.ends_us = now_us, now_us + round(took_us * work.left)
        self._work_number = number = self._work_number + 1

        def end_it(_: object) -> None:
            if self._work is work and number == self._work_number:
                self._work = None
                self._end(work)

        self._clock.at(work.ends_us, end_it)

    def _end(self, work: _Work) -> None:
        result: int | OSError = OSError(errno.EIO, "Input/output error")
        if not self._faults.fails_flush(self._rng):
            upto, whole = work.upto, work.whole
            self._commit_changes(work.changes)
            for (base, start), data in work.copies.items():
                if (platter := self._durable_segments.get(base)) is not None:
                    platter[start : start + len(data)] = data
            self.flushed_to = result = upto if whole else max(upto, self.flushed_to)
            self._durable_to = max(upto, self._durable_to)
            self.flush_count += 1
        done, self._in_flight = self._in_flight, []
        for flush in done:
            if self._deliver is not None:
                self._deliver(flush.on_done, result)
        if self._waiting and not self._in_flight:
            self._begin()

    def _changed(self, name: Name, content: bytes | int | None, *, is_more: bool = False) -> None:
        now_us = 0 if self._clock is None else self._clock.now_us
        self._commit_old_changes()
        self._changes.append(_Change(now_us, name, content, is_more))

    def _commit_old_changes(self) -> None:
        """Changes older than ``NAMES_COMMIT_US`` reach the platter without a flush."""
        if self._clock is None:
            return
        before_us = self._clock.now_us - NAMES_COMMIT_US
        old = sum(1 for change in self._changes if change.at_us <= before_us)
        self._commit_changes(self._committed_count + old)

    def _commit_changes(self, upto: int) -> None:
        """Write the changes below number *upto*, counted from the first one, to the platter."""
        count = max(upto - self._committed_count, 0)
        for change in self._changes[:count]:
            if isinstance(change.name, str):
                assert isinstance(change.content, bytes), "documents are never removed"
                if change.is_more:
                    _extend(self._durable_documents, change.name, change.content)
                else:
                    self._durable_documents[change.name] = change.content
            elif isinstance(change.content, int):
                self._durable_segments[change.name] = mmap.mmap(-1, change.content)
            else:
                self._durable_segments.pop(change.name, None)
        del self._changes[:count]
        self._committed_count += count

    def _tear(self, rng: Random) -> None:
        """Write a part, drawn by *rng*, of the text that was appended when the power was cut."""
        if self._changes and self._changes[0].is_more:
            change = self._changes[0]
            assert isinstance(change.name, str)
            assert isinstance(change.content, bytes)
            kept = change.content[: rng.randint(0, len(change.content))]
            _extend(self._durable_documents, change.name, kept)

    def _written_to(self) -> int:
        """The position after the last byte of the log that is not zero."""
        for base in sorted(self.segments, reverse=True):
            with memoryview(self.segments[base]) as view:
                if written := written_length(view):
                    return base + written
        return 0


def _extend(documents: dict[str, bytes | bytearray], name: str, data: bytes) -> None:
    """Append in place: a growing text is not copied for each line."""
    text = documents.get(name, b"")
    if not isinstance(text, bytearray):
        text = documents[name] = bytearray(text)
    text += data


def _copy(source: mmap.mmap, target: mmap.mmap, start: int, end: int) -> None:
    start, end = max(start, 0), min(end, len(source))
    if start < end:
        target[start:end] = source[start:end]


# The disk of one process --------------------------------------------------------------


class VirtualSegment:
    """The ``Segment`` of a virtual disk; closing it releases the view and keeps the bytes."""

    def __init__(self, base: int, memory: mmap.mmap) -> None:
        self.base = base
        self.size = len(memory)
        self.view = memoryview(memory)

    def write(self, start: int, data: bytes | memoryview) -> None:
        """As ``Segment.write``."""
        self.view[start : start + len(data)] = data

    def close(self) -> None:
        """Release the view; the bytes stay."""
        self.view.release()


class VirtualDisk:
    """The ``Disk`` port of one process; call ``unplug`` when the process is killed."""

    needs_flush = True

    def __init__(self, drive: VirtualDrive) -> None:
        self._drive = drive
        self._is_plugged = True
        self._is_new = True  # an earlier process may have left bytes unflushed
        self._cut_count = 0

    def unplug(self) -> None:
        """From now on no call here changes the drive."""
        drive, self._drive = self._drive, VirtualDrive(self._drive.bytes_max)
        self._drive.segments |= drive.segments
        self._drive.documents |= {name: bytes(text) for name, text in drive.documents.items()}
        self._is_plugged = False

    def space(self) -> None:
        """As ``Disk.space``: always None, a virtual drive does not report it."""

    def segments(self) -> list[int]:
        """As ``Disk.segments``."""
        return sorted(self._drive.segments)

    def unexpected_files(self) -> list[tuple[str, str]]:
        """As ``Disk.unexpected_files``: a virtual drive has none."""
        return []

    def open_segment(self, base: int, size: int) -> VirtualSegment:
        """As ``Disk.open_segment``."""
        if base not in self._drive.segments:
            self._drive.reserve(size)
            self._drive.make_segment(base, size)
        return VirtualSegment(base, self._drive.segments[base])

    def remove_segment(self, base: int) -> None:
        """As ``Disk.remove_segment``."""
        self._drive.remove_segment(base)

    def read(self, name: str) -> bytes | None:
        """As ``Disk.read``."""
        found = self._drive.documents.get(name)
        return None if found is None else bytes(found)

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.replace``; it takes no virtual time."""
        self._drive.reserve(len(data) - len(self._drive.documents.get(name, b"")))
        self._drive.replace(name, bytes(data), flushed=flushed)

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """As ``Disk.append``; it takes no virtual time."""
        self._drive.reserve(len(data))
        self._drive.append(name, bytes(data), flushed=flushed)

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """As ``Disk.flush``: it takes the time of the drive."""
        cut_count = self._cut_count

        def finish(result: int | OSError) -> None:
            if self._is_plugged:  # else the process was killed meanwhile
                if not isinstance(result, OSError) and cut_count == self._cut_count:
                    self._is_new = False
                on_done(result)

        self._drive.flush(upto, finish, whole=self._is_new)

    def cut(self, position: int) -> None:  # noqa: ARG002
        """As ``Disk.cut``: the next flush writes the whole log."""
        self._cut_count += 1
        self._is_new = True

    def close(self) -> None:
        """As ``Disk.close``: the bytes stay for the next process."""


class VirtualFolder:
    """A process's documents in a folder of its disk; the machine's next process can read them."""

    def __init__(self, disk: VirtualDisk, folder: str) -> None:
        self._disk, self._folder = disk, folder

    def read(self, name: str) -> bytes | None:
        """The text called *name*, or None."""
        return self._disk.read(f"{self._folder}/{name}")

    def replace(self, name: str, data: bytes) -> None:
        """Give the document *name* the text *data*; it takes no virtual time."""
        self._disk.replace(f"{self._folder}/{name}", data)

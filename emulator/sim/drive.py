"""A drive in memory, and the disk that one process sees of it.

The drive outlives the process, and what was flushed outlives the power.  It has two copies of
everything: what processes see (the kernel's page cache) and what is on the *platter*.  A flush
copies from the one to the other and takes the time the drive needs.  Names (new files, renames)
reach the platter in the order they were made, at the latest after some seconds, as in a
journaling file system.  When the power goes, the platter has of the rest what chance decides: a
prefix of the bytes, a prefix of the names.

When a process is killed its disk is unplugged, so that whatever the dying code still does (a
``finally`` that saves its tables) is not saved.
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


BYTES_MAX = 64 * 1024**3  # anonymous memory only costs where it is written
SEEK_MS, BYTES_PER_S = 1.0, 200_000_000  # a plain solid-state drive
NAMES_COMMIT_US = 5_000_000  # ext4's default commit interval

Name: TypeAlias = "int | str"  # a segment's base or a document


class PowerLoss(NamedTuple):
    """What a loss of power left: positions are the log's.

    Below ``flushed_to`` everything was safe, from ``kept_to`` on nothing is left of what
    was written up to ``written_to``.  ``reverted`` names what is as it was before.
    """

    flushed_to: int
    kept_to: int
    written_to: int
    reverted: tuple[str, ...]


class _Change(NamedTuple):
    """A name that was given, taken or given to another text, and when."""

    at_us: int
    name: Name
    content: bytes | int | None  # a document's text, a new segment's size; None: removed
    is_more: bool = False  # the text goes to the end of what the document has


class _Flush(NamedTuple):
    """One call of ``flush``; *whole*: nobody knows what was flushed before."""

    upto: int
    on_done: OnFlushed
    whole: bool


class _Work(msgspec.Struct):
    """What the flushes under way write: of ``left``, from 1 to 0, the end is at ``ends_us``."""

    copies: dict[tuple[int, int], bytes]
    upto: int
    changes: int
    whole: bool
    size: int
    left: float = 1.0
    since_us: int = 0
    ends_us: int = 0


class VirtualDrive:
    """``bytes_max`` bounds segments and documents together.

    A flush takes ``seek_ms`` and what ``bytes_per_s`` makes of its size; ``deliver`` is how
    the machine hears that it is done.  Without a clock nothing is ever flushed.  *rng*
    decides which flushes fail.
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
        self._durable_to = 0  # nothing was ever flushed beyond
        self._changes: list[_Change] = []  # that are not on the platter
        self._committed_count = 0
        self._in_flight: list[_Flush] = []
        self._waiting: list[_Flush] = []
        self._work: _Work | None = None  # of the flushes under way
        self._work_number = 0
        self._faults = DriveFaults()

    # Use ------------------------------------------------------------------------------

    def used_bytes(self) -> int:
        """Of segments and documents, as processes see them."""
        return sum(map(len, self.segments.values())) + sum(map(len, self.documents.values()))

    def reserve(self, size: int) -> None:
        """Room for *size* more bytes; raises ``DiskFull``."""
        if size <= 0:
            return
        used = self.used_bytes()
        bytes_max = self._faults.bytes_max(self.bytes_max, used + size)
        if used + size > bytes_max:
            raise DiskFull(f"{size} bytes do not fit: {used} of {bytes_max} are used")

    def make_segment(self, base: int, size: int) -> None:
        """A new segment of zeros; its name is not on the platter yet."""
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
        """Add to the end of a document; with *flushed* that is on the platter at once."""
        _extend(self.documents, name, data)
        self._changed(name, data, is_more=True)
        if flushed:
            self._commit_changes(self._committed_count + len(self._changes))

    def flush(self, upto: int, on_done: OnFlushed, *, whole: bool) -> None:
        """Bring what lies below *upto* to the platter, the *whole* log or what is new."""
        if self._clock is None:
            return
        self._waiting.append(_Flush(upto, on_done, whole))
        if not self._in_flight:
            self._begin()

    # Faults ---------------------------------------------------------------------------

    @contextmanager
    def under(self, fault: DriveFault) -> Iterator[None]:
        """*fault* holds inside the ``with`` and is gone after it, even on error."""
        self.begin(fault)
        try:
            yield
        finally:
            self.end(fault)

    def begin(self, fault: DriveFault) -> None:
        """*fault* holds from now on, until ``end``."""
        self._faults.begin(fault, self.used_bytes())
        self._change_speed()

    def end(self, fault: DriveFault) -> None:
        """*fault* holds no more."""
        self._faults.end(fault)
        self._change_speed()

    def full(self, free_bytes: int = 0) -> AbstractContextManager[None]:
        """Inside, there is room for *free_bytes* and no more."""
        return self.under(DriveFault(NoRoom(free_bytes)))

    def failing(self, probability: float = 1.0) -> AbstractContextManager[None]:
        """Inside, a flush that ends is an error with *probability*; nothing of it is written."""
        return self.under(DriveFault(FailingFlushes(probability)))

    def slow(self, seek_ms: float, bytes_per_s: float = inf) -> AbstractContextManager[None]:
        """Inside, every flush takes *seek_ms* at least, and writes no faster than that."""
        return self.under(DriveFault(SlowFlushes(seek_ms, bytes_per_s)))

    def lose_power(self, rng: Random) -> PowerLoss:
        """Forget what was not flushed, except for as much as *rng* says was written anyway.

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
            # New memory: the old one may still be seen by the process that died.
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
        """One flush for all who wait.  What is written from now on is not part of it."""
        assert self._clock is not None
        self._in_flight, self._waiting = self._waiting, []
        upto = max(flush.upto for flush in self._in_flight)
        whole = any(flush.whole for flush in self._in_flight)
        since = 0 if whole else min(self.flushed_to, upto)
        # A log that was cut is zero where the platter still has something: that goes too.
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
        """A flush under way does the rest at the speed that holds now."""
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
        """What was changed long enough ago is on the platter without a flush."""
        if self._clock is None:
            return
        before_us = self._clock.now_us - NAMES_COMMIT_US
        old = sum(1 for change in self._changes if change.at_us <= before_us)
        self._commit_changes(self._committed_count + old)

    def _commit_changes(self, upto: int) -> None:
        """The changes up to number *upto* of all there ever were are on the platter."""
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
        """Of the text that was being added when the power went a part may be there."""
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
    """In place: a text that grows by lines is not copied for each of them."""
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
    """The ``Segment`` of a virtual disk; closing it forgets the view, not the bytes."""

    def __init__(self, base: int, memory: mmap.mmap) -> None:
        self.base = base
        self.size = len(memory)
        self.view = memoryview(memory)

    def close(self) -> None:
        """Release the view; the bytes stay."""
        self.view.release()


class VirtualDisk:
    """The ``Disk`` port of one process; ``unplug`` when it dies."""

    needs_flush = True

    def __init__(self, drive: VirtualDrive) -> None:
        self._drive = drive
        self._is_plugged = True
        self._is_new = True  # a dead process may have left anything unflushed

    def unplug(self) -> None:
        """From now on nothing that is done here reaches the drive."""
        drive, self._drive = self._drive, VirtualDrive(self._drive.bytes_max)
        self._drive.segments |= drive.segments
        self._drive.documents |= {name: bytes(text) for name, text in drive.documents.items()}
        self._is_plugged = False

    def space(self) -> None:
        """As ``Disk.space``: a virtual drive has none to show."""

    def segments(self) -> list[int]:
        """As ``Disk.segments``."""
        return sorted(self._drive.segments)

    def unexpected_files(self) -> list[tuple[str, str]]:
        """As ``Disk.unexpected_files``: a virtual drive has only what was written to it."""
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

        def finish(result: int | OSError) -> None:
            if self._is_plugged:  # a process that was killed meanwhile does not hear of it
                self._is_new = self._is_new and isinstance(result, OSError)
                on_done(result)

        self._drive.flush(upto, finish, whole=self._is_new)

    def close(self) -> None:
        """The bytes stay for the next process."""


class VirtualFolder:
    """Documents of a process below a folder of its disk: the machine's next process has them."""

    def __init__(self, disk: VirtualDisk, folder: str) -> None:
        self._disk, self._folder = disk, folder

    def read(self, name: str) -> bytes | None:
        """The text called *name*, or None."""
        return self._disk.read(f"{self._folder}/{name}")

    def replace(self, name: str, data: bytes) -> None:
        """Write it anew; it takes no virtual time."""
        self._disk.replace(f"{self._folder}/{name}", data)

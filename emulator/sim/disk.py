"""A drive in memory, and the disk that one process sees of it.

A *drive* outlives the process, and what was flushed outlives the power.  A *disk*
implements the ``Disk`` port for one process: when that is killed it is unplugged, so
that whatever the dying code still does (a ``finally`` that saves its tables) is not saved.
"""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from typing import TYPE_CHECKING

from emulator.disk.port import DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTES_MAX = 64 * 1024**3  # anonymous memory only costs where it is written


class VirtualDrive:
    """``bytes_max`` bounds segments and documents together.

    A store that never says ``flush`` is taken to have a drive that writes through.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.segments: dict[int, mmap.mmap] = {}
        self.documents: dict[str, bytes] = {}
        self.flushed_to: int | None = None

    def plug(self) -> VirtualDisk:
        return VirtualDisk(self)

    def used_bytes(self) -> int:
        return sum(map(len, self.segments.values())) + sum(map(len, self.documents.values()))

    def reserve(self, size: int) -> None:
        """Room for *size* more bytes; raises ``DiskFull``."""
        used = self.used_bytes()
        if size > 0 and used + size > self.bytes_max:
            raise DiskFull(f"{size} bytes do not fit: {used} of {self.bytes_max} are used")

    @contextmanager
    def full(self) -> Iterator[None]:
        """Inside, there is no room for anything more."""
        bytes_max, self.bytes_max = self.bytes_max, 0
        try:
            yield
        finally:
            self.bytes_max = bytes_max

    def lose_power(self) -> None:
        """Forget what was written and not flushed; it reads as zeros, as a reserved file does."""
        if self.flushed_to is None:
            return
        for base, memory in self.segments.items():
            kept = min(max(self.flushed_to - base, 0), len(memory))
            if kept < len(memory):
                # New memory: the old one may still be seen by the process that died.
                fresh = mmap.mmap(-1, len(memory))
                fresh[:kept] = memory[:kept]
                self.segments[base] = fresh


class VirtualSegment:
    """The ``Segment`` of a virtual disk; closing it forgets the view, not the bytes."""

    def __init__(self, base: int, memory: mmap.mmap) -> None:
        self.base = base
        self.size = len(memory)
        self.view = memoryview(memory)

    def close(self) -> None:
        self.view.release()


class VirtualDisk:
    """What one process sees of a drive."""

    def __init__(self, drive: VirtualDrive) -> None:
        self._drive = drive

    def unplug(self) -> None:
        """From now on nothing that is done here reaches the drive."""
        drive, self._drive = self._drive, VirtualDrive(self._drive.bytes_max)
        self._drive.segments |= drive.segments
        self._drive.documents |= drive.documents

    def segments(self) -> list[int]:
        return sorted(self._drive.segments)

    def open_segment(self, base: int, size: int) -> VirtualSegment:
        segments = self._drive.segments
        if base not in segments:
            self._drive.reserve(size)
            segments[base] = mmap.mmap(-1, size)
        return VirtualSegment(base, segments[base])

    def remove_segment(self, base: int) -> None:
        self._drive.segments.pop(base, None)

    def read(self, name: str) -> bytes | None:
        return self._drive.documents.get(name)

    def replace(self, name: str, data: bytes) -> None:
        documents = self._drive.documents
        self._drive.reserve(len(data) - len(documents.get(name, b"")))
        documents[name] = bytes(data)

    def flush(self, upto: int) -> None:
        """Everything below the absolute log position *upto* survives a power loss."""
        self._drive.flushed_to = max(upto, self._drive.flushed_to or 0)

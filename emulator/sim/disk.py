"""A disk in memory that outlives the process, but not always the power.

Implements the ``Disk`` port.  Segments are anonymous maps: a killed process finds them
as it left them.  When the power goes, what was written after the last flush is gone;
a store that never flushes is taken to have a disk that writes through.
"""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from typing import TYPE_CHECKING

from emulator.disk.port import DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTES_MAX = 64 * 1024**3  # anonymous memory is only used where it is written


class VirtualSegment:
    """The ``Segment`` of a virtual disk; closing it forgets the view, not the bytes."""

    def __init__(self, base: int, memory: mmap.mmap) -> None:
        self.base = base
        self.size = len(memory)
        self.view = memoryview(memory)

    def close(self) -> None:
        self.view.release()


class VirtualDisk:
    """``bytes_max`` bounds segments and documents together."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._memory: dict[int, mmap.mmap] = {}
        self._documents: dict[str, bytes] = {}
        self._flushed_to: int | None = None

    def segments(self) -> list[int]:
        return sorted(self._memory)

    def open_segment(self, base: int, size: int) -> VirtualSegment:
        if base not in self._memory:
            self._reserve(size)
            self._memory[base] = mmap.mmap(-1, size)
        return VirtualSegment(base, self._memory[base])

    def remove_segment(self, base: int) -> None:
        self._memory.pop(base, None)

    def read(self, name: str) -> bytes | None:
        return self._documents.get(name)

    def replace(self, name: str, data: bytes) -> None:
        self._reserve(len(data) - len(self._documents.get(name, b"")))
        self._documents[name] = bytes(data)

    def flush(self, upto: int) -> None:
        """Everything below the absolute log position *upto* survives a power loss."""
        self._flushed_to = max(upto, self._flushed_to or 0)

    def used_bytes(self) -> int:
        return sum(map(len, self._memory.values())) + sum(map(len, self._documents.values()))

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
        if self._flushed_to is None:
            return
        for base, memory in self._memory.items():
            kept = min(max(self._flushed_to - base, 0), len(memory))
            if kept < len(memory):
                # New memory: the old one may still be seen by the process that died.
                fresh = mmap.mmap(-1, len(memory))
                fresh[:kept] = memory[:kept]
                self._memory[base] = fresh

    def _reserve(self, size: int) -> None:
        if size > 0 and self.used_bytes() + size > self.bytes_max:
            raise DiskFull(
                f"{size} bytes do not fit: {self.used_bytes()} of {self.bytes_max} used"
            )

"""A disk that forgets with its process: anonymous maps and a dictionary.

Segments are mapped, not allocated, so an empty one costs nothing and a removed one
gives its memory back at once.  A broker that is started again on the same value
finds what the last one left, as on a real disk.
"""

from __future__ import annotations

import contextlib
import mmap

from rocketmq_emulator.disk.port import DiskFull, OnFlushed


class MemorySegment:
    """``size`` bytes of anonymous memory, zero until written."""

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self.size = size
        # Private pages are half as dear to touch for the first time as shared ones.
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._map)

    def close(self) -> None:
        """The bytes stay for whoever opens the segment next."""

    def free(self) -> None:
        """Give the memory back, once nobody holds a slice of it any more."""
        # A slice on its way to a consumer still needs the bytes: then they go with the last slice.
        with contextlib.suppress(BufferError):
            self.view.release()
            self._map.close()


class MemoryDisk:
    """Room for *bytes_max* of segments and documents, or for as much as there is."""

    needs_flush = False

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self._segments: dict[int, MemorySegment] = {}
        self._documents: dict[str, bytes | bytearray] = {}

    @property
    def bytes_used(self) -> int:
        """Of segments and documents together."""
        segments = sum(segment.size for segment in self._segments.values())
        return segments + sum(len(data) for data in self._documents.values())

    def space(self) -> None:
        """As ``Disk.space``: memory has none to show."""

    def segments(self) -> list[int]:
        """As ``Disk.segments``."""
        return sorted(self._segments)

    def unexpected_files(self) -> list[tuple[str, str]]:
        """As ``Disk.unexpected_files``: memory has no files."""
        return []

    def open_segment(self, base: int, size: int) -> MemorySegment:
        """As ``Disk.open_segment``."""
        if (found := self._segments.get(base)) is not None:
            return found
        self._take_room(size)
        segment = self._segments[base] = MemorySegment(base, size)
        return segment

    def remove_segment(self, base: int) -> None:
        """As ``Disk.remove_segment``."""
        self._segments.pop(base).free()

    def read(self, name: str) -> bytes | None:
        """As ``Disk.read``."""
        found = self._documents.get(name)
        return None if found is None else bytes(found)

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:  # noqa: ARG002
        """As ``Disk.replace``."""
        self._take_room(len(data) - len(self._documents.get(name, b"")))
        self._documents[name] = data

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:  # noqa: ARG002
        """As ``Disk.append``."""
        self._take_room(len(data))
        before = self._documents.get(name, b"")
        if not isinstance(before, bytearray):
            before = self._documents[name] = bytearray(before)
        before += data

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """Done at once: memory is as durable as it gets."""
        on_done(upto)

    def close(self) -> None:
        """The bytes stay for whoever uses this value next."""

    def _take_room(self, size: int) -> None:
        if self.bytes_max is not None and self.bytes_used + size > self.bytes_max:
            raise DiskFull(f"{size} bytes do not fit beside {self.bytes_used} of {self.bytes_max}")

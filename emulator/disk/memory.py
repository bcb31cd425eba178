"""A disk in the memory of its process: anonymous maps and a dictionary.

Segments are mapped, not allocated, so an empty one costs nothing and the memory of a removed
one is freed at once.  A broker that is started again with the same ``MemoryDisk`` finds the
bytes of the last one, as on a real disk.
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
        # The first write to a private page takes half the time of one to a shared page.
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._map)

    def write(self, start: int, data: bytes | memoryview) -> None:
        """As ``Segment.write``."""
        self.view[start : start + len(data)] = data

    def close(self) -> None:
        """As ``Segment.close``: the bytes stay until the segment is removed."""

    def free(self) -> None:
        """Free the memory when its last slice is released."""
        # A slice that is being sent still needs the bytes.
        with contextlib.suppress(BufferError):
            self.view.release()
            self._map.close()


class MemoryDisk:
    """At most *bytes_max* bytes of segments and documents; None: no limit."""

    needs_flush = False

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self._segments: dict[int, MemorySegment] = {}
        self._documents: dict[str, bytes | bytearray] = {}

    @property
    def bytes_used(self) -> int:
        """The size of segments and documents together."""
        segments = sum(segment.size for segment in self._segments.values())
        return segments + sum(len(data) for data in self._documents.values())

    def space(self) -> None:
        """As ``Disk.space``: always None for memory."""

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
        """As ``Disk.flush``, at once: there is nothing to sync."""
        on_done(upto)

    def cut(self, position: int) -> None:
        """As ``Disk.cut``: there is nothing to sync."""

    def close(self) -> None:
        """As ``Disk.close``: the bytes stay for the next broker with this disk."""

    def _take_room(self, size: int) -> None:
        if self.bytes_max is not None and self.bytes_used + size > self.bytes_max:
            raise DiskFull(f"{size} bytes do not fit beside {self.bytes_used} of {self.bytes_max}")

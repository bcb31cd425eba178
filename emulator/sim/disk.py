"""The disk that one process sees of a virtual drive.

When the process is killed its disk is unplugged, so that whatever the dying code still does
(a ``finally`` that saves its tables) is not saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.sim.drive import VirtualDrive

if TYPE_CHECKING:
    import mmap

    from emulator.disk.port import OnFlushed


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

    def oddities(self) -> list[tuple[str, str]]:
        """As ``Disk.oddities``: a virtual drive has only what was written to it."""
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

        def tell(result: int | OSError) -> None:
            if self._is_plugged:  # a process that was killed meanwhile does not hear of it
                self._is_new = self._is_new and isinstance(result, OSError)
                on_done(result)

        self._drive.flush(upto, tell, whole=self._is_new)

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

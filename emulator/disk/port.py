"""What a store asks of a disk.

A disk holds two kinds of things: *segments*, fixed-size writable memory that the
commit log fills from the front, and small named *documents* (topics, offsets …)
that are replaced whole.  The real disk maps files, so what was written survives
the death of the process; the memory disk forgets with it; a virtual disk can be
slow, full, or forget what was not flushed.
"""

from __future__ import annotations

from typing import Protocol


class DiskFull(Exception):
    """No room for the next segment or document; nothing was written."""


NOT_WRITTEN = (DiskFull, OSError)  # whatever a disk says that has not taken something


class StoreDamaged(Exception):
    """What is there cannot be continued, and guessing would lose messages; nothing was touched."""


class Segment(Protocol):
    """``size`` bytes of the log, starting at absolute position ``base``."""

    base: int
    size: int
    view: memoryview  # writable, exactly ``size`` bytes, zero where nothing was written

    def close(self) -> None: ...


class Disk(Protocol):
    """Every method is synchronous and quick; ``DiskFull`` and ``OSError`` are the world's."""

    def segments(self) -> list[int]:
        """Bases of the segments that exist, ascending."""
        ...

    def open_segment(self, base: int, size: int) -> Segment:
        """The segment at *base*, new (zeroed, its space reserved, or ``DiskFull``) or old."""
        ...

    def remove_segment(self, base: int) -> None: ...

    def read(self, name: str) -> bytes | None:
        """The document *name*, or None."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write the document *name* whole: a reader sees the old text or the new one."""
        ...

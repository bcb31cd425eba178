"""What a store asks of a disk, and what a disk's refusal means.

A disk holds two kinds of things: *segments*, fixed-size writable memory that the commit log fills
from the front, and named *documents* (topics, offsets …) that are replaced whole, or grow at their
end.  The real disk maps files, so what was written survives the death of the process; the memory
disk forgets with it; a virtual disk can be slow, full, or forget what was not flushed.

What was written survives the loss of *power* only when it was flushed, and a flush takes time.  So
``flush`` is a completion: it returns at once and calls ``on_done`` later.

A segment is reserved whole and mostly zeros: how far it was written is found by comparing blocks
with zeros, at a thousandth of the cost of looking at each byte.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from rocketmq_emulator.facts import Fact, OpenFilesRanOut, StoreRefused
from rocketmq_emulator.protocol.error_families import CannotDoHere, DamagedData

OnFlushed: TypeAlias = Callable[["int | OSError"], object]


class DiskFull(CannotDoHere):
    """No room for the next segment or document; nothing was written."""


WRITE_ERRORS = (DiskFull, OSError)  # whatever a disk says that has not taken something


class StoreDamaged(DamagedData):
    """What is there cannot be continued, and guessing would lose messages; nothing was touched."""


class Space(NamedTuple):
    """Of a whole file system, not of what is kept on it here."""

    total_bytes: int
    free_bytes: int


class Segment(Protocol):
    """``size`` bytes of the log, starting at absolute position ``base``."""

    base: int
    size: int
    view: memoryview  # writable, exactly ``size`` bytes, zero where nothing was written

    def close(self) -> None:
        """Let go of the memory; the bytes stay on the disk."""
        ...


class Disk(Protocol):
    """Every method is synchronous; ``DiskFull`` and ``OSError`` are the world's.

    ``needs_flush`` is false where nothing outlives the process, so nothing need be flushed.
    """

    needs_flush: bool

    def segments(self) -> list[int]:
        """Bases of the segments that exist, ascending."""
        ...

    def unexpected_files(self) -> list[tuple[str, str]]:
        """Files that are not what they should be: a name, and what is wrong with it."""
        ...

    def open_segment(self, base: int, size: int) -> Segment:
        """The segment at *base*, new (zeroed, its space reserved, or ``DiskFull``) or old."""
        ...

    def remove_segment(self, base: int) -> None:
        """Remove the segment at *base* with its bytes."""
        ...

    def read(self, name: str) -> bytes | None:
        """The document *name*, or None."""
        ...

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """Write the document *name* whole: a reader sees the old text or the new one.

        With *flushed* the new text survives a loss of power when this returns: it takes as
        long as the disk needs.
        """
        ...

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """Add *data* to the end of the document *name*, which is made if there is none.

        It is there whole when this returns, and not at all if this raises; a process or a
        machine that dies meanwhile may leave a part of it.  *flushed* as for ``replace``.
        """
        ...

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """Make the log below the absolute position *upto* survive a loss of power.

        ``on_done`` gets the position below which everything is safe now, at least *upto*,
        or the ``OSError`` that prevented it.  It is called in the thread of the caller,
        perhaps before this returns.  One flush serves all who wait when it begins; calls
        complete in their order.  After an error a later flush tries again.
        """
        ...

    def space(self) -> Space | None:
        """How large it is, and how much of it is free; None where nothing says so."""
        ...

    def close(self) -> None:
        """Finish what was asked for; later calls are errors."""
        ...


# Bytes that were never written --------------------------------------------------------


BLOCK_BYTES = 64 * 1024  # small enough to stay near the processor
_ZEROS = bytes(BLOCK_BYTES)

Buffer: TypeAlias = bytes | bytearray | memoryview


def is_blank(part: Buffer) -> bool:
    """Whether *part*, of at most ``BLOCK_BYTES``, has only zeros."""
    return bytes(part) == _ZEROS[: len(part)]


def written_length(view: memoryview) -> int:
    """Up to where *view* holds anything but zeros."""
    for at in range((len(view) - 1) // BLOCK_BYTES * BLOCK_BYTES, -1, -BLOCK_BYTES):
        part = view[at : at + BLOCK_BYTES]
        if not is_blank(part):
            return at + len(bytes(part).rstrip(b"\0"))
    return 0


def erase(view: memoryview, start: int) -> None:
    """Zero the rest, touching only the pages that hold something."""
    for at in range(start, len(view), BLOCK_BYTES):
        part = view[at : at + BLOCK_BYTES]
        if not is_blank(part):
            part[:] = _ZEROS[: len(part)]


# What a refusal means -----------------------------------------------------------------


_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def is_out_of_files(error: BaseException) -> bool:
    """Whether the process, or the machine, has as many files open as it may have."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_FILES


def refusal(error: Exception, what: str = "") -> Fact:
    """The fact that *what* was not written, because of *error*."""
    if is_out_of_files(error):
        return OpenFilesRanOut(what or str(getattr(error, "filename", None) or "the log"))
    return StoreRefused(f"{what}: {error}" if what else str(error))


def reason(error: Exception) -> str:
    """In a remark, for clients: "the broker's …"."""
    if isinstance(error, DiskFull):
        return "the broker's disk is full"
    if is_out_of_files(error):
        return "the broker has too many open files (ulimit -n)"
    return f"the broker's disk cannot be written: {error}"

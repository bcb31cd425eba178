"""The interface between a store and its disk, and the meaning of a disk's errors.

A disk has two kinds of data: *segments*, fixed-size writable memory that the commit log fills from
the front, and named *documents* (topics, offsets …) that are replaced as a whole, or appended to.
``FileDisk`` maps files, so written bytes stay when the process ends; the bytes of ``MemoryDisk``
end with the process; a virtual disk can be slow, full, or lose unflushed bytes.

Written bytes survive a loss of *power* only if they were flushed, and a flush takes time.  So
``flush`` returns at once and calls ``on_done`` later.

A segment is reserved with its full size and mostly zeros: its written length is found by comparing
blocks with zeros, at a thousandth of the cost of a loop over the bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from rocketmq_emulator.facts import Fact, OpenFilesRanOut, StoreRefused
from rocketmq_emulator.protocol.error_families import CannotDoHere, DamagedData

OnFlushed: TypeAlias = Callable[["int | OSError"], object]


class DiskFull(CannotDoHere):
    """No space for the next segment or document; nothing was written."""


WRITE_ERRORS = (DiskFull, OSError)  # raised by a disk that has not written something


class StoreDamaged(DamagedData):
    """The stored files cannot be continued without losing messages; nothing was changed."""


EPOCH_FILE = "epochFileCheckpoint"  # MessageStoreConfig.storePathEpochFile
# Documents that upstream keeps beside the folders ``commitlog`` and ``config``, not in the latter.
ROOT_DOCUMENTS = frozenset(
    {EPOCH_FILE, f"{EPOCH_FILE}.bak", "brokerIdentity", "brokerIdentity-temp"}
)


class Space(NamedTuple):
    """The space of a whole file system, not only of this store."""

    total_bytes: int
    free_bytes: int


class Segment(Protocol):
    """``size`` bytes of the log, starting at absolute position ``base``."""

    base: int
    size: int
    view: memoryview  # writable, exactly ``size`` bytes, zero where nothing was written

    def write(self, start: int, data: bytes | memoryview) -> None:
        """Put *data* at *start* of ``view``; of many bytes quicker than through it.

        Raises ``OSError``; then some of them may be there.
        """
        ...

    def close(self) -> None:
        """Release the memory; the bytes stay on the disk."""
        ...


class Disk(Protocol):
    """All methods are synchronous.  They raise ``DiskFull`` and ``OSError``.

    ``needs_flush`` is false if the bytes end with the process, so that a flush has no use.
    """

    needs_flush: bool

    def segments(self) -> list[int]:
        """Bases of the segments that exist, ascending."""
        ...

    def unexpected_files(self) -> list[tuple[str, str]]:
        """Files that do not belong to the store or are damaged: (name, problem) of each."""
        ...

    def open_segment(self, base: int, size: int) -> Segment:
        """The segment at *base*: the existing one, or a new one of zeros with reserved space.

        Raises ``DiskFull``.
        """
        ...

    def remove_segment(self, base: int) -> None:
        """Remove the segment at *base* with its bytes."""
        ...

    def read(self, name: str) -> bytes | None:
        """The document *name*, or None."""
        ...

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """Replace the document *name*: a reader gets the old text or the new one, no mixture.

        With *flushed* this returns when the new text is durable; it blocks that long.
        """
        ...

    def append(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        """Append *data* to the document *name*, which is created if there is none.

        All of it is written when this returns, and none of it if this raises; a kill or a loss
        of power meanwhile may leave a part of it.  *flushed* as for ``replace``.
        """
        ...

    def flush(self, upto: int, on_done: OnFlushed) -> None:
        """Make the log below the absolute position *upto* survive a loss of power.

        ``on_done`` gets the position below which the log is durable now, at least *upto*,
        or the ``OSError`` of the failure.  It is called in the thread of the caller, perhaps
        before this returns.  One flush serves all calls that wait when it begins; calls
        complete in their order.  After an error a later flush tries again.
        """
        ...

    def cut(self, position: int) -> None:
        """The log ends at the absolute *position* now: bytes from there on are not flushed.

        To be called after its bytes were erased; a flush that was requested before it says
        nothing of later bytes.
        """
        ...

    def space(self) -> Space | None:
        """The size and the free space of the file system; None if they are not known."""
        ...

    def close(self) -> None:
        """Finish the requested flushes; later calls are errors."""
        ...


# Bytes that were never written --------------------------------------------------------


BLOCK_BYTES = 64 * 1024  # fits into the processor's cache
_ZEROS = bytes(BLOCK_BYTES)

Buffer: TypeAlias = bytes | bytearray | memoryview


def is_blank(part: Buffer) -> bool:
    """True if *part*, of at most ``BLOCK_BYTES``, has only zeros."""
    return bytes(part) == _ZEROS[: len(part)]


def written_length(view: memoryview) -> int:
    """The position after the last byte of *view* that is not zero."""
    for at in range((len(view) - 1) // BLOCK_BYTES * BLOCK_BYTES, -1, -BLOCK_BYTES):
        part = view[at : at + BLOCK_BYTES]
        if not is_blank(part):
            return at + len(bytes(part).rstrip(b"\0"))
    return 0


def erase(view: memoryview, start: int) -> None:
    """Zero *view* from *start* on; pages of zeros are not written."""
    for at in range(start, len(view), BLOCK_BYTES):
        part = view[at : at + BLOCK_BYTES]
        if not is_blank(part):
            part[:] = _ZEROS[: len(part)]


# Errors as facts and texts ------------------------------------------------------------


_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def is_out_of_files(error: BaseException) -> bool:
    """True if the process or the machine has reached its limit of open files."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_FILES


def refusal(error: Exception, what: str = "") -> Fact:
    """The fact for *error*: *what* was not written."""
    if is_out_of_files(error):
        return OpenFilesRanOut(what or str(getattr(error, "filename", None) or "the log"))
    return StoreRefused(f"{what}: {error}" if what else str(error))


def reason(error: Exception) -> str:
    """The text for *error* in a remark to clients: "the broker's …"."""
    if isinstance(error, DiskFull):
        return "the broker's disk is full"
    if is_out_of_files(error):
        return "the broker has too many open files (ulimit -n)"
    return f"the broker's disk cannot be written: {error}"

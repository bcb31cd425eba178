"""Which bytes of a file were never written: zeros, looked at in blocks.

A file of a store is reserved whole, and mostly empty when its broker starts again.  To compare a
block with zeros costs a thousandth of looking at each of its bytes.
"""

from __future__ import annotations

from typing import TypeAlias

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

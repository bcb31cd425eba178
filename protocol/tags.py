"""A tag as the number a consume queue keeps: Java's hash code of its text.

Brokers filter by it, so it must be Java's hash code exactly:
``h = 31 * h + unit`` over UTF-16 code units, wrapping as an int32.
"""

from __future__ import annotations

import functools
import struct

_TAGS_KEPT_MAX = 4096


def tag_code(tag: str | None) -> int:
    """The tags code of a TAGS property, 0 when a message has none.

    Upstream: MessageExtBrokerInner.tagsString2tagsCode.
    """
    return _cached_hash(tag) if tag else 0


def java_hash(text: str) -> int:
    """``text.hashCode()`` as Java computes it, a signed 32-bit number."""
    code = 0
    for unit in _utf16_units(text):
        code = 31 * code + unit & 0xFFFFFFFF
    return to_int32(code)


_cached_hash = functools.lru_cache(_TAGS_KEPT_MAX)(java_hash)


def to_int32(number: int) -> int:
    """The low 32 bits as Java's ``int`` shows them."""
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _utf16_units(text: str) -> bytes | tuple[int, ...]:
    if text.isascii():
        return text.encode()  # one byte is one unit
    units = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(units) // 2}H", units)

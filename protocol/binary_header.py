"""The ROCKETMQ header serialization: the same header as JSON, in 21 fixed bytes and pairs.

It cannot carry an empty string (length zero means null) and its code is an int16, so
the 200050 family does not fit.  A key may come twice: the last one wins.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from protocol.framing import BadFrame
from protocol.languages import LANGUAGE_CODES, NewLanguage, language_name

if TYPE_CHECKING:
    from protocol.versions import Release

_FIXED = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class BinaryHeader(msgspec.Struct, frozen=True):
    """The decoded header, not yet interpreted."""

    code: int = 0
    language: NewLanguage | None = "JAVA"
    version: int = 0
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] | None = None
    size: int = 0  # bytes that were read


def decode_binary_header(data: bytes, limit: int, release: Release) -> BinaryHeader:
    """The header at the start of *data*; no length in it may exceed *limit*, the declared size.

    It may end before or behind the declared size, as upstream never compares the two.
    Raises ``BadFrame``.  Upstream: RocketMQSerializable.rocketMQProtocolDecode.
    """
    try:
        code, language, version, opaque, flag, length = _FIXED.unpack_from(data)
        remark = _text(data, _FIXED.size, length, limit)
        at = _FIXED.size + length
        (ext_length,) = _INT32.unpack_from(data, at)
        at += 4
        if ext_length > limit:
            raise BadFrame(f"ext fields of {ext_length} bytes in a header of {limit}")
        ext, at = _pairs(data, at, ext_length) if ext_length > 0 else (None, at)
    except struct.error:
        raise BadFrame("a ROCKETMQ header ends in the middle of a number") from None
    return BinaryHeader(
        code, language_name(language, release), version, opaque, flag, remark, ext, at
    )


def decode_start(data: bytes) -> BinaryHeader:
    """The numbers it begins with, and nothing of what follows.  Raises ``BadFrame``."""
    try:
        code, _, version, opaque, flag, _ = _FIXED.unpack_from(data)
    except struct.error:
        raise BadFrame("a ROCKETMQ header ends in the middle of a number") from None
    return BinaryHeader(code, None, version, opaque, flag)


def _pairs(data: bytes, at: int, length: int) -> tuple[dict[str, str], int]:
    """The pairs up to *length* bytes, and where they end; nulls are left out."""
    end = at + length
    pairs: dict[str, str] = {}
    while at < end:
        (size,) = _INT16.unpack_from(data, at)
        key = _text(data, at + 2, size, length)
        at += 2 + size
        (size,) = _INT32.unpack_from(data, at)
        value = _text(data, at + 4, size, length)
        at += 4 + size
        if key is not None and value is not None:
            pairs[key] = value
        elif key is not None:
            pairs.pop(key, None)
    return pairs, at


def _text(data: bytes, at: int, length: int, limit: int) -> str | None:
    if not 0 <= length <= limit or at + length > len(data):
        raise BadFrame(f"a text of {length} bytes does not fit its ROCKETMQ header")
    return data[at : at + length].decode("utf-8", "replace") if length else None


def encode_binary_header(header: BinaryHeader) -> bytes:
    """The header's bytes; code and version are cut to 16 bits as upstream cuts them.

    Upstream: RocketMQSerializable.rocketMQProtocolEncode.
    """
    remark = (header.remark or "").encode("utf-8", "replace")
    fixed = _FIXED.pack(
        _int16(header.code),
        LANGUAGE_CODES.get(header.language or "JAVA", 0),
        _int16(header.version),
        header.opaque,
        header.flag,
        len(remark),
    )
    pairs = bytearray()
    for key, value in (header.ext or {}).items():
        key_bytes, value_bytes = key.encode(), value.encode("utf-8", "replace")
        pairs += _INT16.pack(_int16(len(key_bytes))) + key_bytes
        pairs += _INT32.pack(len(value_bytes)) + value_bytes
    return b"".join((fixed, remark, _INT32.pack(len(pairs)), pairs))


def _int16(value: int) -> int:
    return (value + 0x8000) % 0x10000 - 0x8000

"""The ROCKETMQ header serialization: the same header as JSON, in 21 fixed bytes and pairs.

It cannot carry an empty string (length zero means null) and its code is an int16, so
the 200050 family does not fit.  A key may come twice: the last one wins.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from protocol.framing import BadFrame
from protocol.languages import LANGUAGE_CODES, language_name

_FIXED = struct.Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class BinaryHeader(msgspec.Struct, frozen=True):
    """What the bytes said, before anybody asks what it means."""

    code: int
    language: str | None
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str | None] | None


def decode_binary_header(data: bytes) -> BinaryHeader:
    """Raises ``BadFrame`` when a declared length leaves the header."""
    if len(data) < _FIXED.size + 4:
        raise BadFrame(f"a ROCKETMQ header of {len(data)} bytes is too short")
    code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(data)
    at = _FIXED.size
    if not 0 <= remark_length <= len(data) - at:
        raise BadFrame(f"a remark of {remark_length} bytes does not fit a header of {len(data)}")
    remark = data[at : at + remark_length].decode("utf-8", "replace") if remark_length else None
    at += remark_length
    ext_length = _int(data, at, _INT32)
    at += 4
    if not 0 <= ext_length <= len(data) - at:
        raise BadFrame(f"ext fields of {ext_length} bytes do not fit a header of {len(data)}")
    ext = _pairs(data[at : at + ext_length]) if ext_length else None
    return BinaryHeader(code, language_name(language), version, opaque, flag, remark, ext)


def encode_binary_header(
    code: int,
    language: str | int | None,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: Mapping[str, str] | None,
) -> bytes:
    remark_bytes = (remark or "").encode()
    parts = [
        _FIXED.pack(
            (code + 0x8000) % 0x10000 - 0x8000,  # Java casts to short
            LANGUAGE_CODES.get(language, 0) if isinstance(language, str) else language or 0,
            version,
            opaque,
            flag,
            len(remark_bytes),
        ),
        remark_bytes,
    ]
    pairs = bytearray()
    for key, value in (ext or {}).items():
        key_bytes, value_bytes = key.encode(), value.encode()
        pairs += _INT16.pack(len(key_bytes)) + key_bytes
        pairs += _INT32.pack(len(value_bytes)) + value_bytes
    parts += (_INT32.pack(len(pairs)), pairs)
    return b"".join(parts)


def _pairs(data: bytes) -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    at = 0
    while at < len(data):
        key_length = _int(data, at, _INT16)
        key = _text(data, at + 2, key_length)
        at += 2 + key_length
        value_length = _int(data, at, _INT32)
        value = _text(data, at + 4, value_length)
        at += 4 + value_length
        if key is not None:
            out[key] = value
    return out


def _int(data: bytes, at: int, kind: struct.Struct) -> int:
    if at + kind.size > len(data):
        raise BadFrame("a ROCKETMQ header ends in the middle of a length")
    value: int = kind.unpack_from(data, at)[0]
    return value


def _text(data: bytes, at: int, length: int) -> str | None:
    if length < 0 or at + length > len(data):
        raise BadFrame(f"a field of {length} bytes does not fit its ROCKETMQ header")
    return data[at : at + length].decode("utf-8", "replace") if length else None

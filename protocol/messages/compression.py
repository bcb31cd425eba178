"""Compressed message bodies: zlib, LZ4 or Zstandard, by the message's system flag.

Brokers never decompress; only clients do.  A small body may inflate to a huge one, so
inflating stops at a limit.  lz4 and zstandard, which are not in Python's standard library, are
imported when first used: servers never load them.

Upstream: CompressionType, ZlibCompressor, Lz4Compressor, ZstdCompressor.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.protocol.flags import (
    COMPRESSED,
    LZ4,
    ZLIB,
    ZSTD,
    compression_type,
    is_compressed,
)

LEVEL = 5
BODY_BYTES_MAX = 64 * 1024 * 1024
_ZSTD_STEP = 256  # bytes; may inflate to 8 MiB, as a block of 4 bytes may hold 128 KiB


class BadCompression(DamagedData):
    """A body that cannot be inflated, or that exceeds its limit: the sender is at fault."""


def compress(body: bytes, kind: int = ZLIB, level: int = LEVEL) -> bytes:
    """The smaller body; *kind* is a compression type of the system flag."""
    return _COMPRESSORS[kind](body, level)


def compressed_flag(sys_flag: int, kind: int | None = ZLIB) -> int:
    """*sys_flag* of a compressed message; *kind* None sets no type, as before 4.9.4."""
    return sys_flag | COMPRESSED | (kind or 0)


def decompress(body: bytes, sys_flag: int, size_max: int = BODY_BYTES_MAX) -> bytes:
    """The body as it was before compression; unchanged without the compressed flag.

    Raises ``BadCompression``.
    """
    if not is_compressed(sys_flag):
        return body
    kind = compression_type(sys_flag)
    if (inflate := _DECOMPRESSORS.get(kind)) is None:
        raise BadCompression(f"compression type {kind:#x} is none of zlib, lz4, zstd")
    plain = inflate(body, size_max + 1)
    if len(plain) > size_max:
        raise BadCompression(f"a body of {len(body)} bytes inflates to more than {size_max}")
    return plain


def _compress_lz4(body: bytes, level: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 - lazy: see above

    packed: bytes = lz4.frame.compress(body, compression_level=level)
    return packed


def _compress_zstd(body: bytes, level: int) -> bytes:
    import zstandard  # noqa: PLC0415 - lazy: see above

    return zstandard.ZstdCompressor(level=level).compress(body)


def _inflate_zlib(body: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(body, size)
    except zlib.error as error:
        raise BadCompression(f"no zlib stream: {error}") from None
    if not inflater.eof and len(plain) < size:
        raise BadCompression("the zlib stream is cut short")
    return plain


def _inflate_lz4(body: bytes, size: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 - lazy: see above

    inflater = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = inflater.decompress(body, max_length=size)
    except (RuntimeError, EOFError, ValueError) as error:
        raise BadCompression(f"no lz4 frame: {error}") from None
    if not inflater.eof and len(plain) < size:
        raise BadCompression("the lz4 frame is cut short")
    return plain


def _inflate_zstd(body: bytes, size: int) -> bytes:
    import zstandard  # noqa: PLC0415 - lazy: see above

    inflater = zstandard.ZstdDecompressor().decompressobj()
    plain = bytearray()
    try:
        # The library has no limit for its output, so it gets small pieces of the input.
        for at in range(0, len(body), _ZSTD_STEP):
            plain += inflater.decompress(body[at : at + _ZSTD_STEP])
            if inflater.eof or len(plain) >= size:
                return bytes(plain[:size])
    except zstandard.ZstdError as error:
        raise BadCompression(f"no zstd frame: {error}") from None
    raise BadCompression("the zstd frame is cut short")


_COMPRESSORS: dict[int, Callable[[bytes, int], bytes]] = {
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
    ZLIB: zlib.compress,
}
_DECOMPRESSORS: dict[int, Callable[[bytes, int], bytes]] = {
    LZ4: _inflate_lz4,
    ZSTD: _inflate_zstd,
    ZLIB: _inflate_zlib,
}

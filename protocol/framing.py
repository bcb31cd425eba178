"""A stream is a sequence of frames: length, header word, header, body.

    length  int32   4 + header + body (does not count itself)
    word    int32   serialization type in the high byte, header length in the rest

The length is accepted only up to a limit, and only if the header fits inside it: a
stream that breaks these rules cannot be resynchronised, so its connection must close.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.protocol.error_families import DamagedData

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_BYTES_MAX = 16 * 1024 * 1024  # com.rocketmq.remoting.frameMaxLength, length field included
HEADER_BYTES_MAX = (1 << 24) - 1

JSON = 0
ROCKETMQ = 1

_WORDS = struct.Struct(">iI")


class BadFrame(DamagedData):
    """These bytes are not a frame: the peer is at fault, and its connection must close."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame: header and body as bytes, not yet decoded."""

    serialize_type: int
    header: bytes
    body: bytes


def encode_frame(serialize_type: int, header: bytes, body: bytes) -> bytes:
    """The bytes of a frame.  Raises ``ValueError`` when header or frame exceed the limits."""
    length = 4 + len(header) + len(body)
    if len(header) > HEADER_BYTES_MAX or length + 4 > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length + 4} bytes exceeds {FRAME_BYTES_MAX}")
    return b"".join((_WORDS.pack(length, serialize_type << 24 | len(header)), header, body))


class FrameDecoder:
    """Cuts a stream of bytes, fed in any pieces, into frames.

    Raises ``BadFrame`` as soon as the bytes so far prove that the stream is broken; it must not
    be used after that.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer: bytes | bytearray = b""
        self._start = 0

    def feed(self, data: bytes) -> None:
        """Add bytes read from the stream."""
        buffer, start = self._buffer, self._start
        if start == len(buffer):
            self._buffer, self._start = data, 0  # mostly whole frames: nothing is copied
            return
        if isinstance(buffer, bytes):
            self._buffer, self._start = bytearray(buffer[start:]), 0
        elif start > 1 << 16:
            del buffer[:start]
            self._start = 0
        self._buffer += data

    def waiting_bytes(self) -> int:
        """The number of bytes fed that are in no returned frame."""
        return len(self._buffer) - self._start

    def next_frame(self) -> Frame | None:
        """The next whole frame; None if more bytes are needed.  Raises ``BadFrame``."""
        buffer, start = self._buffer, self._start
        have = len(buffer) - start
        if have < 8:
            if have >= 4:
                self._check(int.from_bytes(buffer[start : start + 4], "big", signed=True), 0)
            return None
        length, word = _WORDS.unpack_from(buffer, start)
        header_end = start + 8 + (word & 0xFFFFFF)
        end = start + 4 + length
        if not header_end <= end < start + self._frame_bytes_max:
            self._check(length, word & 0xFFFFFF)
        if end > len(buffer):
            return None
        self._start = end
        return Frame(
            word >> 24, bytes(buffer[start + 8 : header_end]), bytes(buffer[header_end:end])
        )

    def __iter__(self) -> Iterator[Frame]:
        while (frame := self.next_frame()) is not None:
            yield frame

    def _check(self, length: int, header_length: int) -> None:
        if length + 4 > self._frame_bytes_max:
            raise BadFrame(f"a frame of {length + 4} bytes exceeds {self._frame_bytes_max}")
        if length < 4:
            raise BadFrame(f"a frame length of {length} cannot hold a header word")
        if header_length > length - 4:
            raise BadFrame(f"a header of {header_length} bytes does not fit a frame of {length}")

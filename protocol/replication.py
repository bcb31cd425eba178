"""The bytes between a master and its slaves, on the HA port: outside of the remoting protocol.

    slave to master, a report:   int64 end of the slave's log
    master to slave, a frame:    int64 position of the first byte, int32 size, so many bytes

There is no handshake, and nothing says what a byte means but its place.  The bytes of a frame are
those of the master's log files, cut anywhere inside a file but never across its end; a frame
without bytes is a heartbeat.  Whatever a peer sends, the readers keep less than one frame.

Upstream: HAConnection and HAService.HAClient (4.x); DefaultHAConnection, DefaultHAClient (5.x).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from rocketmq_emulator.protocol.error_families import DamagedData

FRAME_BYTES_MAX = 4 * 1024 * 1024  # HAClient.READ_MAX_BUFFER_SIZE: a larger one never ends there
LOG_END_MAX = 2**63 - 1  # Long.MAX_VALUE: a report cannot say more
_REPORT = Struct(">q")
_HEAD = Struct(">qi")
FRAME_HEADER_BYTES = _HEAD.size
REPORT_BYTES, HEAD_BYTES = _REPORT.size, _HEAD.size


class BadStream(DamagedData):
    """These bytes are no frame: the peer is at fault, and its connection must close."""


class LogFrame(NamedTuple):
    """Bytes of the master's log from *position* on; none: a heartbeat."""

    position: int
    data: bytes | memoryview


def encode_report(end: int) -> bytes:
    """The report of a slave whose log ends at *end*."""
    return _REPORT.pack(end)


def encode_frame(position: int, data: bytes | memoryview) -> bytes:
    """A frame of *data*, which begins at *position*."""
    return b"".join((_HEAD.pack(position, len(data)), data))


class ReportReader:
    """Reads what a slave sends.  Of the reports that come in one piece the last one counts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """The newest report that *data* completes; None if it completes none.

        Upstream: HAConnection.ReadSocketService.processReadEvent.
        """
        data = self._rest + data
        whole = len(data) - len(data) % REPORT_BYTES
        self._rest = data[whole:]
        return int(_REPORT.unpack_from(data, whole - REPORT_BYTES)[0]) if whole else None


class StreamReader:
    """Bytes that were read from a stream, and no whole message yet."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0  # the bytes before it were taken

    def feed(self, data: bytes) -> None:
        """Add bytes read from the stream."""
        if self._at:  # a slice of these bytes may be in use: they must not change
            self._data = self._data[self._at :]
            self._at = 0
        self._data += data

    def _has(self, size: int) -> bool:
        return len(self._data) - self._at >= size

    def _take(self, head: Struct) -> tuple[int, ...]:
        fields = head.unpack_from(self._data, self._at)
        self._at += head.size
        return fields

    def _take_bytes(self, size: int) -> memoryview:
        """The next *size* bytes as a slice, without a copy: they are copied into the log."""
        taken = memoryview(self._data)[self._at : self._at + size]
        self._at += size
        return taken


class FrameReader(StreamReader):
    """Reads what a master sends.  Raises ``BadStream``; it must not be used after that."""

    @property
    def next_position(self) -> int | None:
        """The position in the head of the next frame, which may not be whole yet."""
        if not self._has(HEAD_BYTES):
            return None
        return int(_HEAD.unpack_from(self._data, self._at)[0])

    def frames(self) -> Iterator[LogFrame]:
        """The whole frames so far, in order."""
        while self._has(HEAD_BYTES):
            position, size = _HEAD.unpack_from(self._data, self._at)
            if not 0 <= size <= FRAME_BYTES_MAX - HEAD_BYTES:
                raise BadStream(f"a frame of {size} bytes at position {position}")
            if not 0 <= position <= LOG_END_MAX - size:
                raise BadStream(f"{size} bytes at position {position}: no log has that")
            if not self._has(HEAD_BYTES + size):
                return
            self._take(_HEAD)
            yield LogFrame(position, self._take_bytes(size))

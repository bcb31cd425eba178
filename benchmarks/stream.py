"""One blocking connection that sends and receives frames with little CPU time.

Benchmarks of servers need a cheap peer: requests are encoded once and sent many times, and of
the replies only the lengths are read.
"""

from __future__ import annotations

import socket
from typing import Self

from rocketmq_emulator.protocol.command import (
    RemotingCommand,
    decode_command,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.framing import FrameDecoder
from rocketmq_emulator.protocol.rpc import AnyRpc

READ_BYTES = 1 << 20
SILENCE_S_MAX = 60.0


class NoSuccess(Exception):
    """A request was answered with an error code."""


class Stream:
    """A connection to *address*, "ip:port"."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), SILENCE_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def take_frames(self, count: int) -> None:
        """Wait for *count* more frames and drop them."""
        data, at = self._rest, 0
        while count:
            if len(data) - at >= 4:
                end = at + 4 + int.from_bytes(data[at : at + 4], "big")
                if end <= len(data):
                    at = end
                    count -= 1
                    continue
            data, at = data[at:] + self._read(), 0
        self._rest = data[at:]

    def ask(self, rpc: AnyRpc, header: Header, body: bytes = b"") -> RemotingCommand:
        """Send one request and return its answer.  Raises ``NoSuccess``."""
        self.send(request(rpc, header, body))
        decoder = FrameDecoder()
        decoder.feed(self._rest)
        while (frame := decoder.next_frame()) is None:
            decoder.feed(self._read())
        answer = decode_command(frame)
        if answer.code != 0:
            raise NoSuccess(f"{rpc.name}: {answer.code} {answer.remark}")
        self._rest = b""
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> bytes:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def request(
    rpc: AnyRpc, header: Header | None = None, body: bytes = b"", opaque: int = 1
) -> bytes:
    """The frame of one request."""
    return encode_command(
        RemotingCommand(code=rpc.code, opaque=opaque, ext=ext_of(header), body=body)
    )

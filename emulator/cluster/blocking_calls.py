"""One request to a server over a socket of its own, for code that is not under trio."""

from __future__ import annotations

import socket

from protocol.command import RemotingCommand, decode_command, encode_command
from protocol.framing import BadFrame, FrameDecoder

CALL_MS_MAX = 5_000
READ_BYTES = 65_536


def call_blocking(
    address: str, request: RemotingCommand, timeout_ms: int = CALL_MS_MAX
) -> RemotingCommand:
    """The reply.  Raises ``OSError`` when nobody answers at *address*, ``host:port``."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout_ms / 1000) as line:
        line.sendall(encode_command(request))
        try:
            return _read_reply(line)
        except BadFrame as error:  # a web server, or whatever else listens there
            raise ConnectionAbortedError(f"{address} speaks another protocol: {error}") from error


def _read_reply(line: socket.socket) -> RemotingCommand:
    decoder = FrameDecoder()
    while (frame := decoder.next_frame()) is None:
        data = line.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError("the node closed the connection and did not answer")
        decoder.feed(data)
    return decode_command(frame)

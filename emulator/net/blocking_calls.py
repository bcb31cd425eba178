"""Requests to servers, each over a socket of its own, for code that is not under trio."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import BadFrame, FrameDecoder

CALL_MS_MAX = 5_000
READ_BYTES = 65_536


def call_blocking(
    address: str, request: RemotingCommand, timeout_ms: int = CALL_MS_MAX
) -> RemotingCommand:
    """The reply.  Raises ``OSError`` when nobody answers at *address*, ``host:port``."""
    return call_all_blocking([address], request, timeout_ms)[0]


def call_all_blocking(
    addresses: Iterable[str], request: RemotingCommand, timeout_ms: int = CALL_MS_MAX
) -> list[RemotingCommand]:
    """The same request to several servers at the same time: the replies, in their order."""
    answers = call_each_blocking(addresses, [request], timeout_ms)
    return [reply for replies in answers for reply in replies]


def call_each_blocking(
    addresses: Iterable[str], requests: Sequence[RemotingCommand], timeout_ms: int = CALL_MS_MAX
) -> list[list[RemotingCommand]]:
    """The same requests to each server, all at once: the replies of each, in their order.

    The requests have different ``opaque``.
    """
    data, lines = b"".join(map(encode_command, requests)), list[tuple[str, socket.socket]]()
    with ExitStack() as closing:
        for address in addresses:
            host, _, port = address.rpartition(":")
            where = host.strip("[]"), int(port)
            line = closing.enter_context(socket.create_connection(where, timeout_ms / 1000))
            line.sendall(data)
            lines.append((address, line))
        return [_replies_of(address, line, requests) for address, line in lines]


def _replies_of(
    address: str, line: socket.socket, requests: Sequence[RemotingCommand]
) -> list[RemotingCommand]:
    try:
        found = list(_read_replies(line, len(requests)))
    except BadFrame as error:  # a web server, or whatever else listens there
        raise ConnectionAbortedError(f"{address} speaks another protocol: {error}") from error
    places = {request.opaque: place for place, request in enumerate(requests)}
    return sorted(found, key=lambda reply: places.get(reply.opaque, 0))


def _read_replies(line: socket.socket, count: int) -> Iterator[RemotingCommand]:
    """As they come: those that were held come later."""
    decoder = FrameDecoder()
    for _ in range(count):
        while (frame := decoder.next_frame()) is None:
            data = line.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError("the node closed the connection and did not answer")
            decoder.feed(data)
        yield decode_command(frame)

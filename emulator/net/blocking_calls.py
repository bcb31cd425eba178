"""Requests to servers over blocking sockets, for code that is not under trio.

``RequestSocket`` only sends and receives commands; its callers handle the errors.
Tools open one socket for each call; a Spark source keeps one for each server it reads.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rocketmq_emulator.protocol.command import RemotingCommand, decode_command, encode_command
from rocketmq_emulator.protocol.framing import BadFrame, FrameDecoder

CALL_MS_MAX = 5_000
READ_BYTES = 1 << 18


def connect_blocking(address: str, timeout_ms: int) -> socket.socket:
    """A socket to *address*, ``host:port``, without Nagle's delay.  Raises ``OSError``."""
    host, _, port = address.rpartition(":")
    found = socket.create_connection((host.strip("[]"), int(port)), timeout_ms / 1000)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


class RequestSocket:
    """A connection to the server at *address*; each wait ends after *timeout_ms*.

    Raises ``OSError`` if the server does not answer, ``BadFrame`` for another protocol.
    """

    def __init__(self, address: str, timeout_ms: int) -> None:
        self.address = address
        self.has_received = False
        self._decoder = FrameDecoder()
        self._socket = connect_blocking(address, timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close at once; unfinished calls get no reply."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, for ``select``: when it is readable, ``read`` does not wait."""
        return self._socket.fileno()

    def write(self, data: bytes) -> None:
        """Send encoded requests, or replies to requests of the server."""
        self._socket.sendall(data)

    def read(self) -> list[RemotingCommand] | None:
        """The next commands, none if only a part of one has arrived; None: the server closed."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            return None
        self._decoder.feed(data)
        commands = [decode_command(frame) for frame in self._decoder]
        self.has_received = True
        return commands


# One call over its own socket ---------------------------------------------------------


def call_blocking(
    address: str, request: RemotingCommand, timeout_ms: int = CALL_MS_MAX
) -> RemotingCommand:
    """The reply.  Raises ``OSError`` if no server answers at *address*, ``host:port``."""
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
    data = b"".join(map(encode_command, requests))
    with ExitStack() as closing:
        connections = list[RequestSocket]()
        for address in addresses:
            connection = closing.enter_context(RequestSocket(address, timeout_ms))
            connection.write(data)
            connections.append(connection)
        return [_replies_of(connection, requests) for connection in connections]


def _replies_of(
    connection: RequestSocket, requests: Sequence[RemotingCommand]
) -> list[RemotingCommand]:
    """The replies in the order of *requests*; they arrive in any order."""
    found: dict[int, RemotingCommand] = {}
    wanted = [request.opaque or 0 for request in requests]  # a request without a number has 0
    while not found.keys() >= set(wanted):
        try:
            commands = connection.read()
        except BadFrame as error:  # a web server, for example
            text = f"{connection.address} does not use RocketMQ's protocol: {error}"
            raise ConnectionAbortedError(text) from error
        if commands is None:
            raise ConnectionResetError("the node closed the connection and did not answer")
        found |= {command.opaque or 0: command for command in commands if command.is_response}
    return [found[number] for number in wanted]

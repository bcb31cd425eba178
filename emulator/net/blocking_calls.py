"""Requests to servers over blocking sockets, for code that is not under trio.

``RequestSocket`` moves commands and knows no more: its callers say what an error means to them.
Tools ask with one socket a call; a Spark source keeps one to each server it reads.
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
    """To *address*, ``host:port``; small requests leave at once.  Raises ``OSError``."""
    host, _, port = address.rpartition(":")
    found = socket.create_connection((host.strip("[]"), int(port)), timeout_ms / 1000)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


class RequestSocket:
    """A connection to the server at *address*; each wait ends after *timeout_ms*.

    Raises ``OSError`` where nobody answers, ``BadFrame`` for another protocol.
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
        """At once; calls under way stay without an answer."""
        self._socket.close()

    def fileno(self) -> int:
        """For ``select``: when it can be read, ``read`` does not wait."""
        return self._socket.fileno()

    def write(self, data: bytes) -> None:
        """Requests, or answers to what the server has asked."""
        self._socket.sendall(data)

    def read(self) -> list[RemotingCommand] | None:
        """What came next, perhaps only a part of a command; None: the server has closed."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            return None
        self._decoder.feed(data)
        commands = [decode_command(frame) for frame in self._decoder]
        self.has_received = True
        return commands


# One call, a socket of its own --------------------------------------------------------


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
    """They come in any order: those that were held come later."""
    found: dict[int, RemotingCommand] = {}
    wanted = [request.opaque or 0 for request in requests]  # a request without a number has 0
    while not found.keys() >= set(wanted):
        try:
            commands = connection.read()
        except BadFrame as error:  # a web server, or whatever else listens there
            text = f"{connection.address} speaks another protocol: {error}"
            raise ConnectionAbortedError(text) from error
        if commands is None:
            raise ConnectionResetError("the node closed the connection and did not answer")
        found |= {command.opaque or 0: command for command in commands if command.is_response}
    return [found[number] for number in wanted]

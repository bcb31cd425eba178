"""All outboxes share a limit: beyond it, the peers that read least recently are closed."""

from __future__ import annotations

import trio

from rocketmq_emulator.facts import SlowReaderClosed
from rocketmq_emulator.net.connection import Connection
from rocketmq_emulator.settings.config import NetConfig
from tests.support.net.wired_server import Server, Wire, a_request

KIB = 1024
LIMITS = NetConfig(outbox_bytes_max=64 * KIB, outboxes_bytes_max=100 * KIB)


class StuckWire(Wire):
    """The peer reads only when a test calls ``takes``."""

    def __init__(self, server: Server, remote: str) -> None:
        super().__init__()
        self.remote = remote
        self.waiting = 0
        self.connection: Connection = server.remoting.accept(self)
        self.endpoint = self.connection

    def send(self, data: bytes) -> None:
        super().send(data)
        self.waiting += len(data)

    def unsent_bytes(self) -> int:
        return self.waiting

    def takes(self, size: int) -> None:
        self.waiting -= size
        if self.waiting:
            self.connection.drained()
        else:
            self.connection.writable()

    def asks(self, size: int) -> None:
        self.connection.feed(a_request(5, body=bytes(size)))


def some_peers(server: Server) -> list[StuckWire]:
    return [StuckWire(server, f"10.0.0.{number}:40001") for number in range(1, 4)]


async def test_when_too_much_waits_for_all_peers_who_read_least_recently_is_closed() -> None:
    server = Server(config=LIMITS)
    first, second, third = some_peers(server)
    first.asks(40 * KIB)
    second.asks(40 * KIB)
    first.takes(20 * KIB)
    third.asks(30 * KIB)
    assert [wire.is_open for wire in (first, second, third)] == [True, True, True]
    third.asks(20 * KIB)
    assert [wire.is_open for wire in (first, second, third)] == [True, False, True]
    [fact] = server.said(SlowReaderClosed)
    assert fact.peer == second.remote
    assert 40 * KIB < fact.waiting_bytes < 41 * KIB
    assert fact.all_waiting_bytes > 100 * KIB
    assert server.remoting.outboxes.waiting_bytes == first.waiting + third.waiting


async def test_who_has_read_everything_or_has_gone_takes_no_room() -> None:
    server = Server(config=LIMITS)
    first, second, third = some_peers(server)
    for _ in range(5):
        first.asks(60 * KIB)
        first.takes(first.waiting)
    second.asks(60 * KIB)
    second.close()
    third.asks(60 * KIB)
    assert server.said(SlowReaderClosed) == []
    assert server.remoting.outboxes.waiting_bytes == third.waiting


async def test_one_turn_that_sends_too_much_to_many_closes_no_more_than_needed() -> None:
    server = Server(config=LIMITS)
    wires = some_peers(server)
    with server.remoting.batch():
        for wire in wires:
            wire.connection.write(bytes(60 * KIB))
    assert [wire.is_open for wire in wires] == [False, False, True]
    await trio.lowlevel.checkpoint()

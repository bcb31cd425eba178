"""Masters and slaves of tests: a time that the test moves, and streams that end in lists."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from rocketmq_emulator.broker.replication.ha_client import HaClient
from rocketmq_emulator.broker.replication.ha_service import HaConnection, HaService
from rocketmq_emulator.broker.replication.scheduling import Scheduling
from rocketmq_emulator.net.transport import Endpoint
from rocketmq_emulator.protocol.replication import FrameReader, LogFrame
from tests.support.broker.store_makers import NOW, Rig


class _Due:
    """A timer: its action, until it is cancelled."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        self.action = None


class ManualTime:
    """A wall clock with timers; ``advance`` moves it and runs what is due, in order."""

    def __init__(self) -> None:
        self.now_ms = NOW
        self._heap: list[tuple[int, int, _Due]] = []
        self._count = 0
        self.scheduling: Any = Scheduling(lambda: self.now_ms, self._at)

    def _at(self, due_ms: int, action: Callable[[], object]) -> Any:
        self._count += 1
        due = _Due(action)
        heapq.heappush(self._heap, (due_ms, self._count, due))
        return due

    def advance(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self._heap and self._heap[0][0] <= until_ms:
            due_ms, _, due = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, due_ms)
            if due.action is not None:
                due.action()
        self.now_ms = until_ms


class ListTransport:
    """A stream whose bytes end in ``sent``: (time, bytes); ``unsent`` says how many wait."""

    local = remote = "127.0.0.1:4711"
    values = None

    def __init__(self, time: ManualTime) -> None:
        self.endpoint: Endpoint | None = None
        self.sent: list[tuple[int, bytes]] = []
        self.unsent = 0
        self.is_open = True
        self._time = time

    def send(self, data: bytes) -> None:
        self.sent.append((self._time.now_ms - NOW, data))

    def unsent_bytes(self) -> int:
        return self.unsent

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            assert self.endpoint is not None
            self.endpoint.closed("closed here")


class Master(Rig):
    """A master's store, to which tests connect as slaves do."""

    def __init__(self, disk: Any = None, time: ManualTime | None = None, **config: Any) -> None:
        super().__init__(disk, **config)
        self.time = time or ManualTime()
        self.ha = HaService(
            self.store.log,
            self.config,
            self.time.scheduling,
            note=self.facts.append,
            wants=lambda _kind: True,
        )
        self.store.on_grown = self.ha.grown

    def connect(self) -> tuple[HaConnection, ListTransport]:
        transport = ListTransport(self.time)
        transport.endpoint = connection = self.ha.accept(transport)
        return connection, transport


class Slave(Rig):
    """A slave's store, with a stream on which tests play its master."""

    def __init__(self, disk: Any = None, time: ManualTime | None = None, **config: Any) -> None:
        super().__init__(disk, **{"broker_role": "SLAVE", "broker_id": 1, **config})
        self.time = time or ManualTime()
        assert self.store.copied is not None
        self.client = HaClient(
            self.store.copied, self.config, self.time.scheduling, self.facts.append
        )

    def connect(self) -> ListTransport:
        transport = ListTransport(self.time)
        transport.endpoint = self.client.connected(transport)
        return transport


def frames(transport: ListTransport, since: int = 0) -> list[LogFrame]:
    """The frames that a master has sent, from the entry *since* on."""
    reader = FrameReader()
    reader.feed(b"".join(data for _, data in transport.sent[since:]))
    return list(reader.frames())


def reports(transport: ListTransport) -> list[tuple[int, int]]:
    """The reports that a slave has made: (milliseconds since the start, position)."""
    return [(at_ms, int.from_bytes(data, "big", signed=True)) for at_ms, data in transport.sent]


def joined(master: Master, slave: Slave) -> tuple[HaConnection, Callable[[], None]]:
    """A connection between both, and a function that carries all bytes both ways."""
    connection, of_master = master.connect()
    of_slave = slave.connect()

    def carry() -> None:
        while of_master.sent or of_slave.sent:
            down, of_master.sent = of_master.sent, []
            for _, data in down:
                slave.client.feed(data)
            up, of_slave.sent = of_slave.sent, []
            for _, data in up:
                connection.feed(data)

    return connection, carry

"""Brokers of tests whose role changes, and streams between them; time is the test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.broker.replication.auto_switch_connection import AutoSwitchHaConnection
from rocketmq_emulator.protocol.auto_switch import (
    FromMaster,
    FromSlave,
    HAConnectionState,
    MasterHandshake,
    MasterReader,
    SlaveHandshake,
    SlaveReader,
    TransferFrame,
    encode_slave_handshake,
    encode_slave_report,
)
from tests.support.broker.replica_rigs import ListTransport, ManualTime
from tests.support.broker.store_makers import LAST_5, Rig


class Switcher(Rig):
    """A broker's store, with replication that follows its role; its id is *broker_id*."""

    def __init__(
        self, disk: Any = None, time: ManualTime | None = None, *, own_id: int = 1, **config: Any
    ) -> None:
        super().__init__(disk, **{"release": LAST_5, **config})
        self.time = time or ManualTime()
        self.own_id = own_id
        self.wanted: list[set[int]] = []  # sync-state sets that it has asked for
        self.ha = AutoSwitchHaService(
            self.store,
            self.disk,
            self.config,
            self.time.scheduling,
            note=self.facts.append,
            wants=lambda _kind: True,
        )
        self.ha.local_broker_id = own_id
        self.ha.on_sync_state_set_change = lambda ids: self.wanted.append(set(ids))
        self.store.on_grown = self.ha.grown

    def lead(self, epoch: int, in_sync: tuple[int, ...] = ()) -> Switcher:
        """Be the master of *epoch*, as after an election."""
        self.ha.set_sync_state_set({self.own_id, *in_sync})
        assert self.ha.change_to_master(epoch)
        return self

    def follow(self, epoch: int, address: str | None = "master:10912") -> Switcher:
        """Be a slave in *epoch*."""
        assert self.ha.change_to_slave(address, epoch, self.own_id)
        return self

    def accept(self) -> tuple[AutoSwitchHaConnection, ListTransport]:
        """A slave connects to this master."""
        transport = ListTransport(self.time)
        connection = self.ha.accept(transport)
        assert isinstance(connection, AutoSwitchHaConnection)
        transport.endpoint = connection
        return connection, transport

    def connect(self) -> ListTransport:
        """This slave connects to a master that the test plays."""
        transport = ListTransport(self.time)
        transport.endpoint = self.ha.client.connected(transport)
        return transport

    def log_bytes(self) -> bytes:
        """All bytes of the log."""
        log, found = self.store.log, b""
        while data := log.read_to_segment_end(log.min_position + len(found)):
            found += bytes(data)
        return found


def introduced(
    master: Switcher, report: int, slave_id: int = 2, **flags: bool
) -> tuple[AutoSwitchHaConnection, ListTransport]:
    """A slave that has shaken hands with *master*, and reported *report*; what follows is sent."""
    connection, transport = master.accept()
    connection.feed(encode_slave_handshake(SlaveHandshake(slave_id, **flags)))
    transport.sent.clear()
    connection.feed(encode_slave_report(report))
    return connection, transport


def from_master(transport: ListTransport) -> list[FromMaster]:
    """What a master has sent, handshakes first."""
    data = b"".join(data for _, data in transport.sent)
    reader, found = MasterReader(), list[FromMaster]()
    reader.feed(data)
    if data[3:4] == b"\2":
        reader.state = HAConnectionState.TRANSFER
    for message in reader.messages():
        found.append(message)
        if isinstance(message, MasterHandshake):
            reader.state = HAConnectionState.TRANSFER
    return found


def frames(transport: ListTransport) -> list[TransferFrame]:
    """The frames that a master has sent."""
    return [each for each in from_master(transport) if isinstance(each, TransferFrame)]


def from_slave(transport: ListTransport) -> list[tuple[int, FromSlave]]:
    """What a slave has sent: (milliseconds since the start, message)."""
    found: list[tuple[int, FromSlave]] = []
    for at_ms, data in transport.sent:
        reader = SlaveReader()
        reader.feed(data)
        found += ((at_ms, message) for message in reader.messages())
    return found


def joined(master: Switcher, slave: Switcher) -> tuple[AutoSwitchHaConnection, Callable[[], None]]:
    """A connection between both, and a function that carries all bytes both ways."""
    connection, of_master = master.accept()
    of_slave = slave.connect()

    def carry() -> None:
        while of_master.sent or of_slave.sent:
            up, of_slave.sent = of_slave.sent, []
            for _, data in up:
                connection.feed(data)
            down, of_master.sent = of_master.sent, []
            for _, data in down:
                slave.ha.client.feed(data)

    return connection, carry


def led(*in_sync: int, **config: Any) -> tuple[Switcher, int]:
    """A master with one message and these other members of the set; and the end of its log."""
    master = Switcher(**config)
    master.lead(1, in_sync)
    return master, master.put().size

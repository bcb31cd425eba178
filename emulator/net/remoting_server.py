"""The server side: listens, keeps its connections, and closes the idle ones.

A broker has a second port, two below the first: the VIP channel.  Clients may send there, so that
pulls do not delay their requests; a few requests are unknown there.  It is the same server with
the same connections, so a client is reached through either port.

Upstream: NettyRemotingServer; BrokerController.fastRemotingServer is the second port.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.facts import ConnectionOpened, VipPortNotOpen
from rocketmq_emulator.net.connection import Connection
from rocketmq_emulator.net.remoting import Remoting
from rocketmq_emulator.text.values import split_address, vip_channel

if TYPE_CHECKING:
    from collections.abc import Container

    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.net.connection import ConnectionOwner
    from rocketmq_emulator.net.results import Peer
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.net.transport import Accept, Listener, Network, Transport
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.fields import BadFields

PORTS_TRIED_MAX = 50  # until a free port has free ones beside it


class PortBeside(NamedTuple):
    """Another port of a server: its address, its ``accept``, and the fact if it is not open."""

    address_beside: Callable[[str], str]
    accept: Accept
    missing: Callable[[str, str], Fact]


class RemotingServer(Remoting):
    """Accepts connections; ``on_closed(peer, now_ms)`` is called when one has ended."""

    closes_slow_readers = True
    has_default_processor = True
    on_closed: Callable[[Peer, int], object] | None = None
    _accepted = 0

    async def serve(self, network: Network, address: str, nursery: TaskNursery) -> Listener:
        """Start answering at *address*; returns once it is bound.  Raises ``AddressInUse``."""
        nursery.start_soon(self.timers.run)
        return await network.listen(address, self.accept)

    async def serve_with_ports_beside(
        self,
        network: Network,
        address: str,
        nursery: TaskNursery,
        beside: Sequence[PortBeside],
    ) -> tuple[Listener, ...]:
        """As ``serve``, and also at the ports *beside*.

        Returns the listener of *address*, and those of the others.  One is missing, and a fact
        says so, if its port is in use; for port 0 a port is found whose neighbours are free.
        """
        nursery.start_soon(self.timers.run)
        is_any_port = split_address(address)[1] == 0
        for tried in range(1, PORTS_TRIED_MAX + 1):
            may_lack = not is_any_port or tried == PORTS_TRIED_MAX
            opened = [await network.listen(address, self.accept)]
            for port in beside:
                where = port.address_beside(opened[0].address)
                try:
                    listener = await network.listen(where, port.accept, if_unbound=is_any_port)
                except (OSError, ValueError) as error:  # in use, not allowed, or below 0
                    if not may_lack:
                        break
                    self.note(port.missing(where, str(error)))
                else:
                    opened.append(listener)
            else:
                return tuple(opened)
            for listener in opened:
                listener.close()
        raise AssertionError("the last try ends in every case")

    def accept(self, transport: Transport) -> Connection:
        """The endpoint of a new stream; it is closed when it was idle for too long."""
        return self.admit(transport, self)

    def admit(self, transport: Transport, owner: ConnectionOwner) -> Connection:
        """As ``accept``; the connection gives its requests to *owner*."""
        self._accepted += 1
        connection = Connection(transport, owner, self._accepted)
        self.connections[connection.peer] = connection
        self.note(ConnectionOpened(transport.remote, by="peer"))
        self._watch(connection)
        return connection

    def connection_closed(self, connection: Connection) -> None:
        """The stream of *connection* ended: call ``on_closed``."""
        super().connection_closed(connection)
        if connection.watch is not None:
            connection.watch.cancel()
        if self.on_closed is not None:
            self.on_closed(connection.peer, self.clock.now_ms())

    def close_all(self) -> None:
        """Close every connection, in the order of their arrival."""
        for connection in list(self.connections.values()):
            connection.transport.close()

    def _watch(self, connection: Connection) -> None:
        """Close the connection if it is idle for too long, else check again when it could be."""
        idle_ms_max = self.config.idle_ms_max
        due_ms = connection.last_active_ms + idle_ms_max
        if self.clock.now_ms() >= due_ms:
            connection.closed("idle")
            connection.transport.close()
        else:
            due_s = self.clock.trio_time(due_ms)
            connection.watch = self.timers.at(due_s, lambda: self._watch(connection))


class VipPort:
    """The owner of the connections to the second port: the server, without the calls *absent*."""

    @classmethod
    def beside(cls, server: RemotingServer, absent: Container[int]) -> PortBeside:
        """The second port of *server*, to be opened with its first."""
        return PortBeside(vip_channel, cls(server, absent).accept, VipPortNotOpen)

    def __init__(self, server: RemotingServer, absent: Container[int]) -> None:
        self.clock = server.clock
        self.config = server.config
        self.release = server.release
        self.version = server.version
        self.language = server.language
        self.note = server.note
        self.timers = server.timers
        self.turn = server.turn
        self.outboxes = server.outboxes
        self.sign = server.sign
        self._server = server
        self._absent = absent

    def accept(self, transport: Transport) -> Connection:
        """The endpoint of a new stream."""
        return self._server.admit(transport, self)

    def handle(self, connection: Connection, command: RemotingCommand) -> None:
        """Answer a request as the server does, unless it is absent here."""
        if command.code in self._absent:
            self._server.handle_unknown(connection, command)
        else:
            self._server.handle(connection, command)

    def refuse(self, connection: Connection, command: RemotingCommand, error: BadFields) -> None:
        """Answer a request with *error*; its handler is not called."""
        self._server.refuse(connection, command, error)

    def connection_closed(self, connection: Connection) -> None:
        """The stream of *connection* ended."""
        self._server.connection_closed(connection)

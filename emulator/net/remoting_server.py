"""The server side: listens, keeps its connections, and closes the idle ones.

Upstream: NettyRemotingServer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketmq_emulator.facts import ConnectionOpened
from rocketmq_emulator.net.connection import Connection
from rocketmq_emulator.net.remoting import Remoting

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketmq_emulator.net.results import Peer
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.net.transport import Listener, Network, Transport


class RemotingServer(Remoting):
    """Accepts connections; ``on_closed(peer, now_ms)`` is called when one has ended."""

    closes_slow_readers = True
    on_closed: Callable[[Peer, int], object] | None = None
    _accepted = 0

    async def serve(self, network: Network, address: str, nursery: TaskNursery) -> Listener:
        """Start answering at *address*; returns once it is bound.  Raises ``AddressInUse``."""
        nursery.start_soon(self.timers.run)
        return await network.listen(address, self.accept)

    def accept(self, transport: Transport) -> Connection:
        """The endpoint of a new stream; it is closed when it was idle for too long."""
        self._accepted += 1
        connection = Connection(transport, self, self._accepted)
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

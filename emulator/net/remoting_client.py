"""The client side: one connection for each address, opened when it is first needed.

Calls to an address that is still being connected wait, each with its own deadline.  A
synchronous call that gets no answer in time closes its connection, which fails all other
calls on it (upstream does so since 4.9.1, and users see it); an asynchronous call leaves it
open.

A header may be given as encoded text (``msgspec.Raw``), by callers that keep it encoded.

Requests are sent at once.  After ``gather_writes`` that holds for a single call only; requests
that others may follow in the same pass of the scheduler are sent together, one write for each
connection: sends that are not awaited, and requests of callers whose replies came in one read.

Upstream: NettyRemotingClient.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec
import trio

from rocketmq_emulator.errors.call_errors import NeverSent, RemoteError, TimedOut
from rocketmq_emulator.facts import ConnectionOpened, Note
from rocketmq_emulator.facts.journal import discard_fact
from rocketmq_emulator.net.connection import Connection, OnDone
from rocketmq_emulator.net.remoting import Remoting
from rocketmq_emulator.net.tasks import NextPass, cancelling_nursery
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.settings.config import NetConfig

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import WallClock
    from rocketmq_emulator.net.dispatch import Table
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.net.transport import Network, Transport
    from rocketmq_emulator.protocol.rpc import Rpc
    from rocketmq_emulator.settings.releases import Release

_NO_TURN: AbstractContextManager[object] = nullcontext()

Request = TypeVar("Request", bound=Header)
Reply = TypeVar("Reply", bound=Header)


class _Channel:
    """One address: its connection, or the calls that wait until it is connected."""

    __slots__ = ("connection", "waiting")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.waiting: list[Callable[[Connection | RemoteError], None]] = []


class RemotingClient(Remoting):
    """Sends requests by address.  *handlers* answer the requests of servers.

    ``sign(address, request)`` is called with every request before it is encoded, and may add
    ext fields.  Upstream: AclClientRPCHook.
    """

    def __init__(
        self,
        network: Network,
        nursery: TaskNursery,
        *,
        clock: WallClock,
        config: NetConfig,
        release: Release,
        note: Note,
        handlers: Table,
    ) -> None:
        super().__init__(clock, config, release, note, handlers)
        self._network = network
        self._nursery = nursery
        self._channels: dict[str, _Channel] = {}
        self._opened = 0
        self._has_ended = False
        self._answered_count = 0  # callers of ``invoke`` that have a reply and did not run yet
        self.on_connected: Callable[[str], object] | None = None
        nursery.start_soon(self._run)

    def gather_writes(self) -> None:
        """From now on writes outside of a turn are sent in the scheduler's next pass."""
        flushing = NextPass(self.turn.end_now)
        self.turn.end_soon = flushing.ask
        self._nursery.start_soon(flushing.run)

    async def invoke(
        self,
        address: str,
        rpc: Rpc[Request, Reply],
        header: Request | msgspec.Raw | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int,
    ) -> RemotingCommand:
        """The reply, with any code.  Raises ``NeverSent``, ``NoAnswer``, ``TimedOut``.

        A cancelled call does not close the connection when its timeout is over.
        Upstream: NettyRemotingClient.invokeSync.
        """
        caller: list[trio.lowlevel.Task] = []
        replies: list[RemotingCommand | RemoteError] = []

        def on_done(reply: RemotingCommand | RemoteError) -> None:
            replies.append(reply)
            if caller:
                self._answered_count += 1
                trio.lowlevel.reschedule(caller.pop())
                self.close_if_timed_out(address, reply)

        def cancelled(_: Callable[[], None]) -> trio.lowlevel.Abort:
            caller.clear()
            return trio.lowlevel.Abort.SUCCEEDED

        with _NO_TURN if self._answered_count else self.turn:
            self.invoke_async(address, rpc, header, body, timeout_ms=timeout_ms, on_done=on_done)
        if replies:  # it could not be sent
            await trio.lowlevel.checkpoint()
        else:
            caller.append(trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(cancelled)
            self._answered_count -= 1
        [reply] = replies
        if isinstance(reply, RemoteError):
            raise reply
        return reply

    def invoke_async(
        self,
        address: str,
        rpc: Rpc[Request, Reply],
        header: Request | msgspec.Raw | None,
        body: bytes,
        *,
        timeout_ms: int,
        on_done: OnDone,
    ) -> None:
        """Send without waiting; *on_done* is called exactly once, with the reply or the error.

        Upstream: NettyRemotingClient.invokeAsync.
        """
        if self._has_ended:
            on_done(NeverSent(address, "the client has ended"))
            return
        until_s = trio.current_time() + timeout_ms / 1000
        channel = self._channel(address)
        if channel.connection is not None:
            channel.connection.invoke(rpc.code, header, body, until_s, on_done)
            return

        def send_when_connected(found: Connection | RemoteError) -> None:
            expired.cancel()
            if isinstance(found, RemoteError):
                on_done(found)
            else:
                found.invoke(rpc.code, header, body, until_s, on_done)

        def give_up() -> None:
            channel.waiting.remove(send_when_connected)
            with self.turn:
                on_done(NeverSent(address, "no connection in time"))

        expired = self.timers.at(until_s, give_up)
        channel.waiting.append(send_when_connected)

    def send_oneway(
        self,
        address: str,
        rpc: Rpc[Request, Reply],
        header: Request | msgspec.Raw | None = None,
        body: bytes = b"",
        *,
        remark: str | None = None,
    ) -> None:
        """Send a one-way request; nothing reports whether it arrives.

        It is dropped if there is no connection and none can be opened.
        """

        def send_when_connected(found: Connection | RemoteError) -> None:
            if isinstance(found, Connection):
                found.send_oneway(rpc.code, header, body, remark=remark)

        if self._has_ended:
            return
        channel = self._channel(address)
        if channel.connection is not None:
            send_when_connected(channel.connection)
        else:
            channel.waiting.append(send_when_connected)

    async def wait_connected(self, address: str) -> bool:
        """Connect to *address* unless it is connected; returns whether it is now.

        Upstream: NettyRemotingClient.isAddressReachable.
        """
        if self._has_ended:
            return False
        channel = self._channel(address)
        if channel.connection is None:
            ended = trio.Event()
            channel.waiting.append(lambda _found: ended.set())
            await ended.wait()
        return channel.connection is not None

    def is_connected(self, address: str) -> bool:
        """Whether *address* is connected: then requests to it are sent at once."""
        channel = self._channels.get(address)
        return channel is not None and channel.connection is not None

    def disconnect(self, address: str) -> None:
        """Close the connection to *address*, if there is one; its calls get ``NoAnswer``."""
        channel = self._channels.get(address)
        if channel is not None and channel.connection is not None:
            channel.connection.transport.close()

    def close_if_timed_out(self, address: str, reply: RemotingCommand | RemoteError) -> None:
        """Close the connection if *reply* is the timeout of a synchronous call.

        Not if ``close_on_timeout`` is off.  Upstream: NettyRemotingClient.invokeSync.
        """
        if isinstance(reply, TimedOut) and self.config.close_on_timeout:
            self.disconnect(address)

    @classmethod
    def of_tool(
        cls, network: Network, nursery: trio.Nursery, *, clock: WallClock, release: Release
    ) -> Self:
        """A client for a tool: it answers no requests, and notes no facts."""
        return cls(
            network,
            nursery,
            clock=clock,
            config=NetConfig(),
            release=release,
            note=discard_fact,
            handlers={},
        )

    def close_all(self) -> None:
        """Send what was written, then close every connection; their calls get ``NoAnswer``."""
        self.turn.end_now()
        for connection in list(self.connections.values()):
            connection.transport.close()

    def end(self) -> None:
        """Fail all calls that wait for a reply or a connection, and all later calls."""
        self._has_ended = True
        channels, self._channels = self._channels, {}
        self.close_all()
        for address, channel in channels.items():
            self._connected(address, channel, NeverSent(address, "the client has ended"))

    # Inside ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self.timers.run()
        finally:
            self.end()  # callers may outlive this nursery

    def connection_closed(self, connection: Connection) -> None:
        """The stream of *connection* ended: the next call to its address connects again."""
        super().connection_closed(connection)
        channel = self._channels.get(connection.peer.address)
        if channel is not None and channel.connection is connection:
            del self._channels[connection.peer.address]

    def _channel(self, address: str) -> _Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = _Channel()
            self._nursery.start_soon(self._connect, address, channel)
        return channel

    async def _connect(self, address: str, channel: _Channel) -> None:
        made: list[Connection] = []

        def accept(transport: Transport) -> Connection:
            self._opened += 1
            connection = Connection(transport, self, self._opened)
            connection.peer.address = address
            made.append(connection)
            return connection

        failure: RemoteError | None = None
        with trio.move_on_after(self.config.connect_ms_max / 1000) as scope:
            try:
                await self._network.connect(address, accept)
            except OSError as error:  # refused, or not reachable
                failure = NeverSent(address, f"no connection: {error.strerror or error}")
            except ValueError as error:  # not an address
                failure = NeverSent(address, f"no connection: {error}")
        if scope.cancelled_caught:
            failure = NeverSent(address, "no connection in time")
        if failure is None and not made[0].peer.is_open:
            failure = NeverSent(address, "the connection ended at once")
        if failure is None and self._has_ended:
            made[0].transport.close()
            return  # ``end`` has failed the calls that waited
        self._connected(address, channel, made[0] if failure is None else failure)

    def _connected(self, address: str, channel: _Channel, found: Connection | RemoteError) -> None:
        waiting, channel.waiting = channel.waiting, []
        if isinstance(found, Connection):
            channel.connection = found
            self.connections[found.peer] = found
            self.note(ConnectionOpened(address, by="us"))
        elif self._channels.get(address) is channel:
            del self._channels[address]
        with self.turn:
            for on_connected in waiting:
                on_connected(found)
        if isinstance(found, Connection) and self.on_connected is not None:
            self.on_connected(address)


__all__ = ["OnDone", "RemotingClient", "TimedOut"]


@asynccontextmanager
async def tool_connections(
    network: Network, clock: WallClock, release: Release
) -> AsyncIterator[RemotingClient]:
    """``RemotingClient.of_tool``; its connections are closed at the end of the block."""
    async with cancelling_nursery() as nursery:
        client = RemotingClient.of_tool(network, nursery, clock=clock, release=release)
        try:
            yield client
        finally:
            client.close_all()

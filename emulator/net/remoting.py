"""What every end of the protocol does, server or client: handle, hold, ask, reply.

Upstream: NettyRemotingAbstract.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

from emulator.clock import WallClock
from emulator.config import NetConfig
from emulator.facts import FrameRefused, HandlerFailed, Note
from emulator.net.bells import Bells
from emulator.net.connection import Connection
from emulator.net.errors import NoAnswer, RemoteError
from emulator.net.handler_table import Table
from emulator.net.results import Ask, Call, NoReply, Peer, Refusal, Reply, Result, Wait
from emulator.net.timers import Timers
from emulator.net.watermarks import UpTo, Watermarks
from emulator.releases import REPLIES_IN_OWN_SERIALIZATION, Release
from protocol.command import RESPONSE, RemotingCommand, encode_command, ext_of
from protocol.fields import BadFields, Header
from protocol.framing import JSON
from protocol.rpc import AnyRpc

SYSTEM_ERROR = 1
REQUEST_CODE_NOT_SUPPORTED = 3


class Remoting:
    """Connections, the calls they hold, and the table of what is answered."""

    def __init__(
        self,
        clock: WallClock,
        config: NetConfig,
        release: Release,
        note: Note,
        handlers: Table,
        *,
        unknown_is_silent: bool = False,
    ) -> None:
        self.clock = clock
        self.config = config
        self.release = release
        self.version = release.version
        self.note = note
        self.timers = Timers()
        self.bells = Bells(clock, self.timers)
        self.watermarks = Watermarks(clock, self.timers)
        self.handlers = handlers
        self._unknown_is_silent = unknown_is_silent
        self._echoes = release < REPLIES_IN_OWN_SERIALIZATION
        self._depth = 0
        self._batch = _Batch(self)
        self._dirty: dict[Connection, None] = {}
        self.connections: dict[Peer, Connection] = {}

    # For services that speak outside of a handler -------------------------------------

    def batch(self) -> AbstractContextManager[None]:
        """Everything said inside leaves together, one write a connection."""
        return self._batch

    def ring(self, bell: Hashable, news: Any = None) -> None:
        if self._depth:  # inside a handler: what is said leaves with its batch
            self.bells.ring(bell, news)
            return
        with self.batch():
            self.bells.ring(bell, news)

    def raise_mark(self, mark: str, position: int) -> None:
        """Answer the calls that waited for *mark* to reach *position*, one write a connection."""
        with self.batch():
            self.watermarks.raise_to(mark, position)

    def give_up_mark(self, mark: str, position: int) -> None:
        """*mark* will not reach *position* now: the calls that wait for that expire."""
        with self.batch():
            self.watermarks.give_up(mark, position)

    def push(self, peer: Peer, code: int, header: Header | None, body: bytes = b"") -> bool:
        connection = self.connections.get(peer)
        return connection is not None and connection.push(code, header, body)

    def close(self, peer: Peer) -> None:
        if (connection := self.connections.get(peer)) is not None:
            connection.transport.close()

    # For connections ------------------------------------------------------------------

    def enter(self) -> None:
        self._depth += 1

    def leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._flush()

    def mark_dirty(self, connection: Connection) -> None:
        if self._depth:
            self._dirty[connection] = None
        else:
            connection.flush()

    def handle(self, connection: Connection, command: RemotingCommand) -> None:
        entry = self.handlers.get(command.code)
        normal = True
        try:
            if entry is None:
                result = self._unknown(command)
                normal = False
            else:
                rpc, handler = entry
                request = command.decode(rpc.request)
                result = handler(
                    Call(command, request, connection.peer, connection.last_active_ms)
                )
        except Exception as error:  # noqa: BLE001  # upstream answers SYSTEM_ERROR; the fact tells us
            result, normal = self._raised(connection, command, error)
        if type(result) is Reply:
            self._answer(connection, command, result, normal=normal)
        else:
            self._go_on(connection, command, result)

    def lost(self, connection: Connection) -> None:
        """The stream ended: servers tell their value, clients forget the address."""
        self.connections.pop(connection.peer, None)
        self.bells.gone(connection.peer)
        self.watermarks.gone(connection.peer)

    def call_timed_out(self, connection: Connection) -> None:
        """A call got no answer in time: clients close the connection."""

    # Inside ---------------------------------------------------------------------------

    def _raised(
        self, connection: Connection, command: RemotingCommand, error: Exception
    ) -> tuple[Reply, bool]:
        """What is answered to an error, and whether in the request's serialization."""
        if isinstance(error, Refusal):
            entry = self.handlers.get(command.code)
            return refused(error, entry[0] if entry else None), True
        text = str(error)
        if isinstance(error, BadFields):
            self.note(FrameRefused(connection.peer.address, text, closed=False))
        else:
            text = f"{type(error).__name__}: {error}"
            self.note(HandlerFailed(connection.peer.address, command.code, text))
        return Reply(code=SYSTEM_ERROR, remark=text), False

    def _resumed(
        self, connection: Connection, command: RemotingCommand, resume: Callable[[], Result]
    ) -> None:
        """A held call goes on; what it raises is answered as at its first pass."""
        try:
            result = resume()
        except Exception as error:  # noqa: BLE001  # the same as in ``handle``
            reply, normal = self._raised(connection, command, error)
            self._answer(connection, command, reply, normal=normal)
        else:
            self._go_on(connection, command, result)

    def _go_on(self, connection: Connection, command: RemotingCommand, result: Result) -> None:
        if isinstance(result, Reply):
            self._answer(connection, command, result, normal=True)
        elif isinstance(result, NoReply):
            return
        elif isinstance(result, Wait):
            holder = self.watermarks if isinstance(result.on, UpTo) else self.bells
            holder.hold(
                result, connection.peer, lambda then: self._resumed(connection, command, then)
            )
        else:
            self._ask(connection, command, result)

    def _ask(self, connection: Connection, command: RemotingCommand, ask: Ask) -> None:
        def on_done(reply: RemotingCommand | RemoteError) -> None:
            found = reply if isinstance(reply, RemotingCommand) else None
            now_ms = self.clock.now_ms()
            self._resumed(connection, command, lambda: ask.resume(now_ms, found))

        asked = self.connections.get(ask.peer)
        if asked is None:
            on_done(NoAnswer(ask.peer.address, "it has gone"))
        else:
            until_s = self.clock.trio_time(ask.until_ms)
            asked.invoke(ask.code, ask.header, ask.body, until_s, on_done)

    def _answer(
        self, connection: Connection, command: RemotingCommand, reply: Reply, *, normal: bool
    ) -> None:
        if command.is_one_way or not connection.peer.is_open:
            return
        response = RemotingCommand(
            code=reply.code,
            flag=RESPONSE,
            opaque=command.opaque,
            version=self.version,
            remark=reply.remark,
            ext=ext_of(reply.header, reply.extra),
            body=reply.body,
            serialize_type=command.serialize_type if normal and self._echoes else JSON,
        )
        try:
            data = encode_command(response)
        except ValueError as error:  # longer than a frame may be
            self.note(HandlerFailed(connection.peer.address, command.code, str(error)))
            response = RemotingCommand(
                code=SYSTEM_ERROR,
                flag=RESPONSE,
                opaque=command.opaque,
                version=self.version,
                remark=str(error),
            )
            data = encode_command(response)
        connection.write(data)

    def _unknown(self, command: RemotingCommand) -> Result:
        if self._unknown_is_silent:
            return NoReply()
        remark = f" request type {command.code} not supported"
        return Reply(code=REQUEST_CODE_NOT_SUPPORTED, remark=remark)

    def _flush(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            for connection in dirty:
                connection.flush()


class _Batch(AbstractContextManager[None]):
    """One for all turns: a generator each would cost more than the turn's bookkeeping."""

    __slots__ = ("_remoting",)

    def __init__(self, remoting: Remoting) -> None:
        self._remoting = remoting

    def __enter__(self) -> None:
        self._remoting.enter()

    def __exit__(self, *_: object) -> None:
        self._remoting.leave()


def refused(refusal: Refusal, rpc: AnyRpc | None) -> Reply:
    """An error reply; upstream's has empty ext fields where the call has a reply header."""
    header = refusal.header
    if header is None and rpc is not None and rpc.reply is not Header:
        header = Header()
    return Reply(header, code=refusal.code, remark=refusal.remark)

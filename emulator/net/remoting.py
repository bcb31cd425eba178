"""The common part of servers and clients: handle requests, hold them, invoke peers, reply.

A request goes through the chain to its handler.  The handler's result is a reply, a wait for a
bell or a watermark, or a request to another peer whose reply completes it.

Upstream: NettyRemotingAbstract.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.errors.call_errors import NoAnswer, RemoteError
from rocketmq_emulator.facts import FrameRefused, HandlerFailed, Note
from rocketmq_emulator.net.connection import (
    COUNTED_BYTES_MIN,
    Connection,
    Outboxes,
    Sign,
    check_body,
)
from rocketmq_emulator.net.dispatch import AnsweredRequest, Chain, RefusesUnread, Table
from rocketmq_emulator.net.held_calls import Bells, UpTo, Watermarks
from rocketmq_emulator.net.results import (
    Call,
    Handler,
    InvokePeer,
    NoReply,
    Peer,
    Refusal,
    Reply,
    Result,
    Ring,
    Wait,
)
from rocketmq_emulator.net.timers import Timers
from rocketmq_emulator.net.turn import Turn
from rocketmq_emulator.protocol.command import (
    ONE_WAY,
    RESPONSE,
    RemotingCommand,
    encode_command,
    encode_response,
    ext_of,
)
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.framing import JSON
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.protocol.versions import Language
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.releases import REPLIES_ECHO, Release

SYSTEM_ERROR = 1
REQUEST_CODE_NOT_SUPPORTED = 3


class _Pending(msgspec.Struct):
    """A request that is answered later."""

    connection: Connection
    command: RemotingCommand
    arrived_ms: int
    held_on_purpose: bool = False


class Remoting:
    """Connections, the calls held for them, and the table of handlers."""

    closes_slow_readers = False
    has_default_processor = False  # NettyRemotingServer.registerDefaultProcessor
    language: Language = "JAVA"  # of its requests: servers write JAVA, as upstream's do

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
        self.turn = Turn(clock)
        self.timers = Timers(self.turn, clock.new_alarm())
        self.bells = Bells(clock, self.timers, self.turn)
        self.ring: Ring = self.bells.ring
        self.watermarks = Watermarks(clock, self.timers)
        bytes_max = config.outboxes_bytes_max if self.closes_slow_readers else None
        self.outboxes = Outboxes(self.turn, note, bytes_max)
        self.chain = Chain()
        self.handlers = handlers
        self.sign: Sign | None = None
        self._unknown_is_silent = unknown_is_silent
        self._echoes = REPLIES_ECHO.holds(release)
        self.connections: dict[Peer, Connection] = {}

    # For services, outside of a handler -------------------------------------------------

    def batch(self) -> AbstractContextManager[object]:
        """One turn: bells rung inside are delivered at its end, one write per connection."""
        return self.turn

    def later(self, at_ms: int, action: Callable[[int], object]) -> None:
        """Call ``action(now_ms)`` at *at_ms* (wall time); if that is past, after other tasks."""
        self.timers.at(self.clock.trio_time(at_ms), lambda: action(self.clock.now_ms()))

    def raise_mark(self, mark: str, position: int) -> None:
        """Answer the calls that wait for *mark* up to *position*, one write per connection."""
        with self.batch():
            self.watermarks.raise_to(mark, position)

    def give_up_mark(self, mark: str, position: int) -> None:
        """*mark* cannot reach *position* now: the calls that wait for it expire."""
        with self.batch():
            self.watermarks.give_up(mark, position)

    def waiting_bytes(self, peer: Peer) -> int:
        """The number of bytes that wait to be sent to *peer*; 0 if it has closed."""
        connection = self.connections.get(peer)
        return 0 if connection is None else connection.waiting_bytes()

    def push(self, peer: Peer, code: int, header: Header | None, body: bytes = b"") -> bool:
        """Send *peer* a one-way request; False if it has closed or reads too slowly."""
        connection = self.connections.get(peer)
        return connection is not None and connection.push(code, header, body)

    def close(self, peer: Peer) -> None:
        """Close the connection of *peer*, if it is open; earlier replies are sent first."""
        if (connection := self.connections.get(peer)) is not None:
            connection.flush()
            connection.transport.close()

    # For connections ------------------------------------------------------------------

    def handle(self, connection: Connection, command: RemotingCommand) -> None:
        """Answer a request, now or later; an exception of a handler becomes an error reply."""
        entry = self.handlers.get(command.code)
        handler: Handler = self._unknown if entry is None else entry[1]
        try:
            if len(command.body) > COUNTED_BYTES_MIN and entry is not None:
                check_body(entry[0], command.body, self.config)
            request = Header() if entry is None else command.decode(entry[0].request)
            call = Call(command, request, connection.peer, connection.last_active_ms)
            chain = self.chain
            result = chain.handle(call, handler) if chain.links else handler(call)
        except Exception as error:  # noqa: BLE001  # upstream answers SYSTEM_ERROR, too
            self._answer_error(connection, command, error, connection.last_active_ms)
            return
        if type(result) is Reply:
            self._answer(connection, command, result, connection.last_active_ms)
        else:
            self._apply_result(_Pending(connection, command, connection.last_active_ms), result)

    def handle_unknown(self, connection: Connection, command: RemotingCommand) -> None:
        """Answer as if no handler had the call."""
        call = Call(command, Header(), connection.peer, connection.last_active_ms)
        pending = _Pending(connection, command, connection.last_active_ms)
        self._apply_result(pending, self.chain.handle(call, self._unknown))

    def refuse(self, connection: Connection, command: RemotingCommand, error: BadFields) -> None:
        """Answer a request with SYSTEM_ERROR and note it; its handler is not called."""
        self._answer_error(connection, command, error, connection.last_active_ms)

    def connection_closed(self, connection: Connection) -> None:
        """The stream ended: release its held calls.  Server and client extend this."""
        self.connections.pop(connection.peer, None)
        self.bells.gone(connection.peer)
        self.watermarks.gone(connection.peer)
        self.outboxes.read(connection, 0)

    # Answering later ------------------------------------------------------------------

    def _apply_result(self, pending: _Pending, result: Result) -> None:
        if isinstance(result, Reply):
            connection, command = pending.connection, pending.command
            on_purpose = pending.held_on_purpose
            self._answer(connection, command, result, pending.arrived_ms, on_purpose=on_purpose)
        elif isinstance(result, NoReply):
            return
        elif isinstance(result, Wait):
            pending.held_on_purpose |= result.on_purpose
            holder = self.watermarks if isinstance(result.on, UpTo) else self.bells
            holder.hold(result, pending.connection.peer, partial(self._resume, pending))
        else:
            self._ask(pending, result)

    def _resume(
        self, pending: _Pending, resume: Callable[[int, Any], Result], now_ms: int, found: object
    ) -> None:
        """Resume a held call; its exceptions are answered as those of ``handle``."""
        try:
            result = resume(now_ms, found)
        except Exception as error:  # noqa: BLE001  # the same as in ``handle``
            connection, command = pending.connection, pending.command
            self._answer_error(connection, command, error, pending.arrived_ms)
        else:
            self._apply_result(pending, result)

    def _ask(self, pending: _Pending, ask: InvokePeer) -> None:
        def on_done(reply: RemotingCommand | RemoteError) -> None:
            found = reply if isinstance(reply, RemotingCommand) else None
            self._resume(pending, ask.resume, self.clock.now_ms(), found)

        target = self.connections.get(ask.peer)
        if target is None:
            # At the end of the turn: a thousand closed peers in a row must not recurse here.
            gone = NoAnswer(ask.peer.address, "its connection is closed")
            self.turn.at_end(lambda: on_done(gone))
        else:
            until_s = self.clock.trio_time(ask.until_ms)
            target.invoke(ask.code, ask.header, ask.body, until_s, on_done)

    # Replies --------------------------------------------------------------------------

    def _answer(
        self,
        connection: Connection,
        command: RemotingCommand,
        reply: Reply,
        arrived_ms: int,
        *,
        is_error: bool = False,
        on_purpose: bool = False,
    ) -> None:
        """Encode *reply* and write it, unless the request is one-way or the peer has closed."""
        if self.chain.observer is not None:
            answered = AnsweredRequest(command, connection.peer, reply, arrived_ms, on_purpose)
            self.chain.observer(answered)
        if command.flag & ONE_WAY or not connection.peer.is_open:
            return
        is_json = command.serialize_type == JSON
        means: RemotingCommand | None = None
        try:
            if is_json and connection.values is not None:
                means = self._reply_command(command, reply)
                data = encode_command(means)
            elif is_json or is_error or not self._echoes_reply_to(command):
                data = encode_response(
                    command,
                    code=reply.code,
                    version=self.version,
                    remark=reply.remark,
                    header=reply.header,
                    extra=reply.extra,
                    body=reply.body,
                )
            else:
                data = encode_command(self._reply_command(command, reply))
        except ValueError as error:  # longer than a frame may be
            self._note_failed(connection, command, error)
            data = encode_response(
                command, code=SYSTEM_ERROR, version=self.version, remark=str(error)
            )
            means = None
        connection.write(data, means)

    def _echoes_reply_to(self, command: RemotingCommand) -> bool:
        """Whether the reply has the request's serialization."""
        is_processed = self.has_default_processor or command.code in self.handlers
        return self._echoes and is_processed

    def _reply_command(self, command: RemotingCommand, reply: Reply) -> RemotingCommand:
        """The reply as a command, in the request's serialization."""
        return RemotingCommand(
            code=reply.code,
            flag=RESPONSE,
            opaque=command.opaque,
            version=self.version,
            remark=reply.remark,
            ext=ext_of(reply.header, reply.extra),
            body=reply.body,
            serialize_type=command.serialize_type,
        )

    def _answer_error(
        self, connection: Connection, command: RemotingCommand, error: Exception, arrived_ms: int
    ) -> None:
        """Answer a ``Refusal`` in the request's serialization, others as SYSTEM_ERROR in JSON."""
        entry = self.handlers.get(command.code)
        if isinstance(error, Refusal):
            reply = error_reply(error, entry[0] if entry else None)
            self._answer(connection, command, reply, arrived_ms)
            return
        text = str(error)
        if isinstance(error, BadFields):
            self.note(FrameRefused(connection.peer.address, text, closed=False))
            handler = entry[1] if entry else None
            if isinstance(handler, RefusesUnread) and (unread := handler.unread()) is not None:
                self._answer(connection, command, unread, arrived_ms)
                return
        else:
            text = f"{type(error).__name__}: {error}"
            self._note_failed(connection, command, error, text)
        reply = Reply(code=SYSTEM_ERROR, remark=text)
        self._answer(connection, command, reply, arrived_ms, is_error=True)

    def _note_failed(
        self, connection: Connection, command: RemotingCommand, error: Exception, text: str = ""
    ) -> None:
        lines = "".join(traceback.format_exception(error))
        peer = connection.peer.address
        self.note(HandlerFailed(peer, command.code, text or str(error), traceback=lines))

    def _unknown(self, call: Call[Any]) -> Result:
        if self._unknown_is_silent:
            return NoReply()
        remark = f" request type {call.command.code} not supported"
        return Reply(code=REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def error_reply(refusal: Refusal, rpc: AnyRpc | None) -> Reply:
    """An error reply; as upstream, with empty ext fields if the call has a reply header."""
    header = refusal.header
    if header is None and rpc is not None and rpc.reply is not Header:
        header = Header()
    return Reply(header, code=refusal.code, remark=refusal.remark)

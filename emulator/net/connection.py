"""One connection: a machine that turns bytes into handled commands, and never waits.

``feed`` decodes every complete frame, gives each to its handler or to the call that
waits for it, and sends all replies at once.  When its outbox is full it stops decoding:
a slow reader slows itself.  Pushes may then be dropped, with a fact; replies never.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from emulator.facts import ConnectionClosed, FrameRefused, PushDropped
from emulator.net.errors import NeverSent, NoAnswer, RemoteError, TimedOut
from emulator.net.frame_limits import long_header
from emulator.net.results import Peer
from emulator.net.under_way import leave
from protocol.command import (
    ONE_WAY,
    RESPONSE,
    RemotingCommand,
    decode_command,
    decode_long,
    encode_command,
    encode_request,
    ext_of,
)
from protocol.framing import BadFrame, Frame, FrameDecoder

if TYPE_CHECKING:
    from emulator.clock import WallClock
    from emulator.config import NetConfig
    from emulator.facts import Note
    from emulator.net.outboxes import Outboxes
    from emulator.net.timers import Timer, Timers
    from emulator.net.transport import Transport
    from emulator.net.turn import Turn
    from emulator.releases import Release
    from protocol.command import Ext
    from protocol.fields import BadFields, Header
    from protocol.languages import Language

OnDone: TypeAlias = Callable[[RemotingCommand | RemoteError], None]
Sign: TypeAlias = Callable[[str, RemotingCommand], None]  # (address, request that is to be sent)


class End(Protocol):
    """The end of the protocol that a connection belongs to, as far as it knows one."""

    clock: WallClock
    config: NetConfig
    release: Release
    version: int
    language: Language  # of requests
    note: Note
    timers: Timers
    turn: Turn
    outboxes: Outboxes
    sign: Sign | None  # may add ext fields to every request

    def handle(self, connection: Connection, command: RemotingCommand) -> None:
        """Answer a request, now or later."""
        ...

    def refuse(self, connection: Connection, command: RemotingCommand, error: BadFields) -> None:
        """Answer a request that is not to be handled."""
        ...

    def connection_closed(self, connection: Connection) -> None:
        """The stream ended."""
        ...


class Connection:
    """Both ends are alike: either may send requests, and numbers its own."""

    def __init__(self, transport: Transport, remoting: End, number: int) -> None:
        self.transport = transport
        self.peer = Peer(transport.remote, number)
        self.last_active_ms = remoting.clock.now_ms()
        self.watch: Timer | None = None  # a server's, on how long it has been silent
        self._remoting = remoting
        self._decoder = FrameDecoder(remoting.config.frame_bytes_max)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._opaques = itertools.count(1)
        self._pending: dict[int, tuple[OnDone, Timer]] = {}
        self._means: list[RemotingCommand] = []  # of the frames that were written, if known
        self.values = transport.values
        self._taken_bytes_max = min(
            remoting.config.header_bytes_max, remoting.config.frame_bytes_max
        )

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Bytes arrived: every complete frame is handled, in one turn."""
        if self.values and not self._decoder.waiting_bytes():
            commands = self.values.pop(data, None)
            if commands is not None and len(data) <= self._taken_bytes_max:
                self._handle_taken(commands, data)
                return
        self._handle_frames(data)

    def writable(self) -> None:
        """Everything has left: frames that waited behind a full outbox are handled."""
        self._remoting.outboxes.read(self, 0)
        self._handle_frames(b"")

    def drained(self) -> None:
        """Some of what was unsent has left."""
        self._remoting.outboxes.read(self, self.transport.unsent_bytes())

    def closed(self, reason: str) -> None:
        """The stream ended: requests of ours that wait for a reply fail with ``NoAnswer``."""
        if not self.peer.is_open:
            return
        self.peer.is_open = False
        self._remoting.note(ConnectionClosed(self.peer.address, reason))
        self._decoder = FrameDecoder()  # who still knows us need not keep half a frame
        pending, self._pending = self._pending, {}
        with self._remoting.turn:
            self._remoting.connection_closed(self)  # first: on_done may send again, on another one
            for on_done, timer in pending.values():
                timer.cancel()
                on_done(NoAnswer(self.peer.address, f"the connection ended ({reason})"))

    # What we send ---------------------------------------------------------------------

    def write(self, data: bytes, means: RemotingCommand | None = None) -> None:
        """Queue a frame; it leaves with everything else written in this turn.

        Where there are ``values``, it *means* that command.
        """
        self._out.append(data)
        if means is not None:
            self._means.append(means)
        self._out_bytes += len(data)
        turn = self._remoting.turn
        turn.dirty[self] = None
        if not turn.depth:
            turn.end_soon()

    def flush(self) -> None:
        """Send what was written, in one piece."""
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            if self.values is not None:
                if self.peer.is_open and len(self._means) == len(self._out):
                    leave(self.values, data, self._means)
                self._means = []
            self._out.clear()
            self._out_bytes = 0
            if self.peer.is_open:
                self.last_active_ms = self._remoting.turn.now_ms
                self.transport.send(data)
                if unsent_bytes := self.transport.unsent_bytes():
                    self._remoting.outboxes.wrote(self, unsent_bytes)

    def waiting_bytes(self) -> int:
        """How much was written and has not left this machine."""
        return self._out_bytes + self.transport.unsent_bytes()

    def invoke(
        self,
        code: int,
        header: Ext | None,
        body: bytes,
        until_s: float,
        on_done: OnDone,
    ) -> None:
        """Send a request; *on_done* gets the reply, or why there is none, exactly once.

        It gives up at *until_s* (trio time) with ``TimedOut``.
        """
        opaque = next(self._opaques)
        try:
            data, means = self._encode(code, header, body, opaque, 0)
        except (ValueError, TypeError) as error:  # too long, or no bytes
            on_done(NeverSent(self.peer.address, str(error)))
            return
        timer = self._remoting.timers.at(until_s, lambda: self._timed_out(opaque))
        self._pending[opaque] = (on_done, timer)
        self.write(data, means)

    def send_oneway(self, code: int, header: Ext | None, body: bytes = b"") -> bool:
        """Send a one-way request; False, and a fact, if no frame can hold it."""
        opaque = next(self._opaques)
        try:
            data, means = self._encode(code, header, body, opaque, ONE_WAY)
        except (ValueError, TypeError):
            self._remoting.note(PushDropped(self.peer.address, code, self.waiting_bytes()))
            return False
        self.write(data, means)
        return True

    def push(self, code: int, header: Header | None, body: bytes = b"") -> bool:
        """A one-way request that a slow reader may miss; False, and a fact, if it does."""
        waiting = self.waiting_bytes()
        if not self.peer.is_open:
            return False
        if waiting > self._remoting.config.outbox_bytes_max:
            self._remoting.note(PushDropped(self.peer.address, code, waiting))
            return False
        return self.send_oneway(code, header, body)

    # Inside ---------------------------------------------------------------------------

    def _handle_frames(self, data: bytes) -> None:
        """Those that *data* completes: a request is handled, a reply ends its call."""
        remoting = self._remoting
        full = remoting.config.outbox_bytes_max
        with remoting.turn as self.last_active_ms:
            self._decoder.feed(data)
            try:
                while self.peer.is_open and (frame := self._decoder.next_frame()) is not None:
                    if len(frame.header) > remoting.config.header_bytes_max:
                        self._handle_long(frame)
                        continue
                    command = decode_command(frame, remoting.release)
                    if command.flag & RESPONSE:
                        self._replied(command)
                    else:
                        remoting.handle(self, command)
                    if self._out_bytes > full:
                        self.flush()
                        if self.transport.unsent_bytes() > full:
                            return  # ``writable`` goes on
            except BadFrame as error:
                remoting.note(FrameRefused(self.peer.address, str(error), closed=True))
                self.flush()
                self.transport.close()

    def _handle_taken(self, commands: list[RemotingCommand], data: bytes) -> None:
        """The frames of *data*, without reading them."""
        full = self._remoting.config.outbox_bytes_max
        with self._remoting.turn as self.last_active_ms:
            for handled, command in enumerate(commands):
                if not self.peer.is_open:
                    return
                if self._out_bytes > full:
                    self.flush()
                    if self.transport.unsent_bytes() > full:
                        self._keep(data, handled)
                        return  # ``writable`` goes on
                if command.flag & RESPONSE:
                    self._replied(command)
                else:
                    self._remoting.handle(self, command)

    def _keep(self, data: bytes, handled: int) -> None:
        """The frames of *data* but the first *handled* wait until they are read."""
        self._decoder.feed(data)
        for _ in range(handled):
            self._decoder.next_frame()

    def _handle_long(self, frame: Frame) -> None:
        """A header that exceeds ``header_bytes_max``: replies may have one, as we asked."""
        remoting = self._remoting
        command = decode_long(frame)
        if command.is_response:
            self._replied(decode_command(frame, remoting.release))
        else:
            remoting.refuse(self, command, long_header(len(frame.header), remoting.config))

    def _replied(self, command: RemotingCommand) -> None:
        waiting = self._pending.pop(command.opaque or 0, None)
        if waiting is not None:
            on_done, timer = waiting
            timer.cancel()
            on_done(command)

    def _timed_out(self, opaque: int) -> None:
        on_done, _ = self._pending.pop(opaque)
        with self._remoting.turn:
            on_done(TimedOut(self.peer.address, "no answer in time"))

    def _encode(
        self, code: int, header: Ext | None, body: bytes, opaque: int, flag: int
    ) -> tuple[bytes, RemotingCommand | None]:
        """The frame of a request, and what it means if that is of use.

        Raises ``ValueError`` if it is longer than a frame may be.
        """
        remoting = self._remoting
        version, ext = remoting.version, ext_of(header)
        if remoting.sign is None and self.values is None:
            data = encode_request(
                code=code,
                flag=flag,
                opaque=opaque,
                version=version,
                ext=ext,
                body=body,
                language=remoting.language,
            )
            return data, None
        command = RemotingCommand(
            code=code,
            flag=flag,
            opaque=opaque,
            version=version,
            ext=ext,
            body=body,
            language=remoting.language,
        )
        if remoting.sign is not None:
            remoting.sign(self.peer.address, command)
        return encode_command(command), command

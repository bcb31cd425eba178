"""One connection: it decodes bytes into commands and calls their handlers.  It never waits.

``feed`` decodes every complete frame, passes each to its handler or to the call that waits for
it, and sends all replies in one write.  When its outbox is full it stops decoding: a slow reader
slows only itself.  Pushes may then be dropped, with a fact; replies are never dropped.  There is
also one limit for all peers of a server (``Outboxes``): above it the connections that have read
least recently are closed first, until the rest is below the limit.

A frame may have 16 MB, as upstream, but a header has a limit of its own, and the objects of a
JSON body are counted before it is decoded, because decoding a frame blocks all other work.
Bodies that are messages are not decoded, and have no such limit.  If both ends are in one
process, the sender stores its commands under the bytes that it wrote; a receiver of exactly
these bytes takes the commands and does not decode.  Bytes that were split, joined, changed or
lost are decoded as usual.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rocketmq_emulator.errors.call_errors import NeverSent, NoAnswer, RemoteError, TimedOut
from rocketmq_emulator.facts import (
    ConnectionClosed,
    FrameRefused,
    Note,
    PushDropped,
    SlowReaderClosed,
)
from rocketmq_emulator.net.results import Peer
from rocketmq_emulator.net.transport import Transport
from rocketmq_emulator.net.turn import Turn
from rocketmq_emulator.protocol.command import (
    ONE_WAY,
    RESPONSE,
    RemotingCommand,
    decode_command,
    decode_without_ext,
    encode_command,
    encode_request,
    ext_of,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.framing import BadFrame, Frame, FrameDecoder

if TYPE_CHECKING:
    from rocketmq_emulator.clocks.clock import WallClock
    from rocketmq_emulator.net.timers import Timer, Timers
    from rocketmq_emulator.net.transport import CommandsInFlight
    from rocketmq_emulator.protocol.command import Ext
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.rpc import AnyRpc
    from rocketmq_emulator.protocol.versions import Language
    from rocketmq_emulator.settings.config import NetConfig
    from rocketmq_emulator.settings.releases import Release


OnDone: TypeAlias = Callable[[RemotingCommand | RemoteError], None]
Sign: TypeAlias = Callable[[str, RemotingCommand], None]  # (address, request to be sent)


class ConnectionOwner(Protocol):
    """The ``Remoting`` that a connection belongs to: the part of it that the connection uses."""

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
        """Answer a request with *error*; its handler is not called."""
        ...

    def connection_closed(self, connection: Connection) -> None:
        """The stream of *connection* ended."""
        ...


class Connection:
    """One end of a stream.  Both ends may send requests; each numbers its own."""

    def __init__(self, transport: Transport, remoting: ConnectionOwner, number: int) -> None:
        self.transport = transport
        self.peer = Peer(transport.remote, number)
        self.last_active_ms = remoting.clock.now_ms()
        self.watch: Timer | None = None  # at a server: closes it when it is idle for too long
        self._remoting = remoting
        self._decoder = FrameDecoder(remoting.config.frame_bytes_max)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._opaques = itertools.count(1)
        self._pending: dict[int, tuple[OnDone, Timer]] = {}
        self._written_commands: list[RemotingCommand] = []  # of the written frames, if known
        self.values = transport.values
        self._decoded_bytes_max = min(
            remoting.config.header_bytes_max, remoting.config.frame_bytes_max
        )

    # What the transport calls ---------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Handle every frame that *data* completes, in one turn."""
        if self.values and not self._decoder.waiting_bytes():
            commands = self.values.pop(data, None)
            if commands is not None and len(data) <= self._decoded_bytes_max:
                self._handle_decoded(commands, data)
                return
        self._handle_frames(data)

    def writable(self) -> None:
        """The outbox is empty: handle the frames that were not decoded while it was full."""
        self._remoting.outboxes.read(self, 0)
        self._handle_frames(b"")

    def drained(self) -> None:
        """Some of the unsent bytes were sent."""
        self._remoting.outboxes.read(self, self.transport.unsent_bytes())

    def closed(self, reason: str) -> None:
        """The stream ended: requests that this end sent and that wait fail with ``NoAnswer``."""
        if not self.peer.is_open:
            return
        self.peer.is_open = False
        self._remoting.note(ConnectionClosed(self.peer.address, reason))
        self._decoder = FrameDecoder()  # frees the bytes of an incomplete frame
        pending, self._pending = self._pending, {}
        with self._remoting.turn:
            self._remoting.connection_closed(self)  # before on_done, which may send again
            for on_done, timer in pending.values():
                timer.cancel()
                on_done(NoAnswer(self.peer.address, f"the connection ended ({reason})"))

    # Sending --------------------------------------------------------------------------

    def write(self, data: bytes, means: RemotingCommand | None = None) -> None:
        """Queue a frame; it is sent with everything else written in this turn.

        *means* is the command in the frame; it is needed only if there are ``values``.
        """
        self._out.append(data)
        if means is not None:
            self._written_commands.append(means)
        self._out_bytes += len(data)
        turn = self._remoting.turn
        turn.dirty[self] = None
        if not turn.depth:
            turn.end_soon()

    def flush(self) -> None:
        """Send all queued frames, in one piece."""
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            if self.values is not None:
                if self.peer.is_open and len(self._written_commands) == len(self._out):
                    put_in_flight(self.values, data, self._written_commands)
                self._written_commands = []
            self._out.clear()
            self._out_bytes = 0
            if self.peer.is_open:
                self.last_active_ms = self._remoting.turn.now_ms
                self.transport.send(data)
                if unsent_bytes := self.transport.unsent_bytes():
                    self._remoting.outboxes.wrote(self, unsent_bytes)

    def waiting_bytes(self) -> int:
        """The number of bytes that were written and not yet sent."""
        return self._out_bytes + self.transport.unsent_bytes()

    def invoke(
        self,
        code: int,
        header: Ext | None,
        body: bytes,
        until_s: float,
        on_done: OnDone,
    ) -> None:
        """Send a request; *on_done* is called exactly once, with the reply or the error.

        At *until_s* (trio time) the error is ``TimedOut``.
        """
        opaque = next(self._opaques)
        try:
            data, means = self._encode(code, header, body, opaque, 0)
        except (ValueError, TypeError) as error:  # too long, or not bytes
            on_done(NeverSent(self.peer.address, str(error)))
            return
        timer = self._remoting.timers.at(until_s, lambda: self._timed_out(opaque))
        self._pending[opaque] = (on_done, timer)
        self.write(data, means)

    def send_oneway(
        self, code: int, header: Ext | None, body: bytes = b"", *, remark: str | None = None
    ) -> bool:
        """Send a one-way request; False, and a fact, if no frame can hold it."""
        opaque = next(self._opaques)
        try:
            data, means = self._encode(code, header, body, opaque, ONE_WAY, remark=remark)
        except (ValueError, TypeError):
            self._remoting.note(PushDropped(self.peer.address, code, self.waiting_bytes()))
            return False
        self.write(data, means)
        return True

    def push(self, code: int, header: Header | None, body: bytes = b"") -> bool:
        """Send a one-way request, unless the outbox is full: then False, and a fact.

        Also False if the peer has closed.
        """
        waiting = self.waiting_bytes()
        if not self.peer.is_open:
            return False
        if waiting > self._remoting.config.outbox_bytes_max:
            self._remoting.note(PushDropped(self.peer.address, code, waiting))
            return False
        return self.send_oneway(code, header, body)

    # Inside ---------------------------------------------------------------------------

    def _handle_frames(self, data: bytes) -> None:
        """Decode the frames that *data* completes: handle requests, pass replies to calls."""
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
                        self._end_call(command)
                    else:
                        remoting.handle(self, command)
                    if self._out_bytes > full:
                        self.flush()
                        if self.transport.unsent_bytes() > full:
                            return  # ``writable`` continues
            except BadFrame as error:
                remoting.note(FrameRefused(self.peer.address, str(error), closed=True))
                self.flush()
                self.transport.close()

    def _handle_decoded(self, commands: list[RemotingCommand], data: bytes) -> None:
        """Handle *commands*, which are the frames of *data*, without decoding."""
        full = self._remoting.config.outbox_bytes_max
        with self._remoting.turn as self.last_active_ms:
            for handled, command in enumerate(commands):
                if not self.peer.is_open:
                    return
                if self._out_bytes > full:
                    self.flush()
                    if self.transport.unsent_bytes() > full:
                        self._feed_rest(data, handled)
                        return  # ``writable`` continues
                if command.flag & RESPONSE:
                    self._end_call(command)
                else:
                    self._remoting.handle(self, command)

    def _feed_rest(self, data: bytes, handled: int) -> None:
        """Leave to the decoder the frames of *data* after the first *handled* ones."""
        self._decoder.feed(data)
        for _ in range(handled):
            self._decoder.next_frame()

    def _handle_long(self, frame: Frame) -> None:
        """A header exceeds ``header_bytes_max``: refuse a request; a reply is accepted."""
        remoting = self._remoting
        command = decode_without_ext(frame)
        if command.is_response:
            self._end_call(decode_command(frame, remoting.release))
        else:
            remoting.refuse(self, command, long_header(len(frame.header), remoting.config))

    def _end_call(self, command: RemotingCommand) -> None:
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
        self,
        code: int,
        header: Ext | None,
        body: bytes,
        opaque: int,
        flag: int,
        *,
        remark: str | None = None,
    ) -> tuple[bytes, RemotingCommand | None]:
        """The frame of a request, and its command if ``sign`` or ``values`` needs it.

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
                remark=remark,
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
            remark=remark,
        )
        if remoting.sign is not None:
            remoting.sign(self.peer.address, command)
        return encode_command(command), command


# Unsent bytes of all peers ------------------------------------------------------------


class Reader(Protocol):
    """The part of a connection that ``Outboxes`` uses."""

    peer: Peer
    transport: Transport


class Outboxes:
    """Unsent bytes by connection; above *bytes_max* the slowest are closed (None: no limit)."""

    def __init__(self, turn: Turn, note: Note, bytes_max: int | None = None) -> None:
        self.waiting_bytes = 0  # the sum of all connections
        self._turn = turn
        self._note = note
        self._bytes_max = bytes_max
        self._unsent: dict[Reader, int] = {}  # the least recent reader first

    def wrote(self, reader: Reader, unsent_bytes: int) -> None:
        """*reader* was written to and has *unsent_bytes* now.  Call it in a turn only."""
        self.waiting_bytes += unsent_bytes - self._unsent.get(reader, 0)
        self._unsent[reader] = unsent_bytes  # keeps its position
        if self._bytes_max is not None and self.waiting_bytes > self._bytes_max:
            self._turn.at_end(self._close_slowest)

    def read(self, reader: Reader, unsent_bytes: int) -> None:
        """*reader* has read some bytes, or was closed; *unsent_bytes* are left."""
        self.waiting_bytes += unsent_bytes - self._unsent.pop(reader, 0)
        if unsent_bytes:
            self._unsent[reader] = unsent_bytes

    def _close_slowest(self) -> None:
        assert self._bytes_max is not None, "without a limit no connection is closed"
        while self.waiting_bytes > self._bytes_max:
            reader, unsent_bytes = next(iter(self._unsent.items()))
            self._note(SlowReaderClosed(reader.peer.address, unsent_bytes, self.waiting_bytes))
            self.read(reader, 0)
            reader.transport.close()


# Limits of one request ----------------------------------------------------------------


COUNTED_BYTES_MIN = 64 * 1024  # in a shorter body nothing is counted


def long_header(header_bytes: int, config: NetConfig) -> BadFields:
    """The error for a request whose header exceeds ``header_bytes_max``."""
    return BadFields(
        f"a header of {header_bytes} bytes: the limit is {config.header_bytes_max} "
        "(header_bytes_max); nothing was done"
    )


def check_body(rpc: AnyRpc, body: bytes, config: NetConfig) -> None:
    """Check that a JSON body can be decoded in a short time.  Raises ``BadFields``."""
    if rpc.request_body is None or rpc.request_body is bytes:
        return
    objects = body.count(b"{")
    if rpc.answered_by == ("nameserver",):
        # A refusal would remove all routes of a broker: other requests have to wait instead.
        name = "registration_objects_max"
        _check(objects, config.registration_objects_max, "objects", name)
        return
    _check(objects, config.body_objects_max, "objects", "body_objects_max")
    _check(body.count(b","), config.body_members_max, "members", "body_members_max")


def _check(count: int, count_max: int, what: str, name: str) -> None:
    if count > count_max:
        raise BadFields(
            f"a body of {count} {what}: the limit is {count_max} ({name}); nothing was done"
        )


# Commands in flight between two ends of one process -----------------------------------


# Lost writes are counted too.  At the limit all entries are dropped, and decoded as usual.
WRITES_IN_FLIGHT_MAX = 1_000
WRITE_BYTES_MAX = 16 * 1024  # ours: longer writes are rare, and take memory


def put_in_flight(values: CommandsInFlight, data: bytes, commands: list[RemotingCommand]) -> None:
    """Store the *commands* of the frames in *data*, which is about to be sent."""
    if len(data) > WRITE_BYTES_MAX or not all(map(_is_plain, commands)):
        return
    if len(values) >= WRITES_IN_FLIGHT_MAX:
        values.clear()
    values[data] = commands


def _is_plain(command: RemotingCommand) -> bool:
    """Does decoding give the same command?  Releases decode non-ASCII text differently."""
    remark = command.remark
    return (
        type(command.body) is bytes
        and command.opaque is not None
        and (remark is None or remark.isascii())
        and bytes(command.ext).isascii()
    )

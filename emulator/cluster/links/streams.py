"""A stream through a proxy: two sockets, and two ``_HalfStream`` that forward between them.

While no fault holds, bytes read at one end are written at the other in the same step.  A side
that does not read slows down the other, as without a proxy: held bytes are bounded, and at the
bound nothing more is read.  The end of a stream and a reset are forwarded as such.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from rocketmq_emulator.cluster.links.endpoints import ClientNameReader, Names
from rocketmq_emulator.cluster.links.shaping import CUT, Direction, Effects, LinkRule
from rocketmq_emulator.net.epoll_reader import Readable
from rocketmq_emulator.net.timers import Timers

READ_BYTES = 256 * 1024
HELD_BYTES_MAX = 1024 * 1024  # per direction; then the sender's kernel holds the rest
LINGER_0 = struct.pack("ii", 1, 0)  # close with a reset


class Reading(Protocol):
    """Reads sockets: ``EpollReader``, or ``ReaderTasks``."""

    def add(self, socket: Readable) -> None:
        """Start reading *socket*."""

    def remove(self, socket: Readable) -> None:
        """Stop reading *socket*."""


class ProxyContext:
    """The objects that all streams of one loop share."""

    def __init__(
        self, nursery: trio.Nursery, reading: Reading, timers: Timers, rng: random.Random
    ) -> None:
        self.nursery = nursery
        self.reading = reading
        self.timers = timers
        self.rng = rng
        self.rules: dict[int, LinkRule] = {}  # the faults that hold, by number
        self.last_number = 0


class ProxiedStream:
    """A stream between *near*, the peer that connected, and *far*, the node behind the port.

    ``source`` has the names of that peer known so far.  ``_created_after`` is the number of the
    latest fault begun before the stream: a fault that refuses new connections affects only streams
    created after it.
    """

    def __init__(
        self,
        context: ProxyContext,
        near: socket.socket,
        far: socket.socket,
        names: tuple[Names, Names],
        on_end: Callable[[ProxiedStream], object],
        *,
        learns_names: bool,
    ) -> None:
        self._context = context
        self.source, self._target = names
        self._on_end = on_end
        self._created_after = context.last_number
        self._learned = ClientNameReader() if learns_names else None
        self._is_over = False
        self._to_node = _HalfStream(context, near, far, self)
        self._to_client = _HalfStream(context, far, near, self)
        self.apply(context.rules.values())
        for half in (self._to_node, self._to_client):
            half.read()

    def apply(self, rules: Iterable[LinkRule]) -> None:
        """Replace the rules that hold; reset the stream if one of them cuts it."""
        if self._is_over:
            return
        rules = list(rules)
        forth = Effects(rules, self.source, self._target)
        back = Effects(rules, self._target, self.source)
        ending = [*forth.cuts, *back.cuts]
        ending += [
            held
            for held in forth.refuses
            if held.number <= self._created_after and self._is_learned
        ]
        if ending:
            ending[0].tally.add(CUT)
            self.abort()
            return
        now_s = trio.current_time()
        self._to_node.apply(forth, now_s)
        self._to_client.apply(back, now_s)

    def on_data(self, half: _HalfStream, data: bytes) -> None:
        """Read the client's names from its bytes; new names may select other rules."""
        if half is self._to_node and self._learned is not None and self._learned.feed(data):
            assert self._learned.names is not None
            self.source = self._learned.names
            self.apply(self._context.rules.values())

    def on_half_closed(self) -> None:
        """Close the stream once both directions are done."""
        if self._to_node.is_done and self._to_client.is_done:
            self._close()

    def on_target_error(self, half: _HalfStream) -> None:
        """Pass on that *half*'s target failed: the other half's source is that socket."""
        (self._to_client if half is self._to_node else self._to_node).on_source_error()
        self.on_half_closed()

    def abort(self) -> None:
        """Reset both ends now."""
        for half in (self._to_node, self._to_client):
            if half.source.fileno() >= 0:
                half.source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        self._close()

    @property
    def is_over(self) -> bool:
        """Whether both sockets are closed."""
        return self._is_over

    @property
    def _is_learned(self) -> bool:
        return self._learned is not None and self._learned.names is not None

    def _close(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        for half in (self._to_node, self._to_client):
            half.close()
        self._on_end(self)


class _HalfStream:
    """Forwards bytes from *source* to *target*, when its ``Direction`` releases them."""

    def __init__(
        self,
        context: ProxyContext,
        source: socket.socket,
        target: socket.socket,
        stream: ProxiedStream,
    ) -> None:
        self.source = source
        self.is_done = False  # the end of the stream was forwarded
        self._context = context
        self._target = target
        self._stream = stream
        self._direction = Direction(Effects((), frozenset(), frozenset()), context.rng)
        self._unwritten = b""  # bytes that the target's kernel did not accept yet
        self._is_read = False
        self._has_ended = False  # the source sends nothing more
        self._planned_s: float | None = None

    # Reading --------------------------------------------------------------------------

    def read(self) -> None:
        """Start or stop reading the source: stop at the end, or while too many bytes wait."""
        wants = not (self._has_ended or self._unwritten or self.is_done)
        wants = wants and self._direction.held_bytes < HELD_BYTES_MAX and self.source.fileno() >= 0
        if wants and not self._is_read:
            self._context.reading.add(self)
        elif not wants and self._is_read:
            self._context.reading.remove(self)
        self._is_read = wants

    def fileno(self) -> int:
        """As ``Readable.fileno``."""
        return self.source.fileno()

    def readable(self) -> None:
        """As ``Readable.readable``."""
        try:
            data = self.source.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._end("reset")
            return
        if not data:
            self._end("eof")
            return
        self._stream.on_data(self, data)
        if self.source.fileno() < 0:
            return  # its names became known, and a fault has cut it
        if self._direction.is_free and not self._unwritten:
            self._write(data)
            return
        self._direction.put(data, trio.current_time())
        self._go_on()

    def stopped(self) -> None:
        """As ``Readable.stopped``."""
        self._stream.abort()

    def apply(self, effects: Effects, now_s: float) -> None:
        """Replace the effects, and write the bytes that are due now."""
        self._direction.apply(effects, now_s)
        self._go_on()

    def on_source_error(self) -> None:
        """Treat a failed write to the source as a reset by it."""
        if not self._has_ended:
            self._end("reset")

    def close(self) -> None:
        """Close the source; held bytes are dropped."""
        if self._is_read:
            self._context.reading.remove(self)
            self._is_read = False
        self._has_ended = True
        if self.source.fileno() >= 0:
            trio.lowlevel.notify_closing(self.source)
            self.source.close()

    def _end(self, how: str) -> None:
        self._has_ended = True
        self._direction.end("eof" if how == "eof" else "reset", trio.current_time())
        self._go_on()

    # Writing --------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Write the bytes that are due, and set a timer for the rest."""
        while not self._unwritten and not self.is_done and self._target.fileno() >= 0:
            what = self._direction.take(trio.current_time())
            if what is None:
                self._plan()
                break
            if isinstance(what, bytes):
                self._write(what)
            else:
                self._pass_on_end(what)
        self.read()

    def _pass_on_end(self, how: str) -> None:
        self.is_done = True
        if how == "reset":
            self._stream.abort()
            return
        with contextlib.suppress(OSError):  # the target has closed meanwhile
            self._target.shutdown(socket.SHUT_WR)
        self._stream.on_half_closed()

    def _write(self, data: bytes) -> None:
        try:
            sent = self._target.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._give_up()
            return
        if sent < len(data):
            self._unwritten = data[sent:]
            self.read()
            self._context.nursery.start_soon(self._write_rest)

    async def _write_rest(self) -> None:
        try:
            while self._unwritten:
                await trio.lowlevel.wait_writable(self._target)
                with contextlib.suppress(BlockingIOError):
                    self._unwritten = self._unwritten[self._target.send(self._unwritten) :]
        except (OSError, trio.ClosedResourceError):
            self._give_up()
            return
        self._go_on()

    def _give_up(self) -> None:
        """Stop forwarding: the target has closed."""
        self._unwritten = b""
        self.is_done = True
        self.read()
        self._stream.on_target_error(self)

    def _plan(self) -> None:
        due_s = self._direction.next_due_s()
        if due_s is not None and (self._planned_s is None or due_s < self._planned_s):
            self._planned_s = due_s
            self._context.timers.at(due_s, self._planned)

    def _planned(self) -> None:
        self._planned_s = None
        self._go_on()

"""A byte stream between two machines, and the path that its bytes take.

Bytes arrive whole and in order, late or never.  An end that has gone (closed, its process
killed, its machine switched off and on again) answers what still arrives with a reset, as a
kernel does: so the other side learns of it when it next sends.

All streams from one host to another share one ``Path``: how late bytes are, and whether its gate
is open.  So a rule is looked up when rules change and never while bytes move.  What comes to a
closed gate waits there in order; a throttle is a gate that lets one thing through at a time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from rocketmq_emulator.faults.links_and_drives import Cut, Refuse, Separate, Slow, Stall, Throttle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from rocketmq_emulator.faults.links_and_drives import Rule, Traffic
    from rocketmq_emulator.net.transport import Accept, CommandsInFlight, Endpoint
    from rocketmq_emulator.sim.clock import VirtualClock


T = TypeVar("T")


class StreamHost(Protocol):
    """The machine at which a stream ends, as far as the stream knows it."""

    name: str
    clock: VirtualClock
    is_awake: bool
    values: CommandsInFlight

    def receive_later(
        self, stream: Stream, action: Callable[[T], object], argument: T, size: int = 0
    ) -> None:
        """Keep what arrives until the machine is awake."""
        ...

    def receive_accept(self, attempt: PendingConnect) -> None:
        """The target accepted an attempt of this host."""
        ...

    def forget(self, stream: Stream) -> None:
        """*stream* has ended here."""
        ...


class PendingConnect(Protocol):
    """An attempt to connect, as the host that made it knows it."""

    client: Stream
    is_given_up: bool

    def succeed(self) -> None:
        """The target accepted."""
        ...


class Stream:
    """The ``Transport`` of the virtual network."""

    __slots__ = (
        "_endpoint",
        "_is_abandoned",
        "_is_notifying",
        "_is_open",
        "_path",
        "arrival_us",
        "held_bytes",
        "host",
        "local",
        "peer",
        "remote",
        "values",
    )

    def __init__(self, host: StreamHost, path: Path, local: str, remote: str) -> None:
        self.local = local
        self.remote = remote
        self.arrival_us = 0  # of the last thing sent: later ones do not overtake it
        self.held_bytes = 0  # taken, but waiting at a closed gate
        self.peer: Stream | None = None
        self.host = host
        self.values = host.values
        self._path = path
        self._endpoint: Endpoint | None = None
        self._is_open = True
        self._is_abandoned = False
        self._is_notifying = False

    # For our endpoint ---------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """As ``Transport.send``."""
        if self._is_open and data:
            assert self.peer is not None, "nobody sends before the stream is open"
            self._path.carry(self, self.peer.receive, data, len(data))

    def unsent_bytes(self) -> int:
        """As ``Transport.unsent_bytes``: what waits at a closed gate."""
        return self.held_bytes

    def close(self) -> None:
        """As ``Transport.close``."""
        if self._is_open:
            self._send_end("eof")
            self._end("closed here")

    # What the host does to us ---------------------------------------------------------

    def open(self, accept: Accept) -> None:
        """Both ends are there: *accept* makes the endpoint that is fed."""
        if self._is_open:
            self._endpoint = accept(self)

    def abandon(self, ending: str | None) -> None:
        """The process that held this end is gone; the peer sees *ending*, if there is one."""
        if self._is_open and ending is not None:
            self._send_end(ending)
        self._is_open = False
        self._is_abandoned = True
        self.host.forget(self)

    def is_between(self, traffic: Traffic) -> bool:
        """Does *traffic* mean this stream, one way or the other?"""
        if self.peer is None:
            return False
        here, there = self.host.name, self.peer.host.name
        return here != there and (traffic(here, there) or traffic(there, here))

    def carry(self, action: Callable[[T], object], argument: T, size: int = 0) -> None:
        """Call ``action(argument)`` at the far end, after all that was sent before."""
        self._path.carry(self, action, argument, size)

    def loses_connect(self) -> bool:
        """Is what asks for this stream, or grants it, lost on the way there?"""
        return self._path.loses_connect()

    def refuses_connect(self) -> bool:
        """Does a rule refuse this stream?"""
        return self._path.refuses_connect()

    # What arrives ---------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """*data* came from the other end."""
        if not self.host.is_awake:
            self.host.receive_later(self, self.receive, data, len(data))
        elif not self._is_open:
            self._send_end("reset")
        elif self._endpoint is not None:
            self._endpoint.feed(data)

    def held_bytes_left(self, size: int) -> None:
        """*size* held bytes passed the gate."""
        self.held_bytes -= size
        if size and not self._is_notifying:
            self._is_notifying = True
            self.host.clock.at(self.host.clock.now_us, self._notify_left)

    def receive_end(self, reason: str) -> None:
        """The other end has gone, for *reason*."""
        if not self._is_open:
            return
        if not self.host.is_awake:
            self.host.receive_later(self, self.receive_end, reason)
        else:
            self._end(reason)

    def _send_end(self, reason: str) -> None:
        if self.peer is not None:
            self._path.carry(self, self.peer.receive_end, reason)

    def _end(self, reason: str) -> None:
        self._is_open = False
        self.host.forget(self)
        if self._endpoint is not None and not self._is_abandoned:
            self._endpoint.closed(reason)

    def _notify_left(self, _: object) -> None:
        self._is_notifying = False
        if not self._is_open or self._endpoint is None:
            return
        if not self.host.is_awake:
            self.host.receive_later(self, self._notify_left, None)
        elif self.held_bytes:
            self._endpoint.drained()
        else:
            self._endpoint.writable()


# Paths between hosts ------------------------------------------------------------------


class Latency(msgspec.Struct, frozen=True):
    """How long bytes are under way: evenly between two bounds."""

    us_min: int = 200
    us_max: int = 500

    def __post_init__(self) -> None:
        if not 0 <= self.us_min <= self.us_max:
            raise ValueError(f"latency goes from {self.us_min} to {self.us_max} us")


class CarriedStream(Protocol):
    """What travels: one end of a stream, as far as a path knows it."""

    arrival_us: int
    held_bytes: int

    def held_bytes_left(self, size: int) -> None:
        """*size* bytes that were held have left."""
        ...


class _HeldSend(NamedTuple):
    """What waits at the gate: ``action(argument)`` is to be called at the far end."""

    stream: CarriedStream
    action: Callable[[Any], object]
    argument: Any
    size: int


class Path:
    """One way from a host to another.  Without rules it only adds its latency."""

    __slots__ = (
        "_blocking",
        "_bytes_per_s",
        "_clock",
        "_delay_us",
        "_draw",
        "_held",
        "_is_blocked",
        "_is_plain",
        "_jitter_us",
        "_losing",
        "_refusing",
        "_rng",
        "_send_number",
        "_sending",
        "_slowing",
        "_target_is_off",
        "_throttling",
    )

    def __init__(self, clock: VirtualClock, rng: Random, latency: Latency) -> None:
        self._clock = clock
        self._rng = rng
        self._draw = rng.random
        self._delay_us = latency.us_min
        self._jitter_us = latency.us_max - latency.us_min + 1
        self._target_is_off = False
        self._bytes_per_s = 0  # 0: as many as there are
        self._held: deque[_HeldSend] = deque()
        self._send_number = 0
        self._sending = 0  # the number of the send of the first that waits; 0: of none
        self.apply(())

    # For streams ----------------------------------------------------------------------

    def carry(
        self, stream: CarriedStream, action: Callable[[T], object], argument: T, size: int = 0
    ) -> None:
        """Call ``action(argument)`` at the far end, after all that *stream* sent before."""
        if not self._is_plain:
            self._carry_ruled(_HeldSend(stream, action, argument, size))
            return
        at_us = self._clock.now_us + self._delay_us + int(self._draw() * self._jitter_us)
        if at_us < stream.arrival_us:  # noqa: PLR1730 - max() costs more than all the rest here
            at_us = stream.arrival_us
        stream.arrival_us = at_us
        self._clock.at(at_us, action, argument)

    def refuses_connect(self) -> bool:
        """Is somebody who asks for a connection this way refused?"""
        for rule in self._refusing:
            rule.tally.add("refused a connection")
        return bool(self._refusing)

    def loses_connect(self) -> bool:
        """Is what asks for a connection, or grants one, lost on this way?"""
        for rule in self._losing:
            rule.tally.add("lost what asked for a connection")
        return bool(self._losing)

    # What happens to it ---------------------------------------------------------------

    def apply(self, rules: Sequence[Rule]) -> None:
        """These, and no others, hold from now on."""
        self._slowing = [rule for rule in rules if isinstance(rule.verdict, Slow)]
        self._throttling = [rule for rule in rules if isinstance(rule.verdict, Throttle)]
        self._blocking = [rule for rule in rules if isinstance(rule.verdict, Stall | Separate)]
        self._losing = [rule for rule in rules if isinstance(rule.verdict, Separate)]
        self._refusing = [rule for rule in rules if isinstance(rule.verdict, Refuse | Cut)]
        throttles = [rule.verdict for rule in rules if isinstance(rule.verdict, Throttle)]
        bytes_per_s = min((throttle.bytes_per_s for throttle in throttles), default=0)
        if bytes_per_s != self._bytes_per_s:
            self._bytes_per_s = bytes_per_s
            self._sending = 0  # the first that waits begins anew
        self._update_gate()

    def target_has_power(self, has_power: bool) -> None:
        """Without power there, the gate is shut."""
        self._target_is_off = not has_power
        self._update_gate()

    def source_lost_power(self) -> None:
        """What had not left that machine is gone with its memory."""
        self._held.clear()
        self._sending = 0
        self._update_gate()

    # Inside ---------------------------------------------------------------------------

    def _carry_ruled(self, held: _HeldSend) -> None:
        if not self._is_blocked and not self._bytes_per_s:
            self._schedule_arrival(held)
            return
        for rule in self._blocking:
            rule.tally.add("held bytes", bool(held.size), held_bytes=held.size)
        for rule in self._throttling:
            rule.tally.add("held bytes up", bool(held.size), held_bytes=held.size)
        self._held.append(held)
        held.stream.held_bytes += held.size
        self._send_held()

    def _update_gate(self) -> None:
        self._is_blocked = bool(self._blocking) or self._target_is_off
        self._is_plain = not (self._is_blocked or self._bytes_per_s or self._slowing)
        self._send_held()

    def _send_held(self) -> None:
        """Of what waits, all that may leave now."""
        while self._held and not self._is_blocked and not self._sending:
            if self._bytes_per_s and (size := self._held[0].size):
                self._send_number = self._sending = self._send_number + 1
                took_us = math.ceil(size * 1_000_000 / self._bytes_per_s)
                self._clock.at(self._clock.now_us + took_us, self._sent, self._sending)
            else:
                self._send_first_held()

    def _sent(self, number: int) -> None:
        """The first that waits has passed the narrow place, unless rules have changed."""
        if number != self._sending:
            return
        self._sending = 0
        if not self._is_blocked:
            self._send_first_held()
            self._send_held()

    def _send_first_held(self) -> None:
        held = self._held.popleft()
        self._schedule_arrival(held)
        held.stream.held_bytes_left(held.size)

    def _schedule_arrival(self, held: _HeldSend) -> None:
        stream, rng = held.stream, self._rng
        at_us = self._clock.now_us + self._delay_us + int(self._draw() * self._jitter_us)
        for rule in self._slowing:
            assert isinstance(rule.verdict, Slow)
            at_us += rule.verdict.late_us(rng)
            rule.tally.add("delayed bytes", bool(held.size))
        stream.arrival_us = at_us = max(at_us, stream.arrival_us)
        self._clock.at(at_us, held.action, held.argument)

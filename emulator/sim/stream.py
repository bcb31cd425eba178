"""A byte stream between two machines, and the path that its bytes take.

Bytes arrive complete and in order, late or never.  An end that does not exist any more (closed,
its process killed, its machine switched off and on) answers later bytes with a reset, as a
kernel does: so the other side detects it at its next send.

All streams from one host to another share one ``Path``, which has the delay and a gate.  So rules
are matched when they change and never while bytes are sent.  Bytes at a closed gate are held in
order; a throttle is a gate that passes one send at a time.
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
    """The machine at one end of a stream: the part of it that the stream uses."""

    name: str
    clock: VirtualClock
    is_awake: bool
    values: CommandsInFlight

    def receive_later(
        self, stream: Stream, action: Callable[[T], object], argument: T, size: int = 0
    ) -> None:
        """Call *action* with the arrived *argument* when the machine is awake."""
        ...

    def receive_accept(self, attempt: PendingConnect) -> None:
        """The target accepted *attempt*, which this host made."""
        ...

    def forget(self, stream: Stream) -> None:
        """*stream* has ended at this host."""
        ...


class PendingConnect(Protocol):
    """An attempt to connect: the part of it that the host uses."""

    client: Stream
    is_given_up: bool

    def succeed(self) -> None:
        """The target accepted the attempt."""
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
        self.arrival_us = 0  # of the last send: later ones arrive after it
        self.held_bytes = 0  # given to ``send`` and held at a closed gate
        self.peer: Stream | None = None
        self.host = host
        self.values = host.values
        self._path = path
        self._endpoint: Endpoint | None = None
        self._is_open = True
        self._is_abandoned = False
        self._is_notifying = False

    # For the endpoint ---------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """As ``Transport.send``."""
        if self._is_open and data:
            assert self.peer is not None, "a stream is open before bytes are sent"
            self._path.carry(self, self.peer.receive, data, len(data))

    def unsent_bytes(self) -> int:
        """As ``Transport.unsent_bytes``: the bytes held at a closed gate."""
        return self.held_bytes

    def close(self) -> None:
        """As ``Transport.close``."""
        if self._is_open:
            self._send_end("eof")
            self._end("closed here")

    # For the host ---------------------------------------------------------------------

    def open(self, accept: Accept) -> None:
        """Both ends exist: *accept* creates the endpoint that is fed."""
        if self._is_open:
            self._endpoint = accept(self)

    def abandon(self, ending: str | None) -> None:
        """The process of this end has ended; the peer gets *ending*, unless it is None."""
        if self._is_open and ending is not None:
            self._send_end(ending)
        self._is_open = False
        self._is_abandoned = True
        self.host.forget(self)

    def is_between(self, traffic: Traffic) -> bool:
        """Does *traffic* match this stream, in either direction?"""
        if self.peer is None:
            return False
        here, there = self.host.name, self.peer.host.name
        return here != there and (traffic(here, there) or traffic(there, here))

    def carry(self, action: Callable[[T], object], argument: T, size: int = 0) -> None:
        """Call ``action(argument)`` at the far end, after all earlier sends."""
        self._path.carry(self, action, argument, size)

    def loses_connect(self) -> bool:
        """Do rules lose the packet that opens or accepts this stream (SYN, SYN-ACK)?"""
        return self._path.loses_connect()

    def refuses_connect(self) -> bool:
        """Does a rule refuse this stream?"""
        return self._path.refuses_connect()

    # Arrivals -------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """*data* arrived from the other end."""
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
        """The other end has ended, for *reason*."""
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
    """The delay of bytes in microseconds, evenly distributed between two bounds."""

    us_min: int = 200
    us_max: int = 500

    def __post_init__(self) -> None:
        if not 0 <= self.us_min <= self.us_max:
            raise ValueError(f"a latency from {self.us_min} to {self.us_max} us is no range")


class CarriedStream(Protocol):
    """The sending end of a stream: the part of it that a path uses."""

    arrival_us: int
    held_bytes: int

    def held_bytes_left(self, size: int) -> None:
        """*size* held bytes have passed the gate."""
        ...


class _HeldSend(NamedTuple):
    """A send held at the gate: ``action(argument)`` is to be called at the far end."""

    stream: CarriedStream
    action: Callable[[Any], object]
    argument: Any
    size: int


class Path:
    """The direction from one host to another.  Without rules it only adds its latency."""

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
        self._bytes_per_s = 0  # 0: no limit
        self._held: deque[_HeldSend] = deque()
        self._send_number = 0
        self._sending = 0  # the number of the send in the throttle; 0: none
        self.apply(())

    # For streams ----------------------------------------------------------------------

    def carry(
        self, stream: CarriedStream, action: Callable[[T], object], argument: T, size: int = 0
    ) -> None:
        """Call ``action(argument)`` at the far end, after all earlier sends of *stream*."""
        if not self._is_plain:
            self._carry_ruled(_HeldSend(stream, action, argument, size))
            return
        at_us = self._clock.now_us + self._delay_us + int(self._draw() * self._jitter_us)
        if at_us < stream.arrival_us:  # noqa: PLR1730 - max() costs more than all the rest here
            at_us = stream.arrival_us
        stream.arrival_us = at_us
        self._clock.at(at_us, action, argument)

    def refuses_connect(self) -> bool:
        """Does a rule refuse new connections in this direction?"""
        for rule in self._refusing:
            rule.tally.add("refused a connection")
        return bool(self._refusing)

    def loses_connect(self) -> bool:
        """Does a rule lose the packets that open or accept connections in this direction?"""
        for rule in self._losing:
            rule.tally.add("lost what asked for a connection")
        return bool(self._losing)

    # For the network ------------------------------------------------------------------

    def apply(self, rules: Sequence[Rule]) -> None:
        """Replace the rules in force by *rules*."""
        self._slowing = [rule for rule in rules if isinstance(rule.verdict, Slow)]
        self._throttling = [rule for rule in rules if isinstance(rule.verdict, Throttle)]
        self._blocking = [rule for rule in rules if isinstance(rule.verdict, Stall | Separate)]
        self._losing = [rule for rule in rules if isinstance(rule.verdict, Separate)]
        self._refusing = [rule for rule in rules if isinstance(rule.verdict, Refuse | Cut)]
        throttles = [rule.verdict for rule in rules if isinstance(rule.verdict, Throttle)]
        bytes_per_s = min((throttle.bytes_per_s for throttle in throttles), default=0)
        if bytes_per_s != self._bytes_per_s:
            self._bytes_per_s = bytes_per_s
            self._sending = 0  # the first held send starts again
        self._update_gate()

    def target_has_power(self, has_power: bool) -> None:
        """The target's power changed: without power, the gate is closed."""
        self._target_is_off = not has_power
        self._update_gate()

    def source_lost_power(self) -> None:
        """The source lost its power: drop the sends that are held at the gate."""
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
        """Pass the held sends that may pass the gate now."""
        while self._held and not self._is_blocked and not self._sending:
            if self._bytes_per_s and (size := self._held[0].size):
                self._send_number = self._sending = self._send_number + 1
                took_us = math.ceil(size * 1_000_000 / self._bytes_per_s)
                self._clock.at(self._clock.now_us + took_us, self._sent, self._sending)
            else:
                self._send_first_held()

    def _sent(self, number: int) -> None:
        """The first held send has passed the throttle, unless rules have changed."""
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

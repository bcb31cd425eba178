"""The way from one host to another: how late, and whether its gate is open.

All streams from here to there share one path, so a rule is looked up when rules
change and never while bytes move.  What comes to a closed gate waits there in order; a
narrow place is a gate that lets one thing through at a time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from emulator.sim.rules import Cut, Refuse, Separate, Slow, Stall, Throttle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from emulator.sim.clock import VirtualClock
    from emulator.sim.rules import Rule


class Latency(msgspec.Struct, frozen=True):
    """How long bytes are under way: evenly between two bounds."""

    us_min: int = 200
    us_max: int = 500

    def __post_init__(self) -> None:
        if not 0 <= self.us_min <= self.us_max:
            raise ValueError(f"latency goes from {self.us_min} to {self.us_max} us")


class Carried(Protocol):
    """What travels: one end of a stream, as far as a path knows it."""

    arrival_us: int
    held_bytes: int

    def passed_gate(self, size: int) -> None:
        """*size* bytes that were held have left."""
        ...


class _AtGate(NamedTuple):
    """What waits at the gate: ``action(argument)`` is to be called at the far end."""

    stream: Carried
    action: Callable[[Any], object]
    argument: Any
    size: int


class Path:
    """One way from a host to another.  Without rules it only adds its latency."""

    __slots__ = (
        "_bytes_per_s",
        "_clock",
        "_delay_us",
        "_draw",
        "_held",
        "_is_plain",
        "_is_shut",
        "_jitter_us",
        "_losing",
        "_refusing",
        "_rng",
        "_send_number",
        "_sending",
        "_shutting",
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
        self._held: deque[_AtGate] = deque()
        self._send_number = 0
        self._sending = 0  # the number of the send of the first that waits; 0: of none
        self.apply(())

    # For streams ----------------------------------------------------------------------

    def carry(
        self, stream: Carried, action: Callable[[Any], object], argument: Any, size: int = 0
    ) -> None:
        """Call ``action(argument)`` at the far end, after all that *stream* sent before."""
        if not self._is_plain:
            self._carry_ruled(_AtGate(stream, action, argument, size))
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
        self._shutting = [rule for rule in rules if isinstance(rule.verdict, Stall | Separate)]
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

    def _carry_ruled(self, held: _AtGate) -> None:
        if not self._is_shut and not self._bytes_per_s:
            self._leave(held)
            return
        for rule in self._shutting:
            rule.tally.add("held bytes", bool(held.size), held_bytes=held.size)
        for rule in self._throttling:
            rule.tally.add("held bytes up", bool(held.size), held_bytes=held.size)
        self._held.append(held)
        held.stream.held_bytes += held.size
        self._let_go()

    def _update_gate(self) -> None:
        self._is_shut = bool(self._shutting) or self._target_is_off
        self._is_plain = not (self._is_shut or self._bytes_per_s or self._slowing)
        self._let_go()

    def _let_go(self) -> None:
        """Of what waits, all that may leave now."""
        while self._held and not self._is_shut and not self._sending:
            if self._bytes_per_s and (size := self._held[0].size):
                self._send_number = self._sending = self._send_number + 1
                took_us = math.ceil(size * 1_000_000 / self._bytes_per_s)
                self._clock.at(self._clock.now_us + took_us, self._sent, self._sending)
            else:
                self._leave_first()

    def _sent(self, number: int) -> None:
        """The first that waits has passed the narrow place, unless rules have changed."""
        if number != self._sending:
            return
        self._sending = 0
        if not self._is_shut:
            self._leave_first()
            self._let_go()

    def _leave_first(self) -> None:
        held = self._held.popleft()
        self._leave(held)
        held.stream.passed_gate(held.size)

    def _leave(self, held: _AtGate) -> None:
        stream, rng = held.stream, self._rng
        at_us = self._clock.now_us + self._delay_us + int(self._draw() * self._jitter_us)
        for rule in self._slowing:
            assert isinstance(rule.verdict, Slow)
            at_us += rule.verdict.late_us(rng)
            rule.tally.add("delayed bytes", bool(held.size))
        stream.arrival_us = at_us = max(at_us, stream.arrival_us)
        self._clock.at(at_us, held.action, held.argument)

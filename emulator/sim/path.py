"""The way from one host to another: how late, and whether its gate is open.

All streams from here to there share one path, so a rule is looked up when rules
change and never while bytes move.  What comes to a closed gate waits there in order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from emulator.sim.rules import Cut, Refuse, Slow, Stall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from emulator.sim.clock import VirtualClock
    from emulator.sim.rules import Verdict


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


class Path:
    """``is_shut``: the gate is closed, by a rule or because the target has no power."""

    __slots__ = (
        "_clock",
        "_delay_us",
        "_draw",
        "_held",
        "_is_stalled",
        "_jitter_us",
        "_latency",
        "_target_is_off",
        "is_shut",
        "refuses",
    )

    def __init__(self, clock: VirtualClock, rng: Random, latency: Latency) -> None:
        self.is_shut = False
        self.refuses = False
        self._clock = clock
        self._draw = rng.random
        self._latency = latency
        self._target_is_off = False
        self._is_stalled = False
        self._held: deque[tuple[Carried, Callable[[Any], object], Any, int]] = deque()
        self.apply(())

    def carry(
        self, stream: Carried, action: Callable[[Any], object], argument: Any, size: int = 0
    ) -> None:
        """Call ``action(argument)`` at the far end, after all that *stream* sent before."""
        if self.is_shut:
            self._held.append((stream, action, argument, size))
            stream.held_bytes += size
            return
        at_us = self._clock.now_us + self._delay_us + int(self._draw() * self._jitter_us)
        if at_us < stream.arrival_us:  # noqa: PLR1730 - max() costs more than all the rest here
            at_us = stream.arrival_us
        stream.arrival_us = at_us
        self._clock.at(at_us, action, argument)

    def apply(self, verdicts: Sequence[Verdict]) -> None:
        """These, and no others, hold from now on."""
        delays = [verdict for verdict in verdicts if isinstance(verdict, Slow)]
        jitter_us = round(sum(delay.jitter_ms for delay in delays) * 1000)
        self._delay_us = self._latency.us_min + round(sum(delay.ms for delay in delays) * 1000)
        self._jitter_us = self._latency.us_max - self._latency.us_min + jitter_us + 1
        self.refuses = any(isinstance(verdict, Refuse | Cut) for verdict in verdicts)
        self._is_stalled = any(isinstance(verdict, Stall) for verdict in verdicts)
        self._update_gate()

    def target_has_power(self, has_power: bool) -> None:
        """Without power there, the gate is shut."""
        self._target_is_off = not has_power
        self._update_gate()

    def source_lost_power(self) -> None:
        """What had not left that machine is gone with its memory."""
        self._held.clear()

    def _update_gate(self) -> None:
        self.is_shut = self._is_stalled or self._target_is_off
        while self._held and not self.is_shut:
            stream, action, argument, size = self._held.popleft()
            self.carry(stream, action, argument)
            stream.passed_gate(size)

"""Time as a role reads it and waits for it: wall clock, monotonic time, alarms.

trio's clock is the only clock: in the real worlds it runs, in the virtual one a test or a
scenario moves it.  A machine's wall time is trio time since the world began, plus the epoch the
world began at, plus that machine's own error: a jump, a drift.  Monotonic time orders what
happened in different processes of one machine (in the virtual world: of the whole world); wall
clocks may be set, and be skewed, so they cannot.

An alarm wakes the one task that waits for a moment which may be brought forward.  Loops of
services wait with one instead of a cancel scope for every pause.  Under trio's own clock nothing
is cheaper than a scope; a clock that moves time itself wakes the task without raising anything
in it (``rocketmq_emulator.sim.clock``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import trio

# Alarms -------------------------------------------------------------------------------


class Alarm(Protocol):
    """One task's; times are trio's, in seconds."""

    async def wait_until(self, at_s: float) -> None:
        """Until *at_s*, or what it was brought forward to; ``inf``: only then.

        It always lets others have a turn.
        """
        ...

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """Until the time that *next_s* gives; it is asked again when that has come.

        For who waits for the first of many things, some of which are called off.
        """
        ...

    def ring_by(self, at_s: float) -> None:
        """Whoever waits now waits until *at_s* at most, as soon as possible if that is over."""
        ...


class TrioAlarm:
    """With a cancel scope for each wait: right under any clock."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None

    async def wait_until(self, at_s: float) -> None:
        """As ``Alarm.wait_until``."""
        with trio.CancelScope(deadline=at_s) as self._scope:
            await trio.sleep_forever()
        self._scope = None

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """As ``Alarm.wait_due``."""
        await self.wait_until(next_s())
        while trio.current_time() < next_s():
            await self.wait_until(next_s())

    def ring_by(self, at_s: float) -> None:
        """As ``Alarm.ring_by``."""
        if self._scope is not None and at_s < self._scope.deadline:
            self._scope.deadline = at_s


# Clocks -------------------------------------------------------------------------------


class Clock(Protocol):
    """What a journal reads of a clock."""

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970."""

    def mono_us(self) -> int:
        """Monotonic time in microseconds, shared by all processes of the machine."""


class ClockError(NamedTuple):
    """How wrong a wall clock is: ahead by ``skew_ms``, and by a part of the time that passes.

    The drift has added nothing yet at the true time ``since_ms``.
    """

    skew_ms: int = 0
    drift_ppm: int = 0  # millionths: 100 gains 8.64 s a day, -100 loses as much
    since_ms: int = 0  # since 1970

    def at(self, true_ms: int) -> int:
        """How many milliseconds the clock is ahead at the true time *true_ms*."""
        return self.skew_ms + (true_ms - self.since_ms) * self.drift_ppm // 1_000_000

    def plus(self, other: ClockError) -> ClockError:
        """Both at once: jumps and drifts add up, each drift from where it began."""
        if not self.drift_ppm:
            since_ms, gained_ms = other.since_ms, 0
        else:
            since_ms = self.since_ms
            gained_ms = (since_ms - other.since_ms) * other.drift_ppm // 1_000_000
        skew_ms = self.skew_ms + other.skew_ms + gained_ms
        return ClockError(skew_ms, self.drift_ppm + other.drift_ppm, since_ms)


class WallClock:
    """One machine's reading of the time, in milliseconds since 1970.

    *mono_ns* is the machine's monotonic clock, *began_ns* what it showed at the epoch; without
    one it is trio's time since the world began, which all machines of a virtual world share.
    *new_alarm* makes what its services wait with.

    To set it wrong, change ``error``, or ``skew_ms`` alone.  Then the readings are wrong from
    now on; whatever waits already goes on waiting as long as it was to.
    """

    def __init__(
        self,
        epoch_ms: int,
        began_s: float,
        skew_ms: int = 0,
        mono_ns: Callable[[], int] | None = None,
        began_ns: int = 0,
        new_alarm: Callable[[], Alarm] = TrioAlarm,
    ) -> None:
        self._epoch_ms = epoch_ms
        self._trio_s = trio.lowlevel.current_clock().current_time
        self._began_s = began_s
        self._mono_ns = mono_ns or self._passed_ns  # asked for every frame: a plain function
        self._began_ns = began_ns
        self.error = ClockError(skew_ms)
        self.new_alarm = new_alarm

    @classmethod
    def of_this_machine(cls) -> WallClock:
        """The real time; call it inside ``trio.run``."""
        epoch_ms = time.time_ns() // 1_000_000
        # Before trio's time, so that a timer never fires before this clock shows its time.
        began_ns = time.monotonic_ns()
        # trio.current_time() has a random offset in each process: it orders nothing.
        return cls(epoch_ms, trio.current_time(), mono_ns=time.monotonic_ns, began_ns=began_ns)

    @property
    def error(self) -> ClockError:
        """How wrong it is."""
        return self._error

    @error.setter
    def error(self, error: ClockError) -> None:
        if error.drift_ppm <= -1_000_000:
            raise ValueError(f"with drift_ppm = {error.drift_ppm} the clock does not go on")
        self._error = error
        self._base_ms = self._epoch_ms + error.skew_ms
        self._drift_ppm = error.drift_ppm
        self._drifts_from_ns = (error.since_ms - self._epoch_ms) * 1_000_000

    @property
    def skew_ms(self) -> int:
        """How far it is ahead, besides its drift."""
        return self._error.skew_ms

    @skew_ms.setter
    def skew_ms(self, ms: int) -> None:
        self.error = self._error._replace(skew_ms=ms)

    def true_ms(self) -> int:
        """What it would show if it were right."""
        return self._epoch_ms + (self._mono_ns() - self._began_ns) // 1_000_000

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970, as this machine reads it."""
        passed_ns = self._mono_ns() - self._began_ns
        if self._drift_ppm:
            passed_ns += (passed_ns - self._drifts_from_ns) * self._drift_ppm // 1_000_000
        return self._base_ms + passed_ns // 1_000_000

    def mono_us(self) -> int:
        """The monotonic time in microseconds, the same in all processes of the machine."""
        return self._mono_ns() // 1000

    def trio_time(self, at_ms: int) -> float:
        """When, in trio's seconds, this machine's clock will show *at_ms*."""
        if not self._drift_ppm:
            return self._began_s + (at_ms - self._base_ms) / 1000
        # Never before it shows that, or who waited would find that it is not due.
        million = 1_000_000
        shown_ns = (at_ms - self._base_ms) * million
        parts_ns = shown_ns * million + self._drifts_from_ns * self._drift_ppm
        passed_us = -(-parts_ns // ((million + self._drift_ppm) * 1000))
        return self._began_s + passed_us / million

    def _passed_ns(self) -> int:
        # To whole microseconds: a float of seconds holds no more.
        return round((self._trio_s() - self._began_s) * 1_000_000) * 1000


class StoppedClock:
    """A clock that always shows *at_ms*, for values that are made outside of any run."""

    def __init__(self, at_ms: int = 0) -> None:
        self._at_ms = at_ms

    def now_ms(self) -> int:
        """Always the same wall time, in milliseconds."""
        return self._at_ms

    def mono_us(self) -> int:
        """The same moment in microseconds."""
        return self._at_ms * 1000

"""Clocks and alarms of a role: wall time, monotonic time, waiting.

trio's clock is the only clock: in the real worlds it runs, in a virtual world a test or a
scenario moves it.  A machine's wall time is trio time since the start of the world, plus the
epoch of the world, plus that machine's own error: a jump, a drift.  Monotonic time orders the
events in different processes of one machine (in a virtual world: of all machines).  Wall clocks
cannot, because they may be set or be skewed.

An alarm wakes one task at a time that may be brought forward.  Loops of services wait with an
alarm instead of a cancel scope for each pause.  Under trio's own clock a cancel scope is the
cheapest way; a clock that moves time itself wakes the task without an exception in it
(``rocketmq_emulator.sim.clock``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import trio

# Alarms -------------------------------------------------------------------------------


class Alarm(Protocol):
    """Wakes one task; times are trio's, in seconds."""

    async def wait_until(self, at_s: float) -> None:
        """Wait until *at_s*, or an earlier time set by ``ring_by``; ``inf``: only until that.

        It always lets other tasks run.
        """
        ...

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """Wait until the time that *next_s* returns; it is called again at that time.

        For a task that waits for the first of many timers, some of which are cancelled.
        """
        ...

    def ring_by(self, at_s: float) -> None:
        """The task that waits now is woken at *at_s* at the latest; at once if that is past."""
        ...


class TrioAlarm:
    """Uses a cancel scope for each wait: correct under any clock."""

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
    """The part of a clock that a journal uses."""

    def now_ms(self) -> int:
        """Wall time, in milliseconds since 1970."""

    def mono_us(self) -> int:
        """Monotonic time in microseconds, shared by all processes of the machine."""


class ClockError(NamedTuple):
    """The error of a wall clock: ahead by ``skew_ms``, plus a drift.

    The drift begins at the true time ``since_ms``.
    """

    skew_ms: int = 0
    drift_ppm: int = 0  # millionths: 100 gains 8.64 s per day, -100 loses 8.64 s
    since_ms: int = 0  # since 1970

    def at(self, true_ms: int) -> int:
        """How many milliseconds the clock is ahead at the true time *true_ms*."""
        return self.skew_ms + (true_ms - self.since_ms) * self.drift_ppm // 1_000_000

    def plus(self, other: ClockError) -> ClockError:
        """The sum of both errors; each drift is counted from its own beginning."""
        if not self.drift_ppm:
            since_ms, gained_ms = other.since_ms, 0
        else:
            since_ms = self.since_ms
            gained_ms = (since_ms - other.since_ms) * other.drift_ppm // 1_000_000
        skew_ms = self.skew_ms + other.skew_ms + gained_ms
        return ClockError(skew_ms, self.drift_ppm + other.drift_ppm, since_ms)


class WallClock:
    """One machine's wall clock, in milliseconds since 1970.

    *mono_ns* is the machine's monotonic clock, *began_ns* its value at the epoch; without them
    it is trio's time since the start of the world, which all machines of a virtual world share.
    *new_alarm* creates the alarms of its services.

    To set the clock wrong, change ``error``, or only ``skew_ms``.  Then its readings are wrong
    from now on; waits that have begun keep their length.
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
        self._mono_ns = mono_ns or self._passed_ns  # called for every frame: a plain function
        self._began_ns = began_ns
        self.error = ClockError(skew_ms)
        self.new_alarm = new_alarm

    @classmethod
    def of_this_machine(cls) -> WallClock:
        """A clock with the real time; call this inside ``trio.run``."""
        epoch_ms = time.time_ns() // 1_000_000
        # Read before trio's time, so that no timer fires before this clock shows its time.
        began_ns = time.monotonic_ns()
        # trio.current_time() has a random offset in each process: it cannot order events.
        return cls(epoch_ms, trio.current_time(), mono_ns=time.monotonic_ns, began_ns=began_ns)

    @property
    def error(self) -> ClockError:
        """The error of this clock."""
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
        """How many milliseconds it is ahead, without its drift."""
        return self._error.skew_ms

    @skew_ms.setter
    def skew_ms(self, ms: int) -> None:
        self.error = self._error._replace(skew_ms=ms)

    def true_ms(self) -> int:
        """The true wall time, without the clock's error, in milliseconds since 1970."""
        return self._epoch_ms + (self._mono_ns() - self._began_ns) // 1_000_000

    def ahead_ms(self) -> int:
        """By how much this clock is wrong now: below 0 if it is behind."""
        return self._error.at(self.true_ms())

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
        # Rounded up: a task that is woken earlier would find that its time is not reached.
        million = 1_000_000
        shown_ns = (at_ms - self._base_ms) * million
        parts_ns = shown_ns * million + self._drifts_from_ns * self._drift_ppm
        passed_us = -(-parts_ns // ((million + self._drift_ppm) * 1000))
        return self._began_s + passed_us / million

    def _passed_ns(self) -> int:
        # Rounded to microseconds: a float of seconds is not more precise.
        return round((self._trio_s() - self._began_s) * 1_000_000) * 1000


class StoppedClock:
    """A clock that always shows *at_ms*, for values that are created outside of any run."""

    def __init__(self, at_ms: int = 0) -> None:
        self._at_ms = at_ms

    def now_ms(self) -> int:
        """The wall time *at_ms*."""
        return self._at_ms

    def mono_us(self) -> int:
        """The time *at_ms* in microseconds."""
        return self._at_ms * 1000

"""Time that moves only when everybody waits, and delivers what falls due on the way.

trio asks its clock how long it may sleep until the next deadline.  This one answers "not
at all": it walks along a heap of *deliveries*, moves time to each and carries it out,
until a task became runnable or the deadline is reached.  So the network needs no task:
an idle link costs nothing, and a call wakes nobody but its caller.  ``alarms`` are
deadlines too, of tasks that the clock wakes itself.

Time is kept in whole microseconds since the world began, at 0.0 of trio's seconds.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from emulator.sim.alarms import VirtualAlarms
from emulator.sim.scheduler import current_runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio._core._run import Runner

_LONGER_THAN_ANY_CUSHION_S = 3600.0


class VirtualLivelock(Exception):
    """Too much happened in one instant: something loops without waiting, so time stands still."""


class VirtualDeadlock(Exception):
    """Every task waits, and no timer and no delivery is left that could wake one of them."""


class VirtualClock(trio.abc.Clock):
    """*events_max*: how much may happen in one instant before that is an error.

    ``on_crash`` is given what a delivery raised, and the two errors above; it should end
    the run.  Raising inside the clock would end trio instead, with everything half done.
    """

    def __init__(self, events_max: int = 1_000_000) -> None:
        self.now_us = 0
        self.deliveries = 0
        self.alarms = VirtualAlarms()
        self.on_crash: Callable[[Exception], object] = _raise
        self._now_s = 0.0
        self.events_max = events_max
        self._events = 0
        self._past_events = 0
        self._due: list[tuple[int, int, Callable[[Any], object], Any]] = []
        self._scheduled = 0
        self._runner: Runner | None = None
        self._has_stopped = False

    def at(self, at_us: int, action: Callable[[Any], object], argument: Any = None) -> None:
        """Call ``action(argument)`` at *at_us*; within one instant, in the order of asking."""
        self._scheduled = number = self._scheduled + 1
        heappush(self._due, (at_us, number, action, argument))

    def start_clock(self) -> None:
        """Called by trio when the run begins."""
        self._runner = current_runner()

    def stop(self) -> None:
        """The world has ended: let trio sleep, it still wakes itself through a real pipe."""
        self._has_stopped = True

    def current_time(self) -> float:
        """Virtual seconds since the world began."""
        # trio asks once in every turn of its loop, so turns without waiting are counted here.
        self._events += 1
        if self._events > self.events_max:
            self._livelock()
        return self._now_s

    @property
    def steps(self) -> int:
        """How much has happened in all: turns of trio's loop and deliveries within an instant."""
        return self._past_events + self._events

    def passed_ns(self) -> int:
        """Virtual nanoseconds since the world began."""
        return self.now_us * 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Move time to the next delivery or to *deadline*; trio need not sleep."""
        runner = self._runner
        assert runner is not None, "the clock was not started"
        if self._has_stopped:
            return _LONGER_THAN_ANY_CUSHION_S
        if runner.waiting_for_idle:
            return self._settle(runner)
        due, alarms, deadlines = self._due, self.alarms, runner.deadlines
        while True:
            # Each time anew: a delivery that wakes nobody may have brought a timer forward.
            deadline = min(deadlines.next_deadline(), alarms.next_s())
            if due and due[0][0] <= self._as_us(deadline):
                self._deliver()
                if not runner.runq:
                    continue
            elif deadline == inf:
                self.on_crash(VirtualDeadlock(f"at {self._now_s} s every task waits for ever"))
                return 0
            elif deadline > self._now_s:
                self._move(int(self._as_us(deadline)), deadline)
            alarms.ring(self._now_s)
            if runner.runq or deadlines.next_deadline() <= self._now_s:
                return 0

    def _settle(self, runner: Runner) -> float:
        """Somebody waits until all others do: finish this instant, begin no other."""
        while self._due and self._due[0][0] <= self.now_us:
            self._deliver()
            if runner.runq:
                return 0
        return _LONGER_THAN_ANY_CUSHION_S

    def _deliver(self) -> None:
        at_us, _, action, argument = heappop(self._due)
        self.deliveries += 1
        if at_us > self.now_us:
            self._move(at_us)
        else:
            self._events += 1
            if self._events > self.events_max:
                self._livelock()
        try:
            action(argument)
        except Exception as error:  # noqa: BLE001 - a broken endpoint ends the run, not trio
            self.on_crash(error)

    def _move(self, now_us: int, not_before: float = 0.0) -> None:
        # A deadline between two microseconds is rounded, yet trio must see it as reached.
        self.now_us = now_us
        self._now_s = max(now_us / 1_000_000, not_before, self._now_s)
        self._past_events += self._events
        self._events = 0

    def _as_us(self, deadline: float) -> float:
        if deadline == inf:
            return inf
        return round(deadline * 1_000_000) if deadline > self._now_s else self.now_us

    def _livelock(self) -> None:
        text = f"{self._events} things happened at {self._now_s} s and time did not move"
        self._events = 0
        self.on_crash(VirtualLivelock(text))


def _raise(error: Exception) -> NoReturn:
    raise error

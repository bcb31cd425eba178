"""Time that moves only when every task waits, and delivers what falls due on the way.

trio asks its clock how long it may sleep until the next deadline.  This one answers "not at all":
it walks along a heap of *deliveries*, moves time to each and carries it out, until a task became
runnable or the deadline is reached.  So the network needs no task: an idle link costs nothing,
and a call wakes nobody but its caller.

Alarms are deadlines too, in a second heap, of tasks that the clock wakes itself: a pause of a
trio cancel scope costs three times what the wake-up costs, and most of what happens in an idle
world are pauses that end.  Those due in one instant wake their tasks together, as deadlines do,
so that trio decides their order.

Time is kept in whole microseconds since the world began, at 0.0 of trio's seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

import trio

from rocketmq_emulator.protocol.error_families import CannotDoHere
from rocketmq_emulator.sim.scheduler import current_runner

if TYPE_CHECKING:
    from trio._core._run import Runner

T = TypeVar("T")

_IDLE_SLEEP_S = 3600.0


class VirtualLivelock(CannotDoHere):
    """Too much happened in one instant: something loops without waiting, so time stands still."""


class VirtualDeadlock(CannotDoHere):
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

    @overload
    def at(self, at_us: int, action: Callable[[None], object]) -> None: ...

    @overload
    def at(self, at_us: int, action: Callable[[T], object], argument: T) -> None: ...

    def at(self, at_us: int, action: Callable[[Any], object], argument: object = None) -> None:
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
            return _IDLE_SLEEP_S
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
        return _IDLE_SLEEP_S

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


# Alarms -------------------------------------------------------------------------------


STALE_MAX = 1_000  # fewer entries than that are not worth a new heap


class VirtualAlarms:
    """All of a world.  ``ring`` is the clock's part: time has moved."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, VirtualAlarm]] = []
        self._number = 0
        self._stale_count = 0

    def next_s(self) -> float:
        """When the next one rings, in trio's seconds; ``inf`` if none is set."""
        heap = self._heap
        while heap and heap[0][1] != heap[0][2].number:
            heappop(heap)
            self._stale_count -= 1
        return heap[0][0] if heap else inf

    def new(self) -> VirtualAlarm:
        """For a task of this world."""
        return VirtualAlarm(self)

    def ring(self, now_s: float) -> None:
        """It is *now_s*: wake the tasks of all that are due."""
        self.now_s = now_s
        while self.next_s() <= now_s:
            alarm = heappop(self._heap)[2]
            alarm.number = 0
            alarm.ring(now_s)

    def set(self, alarm: VirtualAlarm, at_s: float) -> None:
        """Have *alarm* ring at *at_s*, and not when it was to ring before."""
        self.unset(alarm)
        if at_s < inf:
            self._number = alarm.number = self._number + 1
            heappush(self._heap, (at_s, alarm.number, alarm))

    def unset(self, alarm: VirtualAlarm) -> None:
        """It does not ring."""
        if not alarm.number:
            return
        alarm.number = 0
        self._stale_count += 1
        if self._stale_count > max(STALE_MAX, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].number]
            heapify(self._heap)
            self._stale_count = 0


class VirtualAlarm:
    """The ``Alarm`` of one task; ``number`` is that of its entry in the heap, 0: none."""

    __slots__ = ("_alarms", "_at_s", "_next_s", "_task", "number")

    def __init__(self, alarms: VirtualAlarms) -> None:
        self.number = 0
        self._alarms = alarms
        self._task: trio.lowlevel.Task | None = None
        self._at_s = inf
        self._next_s: Callable[[], float] | None = None

    async def wait_until(self, at_s: float) -> None:
        """As ``Alarm.wait_until``."""
        assert self._task is None, "an alarm is for one task"
        if at_s <= self._alarms.now_s:
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        self._at_s = at_s
        self._alarms.set(self, at_s)
        await trio.lowlevel.wait_task_rescheduled(self._leave)
        # Killed in the instant in which it rang: then nothing more is done.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """As ``Alarm.wait_due``: while it is not due, the task is not woken."""
        self._next_s = next_s
        try:
            await self.wait_until(next_s())
        finally:
            self._next_s = None

    def ring_by(self, at_s: float) -> None:
        """As ``Alarm.ring_by``."""
        if self._task is None or at_s >= self._at_s:
            return
        if at_s > self._alarms.now_s:
            self._at_s = at_s
            self._alarms.set(self, at_s)
        else:
            self._alarms.unset(self)
            self._wake()

    def ring(self, now_s: float) -> None:
        """Its time has come: the task may run, unless that for which it waits is later now."""
        if self._next_s is None or (at_s := self._next_s()) <= now_s:
            self._wake()
        else:
            self._at_s = at_s
            self._alarms.set(self, at_s)

    def _wake(self) -> None:
        task, self._task = self._task, None
        assert task is not None, "only an alarm that somebody waits for rings"
        trio.lowlevel.reschedule(task)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._alarms.unset(self)
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

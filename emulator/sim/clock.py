"""Virtual time: it moves only when every task waits, and runs the deliveries that are due.

trio asks its clock how long it may sleep until the next deadline.  ``VirtualClock`` returns 0: it
takes *deliveries* from a heap, moves time to each and runs it, until a task is runnable or the
deadline is reached.  So the network needs no task: an idle link costs nothing, and a call wakes
only its caller.

Alarms are deadlines too, in a second heap; the clock wakes their tasks itself.  A pause with a
trio cancel scope costs three times as much as this, and most events in an idle world are the
ends of pauses.  Alarms that are due in one instant wake their tasks together, as deadlines do,
so that trio decides their order.

Time is counted in whole microseconds from the start of the world, which is 0.0 in trio's seconds.
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
    """Too many events in one instant: some code loops without waiting, so time cannot move."""


class VirtualDeadlock(CannotDoHere):
    """Every task waits, and no timer and no delivery is left that could wake one of them."""


class VirtualClock(trio.abc.Clock):
    """More than *events_max* events in one instant are a ``VirtualLivelock``.

    ``on_crash`` is called with the exceptions of deliveries and the two errors above; it should
    end the run.  An exception inside the clock would end trio itself, without any cleanup.
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
        """Call ``action(argument)`` at *at_us*; within one instant, in the order of calls."""
        self._scheduled = number = self._scheduled + 1
        heappush(self._due, (at_us, number, action, argument))

    def start_clock(self) -> None:
        """Called by trio when the run begins."""
        self._runner = current_runner()

    def stop(self) -> None:
        """The world has ended: let trio sleep; it can still be woken through its real pipe."""
        self._has_stopped = True

    def current_time(self) -> float:
        """Virtual seconds since the start of the world."""
        # trio calls this once in every turn of its loop, so turns without waiting are counted.
        self._events += 1
        if self._events > self.events_max:
            self._livelock()
        return self._now_s

    @property
    def steps(self) -> int:
        """The number of events so far: turns of trio's loop, deliveries within an instant."""
        return self._past_events + self._events

    def passed_ns(self) -> int:
        """Virtual nanoseconds since the start of the world."""
        return self.now_us * 1000

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Move time to the next delivery or to *deadline*; returns 0, so trio does not sleep.

        After ``stop``, or while a task waits for all others to block, it returns an hour.
        """
        runner = self._runner
        assert runner is not None, "the clock was not started"
        if self._has_stopped:
            return _IDLE_SLEEP_S
        if runner.waiting_for_idle:
            return self._settle(runner)
        due, alarms, deadlines = self._due, self.alarms, runner.deadlines
        while True:
            # Computed each time: a delivery that wakes no task may bring a timer forward.
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
        """A task waits until all others are blocked: finish this instant, begin no other."""
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
        text = f"{self._events} events at {self._now_s} s, and time did not move"
        self._events = 0
        self.on_crash(VirtualLivelock(text))


def _raise(error: Exception) -> NoReturn:
    raise error


# Alarms -------------------------------------------------------------------------------


STALE_MAX = 1_000  # with fewer stale entries the heap is not rebuilt


class VirtualAlarms:
    """All alarms of a world.  The clock calls ``ring`` when time has moved."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, VirtualAlarm]] = []
        self._number = 0
        self._stale_count = 0

    def next_s(self) -> float:
        """When the next alarm rings, in trio's seconds; ``inf`` if none is set."""
        heap = self._heap
        while heap and heap[0][1] != heap[0][2].number:
            heappop(heap)
            self._stale_count -= 1
        return heap[0][0] if heap else inf

    def new(self) -> VirtualAlarm:
        """A new alarm for a task of this world."""
        return VirtualAlarm(self)

    def ring(self, now_s: float) -> None:
        """The time is *now_s*: wake the tasks of all due alarms."""
        self.now_s = now_s
        while self.next_s() <= now_s:
            alarm = heappop(self._heap)[2]
            alarm.number = 0
            alarm.ring(now_s)

    def set(self, alarm: VirtualAlarm, at_s: float) -> None:
        """Let *alarm* ring at *at_s*, instead of the time set before."""
        self.unset(alarm)
        if at_s < inf:
            self._number = alarm.number = self._number + 1
            heappush(self._heap, (at_s, alarm.number, alarm))

    def unset(self, alarm: VirtualAlarm) -> None:
        """Cancel the time that is set for *alarm*, if any."""
        if not alarm.number:
            return
        alarm.number = 0
        self._stale_count += 1
        if self._stale_count > max(STALE_MAX, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].number]
            heapify(self._heap)
            self._stale_count = 0


class VirtualAlarm:
    """The ``Alarm`` of one task; ``number`` is the number of its heap entry, 0: none."""

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
        # If it was killed in the instant in which it rang, it ends here.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def wait_due(self, next_s: Callable[[], float]) -> None:
        """As ``Alarm.wait_due``; the task is woken only when it is due."""
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
        """The time that was set is reached: wake the task, unless it is due later now."""
        if self._next_s is None or (at_s := self._next_s()) <= now_s:
            self._wake()
        else:
            self._at_s = at_s
            self._alarms.set(self, at_s)

    def _wake(self) -> None:
        task, self._task = self._task, None
        assert task is not None, "an alarm rings only while its task waits"
        trio.lowlevel.reschedule(task)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._alarms.unset(self)
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

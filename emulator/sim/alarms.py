"""The alarms of a virtual world: one heap, from which the clock wakes tasks itself.

A pause of a trio cancel scope costs its making, its place among the deadlines and an
exception through all frames of the task, three times what the wake-up itself costs; and
most of what happens in an idle world are pauses that end.  Those that are due in one
instant wake their tasks together, as deadlines do, so that trio decides their order.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf

import trio

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

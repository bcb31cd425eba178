"""One heap of timers, and one task that waits for the first of them.

Ten thousand held pulls are ten thousand heap entries, not ten thousand tasks.  A cancelled
entry is only marked; the heap is rebuilt when most of its entries are marked.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

import trio

from rocketmq_emulator.clocks.clock import Alarm, TrioAlarm

CANCELLED_MAX = 1_000  # with fewer cancelled entries the heap is not rebuilt


class Timer:
    """An action that is due at ``at_s`` (trio time)."""

    __slots__ = ("_timers", "action", "at_s")

    def __init__(self, at_s: float, action: Callable[[], object], timers: Timers) -> None:
        self.at_s = at_s
        self.action: Callable[[], object] | None = action
        self._timers = timers

    def cancel(self) -> None:
        """The action will not run; no effect if it has run already."""
        if self.action is not None:
            self.action = None
            timers = self._timers
            timers.cancelled_count += 1
            if timers.cancelled_count > CANCELLED_MAX:
                timers.tidy()


class Timers:
    """Runs due actions in order of time, then of creation; actions of one time in one *turn*."""

    def __init__(
        self,
        turn: AbstractContextManager[object] | None = None,
        alarm: Alarm | None = None,
    ) -> None:
        self._turn = turn or nullcontext()
        self._alarm: Alarm = alarm or TrioAlarm()
        self._heap: list[tuple[float, int, Timer]] = []
        self._last_number = 0
        self.cancelled_count = 0  # cancelled timers still in the heap

    def at(self, at_s: float, action: Callable[[], object]) -> Timer:
        """Run *action* at *at_s* (trio time), or as soon as possible if that is past."""
        timer = Timer(at_s, action, self)
        self._last_number += 1
        heapq.heappush(self._heap, (at_s, self._last_number, timer))
        self._alarm.ring_by(at_s)
        return timer

    def tidy(self) -> None:
        """Drop the entries of cancelled timers if they are the majority."""
        if self.cancelled_count * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self.cancelled_count = 0

    async def run(self) -> NoReturn:
        """Run timers when they are due, until cancelled."""
        while True:
            await self._alarm.wait_due(self._next_s)
            self.fire(trio.current_time())

    def fire(self, now_s: float) -> None:
        """Run the due actions; timers that they add run later, after other tasks."""
        heap, last = self._heap, self._last_number
        with self._turn:
            while heap and heap[0][0] <= now_s and heap[0][1] <= last:
                timer = heapq.heappop(heap)[2]
                action, timer.action = timer.action, None
                if action is None:
                    self.cancelled_count -= 1
                else:
                    action()
                heap = self._heap

    def _next_s(self) -> float:
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
            self.cancelled_count -= 1
        return self._heap[0][0] if self._heap else math.inf

"""Calls that wait until a position is reached: flushed to disk, copied to a replica.

A *watermark* is a position that only rises.  The calls that wait for one are in a heap by
position: one raise (one fsync) resumes all who wait at or below it, in order.  What a
resumed call returns may wait again, for another mark: so flushing and copying chain.
A call for which the mark comes too late, or never, ends at its own deadline.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from emulator.clock import WallClock
from emulator.net.bells import Answer
from emulator.net.results import Wait
from emulator.net.timers import Timer, Timers

FLUSHED_TO = "flushed_to"  # below it everything is on the disk

_OVER_MAX = 1_000  # entries of calls that have ended, before the heap is rebuilt


class UpTo(NamedTuple):
    """What a ``Wait`` is ``on``: the *mark* has reached *position*."""

    mark: str
    position: int


class _Waiting:
    __slots__ = ("answer", "asker", "timer", "wait")

    def __init__(self, wait: Wait, asker: Hashable, answer: Answer) -> None:
        self.wait = wait
        self.asker = asker
        self.answer = answer
        self.timer: Timer | None = None  # None: the call has ended


class Watermarks:
    """Positions by name, and the calls that wait for them."""

    def __init__(self, clock: WallClock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._reached: dict[str, int] = {}
        self._heaps: dict[str, list[tuple[int, int, _Waiting]]] = {}
        self._with_gone: dict[Hashable, dict[_Waiting, None]] = {}
        self._born = 0
        self._over = 0
        self.held_count = 0

    def reached(self, mark: str) -> int:
        """The mark's position; -1 before it was raised for the first time."""
        return self._reached.get(mark, -1)

    def hold(self, wait: Wait, asker: Hashable, answer: Answer) -> None:
        """Resume *wait*, whose ``on`` is an ``UpTo``, when its position is reached.

        That may be now.  ``answer`` is given what to resume; ``wait.gone`` is called
        instead if the *asker* goes first.
        """
        on = wait.on
        assert isinstance(on, UpTo), "bells hold everything else"
        if on.position <= self.reached(on.mark):
            now_ms = self._clock.now_ms()
            answer(wait.resume, now_ms, False)
            return
        waiting = _Waiting(wait, asker, answer)
        self._born += 1
        heappush(self._heaps.setdefault(on.mark, []), (on.position, self._born, waiting))
        if wait.gone is not None:
            self._with_gone.setdefault(asker, {})[waiting] = None
        self.held_count += 1
        waiting.timer = self._timers.at(
            self._clock.trio_time(wait.until_ms), lambda: self._expire(waiting)
        )

    def raise_to(self, mark: str, position: int) -> None:
        """The mark has reached *position*; one that is there already stays."""
        if position <= self.reached(mark):
            return
        self._reached[mark] = position
        self._resume_all(self._pop(mark, position), expired=False)

    def give_up(self, mark: str, position: int) -> None:
        """What was to raise the mark to *position* has failed: who waits for that expires now."""
        self._resume_all(self._pop(mark, position), expired=True)

    def gone(self, asker: Hashable) -> None:
        """Let go of what *asker* waited for, as far as it matters to nobody else."""
        for waiting in list(self._with_gone.get(asker, ())):
            if waiting.timer is None:
                continue  # the end of one before it has raised the mark
            self._end(waiting)
            self._over += 1
            assert waiting.wait.gone is not None, "only such waits are kept by asker"
            waiting.wait.gone()
        self._tidy()

    def _pop(self, mark: str, position: int) -> list[_Waiting]:
        heap = self._heaps.get(mark, [])
        found = []
        while heap and heap[0][0] <= position:
            waiting = heappop(heap)[2]
            if waiting.timer is None:
                self._over -= 1
            else:
                found.append(waiting)
        return found

    def _resume_all(self, found: list[_Waiting], *, expired: bool) -> None:
        now_ms = self._clock.now_ms()
        for waiting in found:
            if waiting.timer is not None:  # else an earlier one of these made its asker go
                self._end(waiting)
                waiting.answer(waiting.wait.resume, now_ms, expired)

    def _expire(self, waiting: _Waiting) -> None:
        self._end(waiting)
        self._over += 1
        self._tidy()
        waiting.answer(waiting.wait.resume, self._clock.now_ms(), True)

    def _end(self, waiting: _Waiting) -> None:
        timer, waiting.timer = waiting.timer, None
        assert timer is not None, "a call ends once"
        timer.cancel()
        self.held_count -= 1
        if waiting.wait.gone is not None:
            row = self._with_gone[waiting.asker]
            del row[waiting]
            if not row:
                del self._with_gone[waiting.asker]

    def _tidy(self) -> None:
        """Entries of calls that have ended leave the heaps when they are the most of them."""
        if self._over <= _OVER_MAX or self._over < self.held_count:
            return
        for heap in self._heaps.values():
            heap[:] = [entry for entry in heap if entry[2].timer is not None]
            heapify(heap)
        self._over = 0

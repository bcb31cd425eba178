"""Held calls: they wait until a bell is rung with news, or a watermark reaches a position.

Ringing a bell collects news.  They are delivered at the end of the turn in which the bell was
rung, never inside the handler that rang it.  A call that wants any of the news is resumed, once;
the deadline of a call that wants none may become earlier (upstream's sweep answers every held
pull whose queue has grown, whether its filter matches or not).

A watermark is a position that only rises (flushed to disk, copied to a replica).  The calls that
wait for a watermark are in a heap by position: one raise (one fsync) resumes all calls at or
below it, in order.  The result of a resumed call may be another wait: first flushed, then copied.

Every held call ends at its deadline, which is fixed at its first pass.
Upstream: PullRequestHoldService.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.net.results import Result, Wait
from rocketmq_emulator.net.timers import Timer, Timers
from rocketmq_emulator.net.turn import PendingNews, Turn

Resume: TypeAlias = Callable[[int, bool], Result]
AnswerHeld: TypeAlias = Callable[[Resume, int, bool], None]  # and handles its exceptions


class _HeldCall:
    __slots__ = ("answer", "is_over", "number", "requester", "timer", "until_ms", "wait")

    def __init__(self, wait: Wait, requester: Hashable, answer: AnswerHeld, number: int) -> None:
        self.wait = wait
        self.requester = requester
        self.answer = answer
        self.number = number  # counts up: earlier news are not for this call
        self.until_ms = wait.until_ms
        self.timer: Timer | None = None
        self.is_over = False  # resumed or released


class Bells:
    """Held calls by bell."""

    def __init__(self, clock: WallClock, timers: Timers, turn: Turn) -> None:
        self._clock = clock
        self._timers = timers
        self._turn = turn
        turn.deliver = self._deliver
        self._held: dict[Hashable, dict[_HeldCall, None]] = {}
        # The calls that end when their requester closes.
        self._by_requester: dict[Hashable, dict[_HeldCall, None]] = {}
        self._numbers = 0
        self.held_count = 0

    def hold(self, wait: Wait, requester: Hashable, answer: AnswerHeld) -> None:
        """Hold a call until its bell is rung or its deadline.

        Then ``answer(wait.resume, now_ms, expired)`` is called, exactly once; if *requester*
        closes before and the wait has a ``gone``, that is called instead.
        """
        self._numbers += 1
        held = _HeldCall(wait, requester, answer, self._numbers)
        self._held.setdefault(wait.on, {})[held] = None
        if wait.gone is not None:
            self._by_requester.setdefault(requester, {})[held] = None
        self.held_count += 1
        self._end_at(held, wait.until_ms)

    def ring(self, bell: Hashable, news: object = None) -> None:
        """Resume the calls held on *bell* that want *news*, at the end of this turn.

        Outside of a turn that is at once.  It is cheap if no call is held on *bell*.
        """
        if bell not in self._held:
            return
        turn = self._turn
        turn.rung.setdefault(bell, []).append((self._numbers, news))
        if not turn.depth:
            with turn:
                pass

    def gone(self, requester: Hashable) -> None:
        """*requester* has closed: release its calls that have a ``wait.gone``, and call that."""
        for held in list(self._by_requester.get(requester, ())):
            if held.is_over:
                continue  # resumed: the ``gone`` of an earlier call rang its bell
            self._release(held)
            assert held.wait.gone is not None, "only waits with gone are kept by requester"
            held.wait.gone()

    def _deliver(self, rung: dict[Hashable, PendingNews]) -> None:
        now_ms = self._turn.now_ms
        for bell, news in rung.items():
            for held in list(self._held.get(bell, ())):
                if held.number <= news[-1][0]:  # else it was held after the last of them
                    self._offer_news(held, news, now_ms)

    def _offer_news(self, held: _HeldCall, rung: PendingNews, now_ms: int) -> None:
        """Resume the call if it wants any of these news; else its deadline may become earlier."""
        if held.is_over:
            return  # ended by a call that was resumed before it
        wait = held.wait
        try:
            is_wanted = wait.wants is None or _any_wanted(wait.wants, held.number, rung)
        except Exception as error:  # noqa: BLE001  # answered like an exception of resume
            self._resume(held, partial(_raise, error), now_ms, expired=False)
            return
        if is_wanted:
            self._resume(held, wait.resume, now_ms, expired=False)
        elif wait.unwanted_until_ms is not None:
            sooner_ms = wait.unwanted_until_ms(now_ms)
            if sooner_ms < held.until_ms:
                self._end_at(held, sooner_ms)

    def _end_at(self, held: _HeldCall, until_ms: int) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.until_ms = until_ms
        held.timer = self._timers.at(self._clock.trio_time(until_ms), partial(self._expire, held))

    def _expire(self, held: _HeldCall) -> None:
        self._resume(held, held.wait.resume, self._clock.now_ms(), expired=True)

    def _resume(self, held: _HeldCall, resume: Resume, now_ms: int, *, expired: bool) -> None:
        if held.is_over:
            return  # ended by a call that was resumed before it
        self._release(held)
        held.answer(resume, now_ms, expired)

    def _release(self, held: _HeldCall) -> None:
        """Remove the call from the tables; a row is removed with its last entry."""
        held.is_over = True
        wait, requester = held.wait, held.requester
        row = self._held[wait.on]
        del row[held]
        if not row:
            del self._held[wait.on]
        if wait.gone is not None:
            row = self._by_requester[requester]
            del row[held]
            if not row:
                del self._by_requester[requester]
        self.held_count -= 1
        if held.timer is not None:
            held.timer.cancel()


def _any_wanted(wants: Callable[[Any], bool], number: int, rung: PendingNews) -> bool:
    """Whether *wants* is true of news that came after call *number* was held."""
    for newest, news in rung:  # noqa: SIM110  # a generator would cost more than the filter
        if number <= newest and wants(news):
            return True
    return False


def _raise(error: Exception, _now_ms: int, _expired: bool) -> Result:
    raise error


# Watermarks ---------------------------------------------------------------------------


FLUSHED_TO = "flushed_to"  # all bytes below it are on the disk

_ENDED_MAX = 1_000  # entries of calls that have ended, before the heap is rebuilt


class UpTo(NamedTuple):
    """``Wait.on`` for a watermark: the call waits until *mark* has reached *position*."""

    mark: str
    position: int


class _Waiting:
    __slots__ = ("answer", "requester", "timer", "wait")

    def __init__(self, wait: Wait, requester: Hashable, answer: AnswerHeld) -> None:
        self.wait = wait
        self.requester = requester
        self.answer = answer
        self.timer: Timer | None = None  # None: the call has ended


class Watermarks:
    """Positions by name, and the calls that wait for them."""

    def __init__(self, clock: WallClock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._reached: dict[str, int] = {}
        self._heaps: dict[str, list[tuple[int, int, _Waiting]]] = {}
        self._by_requester: dict[Hashable, dict[_Waiting, None]] = {}
        self._last_number = 0
        self._ended_count = 0
        self.held_count = 0

    def reached(self, mark: str) -> int:
        """The mark's position; -1 before it was first raised."""
        return self._reached.get(mark, -1)

    def hold(self, wait: Wait, requester: Hashable, answer: AnswerHeld) -> None:
        """Hold a call whose ``wait.on`` is an ``UpTo`` until its position is reached.

        That may be now.  Then ``answer(wait.resume, now_ms, expired)`` is called; if
        *requester* closes before and the wait has a ``gone``, that is called instead.
        """
        on = wait.on
        assert isinstance(on, UpTo), "bells hold everything else"
        if on.position <= self.reached(on.mark):
            now_ms = self._clock.now_ms()
            answer(wait.resume, now_ms, False)
            return
        waiting = _Waiting(wait, requester, answer)
        self._last_number += 1
        heappush(self._heaps.setdefault(on.mark, []), (on.position, self._last_number, waiting))
        if wait.gone is not None:
            self._by_requester.setdefault(requester, {})[waiting] = None
        self.held_count += 1
        waiting.timer = self._timers.at(
            self._clock.trio_time(wait.until_ms), lambda: self._expire(waiting)
        )

    def raise_to(self, mark: str, position: int) -> None:
        """The mark has reached *position*; no effect if it was there already."""
        if position <= self.reached(mark):
            return
        self._reached[mark] = position
        self._resume_all(self._pop(mark, position), expired=False)

    def give_up(self, mark: str, position: int) -> None:
        """The mark cannot reach *position* (as a flush failed): its waiting calls expire."""
        self._resume_all(self._pop(mark, position), expired=True)

    def gone(self, requester: Hashable) -> None:
        """*requester* has closed: release its calls that have a ``wait.gone``, and call that."""
        for waiting in list(self._by_requester.get(requester, ())):
            if waiting.timer is None:
                continue  # resumed: the ``gone`` of an earlier call raised the mark
            self._end(waiting)
            self._ended_count += 1
            assert waiting.wait.gone is not None, "only waits with gone are kept by requester"
            waiting.wait.gone()
        self._tidy()

    def _pop(self, mark: str, position: int) -> list[_Waiting]:
        heap = self._heaps.get(mark, [])
        found = []
        while heap and heap[0][0] <= position:
            waiting = heappop(heap)[2]
            if waiting.timer is None:
                self._ended_count -= 1
            else:
                found.append(waiting)
        return found

    def _resume_all(self, found: list[_Waiting], *, expired: bool) -> None:
        now_ms = self._clock.now_ms()
        for waiting in found:
            if waiting.timer is not None:  # else an earlier call closed its requester
                self._end(waiting)
                waiting.answer(waiting.wait.resume, now_ms, expired)

    def _expire(self, waiting: _Waiting) -> None:
        self._end(waiting)
        self._ended_count += 1
        self._tidy()
        waiting.answer(waiting.wait.resume, self._clock.now_ms(), True)

    def _end(self, waiting: _Waiting) -> None:
        timer, waiting.timer = waiting.timer, None
        assert timer is not None, "a call ends once"
        timer.cancel()
        self.held_count -= 1
        if waiting.wait.gone is not None:
            row = self._by_requester[waiting.requester]
            del row[waiting]
            if not row:
                del self._by_requester[waiting.requester]

    def _tidy(self) -> None:
        """Remove the entries of ended calls from the heaps if they are the majority."""
        if self._ended_count <= _ENDED_MAX or self._ended_count < self.held_count:
            return
        for heap in self._heaps.values():
            heap[:] = [entry for entry in heap if entry[2].timer is not None]
            heapify(heap)
        self._ended_count = 0

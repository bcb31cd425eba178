"""Calls that wait for news.

A held call hangs on a bell.  Ringing collects news; they are delivered when the turn in
which the bell was rung has ended, never inside the handler that rang it.  A call that
wants any of them is resumed, once; one that wants none may have its end brought forward
(upstream's sweep answers every held pull whose queue has grown, matching or not).  A
call nobody rings for ends at its own deadline, which stays that of its first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeAlias

from emulator.clock import WallClock
from emulator.net.results import Result, Wait
from emulator.net.timers import Timer, Timers
from emulator.net.turn import Rung, Turn

Resume: TypeAlias = Callable[[int, bool], Result]
Answer: TypeAlias = Callable[[Resume, int, bool], None]  # handles what resuming raises, too


class _Held:
    __slots__ = ("answer", "asker", "is_over", "number", "timer", "until_ms", "wait")

    def __init__(self, wait: Wait, asker: Hashable, answer: Answer, number: int) -> None:
        self.wait = wait
        self.asker = asker
        self.answer = answer
        self.number = number  # counts up: news that came before it are not for it
        self.until_ms = wait.until_ms
        self.timer: Timer | None = None
        self.is_over = False  # resumed or let go


class Bells:
    """Held calls by bell."""

    def __init__(self, clock: WallClock, timers: Timers, turn: Turn) -> None:
        self._clock = clock
        self._timers = timers
        self._turn = turn
        turn.deliver = self._deliver
        self._held: dict[Hashable, dict[_Held, None]] = {}
        self._of: dict[Hashable, dict[_Held, None]] = {}  # by asker: those that end with it
        self._numbers = 0
        self.held_count = 0

    def hold(self, wait: Wait, asker: Hashable, answer: Answer) -> None:
        """Keep a call until its bell rings or its time is over.

        Then ``answer(wait.resume, now_ms, expired)`` is called, exactly once, unless
        *asker* goes before and the call ends with it (``wait.gone``).
        """
        self._numbers += 1
        held = _Held(wait, asker, answer, self._numbers)
        self._held.setdefault(wait.on, {})[held] = None
        if wait.gone is not None:
            self._of.setdefault(asker, {})[held] = None
        self.held_count += 1
        self._end_at(held, wait.until_ms)

    def ring(self, bell: Hashable, news: Any = None) -> None:
        """Wake those who hang on *bell* and want *news*, when this turn has ended.

        Outside of a turn that is at once.  It costs little when nobody is held there.
        """
        if bell not in self._held:
            return
        turn = self._turn
        turn.rung.setdefault(bell, []).append((self._numbers, news))
        if not turn.depth:
            with turn:
                pass

    def gone(self, asker: Hashable) -> None:
        """Let go of what *asker* waited for, as far as it matters to nobody else."""
        for held in list(self._of.get(asker, ())):
            if held.is_over:
                continue  # woken by what the end of one before it rang
            self._release(held)
            assert held.wait.gone is not None, "only such waits are kept by asker"
            held.wait.gone()

    def _deliver(self, rung: dict[Hashable, Rung]) -> None:
        now_ms = self._turn.now_ms
        for bell, news in rung.items():
            for held in list(self._held.get(bell, ())):
                if held.number <= news[-1][0]:  # else it was held after the last of them
                    self._bring(held, news, now_ms)

    def _bring(self, held: _Held, rung: Rung, now_ms: int) -> None:
        """Resume it if it wants any of these news; else its end may come sooner."""
        if held.is_over:
            return  # by one that was resumed before it
        wait = held.wait
        try:
            is_wanted = wait.wants is None or _any_wanted(wait.wants, held.number, rung)
        except Exception as error:  # noqa: BLE001  # answered as what resuming raises
            self._resume(held, partial(_raise, error), now_ms, expired=False)
            return
        if is_wanted:
            self._resume(held, wait.resume, now_ms, expired=False)
        elif wait.unwanted_until_ms is not None:
            sooner_ms = wait.unwanted_until_ms(now_ms)
            if sooner_ms < held.until_ms:
                self._end_at(held, sooner_ms)

    def _end_at(self, held: _Held, until_ms: int) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.until_ms = until_ms
        held.timer = self._timers.at(self._clock.trio_time(until_ms), partial(self._expire, held))

    def _expire(self, held: _Held) -> None:
        self._resume(held, held.wait.resume, self._clock.now_ms(), expired=True)

    def _resume(self, held: _Held, resume: Resume, now_ms: int, *, expired: bool) -> None:
        if held.is_over:
            return  # by one that was resumed before it
        self._release(held)
        held.answer(resume, now_ms, expired)

    def _release(self, held: _Held) -> None:
        """Forget it; empty rows go with their last entry."""
        held.is_over = True
        wait, asker = held.wait, held.asker
        row = self._held[wait.on]
        del row[held]
        if not row:
            del self._held[wait.on]
        if wait.gone is not None:
            row = self._of[asker]
            del row[held]
            if not row:
                del self._of[asker]
        self.held_count -= 1
        if held.timer is not None:
            held.timer.cancel()


def _any_wanted(wants: Callable[[Any], bool], number: int, rung: Rung) -> bool:
    """Whether *wants* is true of news that came after call *number* was held."""
    for newest, news in rung:  # noqa: SIM110  # a generator would cost more than the filter
        if number <= newest and wants(news):
            return True
    return False


def _raise(error: Exception, _now_ms: int, _expired: bool) -> Result:
    raise error

"""Calls that wait for news.

A held call hangs on a bell.  Ringing brings news; a call that wants them is resumed at
once, one that does not may have its end brought forward (upstream's sweep answers every
held pull whose queue has grown, matching or not).  A call nobody rings for ends at its
own deadline, which stays that of its first ask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from emulator.clock import WallClock
from emulator.net.results import Result, Wait
from emulator.net.timers import Timer, Timers

Resume = Callable[[], Result]
Answer = Callable[[Resume], None]  # who answers also hears what resuming raises


class _Held:
    __slots__ = ("answer", "asker", "timer", "until_ms", "wait")

    def __init__(self, wait: Wait, asker: Hashable, answer: Answer) -> None:
        self.wait = wait
        self.asker = asker
        self.answer = answer
        self.until_ms = wait.until_ms
        self.timer: Timer | None = None


class Bells:
    """Held calls by bell."""

    def __init__(self, clock: WallClock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._held: dict[Hashable, dict[_Held, None]] = {}
        self._of: dict[Hashable, dict[_Held, None]] = {}  # by asker: those that end with it
        self.held_count = 0

    def hold(self, wait: Wait, asker: Hashable, answer: Answer) -> None:
        held = _Held(wait, asker, answer)
        self._held.setdefault(wait.on, {})[held] = None
        if wait.gone is not None:
            self._of.setdefault(asker, {})[held] = None
        self.held_count += 1
        self._end_at(held, wait.until_ms)

    def ring(self, bell: Hashable, news: Any = None) -> None:
        waiting = self._held.get(bell)
        if not waiting:
            return
        now_ms = self._clock.now_ms()
        for held in list(waiting):
            wait = held.wait
            if wait.wants is None or wait.wants(news):
                self._resume(held, now_ms, expired=False)
            elif wait.unwanted_until_ms is not None:
                sooner_ms = wait.unwanted_until_ms(now_ms)
                if sooner_ms < held.until_ms:
                    self._end_at(held, sooner_ms)

    def gone(self, asker: Hashable) -> None:
        """Let go of what *asker* waited for, as far as it matters to nobody else."""
        for held in list(self._of.get(asker, ())):
            self._let_go(held)
            assert held.wait.gone is not None, "only such waits are kept by asker"
            held.wait.gone()

    def _end_at(self, held: _Held, until_ms: int) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.until_ms = until_ms
        held.timer = self._timers.at(
            self._clock.trio_time(until_ms),
            lambda: self._resume(held, self._clock.now_ms(), expired=True),
        )

    def _resume(self, held: _Held, now_ms: int, *, expired: bool) -> None:
        waiting = self._held.get(held.wait.on)
        if waiting is None or held not in waiting:
            return  # resumed already: an earlier one of this ring answered for it
        self._let_go(held)
        held.answer(lambda: held.wait.resume(now_ms, expired))

    def _let_go(self, held: _Held) -> None:
        _discard(self._held, held.wait.on, held)
        if held.wait.gone is not None:
            _discard(self._of, held.asker, held)
        self.held_count -= 1
        if held.timer is not None:
            held.timer.cancel()


def _discard(table: dict[Hashable, dict[_Held, None]], key: Hashable, held: _Held) -> None:
    """Empty rows go with their last entry."""
    row = table[key]
    del row[held]
    if not row:
        del table[key]

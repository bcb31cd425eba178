"""Calls that are held on bells and watermarks: whatever happens, each ends once."""

from __future__ import annotations

import random

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.net.held_calls import Bells, Resume, UpTo, Watermarks
from rocketmq_emulator.net.results import NO_REPLY, Result, Wait
from rocketmq_emulator.net.timers import Timers
from rocketmq_emulator.net.turn import Turn

MARKS, BELLS, ASKERS, DEPTH_MAX = ("flushed", "copied"), range(4), range(6), 6


class Chaos:
    """Holds and wakes calls at random, also inside calls that are resumed or end."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = WallClock(0, trio.current_time())
        self.turn = Turn(self.clock)
        self.timers = Timers(self.turn)
        self.bells = Bells(self.clock, self.timers, self.turn)
        self.marks = Watermarks(self.clock, self.timers)
        self.ends: list[int] = []  # how often each call has ended
        self._depth = 0

    def act(self) -> None:
        if self._depth >= DEPTH_MAX:
            return
        self._depth += 1
        rng = self.rng
        requester = rng.choice(ASKERS)
        actions = (
            lambda: self.bells.ring(rng.choice(BELLS), rng.randint(0, 9)),
            lambda: self.marks.raise_to(rng.choice(MARKS), rng.randint(0, 60)),
            lambda: self.marks.give_up(rng.choice(MARKS), rng.randint(0, 100)),
            lambda: (self.bells.gone(requester), self.marks.gone(requester)),
            lambda: self._hold(self._a_wait(), requester),
        )
        rng.choices(actions, (4, 2, 1, 1, 2))[0]()
        self._depth -= 1

    def _a_wait(self) -> Wait:
        rng, me = self.rng, len(self.ends)
        self.ends.append(0)

        def resume(_now_ms: int, _expired: bool) -> Result:
            self.ends[me] += 1
            self.act()
            return self._a_wait() if rng.random() < 0.3 else NO_REPLY

        def gone() -> None:
            self.ends[me] += 1
            self.act()

        def wants(news: int) -> bool:
            assert not self.ends[me], "an ended call gets no news"
            return news % 2 == 0

        is_mark = rng.random() < 0.5
        return Wait(
            UpTo(rng.choice(MARKS), rng.randint(0, 100)) if is_mark else rng.choice(BELLS),
            self.clock.now_ms() + rng.randint(0, 50),
            resume,
            rng.choice((None, wants)),
            rng.choice((None, lambda now_ms: now_ms + 3)),
            rng.choice((None, gone)),
        )

    def _hold(self, wait: Wait, requester: int) -> None:
        def answer(resume: Resume, now_ms: int, expired: bool) -> None:
            result = resume(now_ms, expired)
            if isinstance(result, Wait):
                self._hold(result, requester)

        holder = self.marks if isinstance(wait.on, UpTo) else self.bells
        holder.hold(wait, requester, answer)


@pytest.mark.parametrize("seed", range(20))
async def test_every_held_call_ends_once_and_nothing_is_kept(
    seed: int, autojump_clock: MockClock
) -> None:
    chaos = Chaos(random.Random(seed))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(chaos.timers.run)
        for _ in range(200):
            with chaos.turn:
                for _ in range(chaos.rng.randint(1, 5)):
                    chaos.act()
            assert not chaos.turn.depth
            assert not chaos.turn.rung
            await trio.sleep(chaos.rng.choice((0, 0.002)))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert len(chaos.ends) > 100
    assert set(chaos.ends) == {1}
    assert chaos.bells.held_count == chaos.marks.held_count == 0
    assert not chaos.bells._held
    assert not chaos.bells._by_requester
    assert not chaos.marks._by_requester

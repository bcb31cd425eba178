"""A raise resumes all calls at or below its position, in order, each once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.net.held_calls import FLUSHED_TO, Resume, UpTo, Watermarks
from rocketmq_emulator.net.results import Reply, Result, Wait
from rocketmq_emulator.net.timers import Timers

REPLICATED_TO = "replicated_to"


class Rig:
    """Watermarks, and the names of the calls they resumed, with "expired" if they expired."""

    def __init__(self) -> None:
        self.clock = WallClock(0, trio.current_time())
        self.timers = Timers()
        self.marks = Watermarks(self.clock, self.timers)
        self.resumed: list[str] = []

    def hold(
        self,
        name: str,
        position: int,
        *,
        mark: str = FLUSHED_TO,
        until_ms: int = 5_000,
        then: Result | None = None,
        gone: Callable[[], object] | None = None,
    ) -> None:
        def resume(_now_ms: int, expired: bool) -> Result:
            self.resumed.append(f"{name} expired" if expired else name)
            return then or Reply()

        self._hold(Wait(UpTo(mark, position), until_ms, resume, gone=gone))

    def _hold(self, wait: Wait) -> None:
        def answer(then: Resume, now_ms: int, expired: bool) -> None:
            result = then(now_ms, expired)
            if isinstance(result, Wait):
                self._hold(result)

        self.marks.hold(wait, "peer", answer)


@pytest.fixture
async def rig(autojump_clock: MockClock) -> Rig:
    return Rig()


async def test_one_raise_resumes_all_at_or_below_in_order_of_position(rig: Rig) -> None:
    for name, position in (("c", 30), ("a", 10), ("d", 31), ("b", 10)):
        rig.hold(name, position)
    rig.marks.raise_to(FLUSHED_TO, 30)
    assert rig.resumed == ["a", "b", "c"]
    assert rig.marks.held_count == 1


async def test_what_is_reached_already_is_not_held(rig: Rig) -> None:
    rig.marks.raise_to(FLUSHED_TO, 10)
    rig.hold("late", 10)
    assert rig.resumed == ["late"]
    assert rig.marks.held_count == 0


async def test_a_mark_never_falls(rig: Rig) -> None:
    rig.marks.raise_to(FLUSHED_TO, 10)
    rig.marks.raise_to(FLUSHED_TO, 5)
    assert rig.marks.reached(FLUSHED_TO) == 10
    assert rig.marks.reached(REPLICATED_TO) == -1


async def test_who_waits_too_long_expires_alone_and_is_not_resumed_again(rig: Rig) -> None:
    rig.hold("hasty", 10, until_ms=1_000)
    rig.hold("patient", 10, until_ms=9_000)
    rig.timers.fire(rig.clock.trio_time(1_000))
    assert rig.resumed == ["hasty expired"]
    rig.marks.raise_to(FLUSHED_TO, 10)
    assert rig.resumed == ["hasty expired", "patient"]
    rig.timers.fire(rig.clock.trio_time(20_000))
    assert len(rig.resumed) == 2


async def test_when_raising_a_mark_failed_its_waiters_expire_at_once(rig: Rig) -> None:
    rig.hold("a", 10)
    rig.hold("b", 20)
    rig.marks.give_up(FLUSHED_TO, 15)
    assert rig.resumed == ["a expired"]
    rig.marks.raise_to(FLUSHED_TO, 20)
    assert rig.resumed == ["a expired", "b"]


async def test_marks_chain(rig: Rig) -> None:
    def resume(_now_ms: int, expired: bool) -> Result:
        rig.resumed.append("copied, too late" if expired else "copied")
        return Reply()

    rig.hold("flushed", 10, then=Wait(UpTo(REPLICATED_TO, 10), 3_000, resume))
    rig.marks.raise_to(REPLICATED_TO, 9)
    rig.marks.raise_to(FLUSHED_TO, 10)
    assert rig.resumed == ["flushed"]
    rig.marks.raise_to(REPLICATED_TO, 10)
    assert rig.resumed == ["flushed", "copied"]


async def test_who_gives_up_and_waits_again_is_not_resumed_for_ever(rig: Rig) -> None:
    def resume(_now_ms: int, _expired: bool) -> Result:
        rig.resumed.append("again")
        return Reply()

    rig.hold("once", 10, then=Wait(UpTo(FLUSHED_TO, 10), 9_000, resume))
    rig.marks.give_up(FLUSHED_TO, 10)
    assert rig.resumed == ["once expired"]
    rig.marks.raise_to(FLUSHED_TO, 10)
    assert rig.resumed == ["once expired", "again"]


async def test_only_who_said_what_to_do_without_its_asker_goes_with_it(rig: Rig) -> None:
    left: list[str] = []
    rig.hold("stays", 10)
    rig.hold("goes", 10, gone=lambda: left.append("goes"))
    rig.marks.gone("somebody else")
    assert left == []
    rig.marks.gone("peer")
    assert left == ["goes"]
    rig.marks.raise_to(FLUSHED_TO, 10)
    assert rig.resumed == ["stays"]
    rig.timers.fire(rig.clock.trio_time(20_000))
    assert rig.resumed == ["stays"]


async def test_calls_that_expired_do_not_pile_up_while_the_mark_stands_still(rig: Rig) -> None:
    for number in range(3_000):
        rig.hold("x", number, until_ms=number)
        rig.timers.fire(rig.clock.trio_time(number))
    assert rig.marks.held_count == 0
    assert len(rig.marks._heaps[FLUSHED_TO]) <= 1_001

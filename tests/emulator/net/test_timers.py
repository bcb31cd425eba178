"""Due timers run in order, once, and let other tasks run between them."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketmq_emulator.net.timers import Timers


def test_what_is_due_runs_in_order_of_time_and_then_of_birth() -> None:
    timers, ran = Timers(), []
    for at_s, name in ((3.0, "late"), (1.0, "first"), (1.0, "second"), (9.0, "not yet")):
        timers.at(at_s, lambda name=name: ran.append(name))
    timers.fire(5.0)
    assert ran == ["first", "second", "late"]


async def test_an_action_that_is_due_again_at_once_lets_others_have_their_turn(
    autojump_clock: MockClock,
) -> None:
    timers, turns = Timers(), []

    def again() -> None:
        turns.append("timer")
        if len(turns) < 100:
            timers.at(trio.current_time() - 1, again)

    async def another() -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            turns.append("task")

    timers.at(trio.current_time(), again)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        nursery.start_soon(another)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert turns.count("timer") + turns.count("task") >= 100
    assert "task" in turns[:10]


def test_cancelled_ones_neither_run_nor_stay() -> None:
    timers, ran = Timers(), []
    many = [timers.at(1.0, lambda: ran.append("no")) for _ in range(5_000)]
    timers.at(2.0, lambda: ran.append("yes"))
    for timer in many:
        timer.cancel()
    assert len(timers._heap) < 2_500  # the heap drops cancelled timers
    timers.fire(3.0)
    assert ran == ["yes"]

"""Alarms: their time may become earlier, under trio's clock and a virtual one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.clocks.clock import Alarm, TrioAlarm
from rocketmq_emulator.sim.world import run_virtual

Run = Callable[[Alarm], Awaitable[None]]


def under_trio(steps: Run) -> None:
    async def main() -> None:
        await steps(TrioAlarm())

    trio.run(main, clock=MockClock(autojump_threshold=0))


def in_a_virtual_world(steps: Run) -> None:
    async def main(world) -> None:
        await steps(world.clock.alarms.new())

    run_virtual(main, seed=1)


@pytest.fixture(params=[under_trio, in_a_virtual_world], ids=lambda run: run.__name__)
def tell(request) -> Callable[[Run], None]:
    return request.param


def test_an_alarm_rings_at_its_time_and_can_be_set_again(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        began_s = trio.current_time()
        for at_s in (0.1234567, 2.0, 3.5):
            await alarm.wait_until(began_s + at_s)
            assert trio.current_time() == pytest.approx(began_s + at_s, abs=1e-6)
            assert trio.current_time() >= began_s + at_s

    tell(steps)


def test_an_alarm_that_is_brought_forward_rings_once(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        began_s, rang_s = trio.current_time(), []

        async def wait() -> None:
            await alarm.wait_until(began_s + 10)
            rang_s.append(trio.current_time() - began_s)
            await alarm.wait_until(inf)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            alarm.ring_by(began_s + 20)  # later than its own time: no effect
            alarm.ring_by(began_s + 5)
            await trio.sleep(30)
            nursery.cancel_scope.cancel()
        assert rang_s == [pytest.approx(5)]

    tell(steps)


def test_an_alarm_for_a_time_that_is_over_lets_others_have_a_turn(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        turns: list[str] = []

        async def wait() -> None:
            for _ in range(3):
                await alarm.wait_until(-inf)
                turns.append("alarm")

        async def another() -> None:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                turns.append("task")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(another)
        assert set(turns[:2]) == set(turns[2:4]) == {"alarm", "task"}

    tell(steps)


def test_what_is_rung_while_nobody_waits_is_not_kept(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        began_s = trio.current_time()
        alarm.ring_by(-inf)
        await alarm.wait_until(began_s + 2)
        assert trio.current_time() - began_s == pytest.approx(2)

    tell(steps)


def test_who_is_cancelled_while_it_waits_is_not_woken(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        began_s = trio.current_time()
        with trio.move_on_after(1):
            await alarm.wait_until(began_s + 3)
        await trio.sleep(5)
        await alarm.wait_until(began_s + 10)
        assert trio.current_time() - began_s == pytest.approx(10)

    tell(steps)


def test_who_waits_for_what_was_called_off_meanwhile_waits_for_the_next(tell) -> None:
    async def steps(alarm: Alarm) -> None:
        began_s = trio.current_time()
        due_s = [began_s + 1, began_s + 4]

        async def call_off() -> None:
            await trio.sleep(0.5)
            del due_s[0]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_off)
            await alarm.wait_due(lambda: due_s[0])
        assert trio.current_time() - began_s == pytest.approx(4)

    tell(steps)

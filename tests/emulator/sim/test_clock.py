"""Virtual time moves only when all tasks wait, and then at once."""

from __future__ import annotations

import math
import time

import pytest
import trio
import trio.testing

from rocketmq_emulator.sim.clock import VirtualDeadlock, VirtualLivelock
from rocketmq_emulator.sim.world import run_virtual


def test_ten_minutes_with_seven_timers_a_second_take_a_moment() -> None:
    async def main(world) -> float:
        for _ in range(4_200):
            await trio.sleep(1 / 7)
        return trio.current_time()

    began = time.perf_counter()
    assert run_virtual(main, seed=1) == pytest.approx(600)
    assert time.perf_counter() - began < 5


def test_many_sleeps_add_up_to_whole_microseconds() -> None:
    async def main(world) -> int:
        for _ in range(10_000):
            await trio.sleep(0.1)
        return world.clock.now_us

    assert run_virtual(main, seed=1) == 1_000_000_000


@pytest.mark.parametrize("seconds", [1e-9, 0.1 + 0.2, 1 / 3, 1.0000005, 86_400 * 365.25])
def test_a_deadline_is_reached_however_it_is_rounded(seconds: float) -> None:
    async def main(world) -> float:
        await trio.sleep(seconds)
        return trio.current_time()

    now_s = run_virtual(main, seed=1)
    assert seconds <= now_s < seconds + 1e-6


def test_deliveries_happen_in_order_of_time_and_then_of_asking() -> None:
    happened: list[str] = []

    async def main(world) -> None:
        world.clock.at(2_000, happened.append, "late")
        world.clock.at(1_000, happened.append, "first")
        world.clock.at(1_000, happened.append, "second")
        await trio.sleep(0.0015)
        happened.append("awake")
        await trio.sleep(1)

    run_virtual(main, seed=1)
    assert happened == ["first", "second", "awake", "late"]


def test_a_delivery_stops_time_for_the_task_it_woke() -> None:
    async def main(world) -> tuple[float, int]:
        woken = trio.Event()
        world.clock.at(1_000, lambda _: woken.set())
        world.clock.at(1_001, lambda _: None)
        await woken.wait()
        return trio.current_time(), world.clock.deliveries

    assert run_virtual(main, seed=1) == (0.001, 1)


def test_a_delivery_may_bring_a_deadline_forward() -> None:
    async def main(world) -> float:
        def hurry(_: object) -> None:
            scope.deadline = 2.0

        with trio.CancelScope(deadline=100) as scope:
            world.clock.at(1_000_000, hurry)
            await trio.sleep_forever()
        return trio.current_time()

    assert run_virtual(main, seed=1) == 2.0


@pytest.mark.parametrize("deadline", [-math.inf, 0.0])
def test_a_deadline_in_the_past_expires_now(deadline: float) -> None:
    async def main(world) -> float:
        with trio.CancelScope(deadline=deadline):
            await trio.sleep_forever()
        return trio.current_time()

    assert run_virtual(main, seed=1) == 0.0


def test_waiting_for_all_to_be_idle_moves_no_time() -> None:
    happened: list[str] = []

    async def main(world) -> float:
        world.clock.at(0, happened.append, "now")
        world.clock.at(1, happened.append, "later")
        await trio.testing.wait_all_tasks_blocked()
        return trio.current_time()

    assert run_virtual(main, seed=1) == 0.0
    assert happened == ["now"]


def test_a_world_in_which_nothing_will_happen_says_so() -> None:
    async def main(world) -> None:
        await trio.sleep(3)
        await trio.Event().wait()

    with pytest.raises(VirtualDeadlock, match=r"at 3\.0 s"):
        run_virtual(main, seed=1)


def test_tasks_that_spin_without_waiting_are_stopped() -> None:
    async def main(world) -> None:
        world.clock.events_max = 1_000
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(VirtualLivelock):
        run_virtual(main, seed=1)


def test_deliveries_that_breed_within_one_instant_are_stopped() -> None:
    async def main(world) -> None:
        def breed(_: object) -> None:
            world.clock.at(world.clock.now_us, breed)

        world.clock.events_max = 1_000
        world.clock.at(5_000, breed)
        await trio.sleep_forever()

    with pytest.raises(VirtualLivelock, match=r"at 0\.005 s"):
        run_virtual(main, seed=1)

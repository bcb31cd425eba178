"""Alarms of a virtual world: they keep rules of trio's deadlines, and their cost is bounded."""

from __future__ import annotations

import trio

from rocketmq_emulator.sim.clock import STALE_MAX
from rocketmq_emulator.sim.world import run_virtual


def test_alarms_of_one_instant_wake_their_tasks_in_an_order_that_the_seed_decides() -> None:
    def order(seed: int) -> str:
        async def main(world) -> str:
            woken: list[str] = []

            async def wait(name: str) -> None:
                await world.clock.alarms.new().wait_until(1.0)
                woken.append(name)

            async with trio.open_nursery() as nursery:
                for name in "abcdef":
                    nursery.start_soon(wait, name)
            return "".join(woken)

        return run_virtual(main, seed=seed)

    orders = [order(seed) for seed in range(5)]
    assert orders == [order(seed) for seed in range(5)]
    assert len(set(orders)) > 1


def test_deliveries_of_an_instant_come_before_its_alarms() -> None:
    happened: list[str] = []

    async def main(world) -> None:
        world.clock.at(1_000_000, happened.append, "delivery")
        await world.clock.alarms.new().wait_until(1.0)
        happened.append("alarm")

    run_virtual(main, seed=1)
    assert happened == ["delivery", "alarm"]


def test_a_delivery_may_bring_an_alarm_forward() -> None:
    async def main(world) -> float:
        alarm = world.clock.alarms.new()
        world.clock.at(1_000_000, alarm.ring_by, 2.0)
        await alarm.wait_until(100.0)
        return trio.current_time()

    assert run_virtual(main, seed=1) == 2.0


def test_who_is_killed_in_the_instant_in_which_its_alarm_rings_does_nothing_more() -> None:
    done: list[str] = []

    async def main(world) -> None:
        alarm = world.clock.alarms.new()

        async def program(_machine) -> None:
            await alarm.wait_until(10.0)
            done.append("woken")

        def ring_and_kill(_: object) -> None:
            alarm.ring_by(0.0)
            world.machines.kill("a")

        world.machines.start("a", program)
        world.clock.at(1_000_000, ring_and_kill)
        await trio.sleep(20)

    run_virtual(main, seed=1)
    assert done == []


def test_a_machine_that_is_paused_when_its_alarm_rings_learns_of_it_when_it_goes_on() -> None:
    async def main(world) -> float:
        woken: list[float] = []

        async def program(machine) -> None:
            await machine.clock.new_alarm().wait_until(2.0)
            woken.append(trio.current_time())

        world.machines.start("a", program)
        await trio.sleep(1)
        world.machines.pause("a")
        await trio.sleep(4)
        world.machines.resume("a")
        await trio.sleep(1)
        return woken[0]

    assert run_virtual(main, seed=1) == 5.0


def test_alarms_that_were_brought_forward_do_not_pile_up() -> None:
    async def main(world) -> int:
        alarms = world.clock.alarms
        for number in range(5 * STALE_MAX):
            with trio.move_on_after(0.001):
                await alarms.new().wait_until(1_000_000.0 + number)
        return len(alarms._heap)  # the number of kept entries is what matters

    assert run_virtual(main, seed=1) <= STALE_MAX + 1


def test_a_task_is_not_woken_for_what_was_called_off() -> None:
    steps: list[float] = []

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task) -> None:
            if task.name == "waiter":
                steps.append(trio.current_time())

    async def main(world) -> None:
        due_s = [*map(float, range(1, 10))]
        trio.lowlevel.add_instrument(Steps())
        async with trio.open_nursery() as nursery:
            alarm = world.clock.alarms.new()
            nursery.start_soon(alarm.wait_due, lambda: due_s[0], name="waiter")
            await trio.sleep(0.5)
            del due_s[:8]

    run_virtual(main, seed=1)
    assert steps == [0.0, 9.0]

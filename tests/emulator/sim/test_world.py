"""A world starts from a seed, reports errors plainly, and stops everything at its end."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.sim.determinism import SeededRngs
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual
from tests.support.sim.toy_endpoints import Ends, a_client, a_server


def test_a_world_returns_what_its_main_returns() -> None:
    async def main(world) -> tuple[int, int]:
        await trio.sleep(2)
        return world.seed, world.now_ms()

    assert run_virtual(main, seed=5) == (5, EPOCH_MS + 2_000)
    assert run_virtual(main, seed=5, epoch_ms=1_000) == (5, 3_000)


def test_main_s_own_error_comes_out_plain() -> None:
    async def main(world) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise LookupError("plain")

    with pytest.raises(LookupError, match="plain"):
        run_virtual(main, seed=1)


def test_two_errors_come_out_as_a_group() -> None:
    async def program(machine) -> None:
        await alarm.wait()
        raise LookupError(machine.name)

    async def main(world) -> None:
        world.clock.at(1_000, lambda _: alarm.set())
        for name in ("a", "b"):
            world.machines.start(name, program)
        await trio.sleep_forever()

    alarm = trio.Event()
    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main, seed=1)
    assert sorted(str(error) for error in caught.value.exceptions) == ["a", "b"]


def test_the_end_of_a_world_is_heard_by_nobody() -> None:
    ends = Ends()
    clients = []

    async def main(world) -> None:
        await world.machines.start("b", a_server(1, ends)).wait_ready()
        clients.append(await a_client(world, "b:1"))

    run_virtual(main, seed=1)
    assert [end.heard for end in (*ends.all, *clients)] == [[], []]


def test_a_program_may_take_its_time_to_end() -> None:
    async def program(machine) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(30)
            ended_at.append(trio.current_time())

    async def main(world) -> None:
        world.machines.start("b", program)
        await trio.sleep(1)

    ended_at: list[float] = []
    run_virtual(main, seed=1)
    assert ended_at == [31]


def test_one_more_consumer_of_rngs_does_not_shift_the_others() -> None:
    one, two = SeededRngs(1), SeededRngs(1)
    two.rng("newcomer").random()
    drawn = [one.rng("old").random() for _ in range(3)]
    assert [two.rng("old").random() for _ in range(3)] == drawn
    assert SeededRngs(2).rng("old").random() != drawn[0]
    assert one.rng("old") is one.rng("old")

"""Clocks: wall time may be wrong, monotonic time is the machine's."""

from __future__ import annotations

import time

import trio

from emulator.clock import WallClock
from emulator.sim.world import run_virtual


async def test_monotonic_time_is_the_machine_s_in_every_process() -> None:
    clock = WallClock.of_this_machine()
    before = time.monotonic_ns() // 1000
    assert before <= clock.mono_us() <= time.monotonic_ns() // 1000


def test_machines_of_a_virtual_world_share_its_monotonic_time_whatever_their_wall_clocks_say() -> (
    None
):
    async def main(world) -> tuple[list[int], list[int]]:
        machines = [world.machines.machine(name) for name in ("early", "late")]
        machines[1].clock.skew_ms = 60_000
        await trio.sleep(2.5)
        clocks = [machine.clock for machine in machines]
        return [c.mono_us() for c in clocks], [c.now_ms() - world.epoch_ms for c in clocks]

    assert run_virtual(main, seed=1) == ([2_500_000, 2_500_000], [2_500, 62_500])

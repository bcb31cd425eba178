"""Clocks: wall time may be wrong, monotonic time is the machine's."""

from __future__ import annotations

import random
import time

import pytest
import trio

from rocketmq_emulator.clocks.clock import ClockError, WallClock
from rocketmq_emulator.sim.world import run_virtual


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


EPOCH_MS = 1_700_000_000_000
SECOND_NS = 1_000_000_000


class Passed:
    """A monotonic clock that returns ``ns``."""

    ns = 0

    def __call__(self) -> int:
        return self.ns


def a_clock(error: ClockError) -> tuple[WallClock, Passed]:
    passed = Passed()
    clock = WallClock(EPOCH_MS, 0.0, mono_ns=passed)
    clock.error = error
    return clock, passed


async def test_a_drift_grows_with_the_time_that_passes_and_adds_to_a_jump() -> None:
    clock, passed = a_clock(ClockError(-500, drift_ppm=100, since_ms=EPOCH_MS + 10_000))
    wrong_ms = []
    for at_s in (10, 20, 86_410):
        passed.ns = at_s * SECOND_NS
        wrong_ms.append(clock.now_ms() - clock.true_ms())
    assert wrong_ms == [-500, -499, 8_640 - 500]
    assert clock.error.at(clock.true_ms()) == 8_640 - 500
    clock.error = ClockError()
    assert clock.now_ms() == clock.true_ms() == EPOCH_MS + 86_410_000


@pytest.mark.parametrize("drift_ppm", [100, -100, 333_333, -500_000, 1])
async def test_a_timer_ends_when_a_drifting_clock_shows_its_time_and_no_microsecond_before(
    drift_ppm: int,
) -> None:
    clock, passed = a_clock(ClockError(77, drift_ppm, since_ms=EPOCH_MS + 1_234))
    rng = random.Random(drift_ppm)
    for _ in range(1_000):
        at_ms = EPOCH_MS + rng.randrange(10**9)
        ends_us = round(clock.trio_time(at_ms) * 1_000_000)
        passed.ns = ends_us * 1_000
        assert clock.now_ms() >= at_ms
        passed.ns -= 1_000
        assert clock.now_ms() < at_ms


async def test_errors_add_up_each_drift_from_where_it_began() -> None:
    parts = [
        ClockError(50),
        ClockError(0, 200, EPOCH_MS),
        ClockError(-30, 100, EPOCH_MS + 60_000_000),
        ClockError(0, -300, EPOCH_MS + 7_000_000),
    ]
    total = ClockError()
    for part in parts:
        total = total.plus(part)
    for after_ms in (60_000_000, 10**9):
        true_ms = EPOCH_MS + after_ms
        assert abs(total.at(true_ms) - sum(part.at(true_ms) for part in parts)) <= 3
    assert total.drift_ppm == 0


async def test_a_clock_that_would_stand_still_is_refused() -> None:
    with pytest.raises(ValueError, match="does not go on"):
        a_clock(ClockError(drift_ppm=-1_000_000))

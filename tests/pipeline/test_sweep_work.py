"""Which rows a sweep makes next: mixed, none twice, weather in batches, tasks of a fair size."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from sweeping import asked

from pipeline.sweep import work as work_module
from pipeline.sweep.division import RunTimes, tasks_of_wave
from pipeline.sweep.grid import grid_of
from pipeline.sweep.work import WeatherWork, work_of
from scenarios.plan import Plan


def a_row(order, **metrics: float):
    row = order.lost("as a test has it")
    return msgspec.structs.replace(row, verdict="passed", metrics=metrics)


def test_every_row_of_the_grid_is_ordered_once() -> None:
    grid = grid_of(asked("sharing", "members=1..3", seeds=range(10)))
    orders = work_of(grid, []).take(1_000)
    assert Counter(order.key for order in orders) == Counter(
        (cell.made_from, seed) for cell in grid.cells for seed in range(10)
    )


def test_any_part_of_the_rows_has_all_cells_in_it() -> None:
    grid = grid_of(asked("sharing", "members=1..4", seeds=range(1_000)))
    work = work_of(grid, [])
    for _ in range(5):
        counts = Counter(order.made_from for order in work.take(200))
        assert set(counts) == {cell.made_from for cell in grid.cells}
        assert all(30 <= count <= 70 for count in counts.values())


def test_known_rows_are_not_ordered_again() -> None:
    grid = grid_of(asked("sharing", "members=1..3", seeds=range(10)))
    known = [a_row(order) for order in work_of(grid, []).take(12)]
    work = work_of(grid, known)
    assert work.left == work.ready == 18
    orders = work.take(1_000)
    assert len(orders) == 18
    assert not {order.key for order in orders} & {row.key for row in known}
    assert work.left == 0


def weather_work(known=(), seeds=range(1, 6)) -> tuple[WeatherWork, dict[int, int]]:
    """Batches of two; what a plan knew of kills in calm weather, by seed."""
    knew: dict[int, int] = {}

    def plan_of(_cell, seed: int, coverage) -> Plan:
        knew[seed] = coverage.met("kill", "calm")
        return Plan(name=f"weather_{seed}")

    grid = grid_of(asked("weather", seeds=seeds))
    return WeatherWork(grid, {row.key: row for row in known}, plan_of), knew


@pytest.fixture(autouse=True)
def _batches_of_two(monkeypatch) -> None:
    monkeypatch.setattr(work_module, "BATCH", 2)


def test_weather_waits_for_the_batch_before() -> None:
    work, knew = weather_work()
    first = work.take(99)
    assert sorted(order.seed for order in first) == [1, 2]
    assert (work.left, work.ready) == (3, 0)
    work.add(a_row(first[0], **{"met.kill.calm": 1.0}))
    assert work.ready == 0
    work.add(a_row(first[1], **{"met.kill.calm": 1.0}))
    second = work.take(99)
    assert sorted(order.seed for order in second) == [3, 4]
    assert knew == {1: 0, 2: 0, 3: 2, 4: 2}


def test_weather_that_is_known_counts_as_finished_with_what_it_met() -> None:
    whole, _ = weather_work()
    known = [a_row(order, **{"met.kill.calm": 1.0}) for order in whole.take(99)]
    work, knew = weather_work(known)
    assert sorted(order.seed for order in work.take(99)) == [3, 4]
    assert knew[3] == 2
    assert work.left == 1


def test_a_task_takes_some_seconds_and_the_last_ones_less() -> None:
    assert tasks_of_wave(10_000, cores=2, run_s=1.0) == [3] * 8
    assert tasks_of_wave(10_000, cores=2, run_s=0.25) == [12] * 8
    assert tasks_of_wave(10_000, cores=2, run_s=60.0) == [1] * 8
    assert tasks_of_wave(24, cores=2, run_s=0.25) == [4] * 6
    assert tasks_of_wave(5, cores=2, run_s=0.25) == [1] * 5
    assert tasks_of_wave(100_000, cores=1_000, run_s=0.5)[0] == 20
    assert tasks_of_wave(3, cores=2, run_s=0.25) == [1] * 3
    assert tasks_of_wave(0, cores=2, run_s=0.25) == []


def test_before_the_first_row_a_task_has_one() -> None:
    times = RunTimes()
    assert tasks_of_wave(10_000, cores=2, run_s=times.mean_s) == [1] * 8
    for _ in range(1_000):
        times.add(0.5)
    assert times.mean_s == 0.5

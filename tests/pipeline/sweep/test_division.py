"""A sweep's next rows: cells are mixed, no row comes twice, and tasks take some seconds each."""

from __future__ import annotations

from collections import Counter

from rocketmq_emulator.pipeline.sweep.division import RunTimes, tasks_of_wave
from rocketmq_emulator.pipeline.sweep.grid import grid_of
from rocketmq_emulator.pipeline.sweep.work import PendingRows
from rocketmq_emulator.scenarios.catalog.finding import weather_of
from tests.support.pipeline.sweeping import asked


def test_every_row_of_the_grid_is_ordered_once() -> None:
    grid = grid_of(asked("sharing", "members=1..3", seeds=range(10)))
    orders = PendingRows(grid).take(1_000)
    assert Counter(order.key for order in orders) == Counter(
        (cell.made_from, seed) for cell in grid.cells for seed in range(10)
    )


def test_any_part_of_the_rows_has_all_cells_in_it() -> None:
    grid = grid_of(asked("sharing", "members=1..4", seeds=range(1_000)))
    work = PendingRows(grid)
    for _ in range(5):
        counts = Counter(order.made_from for order in work.take(200))
        assert set(counts) == {cell.made_from for cell in grid.cells}
        # The order follows from the version of the code: 50 each, give or take 5 (sigma).
        assert all(20 <= count <= 80 for count in counts.values())


def test_known_rows_are_not_ordered_again() -> None:
    grid = grid_of(asked("sharing", "members=1..3", seeds=range(10)))
    known = {order.key for order in PendingRows(grid).take(12)}
    work = PendingRows(grid, known)
    assert work.left == 18
    orders = work.take(1_000)
    assert len(orders) == 18
    assert not {order.key for order in orders} & known
    assert work.left == 0


def test_a_row_of_weather_has_the_plan_of_its_seed_and_release() -> None:
    grid = grid_of(asked("weather", "rate=2,4", seeds=range(1, 4), releases=("5.3.3",)))
    work = PendingRows(grid)
    orders = work.take(99)
    assert (work.left, len(orders)) == (0, 6)
    cells = {cell.made_from: cell for cell in grid.cells}
    for order in orders:
        given = {**cells[order.made_from].given, "seed": order.seed, "release": "5.3.3"}
        assert order.plan == weather_of(given)
        assert order.counts_coverage


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

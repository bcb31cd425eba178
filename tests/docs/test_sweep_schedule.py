"""The simulated schedule of a sweep: cases with known results, and the page that shows it."""

from __future__ import annotations

import random

import pytest

from docs.generate.sweep_schedule import Costs, drawn, large_tasks, quantiles_of, simulated
from docs.generate.sweeps import schedule_text
from tests.support.paths import ROOT

FREE = Costs(job_s=0, launch_s=0, task_s=0, row_s=0, order_bytes=1_000, row_bytes=2_000)
PAGE = ROOT / "docs" / "sweep.md"


def test_without_costs_equal_runs_keep_all_cores_busy() -> None:
    found = simulated([1.0] * 1_200, cores=4, costs=FREE)
    assert found.elapsed_s == pytest.approx(300)
    assert found.busy == pytest.approx(1)
    assert (found.sent_mb, found.returned_mb) == (1.2, 2.4)


def test_it_is_linear_in_cores_while_tasks_are_many() -> None:
    run_s = drawn((0.5, 1.0, 3.0), 20_000, random.Random(1))
    one, ten = (simulated(run_s, cores) for cores in (1, 10))
    assert one.elapsed_s / ten.elapsed_s == pytest.approx(10, rel=0.02)


def test_each_row_and_task_costs_what_is_said() -> None:
    costs = Costs(job_s=1.0, launch_s=0.5, task_s=0.25, row_s=0.125, order_bytes=0, row_bytes=0)
    found = simulated([2.0], cores=1, costs=costs)
    assert found.elapsed_s == 1.0 + 0.5 + 0.25 + 0.125 + 2.0
    assert (found.tasks, found.driver_busy) == (1, 1.5 / found.elapsed_s)


def test_no_more_cores_than_rows_are_busy() -> None:
    assert simulated([1.0] * 3, cores=100, costs=FREE).elapsed_s == 1.0


def test_small_mixed_tasks_end_together_and_one_task_a_core_does_not() -> None:
    run_s = [0.1] * 900 + [10.0] * 100
    mixed = random.Random(1).sample(run_s, len(run_s))
    ours = simulated(mixed, cores=10, costs=FREE)
    theirs = simulated(run_s, cores=10, costs=FREE, divide=large_tasks)
    assert ours.busy > 0.9
    assert theirs.busy < 0.2


def test_times_are_drawn_from_the_quantiles_that_were_measured() -> None:
    measured = [float(number) for number in range(1, 102)]
    quantiles = quantiles_of(measured)
    assert (quantiles[0], quantiles[10], quantiles[-1]) == (1.0, 51.0, 101.0)
    again = drawn(quantiles, 10_000, random.Random(1))
    assert sum(again) / len(again) == pytest.approx(51, rel=0.02)
    assert 1 <= min(again) <= max(again) <= 101


def test_the_page_has_the_tables_of_the_code() -> None:
    assert schedule_text() in PAGE.read_text()

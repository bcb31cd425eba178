"""Weather of many seeds: a seed has the same plan in any range, and finished rows are reused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import RunResult
from rocketmq_emulator.scenarios.sweeps.row_files import FinishedRuns
from rocketmq_emulator.scenarios.sweeps.sweep import (
    SweepTally,
    WeatherSweep,
    cache_plan_of,
    reason_worst,
)
from rocketmq_emulator.scenarios.weather.coverage import COVERED, STATES, Coverage
from tests.support.rows_of_runs import a_row

TINY = {"seconds": 10, "rate": 2.0, "brokers": 2}
LOOKED_AT = (1, 101, 167)


def plan_of(seed: int) -> Plan:
    return load("weather", {**TINY, "seed": seed})


def a_sweep(folder: Path, seeds: range, finished: FinishedRuns | None = None) -> WeatherSweep:
    return WeatherSweep(
        plan_of, plan_of(1), seeds, journals=folder, jobs=2, keeps_passed=True, finished=finished
    )


def journal_of(seed: int, sweep: WeatherSweep) -> bytes:
    (row,) = [row for row in sweep.rows() if row.seed == seed]
    return Path(row.journal).read_bytes()


@pytest.mark.parametrize("seed", LOOKED_AT)
def test_a_seed_has_the_same_journal_alone_and_in_a_range(seed: int, tmp_path: Path) -> None:
    alone = journal_of(seed, a_sweep(tmp_path / "alone", range(seed, seed + 1)))
    within = journal_of(seed, a_sweep(tmp_path / "within", range(seed - 1, seed + 2)))
    assert alone == within
    assert f"weather_{seed}".encode() in alone.splitlines()[0]


def test_plans_of_seeds_do_not_depend_on_which_were_made_before() -> None:
    alone = [msgspec.json.encode(plan_of(seed)) for seed in LOOKED_AT]
    every = [msgspec.json.encode(plan_of(seed)) for seed in range(1, 201)]
    assert alone == [every[seed - 1] for seed in LOOKED_AT]


def test_a_sweep_goes_on_where_it_was_left_and_counts_what_was_met_before(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    first = a_sweep(tmp_path, range(1, 4), FinishedRuns(cache_plan_of(plan_of(1)), folder))
    rows = {row.seed: row for row in first.rows()}
    again = a_sweep(tmp_path, range(2, 6), FinishedRuns(cache_plan_of(plan_of(1)), folder))
    more = {row.seed: row for row in again.rows()}
    assert again.tally.cached_count == 2
    assert [more[seed] for seed in (2, 3)] == [rows[seed] for seed in (2, 3)]
    alone = Coverage()
    for row in more.values():
        alone.add_metrics(row.metrics)
    assert again.coverage.counts == alone.counts
    assert alone.counts.total() > 0


def test_rows_of_another_shape_are_not_taken_for_these() -> None:
    base = load("weather")
    assert cache_plan_of(base) == cache_plan_of(load("weather", {"seed": 7}))
    assert cache_plan_of(base) != cache_plan_of(load("weather", {"faults_per_minute": 20.0}))
    assert cache_plan_of(base) != cache_plan_of(load("weather", {"release": "5.3.3"}))


def a_failed_row(seed: int, unowned_s: float, *, violations: int = 0) -> RunResult:
    each = Violation(checker="owners", rule="one owner", what="two", mono_us=1, node="billing-1")
    row = a_row(seed, verdict="failed", metrics={"lost": 0.0, "unowned_s": unowned_s})
    return msgspec.structs.replace(row, violations=(each,) * violations)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_the_worst_row_is_that_with_the_worst_value_and_not_the_first(order) -> None:
    expect = (
        Expectation(metric="lost", operator="==", bound=0),
        Expectation(metric="unowned_s", bound=21),
    )
    rows = (
        a_failed_row(1, 22),
        a_failed_row(2, 43),
        a_failed_row(3, 43),
        a_row(4, verdict="error", metrics={}),
    )
    tally = SweepTally(Plan(name="it", expect=expect), len(rows))
    for at in order:
        tally.add(rows[at], cached=False)
    assert tally.worst_row == rows[1]
    assert reason_worst(rows[1], tally.plan) == "unowned_s 43, where <= 21 was expected"


def test_violations_decide_where_no_expectation_does() -> None:
    few, many = a_failed_row(1, 0, violations=1), a_failed_row(2, 0, violations=3)
    tally = SweepTally(Plan(name="it"), 2)
    for row in (few, many):
        tally.add(row, cached=False)
    assert tally.worst_row == many
    assert reason_worst(many, tally.plan) == "3 violations"


PAIRS = st.tuples(st.sampled_from(sorted(COVERED)), st.sampled_from(sorted(STATES)))


@given(st.dictionaries(PAIRS, st.integers(1, 99)))
def test_a_row_carries_what_its_run_has_met(counts: dict[tuple[str, str], int]) -> None:
    row = msgspec.json.encode(a_row(1, metrics={**Coverage(counts).as_metrics(), "lost": 0.0}))
    again = Coverage()
    again.add_metrics(msgspec.json.decode(row, type=RunResult).metrics)
    assert again.counts == counts


@pytest.mark.parametrize("name", ["kill", "partition"])
def test_a_table_of_coverage_has_a_row_for_each_fault(name: str) -> None:
    table = Coverage({(name, "calm"): 7}).table()
    assert len(table) == 1 + len(COVERED)
    assert next(row for row in table if row[0] == name)[1] == "7"

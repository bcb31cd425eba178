"""Weather of many seeds: batches, what later ones know of earlier ones, and rows from disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.finding import load
from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running import weather_sweep
from scenarios.running.weather_sweep import WeatherSweep, sweep_of
from scenarios.weather.coverage import STATES, Coverage
from scenarios.words import FAULTS


def a_row(seed: int, **metrics: float) -> RunResult:
    return RunResult(
        scenario="weather",
        code_version="1",
        world="virtual",
        release="4.9.7",
        parameters={},
        seed=seed,
        verdict="passed",
        reason="",
        metrics=metrics,
        violations=(),
        unmet=(),
        run_s=1.0,
        took_s=1.0,
        fact_count=1,
    )


class SweepWithoutRuns(WeatherSweep):
    """Each run meets one kill in calm; they finish in the wrong order."""

    def _rows_of(self, seeds):
        for seed in reversed(seeds):
            assert self._plan_of(seed).name == f"weather_{seed}"
            yield a_row(seed, **{"met.kill.calm": 1.0, "lost": 0.0})


def a_sweep(count: int) -> tuple[SweepWithoutRuns, dict[int, int]]:
    known: dict[int, int] = {}

    def plan_of(seed: int, coverage: Coverage) -> Plan:
        known[seed] = coverage.met("kill", "calm")
        return load("weather", {"seed": seed})

    base = load("weather")
    return SweepWithoutRuns(plan_of, base, range(1, count + 1), journals=Path("unused")), known


def test_plans_of_a_batch_know_what_the_batches_before_have_met(monkeypatch) -> None:
    monkeypatch.setattr(weather_sweep, "BATCH", 2)
    sweep, known = a_sweep(5)
    assert sorted(row.seed for row in sweep.rows()) == [1, 2, 3, 4, 5]
    assert known == {1: 0, 2: 0, 3: 2, 4: 2, 5: 4}
    assert sweep.coverage.met("kill", "calm") == 5


def test_rows_of_another_sweep_are_not_taken_for_these() -> None:
    base = load("weather")
    assert sweep_of(base, range(1, 9)) == sweep_of(base, range(1, 99))
    assert sweep_of(base, range(1, 9)) != sweep_of(base, range(2, 9))
    rougher = load("weather", {"faults_per_minute": 20.0})
    assert sweep_of(base, range(1, 9)) != sweep_of(rougher, range(1, 9))


PAIRS = st.tuples(st.sampled_from(sorted(FAULTS)), st.sampled_from(sorted(STATES)))


@given(st.dictionaries(PAIRS, st.integers(1, 99)))
def test_a_row_carries_what_its_run_has_met(counts) -> None:
    row = msgspec.json.encode(a_row(1, **Coverage(counts).as_metrics(), lost=0.0))
    again = Coverage()
    again.add_metrics(msgspec.json.decode(row, type=RunResult).metrics)
    assert again.counts == counts


@pytest.mark.parametrize("name", ["kill", "partition"])
def test_a_table_of_coverage_has_a_row_for_each_fault(name) -> None:
    table = Coverage({(name, "calm"): 7}).table()
    assert len(table) == 1 + len(FAULTS)
    assert next(row for row in table if row[0] == name)[1] == "7"

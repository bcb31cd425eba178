"""Weather of a hundred seeds a release in which nothing fails; and planted bugs, which it finds.

The seeds are those of ``rmqemu run weather --seeds 1..100`` with the shape ``SMALL``, and the
first twenty with the shape that it has by default.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from emulator.checks.judging import judge
from emulator.checks.reading import read_journals
from emulator.quirks import QUIRKS
from scenarios.finding import weather_of
from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.explaining import Explanation, explained
from scenarios.running.fleet import Fleet
from scenarios.running.orders import RunOrder
from scenarios.running.shrinking import Shrinking
from scenarios.running.trials import Trials
from scenarios.running.weather_sweep import WeatherSweep
from scenarios.weather.coverage import Coverage
from scenarios.weather.planted import PLANTED
from scenarios.weather.shape import SMALL
from scenarios.words import FAULTS

SEEDS = range(1, 101)
RELEASES = ("4.9.7", "5.3.3")
PAIRS_MIN = 130  # of the 152 pairs of a fault and a state
ACTS_LEFT, MEMBERS_LEFT = 2, 2  # of a run that was shrunk, faults counted among the acts
TRIALS_MAX = 18  # of a shrink: enough for that; it would go on to shorter runs and fewer queues
GIVEN = {"seconds": SMALL.seconds, "rate": SMALL.rate, "brokers": SMALL.brokers}


def plan_of(release: str, seed: int, coverage: Coverage | None = None, quirk: str = "") -> Plan:
    given = {**GIVEN, "release": release, "seed": seed, "quirk": quirk}
    return weather_of(given, coverage)


class Swept(NamedTuple):
    """All rows of a release by seed, and what they met."""

    rows: dict[int, RunResult]
    coverage: Coverage


@pytest.fixture(scope="module", params=RELEASES)
def swept(request, tmp_path_factory) -> Swept:
    release = request.param
    sweep = WeatherSweep(
        lambda seed, coverage: plan_of(release, seed, coverage),
        plan_of(release, 1),
        SEEDS,
        journals=tmp_path_factory.mktemp(release),
        jobs=2,
    )
    return Swept({row.seed: row for row in sweep.rows()}, sweep.coverage)


def test_a_hundred_seeds_of_weather_break_no_rule_and_liveness_returns(swept) -> None:
    failed = {seed: row.reason for seed, row in swept.rows.items() if row.verdict != "passed"}
    assert failed == {}
    assert swept.rows.keys() == set(SEEDS)
    for each in PLANTED.values():  # so it was the bug that failed below
        assert set(each.seeds.values()) <= swept.rows.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_twenty_seeds_of_the_weather_that_users_get_pass_too(release, tmp_path) -> None:
    sweep = WeatherSweep(
        lambda seed, coverage: weather_of({"release": release, "seed": seed}, coverage),
        weather_of({"release": release, "seed": 1}),
        range(1, 21),
        journals=tmp_path,
        jobs=2,
    )
    assert {row.seed: row.reason for row in sweep.rows() if row.verdict != "passed"} == {}


def test_a_hundred_seeds_meet_faults_in_nearly_every_state(swept) -> None:
    missing = swept.coverage.missing()
    words_met = {word for word, _ in swept.coverage.counts}
    assert words_met == set(FAULTS)
    assert len(FAULTS) * 8 - len(missing) >= PAIRS_MIN, missing


# Planted bugs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as running:
        yield running


def run(fleet: Fleet, plan: Plan, seed: int, journal: Path) -> tuple[RunResult, Explanation]:
    (row,) = fleet.rows([RunOrder(plan=plan, seed=seed, journal=str(journal))], jobs=1)
    assert row.verdict == "failed", row.reason
    entries = [*read_journals([journal])]
    why = explained(entries, judge(entries))
    assert why is not None
    return row, why


def size_of(plan: Plan) -> tuple[int, int, float]:
    """Acts and faults, members, messages a second."""
    members = sum(group.members for group in plan.consumers)
    return len(plan.timeline), members, sum(load.rate for load in plan.load)


def checkers_of(row: RunResult) -> set[str]:
    return {each.checker for each in row.violations}


@pytest.mark.parametrize("name", PLANTED)
def test_weather_finds_a_planted_bug_and_the_smallest_run_that_shows_it(
    name: str, fleet: Fleet, tmp_path: Path
) -> None:
    bug, release = PLANTED[name], RELEASES[0]
    seed = bug.seeds[release]
    plan = plan_of(release, seed, quirk=name)
    row, _ = run(fleet, plan, seed, tmp_path / "whole.jsonl")
    assert bug.checker in checkers_of(row)

    shrinking = Shrinking(plan, row, Trials(fleet, seed, jobs=2).run)
    for _ in itertools.islice(shrinking.trials(), TRIALS_MAX):
        pass
    (acts, members, rate), whole = size_of(shrinking.smallest), size_of(plan)
    assert acts <= ACTS_LEFT < whole[0]
    assert members <= MEMBERS_LEFT < whole[1]
    assert rate < whole[2]

    _, why = run(fleet, shrinking.smallest, seed, tmp_path / "small.jsonl")
    assert why.violation.checker == bug.checker
    assert bug.breaks in why.violation.rule
    assert why.violation.node
    assert any(told.is_evidence for told in why.facts)


@pytest.mark.parametrize("name", PLANTED)
def test_the_newer_release_is_found_out_as_well(name: str, fleet: Fleet, tmp_path: Path) -> None:
    bug, release = PLANTED[name], RELEASES[1]
    seed = bug.seeds[release]
    row, _ = run(fleet, plan_of(release, seed, quirk=name), seed, tmp_path / "whole.jsonl")
    assert bug.checker in checkers_of(row)


def test_every_bug_that_was_planted_by_hand_is_looked_for() -> None:
    assert {name for name, quirk in QUIRKS.items() if quirk.source == "planted"} <= PLANTED.keys()

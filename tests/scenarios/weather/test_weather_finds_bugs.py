"""Weather of a hundred seeds for each release fails nowhere; weather also finds planted bugs.

The seeds are those of ``rmqemu run weather --seeds 1..100`` with the shape ``SMALL``, and the
first twenty with the default shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.generate.tried import read_tried, tried_in
from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.checks.judging.table import CHECKERS
from rocketmq_emulator.scenarios.after.explaining import Explanation, explained
from rocketmq_emulator.scenarios.after.shrinking import Shrinking, ShrinkRuns
from rocketmq_emulator.scenarios.catalog.finding import weather_of
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.sweeps.sweep import WeatherSweep
from rocketmq_emulator.scenarios.weather.coverage import COVERED, Coverage
from rocketmq_emulator.scenarios.weather.shape import (
    PLANTED,
    PLANTED_ANYWHERE,
    SMALL,
)
from rocketmq_emulator.settings.quirks import QUIRKS

SEEDS = range(1, 101)
DEFAULT_SEEDS = range(1, 21)
RELEASES = ("4.9.7", "5.3.3")
RUNS_OTHER_MAX = 24  # of 240 runs: the page may differ from the code by so many
PAIRS_MIN = 130  # of the 152 pairs of a fault and a state
ACTS_LEFT, MEMBERS_LEFT = 4, 4  # limits for a shrunk run; faults count as acts
TRIALS_MAX = 30  # of one shrink: enough to reach these limits
SHRUNK_AT = {"keep_offsets": 2}  # from its first seed, 1, TRIALS_MAX runs leave seven members
GIVEN = {name: getattr(SMALL, name) for name in ("seconds", "rate", "brokers", "members_max")}


def plan_of(release: str, seed: int, quirk: str = "") -> Plan:
    return weather_of({**GIVEN, "release": release, "seed": seed, "quirk": quirk})


def default_plan_of(release: str, seed: int) -> Plan:
    return weather_of({"release": release, "seed": seed})


# Rules that none of these seeds tries, each with the feature that would try it.
NOT_TRIED: dict[str, str] = dict.fromkeys(
    ("copies", "lost_with_masters", "slave_logs", "copied_offsets", "escapes"),
    "these runs have no slaves: see test_weather_slaves.py, test_weather_acting_masters.py",
) | {"one_master_an_epoch": "these runs have no controllers: see test_weather_controllers.py"}


class Swept(NamedTuple):
    """All rows of a release by seed, in the small and the default shape, and their coverage."""

    rows: dict[int, RunResult]
    coverage: Coverage
    default_rows: dict[int, RunResult]


@pytest.fixture(scope="module")
def all_swept(tmp_path_factory) -> dict[str, Swept]:
    found = {}
    for release in RELEASES:
        folder = tmp_path_factory.mktemp(release)
        small = WeatherSweep(
            partial(plan_of, release), plan_of(release, 1), SEEDS, journals=folder, jobs=2
        )
        rows = {row.seed: row for row in small.rows()}
        default = WeatherSweep(
            partial(default_plan_of, release),
            default_plan_of(release, 1),
            DEFAULT_SEEDS,
            journals=folder / "default",
            jobs=2,
        )
        default_rows = {row.seed: row for row in default.rows()}
        found[release] = Swept(rows, small.coverage, default_rows)
    return found


def not_passed(rows: dict[int, RunResult]) -> dict[int, str]:
    return {seed: row.reason for seed, row in rows.items() if row.verdict != "passed"}


@pytest.mark.parametrize("release", RELEASES)
def test_a_hundred_seeds_of_weather_break_no_rule_and_liveness_returns(release, all_swept) -> None:
    rows = all_swept[release].rows
    assert not_passed(rows) == {}
    assert rows.keys() == set(SEEDS)
    for each in PLANTED.values():  # these seeds pass without the bug: below, the bug fails them
        assert set(each.seeds.values()) <= rows.keys()


@pytest.mark.parametrize("release", RELEASES)
def test_twenty_seeds_of_the_weather_that_users_get_pass_too(release, all_swept) -> None:
    assert not_passed(all_swept[release].default_rows) == {}
    assert all_swept[release].default_rows.keys() == set(DEFAULT_SEEDS)


@pytest.mark.parametrize("release", RELEASES)
def test_a_hundred_seeds_meet_faults_in_nearly_every_state(release, all_swept) -> None:
    coverage = all_swept[release].coverage
    missing = coverage.missing()
    assert {word for word, _ in coverage.counts} == set(COVERED)
    assert len(COVERED) * 8 - len(missing) >= PAIRS_MIN, missing


@pytest.fixture(scope="module")
def all_rows(all_swept) -> list[RunResult]:
    return [
        row
        for swept in all_swept.values()
        for row in (*swept.rows.values(), *swept.default_rows.values())
    ]


def test_every_rule_could_have_objected_in_some_of_these_runs(all_rows) -> None:
    assert {name for row in all_rows for name in row.tried} == CHECKERS.keys()
    tried = {name for row in all_rows for name, count in row.tried.items() if count}
    assert CHECKERS.keys() - tried == NOT_TRIED.keys()


def test_the_page_of_checkers_says_about_how_often_each_rule_is_tried(all_rows) -> None:
    shown, found = read_tried(), tried_in(all_rows)
    assert (shown.runs, shown.rules.keys()) == (found.runs, found.rules.keys())
    runs = {name: (count, found.rules[name][0]) for name, (count, _) in shown.rules.items()}
    others = {name: two for name, two in runs.items() if abs(two[0] - two[1]) > RUNS_OTHER_MAX}
    assert others == {}, "count again: docs/generate/tried.py"


# Planted bugs -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_pool() -> Iterator[RunPool]:
    with RunPool() as running:
        yield running


def run(run_pool: RunPool, plan: Plan, seed: int, journal: Path) -> tuple[RunResult, Explanation]:
    (row,) = run_pool.rows([RunOrder(plan=plan, seed=seed, journal=str(journal))], jobs=1)
    assert row.verdict == "failed", row.reason
    entries = [*read_journals([journal])]
    why = explained(entries, judge(entries))
    assert why is not None
    return row, why


def size_of(plan: Plan) -> tuple[int, int, float]:
    """The numbers of acts (with faults), members, and messages a second."""
    members = sum(group.members for group in plan.consumers)
    return len(plan.timeline), members, sum(load.rate for load in plan.load)


def checkers_of(row: RunResult) -> set[str]:
    return {each.checker for each in row.violations}


@pytest.mark.parametrize("name", PLANTED)
def test_weather_finds_a_planted_bug_and_the_smallest_run_that_shows_it(
    name: str, run_pool: RunPool, tmp_path: Path
) -> None:
    bug, release = PLANTED[name], RELEASES[0]
    seed = SHRUNK_AT.get(name, bug.seeds[release])
    plan = plan_of(release, seed, quirk=name)
    row, _ = run(run_pool, plan, seed, tmp_path / "whole.jsonl")
    assert bug.checker in checkers_of(row)

    shrinking = Shrinking(plan, row, ShrinkRuns(run_pool, seed, jobs=2).run)
    whole = size_of(plan)
    for _ in itertools.islice(shrinking.attempts(), TRIALS_MAX):
        acts, members, rate = size_of(shrinking.smallest)
        if acts <= ACTS_LEFT and members <= MEMBERS_LEFT and rate < whole[2]:
            break  # further attempts would only shorten the run and remove queues
    acts, members, rate = size_of(shrinking.smallest)
    assert acts <= ACTS_LEFT < whole[0]
    assert members <= MEMBERS_LEFT < whole[1]
    assert rate < whole[2]

    _, why = run(run_pool, shrinking.smallest, seed, tmp_path / "small.jsonl")
    assert bug.breaks in why.violation.rule
    assert why.violation.node
    assert any(told.is_evidence for told in why.facts)


@pytest.mark.parametrize("name", SHRUNK_AT)
def test_a_bug_that_is_shrunk_at_another_seed_is_found_at_its_first_one(
    name: str, run_pool: RunPool, tmp_path: Path
) -> None:
    bug, release = PLANTED[name], RELEASES[0]
    seed = bug.seeds[release]
    row, _ = run(run_pool, plan_of(release, seed, quirk=name), seed, tmp_path / "whole.jsonl")
    assert bug.checker in checkers_of(row)


@pytest.mark.parametrize("name", PLANTED)
def test_the_newer_release_is_found_out_as_well(
    name: str, run_pool: RunPool, tmp_path: Path
) -> None:
    bug, release = PLANTED[name], RELEASES[1]
    seed = bug.seeds[release]
    row, _ = run(run_pool, plan_of(release, seed, quirk=name), seed, tmp_path / "whole.jsonl")
    assert bug.checker in checkers_of(row)


def test_every_bug_that_was_planted_by_hand_is_looked_for() -> None:
    assert {name for name, quirk in QUIRKS.items() if quirk.source == "planted"} <= (
        PLANTED_ANYWHERE
    )

"""Weather whose slaves act as masters: what waits goes on, and a bug of the bridge is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.scenarios.after.explaining import explained
from rocketmq_emulator.scenarios.after.shrinking import Shrinking, ShrinkRuns
from rocketmq_emulator.scenarios.plan.plan import Plan, word_of
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.plan.validity import problems_of
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.weather.events import ABSENCES, FAULTS_OF_SLAVES
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import PLANTED_AT_ACTING, SMALL, WeatherShape

RELEASE = "5.3.3"
SLAVES = msgspec.structs.replace(SMALL, slaves=1)
ACTING = msgspec.structs.replace(SLAVES, acting_master=True)
SEEDS = range(1, 13)
ACTS_LEFT, MEMBERS_LEFT = 3, 4  # limits for a shrunk run; faults count as acts
TRIALS_MAX = 30


def plan_of(seed: int, quirk: str = "") -> Plan:
    quirks = (quirk,) if quirk else ()
    return msgspec.structs.replace(weather(seed, RELEASE, ACTING), quirks=quirks)


@pytest.fixture(scope="module")
def pool() -> Iterator[RunPool]:
    with RunPool() as running:
        yield running


@pytest.fixture(scope="module")
def rows(pool: RunPool) -> list[RunResult]:
    return [*pool.rows([RunOrder(plan=plan_of(seed), seed=seed) for seed in SEEDS], jobs=2)]


# Plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_keeps_its_clients_and_faults_and_gets_a_load_and_an_absence(seed: int) -> None:
    without, acting = weather(seed, RELEASE, SLAVES), plan_of(seed)
    assert problems_of(acting) == []
    assert acting.cluster.acting_master
    assert acting.consumers == without.consumers
    assert acting.load[:-1] == without.load
    more = [step for step in acting.timeline if step not in without.timeline]
    assert [step for step in acting.timeline if step not in more] == list(without.timeline)
    assert {word_of(step.does) for step in more} <= ABSENCES.keys()
    assert len(more) <= 1


def test_every_absence_and_every_kind_of_waiting_message_occurs() -> None:
    plans = [plan_of(seed) for seed in range(1, 80)]
    loads = [plan.load[-1] for plan in plans]
    assert {bool(load.timer_ms) for load in loads} == {True, False}
    assert {bool(load.delay_levels) for load in loads} == {True, False}
    assert {load.mode for load in loads} == {"sync", "transaction"}
    words = {word_of(step.does) for plan in plans for step in plan.timeline}
    assert words >= ABSENCES.keys() | FAULTS_OF_SLAVES.keys()
    settings = [plan.cluster.broker_settings for plan in plans]
    for name in ("remote_escape", "slave_read"):
        assert {each.get(name, True) for each in settings} == {True, False}


def test_weather_without_slaves_has_no_acting_masters() -> None:
    with pytest.raises(ValueError, match="acting_master needs slaves"):
        WeatherShape(acting_master=True)


# Runs -------------------------------------------------------------------------------------


def test_twelve_seeds_break_no_rule(rows: list[RunResult]) -> None:
    assert {row.seed: row.reason for row in rows if row.verdict != "passed"} == {}


def test_slaves_act_in_them_send_messages_away_and_give_some_up(rows: list[RunResult]) -> None:
    for metric in ("acting_s", "escaped", "escapes_failed", "timers_given_up"):
        assert sum(row.metrics[metric] for row in rows) > 0, metric
    for rule in ("escapes", "one_master", "delays", "transaction_checks"):
        assert sum(row.tried[rule] for row in rows) > 0, rule


@pytest.mark.parametrize("name", PLANTED_AT_ACTING)
def test_a_bug_of_the_bridge_is_found_shrunk_and_explained(
    name: str, pool: RunPool, tmp_path: Path
) -> None:
    bug = PLANTED_AT_ACTING[name]
    seed = bug.seeds[RELEASE]
    plan = plan_of(seed, name)
    (row,) = pool.rows([RunOrder(plan=plan, seed=seed)], jobs=1)
    assert bug.checker in {each.checker for each in row.violations}

    shrinking = Shrinking(plan, row, ShrinkRuns(pool, seed, jobs=2).run)
    for _ in itertools.islice(shrinking.attempts(), TRIALS_MAX):
        small = shrinking.smallest
        members = sum(group.members for group in small.consumers)
        if len(small.timeline) <= ACTS_LEFT and members <= MEMBERS_LEFT:
            break
    small = shrinking.smallest
    assert len(small.timeline) <= ACTS_LEFT < len(plan.timeline)
    assert sum(group.members for group in small.consumers) <= MEMBERS_LEFT

    journal = tmp_path / "small.jsonl"
    (row,) = pool.rows([RunOrder(plan=small, seed=seed, journal=str(journal))], jobs=1)
    entries = [*read_journals([journal])]
    why = explained(entries, judge(entries))
    assert why is not None
    assert bug.breaks in why.violation.rule
    assert any(told.is_evidence for told in why.facts)
    assert len(why.cause) >= 3
    assert "acts as the master" in " ".join(why.cause)

"""Weather with slaves: the rules of replication hold, and old seeds are the runs they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rocketmq_emulator.cluster.fault_values import Lag
from rocketmq_emulator.scenarios.plan.plan import Plan, word_of
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.plan.validity import problems_of
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.weather.events import FAULTS_OF_SLAVES
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import PLANTED_AT_SLAVES, SMALL

RELEASES = ("4.9.7", "5.3.3")
SLAVES = msgspec.structs.replace(SMALL, slaves=1)
SEEDS = range(1, 11)
RULES = ("copies", "lost_with_masters", "slave_logs")


def plan_of(seed: int, release: str, quirk: str = "") -> Plan:
    quirks = (quirk,) if quirk else ()
    return msgspec.structs.replace(weather(seed, release, SLAVES), quirks=quirks)


def rows_of(pool: RunPool, orders: list[RunOrder]) -> list[RunResult]:
    return [*pool.rows(orders, jobs=2)]


@pytest.fixture(scope="module")
def pool() -> Iterator[RunPool]:
    with RunPool() as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_with_slaves_a_seed_has_the_same_clients_and_the_same_other_faults(seed: int) -> None:
    without, with_slaves = weather(seed, "4.9.7", SMALL), plan_of(seed, "4.9.7")
    assert problems_of(with_slaves) == []
    assert with_slaves.cluster.slaves == 1
    assert (with_slaves.consumers, with_slaves.load) == (without.consumers, without.load)
    steps = [step for step in with_slaves.timeline if step in without.timeline]
    assert steps == list(without.timeline)
    more = {word_of(step.does) for step in with_slaves.timeline if step not in steps}
    assert more <= FAULTS_OF_SLAVES.keys()


def test_every_fault_of_slaves_and_every_role_of_masters_occurs() -> None:
    plans = [plan_of(seed, "5.3.3") for seed in range(1, 60)]
    words = {word_of(step.does) for plan in plans for step in plan.timeline}
    assert words >= FAULTS_OF_SLAVES.keys()
    lags = [step.does for plan in plans for step in plan.timeline if isinstance(step.does, Lag)]
    assert any(lag.ms for lag in lags)
    assert any(lag.bytes_per_s for lag in lags)
    roles = {
        (settings.get("broker_role"), settings.get("in_sync_replicas"), "slave_read" in settings)
        for settings in (plan.cluster.broker_settings for plan in plans)
    }
    assert {role[:2] for role in roles} == {
        (None, None),
        ("SYNC_MASTER", 1),
        ("SYNC_MASTER", 2),
    }
    assert {role[2] for role in roles} == {True, False}


@pytest.mark.parametrize("release", RELEASES)
def test_ten_seeds_of_weather_with_slaves_break_no_rule(release: str, pool: RunPool) -> None:
    rows = rows_of(pool, [RunOrder(plan=plan_of(seed, release), seed=seed) for seed in SEEDS])
    assert {row.seed: row.reason for row in rows if row.verdict != "passed"} == {}
    for rule in RULES:
        assert sum(row.tried[rule] for row in rows) > 0, rule


@pytest.mark.parametrize(
    ("name", "release"),
    [(name, release) for name, bug in PLANTED_AT_SLAVES.items() for release in bug.seeds],
)
def test_weather_with_slaves_finds_a_planted_bug(
    name: str, release: str, pool: RunPool, tmp_path: Path
) -> None:
    bug = PLANTED_AT_SLAVES[name]
    seed = bug.seeds[release]
    order = RunOrder(plan=plan_of(seed, release, name), seed=seed, journal=str(tmp_path / "run"))
    (row,) = rows_of(pool, [order])
    broken = {each.checker: each.rule for each in row.violations}
    assert bug.breaks in broken[bug.checker]

"""Weather with controllers: masters are elected, by controllers and by hand."""

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
from rocketmq_emulator.scenarios.plan.plan import Elect, Plan, word_of
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.plan.validity import problems_of
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.weather.events import FAULTS_OF_CONTROLLERS
from rocketmq_emulator.scenarios.weather.generating import weather
from rocketmq_emulator.scenarios.weather.shape import ELECTING, PLANTED_AT_ELECTIONS, WeatherShape

RELEASE = "5.3.3"
SEEDS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 14, 16, 19, 26)  # each but 14 elects masters
# To shrink a run that breaks few rules is cheap: two masters of one name break six others soon.
ONE_NAME = msgspec.structs.replace(
    ELECTING, brokers=1, stepping=0, news=0, reading=0, faults_per_minute=4, acts_per_minute=1
)
SHRUNK_AT = {"truncate_nothing": 5, "two_masters": 2}  # seeds of this shape
ACTS_LEFT = {"truncate_nothing": 1, "two_masters": 0}  # it needs an election after the first one
TOLD = {
    "truncate_nothing": ("elected broker 2 of broker-a in epoch 2", "took the role slave"),
    "two_masters": (
        "broker-a took the role master of epoch 1",
        "broker-a-1 took the role master of epoch 1",
    ),
}
TRIALS_MAX = 30
RULES = ("copies", "lost_with_masters", "slave_logs", "one_master_an_epoch")


def plan_of(seed: int, quirk: str = "", controllers: int = 1) -> Plan:
    shape = msgspec.structs.replace(ELECTING, controllers=controllers)
    quirks = (quirk,) if quirk else ()
    return msgspec.structs.replace(weather(seed, RELEASE, shape), quirks=quirks)


@pytest.fixture(scope="module")
def pool() -> Iterator[RunPool]:
    with RunPool() as running:
        yield running


def rows_of(pool: RunPool, plans: dict[int, Plan]) -> list[RunResult]:
    orders = [RunOrder(plan=plan, seed=seed) for seed, plan in plans.items()]
    return [*pool.rows(orders, jobs=2)]


@pytest.mark.parametrize("controllers", [1, 3])
def test_every_fault_of_controllers_and_elections_by_hand_occur(controllers: int) -> None:
    plans = [plan_of(seed, controllers=controllers) for seed in range(1, 60)]
    assert [problems_of(plan) for plan in plans] == [[]] * len(plans)
    does = [step.does for plan in plans for step in plan.timeline]
    assert {word_of(each) for each in does} >= FAULTS_OF_CONTROLLERS.keys()
    assert any(isinstance(each, Elect) for each in does)
    ways = {
        (settings["in_sync_replicas"], settings.get("all_ack_in_sync_state_set", False))
        for settings in (plan.cluster.broker_settings for plan in plans)
    }
    assert ways == {(1, False), (1, True), (2, False), (2, True)}
    assert any(plan.cluster.controller_settings for plan in plans)


def test_with_controllers_a_seed_has_the_same_clients() -> None:
    without = weather(1, RELEASE, msgspec.structs.replace(ELECTING, controllers=0))
    plan = plan_of(1)
    assert (plan.consumers, plan.load) == (without.consumers, without.load)


def test_a_group_of_two_controllers_is_refused() -> None:
    with pytest.raises(ValueError, match="0, 1 or 3 controllers"):
        WeatherShape(slaves=1, controllers=2)


def test_seeds_of_weather_with_a_controller_break_no_rule(pool: RunPool) -> None:
    rows = rows_of(pool, {seed: plan_of(seed) for seed in SEEDS})
    assert {row.seed: row.reason for row in rows if row.verdict != "passed"} == {}
    for rule in RULES:
        assert sum(row.tried[rule] for row in rows) > 0, rule
    assert sum(row.metrics["elections"] for row in rows) > 3 * len(rows)  # 2 names each


@pytest.mark.parametrize("name", PLANTED_AT_ELECTIONS)
def test_weather_with_a_controller_finds_a_planted_bug(
    name: str, pool: RunPool, tmp_path: Path
) -> None:
    bug = PLANTED_AT_ELECTIONS[name]
    seed = bug.seeds[RELEASE]
    (row,) = rows_of(pool, {seed: plan_of(seed, name)})
    assert seed in SEEDS, "it passes without the bug"
    broken = {each.checker: each.rule for each in row.violations}
    assert bug.breaks in broken[bug.checker]


@pytest.mark.parametrize("name", PLANTED_AT_ELECTIONS)
def test_a_bug_of_elections_is_shrunk_and_explained(
    name: str, pool: RunPool, tmp_path: Path
) -> None:
    bug, seed = PLANTED_AT_ELECTIONS[name], SHRUNK_AT[name]
    plan = msgspec.structs.replace(weather(seed, RELEASE, ONE_NAME), quirks=(name,))
    (row,) = rows_of(pool, {seed: plan})
    assert bug.checker in {each.checker for each in row.violations}

    shrinking = Shrinking(plan, row, ShrinkRuns(pool, seed, jobs=2).run)
    for _ in itertools.islice(shrinking.attempts(), TRIALS_MAX):
        if len(shrinking.smallest.timeline) <= ACTS_LEFT[name]:
            break
    small = shrinking.smallest
    assert len(small.timeline) <= ACTS_LEFT[name] < len(plan.timeline)

    journal = tmp_path / "small.jsonl"
    (row,) = pool.rows([RunOrder(plan=small, seed=seed, journal=str(journal))], jobs=1)
    entries = [*read_journals([journal])]
    why = explained(entries, judge(entries))
    assert why is not None
    assert why.violation.checker == bug.checker
    assert any(told.is_evidence for told in why.facts)
    text = " ".join(why.cause)
    assert all(words in text for words in TOLD[name]), text

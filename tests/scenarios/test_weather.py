"""Weather is a plan from a seed, and looks for what was not met yet."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from emulator.cluster.faults.values import Kill, Pause
from emulator.facts import (
    Fact,
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    MessageStored,
    Queue,
    QueuesClaimed,
)
from emulator.journal import Entry
from scenarios.finding import load
from scenarios.plan import Leave, Plan, RollingRestart, Step
from scenarios.problems import BadScenario
from scenarios.validity import problems_of, refusals_of
from scenarios.weather.coverage import BACKLOG_MIN, STATES, Coverage
from scenarios.weather.generating import weather
from scenarios.weather.making import FAULTS_BY_CHANCE
from scenarios.weather.shape import WeatherShape
from scenarios.words import FAULTS, word_of

DOWN = ("kill", "stop", "pause", "power_off", "leave")


def words_of(plan: Plan) -> list[str]:
    return [word_of(step.does) for step in plan.timeline]


def test_every_fault_has_its_row() -> None:
    assert FAULTS_BY_CHANCE.keys() == FAULTS.keys()


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_every_seed_gives_a_plan_that_can_be_run(release: str) -> None:
    for seed in range(150):
        plan = weather(seed, release)
        assert problems_of(plan) == []
        assert list(refusals_of(plan, "virtual")) == []


def test_one_seed_is_one_plan_in_every_interpreter() -> None:
    program = "from scenarios.weather.generating import weather; print(weather(7))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert printed == {f"{weather(7)}\n"}
    assert weather(7) != weather(8)


def test_every_fault_ends_before_quiet_is_waited_for() -> None:
    for seed in range(100):
        for step in weather(seed).timeline:
            if isinstance(step.does, tuple(FAULTS.values())):
                assert step.at_ms is not None
                assert step.for_ms is not None
                assert step.at_ms + step.for_ms <= 60_000


def whom(step: Step) -> tuple[str, ...]:
    if isinstance(step.does, RollingRestart):
        return step.does.nodes
    return (step.does.node,) if word_of(step.does) in DOWN else ()  # type: ignore[union-attr]


def test_no_node_is_taken_down_twice_and_none_comes_back_that_left() -> None:
    for seed in range(100):
        plan = weather(seed, shape=WeatherShape(faults_per_minute=40, billing=4))
        left = {step.does.node for step in plan.timeline if isinstance(step.does, Leave)}
        down = [(s.at_ms or 0, s.for_ms or 0, node) for s in plan.timeline for node in whom(s)]
        for at_ms, for_ms, node in down:
            assert for_ms == 0 or node not in left
            others = [other for other in down if other[2] == node and other[0] > at_ms]
            assert all(other[0] > at_ms + for_ms for other in others)


def test_weather_has_groups_of_every_kind() -> None:
    kinds = {(c.kind, c.orderly, c.broadcast) for c in weather(1).consumers}
    assert kinds == {
        ("push", False, False),
        ("push", True, False),
        ("push", False, True),
        ("lite_pull", False, False),
    }


def test_weights_leave_faults_out() -> None:
    only = {word: float(word == "kill") for word in FAULTS} | {
        "join": 0.0,
        "leave": 0.0,
        "rolling_restart": 0.0,
        "grow_topic": 0.0,
    }
    for seed in range(20):
        assert set(words_of(weather(seed, shape=WeatherShape(weights=only)))) <= {"kill"}


def test_what_was_met_often_comes_less_often() -> None:
    often = Coverage({("kill", "calm"): 10_000})

    def kills(coverage: Coverage) -> int:
        plans = [weather(seed, coverage=coverage) for seed in range(100)]
        return sum(words_of(plan).count("kill") for plan in plans)

    assert kills(often) < 0.8 * kills(Coverage())


def test_faults_are_put_where_their_state_was_not_met_yet() -> None:
    known = {(word, state): 50 for word in FAULTS for state in STATES if state != "member_left"}

    def after_a_leave(coverage: Coverage) -> int:
        found = 0
        for seed in range(100):
            plan = weather(seed, coverage=coverage)
            left = [s.at_ms for s in plan.timeline if isinstance(s.does, Leave) and s.at_ms]
            begun = [s.at_ms for s in plan.timeline if s.for_ms is not None and s.at_ms]
            found += sum(any(0 <= at - gone <= 15_000 for gone in left) for at in begun)
        return found

    assert after_a_leave(Coverage(known)) > 1.3 * after_a_leave(Coverage())


def test_weather_is_found_by_name_with_its_shape_as_parameters() -> None:
    plan = load("weather", {"seed": "7", "brokers": "2", "release": "5.3.3"})
    assert plan.name == "weather_7"
    assert plan.cluster.brokers == 2
    assert plan.parameters["release"] == "5.3.3"
    assert plan == msgspec.structs.replace(
        weather(7, "5.3.3", WeatherShape(brokers=2)), parameters=plan.parameters
    )
    for given, why in {
        ("brokers", "99"): "brokers is between 1 and 26, not 99",
        ("rate", "-1"): "rate is more than 0",
        ("release", "x"): "a release looks like 4.9.7",
        ("wind", "3"): "there is no parameter 'wind'",
    }.items():
        with pytest.raises(BadScenario, match=why):
            load("weather", dict([given]))


# Coverage -----------------------------------------------------------------------------------


def entries(*told: tuple[float, Fact]) -> list[Entry]:
    return [
        Entry(seq=at, at_ms=0, mono_us=int(seconds * 1e6), node="world", fact=fact)
        for at, (seconds, fact) in enumerate(told, 1)
    ]


def began(number: int, fault: object) -> FaultBegan:
    return FaultBegan(number, msgspec.json.encode(fault).decode(), ("broker-a",))


def ended(number: int) -> FaultEnded:
    return FaultEnded(number, "healed", 1)


KILL, PAUSE = Kill(node="broker-a"), Pause(node="billing-1")


def test_coverage_says_in_which_states_a_fault_began() -> None:
    coverage = Coverage()
    coverage.add(
        entries(
            (1, began(1, KILL)),
            (5, began(2, PAUSE)),
            (6, ended(1)),
            (6.5, ended(2)),
            (8, QueuesClaimed("billing", ())),
            (9.5, began(3, KILL)),
            (10, ended(3)),
            (60, began(4, PAUSE)),
        )
    )
    assert coverage.counts == {
        ("kill", "calm"): 1,
        ("pause", "another_fault"): 1,
        ("pause", "node_down"): 1,
        ("kill", "rebalance"): 1,
        ("kill", "just_healed"): 1,
        ("pause", "calm"): 1,
    }
    assert ("kill", "calm") not in coverage.missing(("kill",))
    assert ("kill", "backlog") in coverage.missing(("kill",))
    assert {row[0]: row[1] for row in coverage.table()}["pause"] == "1"


def test_a_backlog_is_that_of_the_group_that_is_furthest_behind() -> None:
    queue = Queue("orders", "broker-a", 0)
    stored = [(1, MessageStored(queue, at, 0, "", 100)) for at in range(BACKLOG_MIN)]
    consumed = [
        (2, MessageConsumed(group, "orders", queue, at, "", 0, ok=True))
        for group, count in {"quick": BACKLOG_MIN, "slow": 1}.items()
        for at in range(count)
    ]
    one_more = (2.5, MessageStored(queue, BACKLOG_MIN, 0, "", 100))
    behind, level = Coverage(), Coverage()
    behind.add(entries(*stored, *consumed, one_more, (3, began(1, KILL))))
    level.add(entries(*stored, *consumed[:-1], (3, began(1, KILL))))
    assert behind.met("kill", "backlog") == 1
    assert level.met("kill", "calm") == 1

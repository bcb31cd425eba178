"""Weather is a plan from a seed; seeds together meet every fault in every state."""

from __future__ import annotations

import itertools
import subprocess
import sys

import msgspec
import pytest

from rocketmq_emulator.cluster.fault_values import Kill, Pause
from rocketmq_emulator.facts import (
    ConsumerStarted,
    Fact,
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    MessageStored,
    Queue,
    QueuesClaimed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import (
    FAULTS,
    Leave,
    Plan,
    RollingRestart,
    Step,
    word_of,
)
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.validity import problems_of, refusals_of
from rocketmq_emulator.scenarios.weather.clients import FEATURES, Clients
from rocketmq_emulator.scenarios.weather.coverage import BACKLOG_MIN, COVERED, STATES, Coverage
from rocketmq_emulator.scenarios.weather.events import FAULTS_BY_CHANCE
from rocketmq_emulator.scenarios.weather.generating import (
    CALM_MS,
    PAIRS,
    TARGETS_PER_SEED,
    coverage_targets_of,
    weather,
)
from rocketmq_emulator.scenarios.weather.shape import SMALL, WeatherShape

DOWN = ("kill", "stop", "pause", "power_off", "leave")


def words_of(plan: Plan) -> list[str]:
    return [word_of(step.does) for step in plan.timeline]


def test_every_fault_has_its_row() -> None:
    assert tuple(FAULTS_BY_CHANCE) == COVERED


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_every_seed_gives_a_plan_that_can_be_run(release: str) -> None:
    for seed in range(150):
        plan = weather(seed, release)
        assert problems_of(plan) == []
        assert list(refusals_of(plan, "virtual")) == []


def test_one_seed_is_one_plan_in_every_interpreter() -> None:
    program = (
        "from rocketmq_emulator.scenarios.weather.generating import weather; print(weather(7))"
    )
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
        plan = weather(seed, shape=WeatherShape(faults_per_minute=40))
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


def test_seeds_in_a_row_have_each_feature_as_often_as_its_chance_says() -> None:
    clients = [Clients(seed, "5.3.3", SMALL) for seed in range(101)]
    seeds = {name: {s for s in range(101) if clients[s].has(name)} for name in FEATURES}
    for name, feature in FEATURES.items():
        in_blocks = [len({*range(start, start + 20)} & seeds[name]) for start in range(0, 100, 20)]
        assert in_blocks == [round(20 * feature.chance)] * 5
    for (a, one), (b, other) in itertools.combinations(FEATURES.items(), 2):
        if one.chance * other.chance >= 0.05:
            assert seeds[a] & seeds[b], f"no seed has both {a} and {b}"


def test_groups_have_one_to_eight_members_and_few_in_small_weather() -> None:
    def sizes(shape: WeatherShape, group: str) -> set[int]:
        plans = [weather(seed, shape=shape) for seed in range(200)]
        return {each.members for p in plans for each in p.consumers if each.group == group}

    assert sizes(WeatherShape(), "billing") == {1, 2, 3, 4, 5, 6, 7, 8}
    assert sizes(WeatherShape(), "news") == {1, 2, 3}
    assert sizes(SMALL, "stepping") == {1, 2, 3}
    assert sizes(WeatherShape(billing=2), "billing") == {1, 2}
    assert {each.group for each in weather(1, shape=WeatherShape(news=0)).consumers} == {
        "billing",
        "stepping",
        "reading",
    }


def test_features_add_no_messages_but_large_ones() -> None:
    for seed in range(50):
        plan = weather(seed, shape=SMALL)
        rates = [load.rate for load in plan.load if load.count_max is None]
        assert sum(rates) == pytest.approx(SMALL.rate)
        assert all((load.count_max or 1) <= 2 for load in plan.load)
        assert all(load.size_bytes < 4 << 20 for load in plan.load)


def test_listeners_have_time_for_what_they_are_sent() -> None:
    for rate in (4, 50, 200):
        for seed in range(100):
            for group in weather(seed, shape=WeatherShape(rate=rate)).consumers:
                mean_ms = group.listener.takes_ms + group.listener.jitter_ms / 2
                at_once = 1 if group.kind == "lite_pull" or group.orderly else 20
                assert mean_ms * rate / 1_000 * (0.15 if group.orderly else 1) < at_once / 2


def test_what_always_fails_becomes_a_dead_letter_soon() -> None:
    poisoned = [
        each
        for seed in range(50)
        for each in weather(seed).consumers
        if each.listener.always_fails
    ]
    assert len(poisoned) > 20
    assert {each.settings["reconsume_times_max"] for each in poisoned} == {1, 2}
    assert {each.group for each in poisoned} == {"billing", "stepping"}


def test_brokers_of_4x_are_sent_no_timers_and_no_pulls_of_5x() -> None:
    def timers(release: str) -> int:
        plans = [weather(seed, release) for seed in range(50)]
        return sum(bool(load.timer_ms) for plan in plans for load in plan.load)

    assert (timers("4.9.7"), timers("5.3.3") > 5) == (0, True)
    readers = [
        {each.kind: each.settings_of for each in weather(seed, release).consumers}["lite_pull"]
        for release in ("4.9.7", "5.3.3")
        for seed in range(200)
    ]
    assert not any(readers[:200])
    assert any(readers[200:])


def test_weights_leave_faults_out() -> None:
    only = {word: float(word == "kill") for word in FAULTS} | {
        "join": 0.0,
        "leave": 0.0,
        "rolling_restart": 0.0,
        "grow_topic": 0.0,
    }
    for seed in range(20):
        assert set(words_of(weather(seed, shape=WeatherShape(weights=only)))) <= {"kill"}


def test_consecutive_seeds_aim_at_all_pairs_of_a_fault_and_a_state() -> None:
    seeds = len(PAIRS) // TARGETS_PER_SEED
    for first in (0, 1, 101, 167):
        aims = [
            aim
            for seed in range(first, first + seeds)
            for aim in coverage_targets_of(seed, FAULTS)
        ]
        assert sorted(aims) == sorted(PAIRS)
    half = [aim for seed in range(seeds // 2) for aim in coverage_targets_of(seed, FAULTS)]
    assert {aim.word for aim in half} == set(COVERED)
    assert {aim.state for aim in half} == set(STATES)


def test_a_seed_has_the_faults_that_it_aims_at() -> None:
    for seed in range(100):
        words = words_of(weather(seed))
        assert {aim.word for aim in coverage_targets_of(seed, FAULTS)} <= set(words)


def test_a_fault_that_begins_in_calm_is_the_first_thing_to_happen() -> None:
    calm = [
        seed
        for seed in range(100)
        if "calm" in {aim.state for aim in coverage_targets_of(seed, FAULTS)}
    ]
    assert len(calm) > 10
    for seed in calm:
        first = weather(seed).timeline[0]
        assert first.at_ms == CALM_MS
        assert word_of(first.does) in {aim.word for aim in coverage_targets_of(seed, FAULTS)}


def test_a_fault_that_begins_after_a_member_left_has_one_that_leaves() -> None:
    found = 0
    for seed in range(200):
        if "member_left" not in {aim.state for aim in coverage_targets_of(seed, FAULTS)}:
            continue
        plan = weather(seed)
        left = [s.at_ms for s in plan.timeline if isinstance(s.does, Leave) and s.at_ms]
        begun = [s.at_ms for s in plan.timeline if s.for_ms is not None and s.at_ms]
        found += any(0 <= at - gone <= 15_000 for gone in left for at in begun)
    assert found > 30


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


def test_a_group_that_passes_messages_over_has_no_backlog_of_them() -> None:
    queue = Queue("orders", "broker-a", 0)
    stored = [(1, MessageStored(queue, at, 0, "", 100)) for at in range(BACKLOG_MIN + 1)]
    consumed = (2, MessageConsumed("billing", "orders", queue, 0, "", 0, ok=True))

    def states(expression: str) -> set[str]:
        started = ConsumerStarted(
            "billing", "c", "push", False, False, ("orders",), (expression,), "4.9.7"
        )
        coverage = Coverage()
        coverage.add(entries((0, started), *stored, consumed, (60, began(1, KILL))))
        return {state for _, state in coverage.counts}

    assert states("*") == {"backlog"}
    assert states("TagA || TagB") == {"calm"}


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

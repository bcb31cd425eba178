"""Shrinking removes parts of a plan until the smallest one that fails in the same way is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.cluster.fault_values import Kill, Pause
from rocketmq_emulator.scenarios.after.shrinking import (
    REDUCTIONS,
    NothingToShrink,
    Shrinking,
    failure_of,
)
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Heal,
    Join,
    LoadPlan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.plan.result import RunResult, Unmet
from rocketmq_emulator.scenarios.plan.validity import problems_of
from tests.support.scenarios.running_plans import a_plan


def a_row(*checkers: str) -> RunResult:
    violations = tuple(
        Violation(checker=name, rule="", what="it broke", mono_us=0, node="") for name in checkers
    )
    return RunResult(
        scenario="x", code_version="", world="virtual", release="4.9.7", parameters={}, seed=1,
        verdict="failed" if violations else "passed", reason="it broke" if violations else "",
        metrics={}, violations=violations, unmet=(), run_s=0, took_s=0, fact_count=0,
    )  # fmt: skip


def a_large_plan():
    steps = [Step(does=Pause(node="billing-1"), at_ms=at * 1_000, for_ms=500) for at in range(8)]
    steps.insert(5, Step(does=Kill(node="broker-b"), at_ms=4_500, for_ms=9_000))
    steps.append(Step(does=Join(group="billing"), at_ms=9_000))
    return a_plan(
        *steps,
        consumers=(
            ConsumersPlan(group="billing", topics={"orders": "*"}, members=6),
            ConsumersPlan(group="audit", topics={"orders": "*"}, members=3),
        ),
        load=(
            LoadPlan(topic="orders", rate=400, producers=3, keys=7),
            LoadPlan(topic="orders", rate=10),
        ),
    )


def fails_when_a_broker_dies_under_two_members(plan) -> RunResult:
    """A judge without a run: it fails every plan with these two conditions."""
    kills = [step for step in plan.timeline if isinstance(step.does, Kill)]
    members = sum(group.members for group in plan.consumers)
    is_bad = bool(kills) and (kills[0].for_ms or 0) >= 2_000 and members >= 2
    return a_row("no_owner", *(["other"] if len(plan.timeline) > 1 else [])) if is_bad else a_row()


def shrunk(plan, judge):
    shrinking = Shrinking(plan, judge(plan), lambda plans: ((each, judge(each)) for each in plans))
    return shrinking, [*shrinking.attempts()]


def test_only_what_the_failure_needs_is_left() -> None:
    def judge(plan):
        row = fails_when_a_broker_dies_under_two_members(plan)
        return a_row("no_owner") if row.violations else row

    shrinking, attempts = shrunk(a_large_plan(), judge)
    (step,) = shrinking.smallest.timeline
    assert step.does == Kill(node="broker-b")
    assert step.at_ms == 0
    assert 2_000 <= step.for_ms < 3_000
    assert sum(group.members for group in shrinking.smallest.consumers) == 2
    (load,) = shrinking.smallest.load
    assert (load.producers, load.keys) == (1, 0)
    assert load.rate < 10
    assert len(attempts) == shrinking.attempt_count < 150


def test_a_plan_that_fails_in_another_way_is_not_taken() -> None:
    shrinking, attempts = shrunk(a_large_plan(), fails_when_a_broker_dies_under_two_members)
    assert len(shrinking.smallest.timeline) == 2
    assert {"no_owner", "other"} == shrinking.failure.names
    assert not any(trial.is_same for trial in attempts if len(trial.plan.timeline) == 1)


def an_unmet_row(expected: str, actual: float, rule: str = "") -> RunResult:
    violations = (Violation(checker="ownership", rule=rule, what="", mono_us=0, node=""),)
    return replace(
        a_row(),
        verdict="failed",
        unmet=(Unmet(expected, actual),),
        violations=violations if rule else (),
    )


@pytest.mark.parametrize(
    ("expected", "found", "left", "is_same"),
    [
        ("overlap_s == 0", 20.0, 0.005, False),  # what a group has at its start, without a fault
        ("overlap_s == 0", 20.0, 12.0, True),
        ("unowned_s.billing <= 1", 20.0, 180.0, False),
        ("send_unfairness <= 0.5", 0.6, 5.0, False),
        ("lost == 0", 900, 1, True),  # a hundredth of the messages
        ("overlap_s >= 15", 0.0, 3.0, True),
    ],
)
def test_a_plan_fails_alike_with_a_duration_of_about_the_same_length(
    expected, found, left, is_same
) -> None:
    original = failure_of(an_unmet_row(expected, found))
    assert original.is_kept_by(failure_of(an_unmet_row(expected, left))) is is_same


def test_another_rule_of_the_same_checker_is_another_failure() -> None:
    one, other = (failure_of(an_unmet_row("lost == 0", 1, rule)) for rule in ("one owner", "any"))
    assert one.is_kept_by(one)
    assert not one.is_kept_by(other)


@pytest.mark.parametrize(
    ("starts_ms", "spread_ms", "earliest_ms"),
    [(0, 0, 0), (4_000, 0, 4_000), (4_000, 5_000, 9_000)],
)
def test_a_kill_of_a_member_is_not_moved_before_its_start(
    starts_ms, spread_ms, earliest_ms
) -> None:
    group = ConsumersPlan(
        group="billing",
        topics={"orders": "*"},
        starts_ms=starts_ms,
        start_spread_ms=spread_ms,
    )
    plan = a_plan(
        Step(does=Kill(node="broker-b"), at_ms=20_000),
        Step(does=Kill(node="billing-1"), at_ms=30_000),
        consumers=(group,),
    )
    shrinking, attempts = shrunk(
        plan,
        lambda each: a_row(*["always"] * (len(each.timeline) == 2 and not problems_of(each))),
    )
    moved = [trial.plan for trial in attempts if trial.reduction == "shorter steps"]
    assert [plan for plan in moved if problems_of(plan)] == []
    assert [step.at_ms for step in shrinking.smallest.timeline] == [0, earliest_ms]


def test_what_passes_is_not_shrunk() -> None:
    with pytest.raises(NothingToShrink, match="seed 1 passed"):
        shrunk(a_plan(), lambda _plan: a_row())


def test_a_heal_is_never_left_without_what_it_heals() -> None:
    plan = a_plan(
        Step(does=Kill(node="broker-b"), at_ms=1_000, name="dead"),
        Step(does=Heal(step="dead"), after_ms=1_000),
    )
    shrinking, _ = shrunk(plan, lambda each: a_row("always") if each.timeline else a_row())
    assert [type(step.does) for step in shrinking.smallest.timeline] == [Kill]


@given(
    st.builds(
        lambda members, queues, rate: a_plan(
            consumers=(ConsumersPlan(group="g", topics={"orders": "*"}, members=members),),
            topics={"orders": TopicPlan(queues=queues)},
            load=(LoadPlan(topic="orders", rate=rate),),
        ),
        st.integers(1, 9),
        st.integers(1, 9),
        st.floats(1, 1_000),
    )
)
def test_no_reduction_gives_the_plan_back(plan) -> None:
    for reduction in REDUCTIONS.values():
        assert plan not in [*reduction(plan)]

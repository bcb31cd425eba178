"""The verdict and the reason of a row, from a judgement and a plan's expectations."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.checks.judging.table import EXCUSES
from rocketmq_emulator.checks.monitors.table import MONITORS
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import RunEnded
from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan, Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import result_of, started

PLAN = Plan(
    name="judged",
    consumers=(ConsumersPlan(group="billing", topics={"orders": "*"}),),
    expect=(
        Expectation(metric="stuck", operator="==", bound=0),
        Expectation(metric="backlog", operator="==", bound=0),
    ),
)
TOO_SOON = {"liveness": "the run ends 42 s after the last fault or message"}
UNKNOWN = f"'stuck' was not judged: {TOO_SOON['liveness']}"
UNMET = "backlog == 0 was expected, it is 36"


@pytest.mark.parametrize(
    ("metrics", "not_judged", "verdict", "reason"),
    [
        ({"stuck": 0, "backlog": 0}, {}, "passed", ""),
        ({"stuck": 0, "backlog": 36}, {}, "failed", UNMET),
        ({"backlog": 0}, TOO_SOON, "error", UNKNOWN),
        ({"backlog": 36}, TOO_SOON, "failed", f"{UNMET}; {UNKNOWN}"),
    ],
)
def test_what_is_wrong_is_said_before_what_nobody_knows(
    metrics, not_judged, verdict, reason
) -> None:
    judgement = Judgement(violations=(), metrics=metrics, fact_count=9, not_judged=not_judged)
    began = started(PLAN, 1, "virtual", "1")
    row = result_of(PLAN, began, RunEnded("finished", ""), judgement, run_s=1, took_s=1)
    assert (row.verdict, row.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("not_judged", "incomplete"), [(TOO_SOON, ()), ({}, ("the run has no end",)), ({}, ())]
)
def test_a_violation_wins_over_what_was_not_judged(not_judged, incomplete) -> None:
    lost = Violation(checker="lost", rule="nothing is lost", what="K was lost", mono_us=7, node="")
    judgement = Judgement(
        violations=(lost,),
        metrics={"backlog": 0.0},
        fact_count=9,
        not_judged=not_judged,
        incomplete=incomplete,
    )
    began = started(PLAN, 1, "virtual", "1")
    row = result_of(PLAN, began, RunEnded("finished", ""), judgement, run_s=1, took_s=1)
    assert row.verdict == "failed"
    assert row.reason.startswith("lost: K was lost")


def with_an_excuse(metric: str) -> str:
    """The reason of a row in which *metric* is 2 and the plan allows 1."""
    bound = Expectation(metric=metric, operator="<=", bound=1)
    plan = msgspec.structs.replace(PLAN, expect=(bound,))
    judgement = Judgement(violations=(), metrics={metric: 2.0}, fact_count=9)
    began = started(plan, 1, "virtual", "1")
    row = result_of(plan, began, RunEnded("finished", ""), judgement, run_s=1, took_s=1)
    assert (row.verdict, row.metrics) == ("failed", {metric: 2.0})
    return row.reason


@pytest.mark.parametrize("metric", EXCUSES)
def test_each_excuse_is_in_the_row_and_can_be_bounded(metric: str) -> None:
    assert with_an_excuse(metric) == f"{metric} <= 1 was expected, it is 2"


def test_every_monitor_counts_what_it_lets_off() -> None:
    assert {f"excused_{name}" for name in MONITORS} <= EXCUSES.keys()


@pytest.mark.parametrize(
    ("metric", "scope", "verdict"),
    [
        ("producer_failover_s", "broker-a", "failed"),
        ("producer_failover_s", "broker-b", "passed"),  # no attempt failed there
        ("failed_attempts", "orders", "passed"),
        ("broker_share_well", "broker-b", "error"),  # no fault touched it: it has no share
    ],
)
def test_a_metric_of_a_broker_or_topic_to_which_nothing_happened(metric, scope, verdict) -> None:
    expected = Expectation(metric=metric, operator="<=", bound=5, scope=scope)
    plan = msgspec.structs.replace(PLAN, expect=(expected,))
    metrics = {
        "producer_failover_s": 9.0,
        "producer_failover_s.broker-a": 9.0,
        "failed_attempts": 3.0,
        "broker_share_well": 0.0,
    }
    judgement = Judgement(violations=(), metrics=metrics, fact_count=9)
    began = started(plan, 1, "virtual", "1")
    row = result_of(plan, began, RunEnded("finished", ""), judgement, run_s=1, took_s=1)
    assert row.verdict == verdict

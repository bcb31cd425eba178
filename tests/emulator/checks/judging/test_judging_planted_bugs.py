"""Correct clients pass every checker; a checker objects to each planted bug."""

from __future__ import annotations

from collections import Counter

import pytest

from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
from rocketmq_emulator.cluster.fault_values import Kill, Partition, Pause
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Join,
    Leave,
    ListenerPlan,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

STEPS = (
    Step(does=Kill(node="billing-1"), at_ms=10_000, for_ms=8_000),
    Step(does=Kill(node="broker-b"), at_ms=25_000, for_ms=9_000),
    Step(does=Join(group="billing"), at_ms=40_000),
    Step(does=Pause(node="billing-2"), at_ms=45_000, for_ms=5_000),
    Step(does=Leave(node="billing-3"), at_ms=55_000),
    Step(does=Partition(between=("billing-1", "broker-a")), at_ms=58_000, for_ms=20_000),
)
A_JOIN = (Step(does=Join(group="billing"), at_ms=10_000),)


def a_plan(release: str, steps: tuple[Step, ...], **consumers: object) -> Plan:
    quirks = consumers.pop("quirks", ())
    group = ConsumersPlan(
        group="billing",
        topics={"orders": "*"},
        members=3,
        listener=ListenerPlan(takes_ms=300, jitter_ms=400),
        **consumers,
    )
    return Plan(
        name="a hard minute",
        cluster=ClusterPlan(release=release),
        topics={"orders": TopicPlan()},
        consumers=(group,),
        load=(LoadPlan(topic="orders", rate=10, until_ms=70_000),),
        timeline=steps,
        quirks=quirks,
    )


def objecting(plan: Plan, seed: int = 1) -> Counter[str]:
    """The number of objections of each checker."""
    result, _ = finished_run(plan, seed)
    assert result.verdict != "error", result.reason
    return Counter(each.checker for each in result.violations)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize(
    "kind", [{}, {"orderly": True}, {"kind": "lite_pull"}], ids=["concurrent", "orderly", "lite"]
)
def test_a_client_that_is_right_passes_a_hard_minute(release: str, kind: dict) -> None:
    assert objecting(a_plan(release, STEPS, **kind)) == {}


@pytest.mark.parametrize(
    ("quirk", "steps", "orderly", "checkers"),
    [
        ("commit_when_pulled", STEPS, False, {"commits", "lost"}),
        ("keep_offsets", STEPS, False, {"commits"}),
        ("keep_queues", A_JOIN, False, {"ownership"}),
        ("ignore_lock", STEPS, True, {"locks", "ownership"}),
    ],
)
def test_a_planted_bug_is_objected_to(
    quirk: str, steps: tuple[Step, ...], orderly: bool, checkers: set[str]
) -> None:
    plan = a_plan("4.9.7", steps, orderly=orderly, quirks=(quirk,))
    assert checkers <= objecting(plan).keys()


def test_a_client_that_takes_the_newest_message_first_breaks_the_order(monkeypatch) -> None:
    take = ProcessQueue.take

    def newest_first(queue: ProcessQueue, count: int, *more):
        return take(queue, count + 1, *more)[::-1]

    monkeypatch.setattr(ProcessQueue, "take", newest_first)
    assert "order" in objecting(a_plan("4.9.7", A_JOIN, orderly=True))

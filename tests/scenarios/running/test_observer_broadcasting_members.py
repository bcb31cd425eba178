"""No run is quiet while a broadcasting member lacks queues it had: no other member reads them."""

from __future__ import annotations

import pytest

from rocketmq_emulator.cluster.fault_values import Unregistered
from rocketmq_emulator.facts import (
    ConsumerStopped,
    Fact,
    MessageStored,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, ConsumersPlan, LoadPlan, Step
from rocketmq_emulator.scenarios.running.observer import RunObserver, reasons_not_quiet
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan

FULL, EMPTY = Queue("orders", "broker-b", 0), Queue("orders", "broker-b", 1)
NEWS = ConsumersPlan(group="news", topics={"orders": "*"}, broadcast=True, starts_ms=9_000)
LATE_US = 100_000_000
GIVEN_UP = QueuesReleased("news", (FULL, EMPTY), "not mine")


def what_goes_on(*facts: Fact) -> str:
    watch = RunObserver(a_plan(consumers=(NEWS,)))
    watch.take(Entry(1, 0, 1, "broker-b", MessageStored(FULL, 0, 0, "k", 100)))
    for seq, fact in enumerate(facts, 1):
        watch.take(Entry(seq, 0, seq, "news-1", fact))
    return reasons_not_quiet(watch, LATE_US, 0, 40.0)


def test_a_queue_with_messages_that_a_broadcasting_member_gave_up_is_waited_for() -> None:
    assert what_goes_on(GIVEN_UP) == "news-1 waits for 1 queues that it gave up"
    assert what_goes_on(GIVEN_UP, QueuesClaimed("news", (FULL,))) == ""


@pytest.mark.parametrize(
    "facts",
    [
        (GIVEN_UP, ConsumerStopped("news", "c")),
        (GIVEN_UP, NodeKilled("news-1")),
        (QueuesReleased("news", (FULL,), "shutdown"),),
        (QueuesReleased("billing", (FULL,), "not mine"),),
    ],
)
def test_what_its_member_will_not_have_again_is_not_waited_for(facts: tuple[Fact, ...]) -> None:
    assert what_goes_on(*facts) == ""


def test_a_run_lasts_until_a_broadcasting_member_has_its_queues_again() -> None:
    """The broker registers 28 s after the fault, and the member updates its routes 29 s later."""
    fault = Unregistered(broker="broker-b", name_server="namesrv")
    plan = a_plan(
        Step(does=fault, at_ms=35_000, for_ms=37_000),
        cluster=ClusterPlan(release="5.3.3"),
        consumers=(NEWS,),
        load=(LoadPlan(topic="orders", rate=5),),
    )
    result, _ = finished_run(plan, 1)
    assert (result.metrics["excused"], result.metrics["backlog"]) == (0, 0)
    assert result.run_s > 130

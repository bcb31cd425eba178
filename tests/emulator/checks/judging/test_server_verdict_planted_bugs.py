"""Facts of servers alone are enough to object to planted bugs; correct clients pass."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.server_verdict import SdkJudge, SdkVerdict
from rocketmq_emulator.facts import ActionBegan, RunEnded, RunStarted
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Join,
    Leave,
    ListenerPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run

SERVERS = ("broker-", "namesrv", "world")


def a_plan(*quirks: str, release: str = "4.9.7", **consumer: object) -> Plan:
    """Two members; a third one joins, and the first one leaves."""
    listener = ListenerPlan(takes_ms=2, fails=0.05)
    group = ConsumersPlan(
        group="billing", topics={"orders": "*"}, members=2, listener=listener, **consumer
    )
    return Plan(
        name="watched by servers",
        cluster=ClusterPlan(brokers=2, release=release),
        topics={"orders": TopicPlan()},
        quirks=quirks,
        consumers=(group,),
        load=(LoadPlan(topic="orders", rate=8),),
        timeline=(
            Step(does=Join(group="billing"), at_ms=5_000),
            Step(does=Leave(node="billing-1"), at_ms=42_000),
            Step(does=Mark(text="the end"), at_ms=48_000),
        ),
        lasts_ms=48_000,
    )


def seen_by_servers(plan: Plan) -> SdkVerdict:
    _, entries = finished_run(plan, seed=3)
    sdk_judge = SdkJudge()
    sdk_judge.take(entry for entry in entries if is_of_servers(entry))
    return sdk_judge.verdict()


def is_of_servers(entry: Entry) -> bool:
    is_known = entry.node.startswith(SERVERS)
    return is_known and not isinstance(entry.fact, RunStarted | ActionBegan | RunEnded)


@pytest.mark.parametrize(
    ("release", "orderly"), [("4.9.7", True), ("5.3.3", False)], ids=["orderly", "concurrent"]
)
def test_clients_that_do_it_right_are_not_objected_to(release: str, orderly: bool) -> None:
    verdict = seen_by_servers(a_plan(release=release, orderly=orderly))
    assert (verdict.broken, len(verdict.clients)) == ((), 3)
    assert {"pulls_go_on", "one_member_a_queue", "client_ids_differ"} <= set(verdict.judged)
    assert ("locked_pulls" in verdict.judged) == orderly


@pytest.mark.parametrize(
    ("quirk", "monitor", "request_name"),
    [
        ("commit_when_pulled", "given_back_before_committed", "CONSUMER_SEND_MSG_BACK"),
        ("keep_queues", "one_member_a_queue", "PULL_MESSAGE"),
        ("keep_offsets", "only_owners_commit", "UPDATE_CONSUMER_OFFSET"),
        ("ignore_lock", "locked_pulls", "PULL_MESSAGE"),
    ],
)
def test_a_planted_bug_is_objected_to_with_its_frames(
    quirk: str, monitor: str, request_name: str
) -> None:
    verdict = seen_by_servers(a_plan(quirk, orderly=quirk == "ignore_lock"))
    broken = {rule.monitor: rule for rule in verdict.broken}
    assert monitor in broken
    assert broken[monitor].client in {client.client for client in verdict.clients}
    assert broken[monitor].frames[-1].request == request_name
    assert "billing" in broken[monitor].frames[-1].fields.values()

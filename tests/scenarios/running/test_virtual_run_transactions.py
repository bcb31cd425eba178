"""Loads of transactions in the virtual world: sent, ended, asked about, and waited for."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from rocketmq_emulator.cluster.fault_values import Kill, PowerOff
from rocketmq_emulator.facts import (
    HalfMessageStored,
    LocalTransactionEnded,
    MessageConsumed,
    PowerLost,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, LoadPlan, Plan, Step
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.scenarios.running_plans import a_plan, facts_of


def transactions(release: str, *steps: Step, settings=None, **shares: float) -> Plan:
    load = LoadPlan(topic="orders", rate=10, mode="transaction", until_ms=10_000, **shares)
    cluster = ClusterPlan(brokers=2, release=release, broker_settings=settings or {})
    return a_plan(*steps, load=(load,), cluster=cluster)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_what_is_committed_is_consumed_and_what_is_not_known_is_asked_about(release) -> None:
    plan = transactions(release, rollbacks=0.2, unknowns=0.2, crashes=0.1)
    result, entries = finished_run(plan, seed=1)
    assert result.verdict == "passed", result.reason
    assert len(facts_of(entries, HalfMessageStored)) == 100
    local = Counter(fact.outcome for fact in facts_of(entries, LocalTransactionEnded))
    assert all(5 < local[outcome] < 40 for outcome in ("rollback", "unknown"))
    crashed = 100 - local.total()
    assert 0 < crashed < 25
    asked = facts_of(entries, TransactionChecked)
    assert len(asked) == local["unknown"] + crashed
    assert len(facts_of(entries, TransactionAnswered)) == len(asked)
    ended = Counter(fact.outcome for fact in facts_of(entries, TransactionEnded))
    assert ended.total() == 100
    assert len(facts_of(entries, MessageConsumed)) == ended["commit"]
    assert result.metrics["open_transactions"] == 0


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize("node", ["broker-a", "producer-1"])
def test_a_kill_between_half_message_and_end_loses_nothing(release, node) -> None:
    step = Step(at_ms=4_050, does=Kill(node=node), for_ms=3_000)
    result, entries = finished_run(transactions(release, step, crashes=0.3), seed=2)
    assert result.verdict == "passed", result.reason
    assert facts_of(entries, TransactionAnswered)
    keys = {fact.uniq_key for fact in facts_of(entries, HalfMessageStored)}
    assert {fact.uniq_key for fact in facts_of(entries, MessageConsumed)} == keys


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_losses_of_power_before_ends_and_before_checks_break_no_rule(
    release, flush_disk_type
) -> None:
    steps = (
        Step(at_ms=4_050, does=PowerOff(node="broker-a"), for_ms=1_000),
        Step(at_ms=35_000, does=PowerOff(node="broker-a"), for_ms=1_000),
    )
    on_a_drive = {"store": "drive", "flush_disk_type": flush_disk_type}
    plan = transactions(release, *steps, settings=on_a_drive, rollbacks=0.2, crashes=0.3)
    result, entries = finished_run(plan, seed=2)
    assert result.verdict == "passed", result.reason
    assert len(facts_of(entries, PowerLost)) == 2
    rolled_back = ends_of(entries, "rollback") - ends_of(entries, "commit")
    consumed = {fact.uniq_key for fact in facts_of(entries, MessageConsumed)}
    assert rolled_back
    assert not rolled_back & consumed
    if flush_disk_type == "SYNC_FLUSH":
        assert consumed == ends_of(entries, "commit")


def ends_of(entries, outcome) -> set[str]:
    """The keys of transactions that ended so."""
    found = facts_of(entries, TransactionEnded)
    return {fact.uniq_key for fact in found if fact.outcome == outcome}


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_what_raises_is_asked_about_and_what_is_undecided_is_given_up(release) -> None:
    plan = transactions(release, raises=0.3, undecided=0.2)
    settings = {"transaction_check_interval_ms": 5_000, "transaction_checks_max": 2}
    cluster = ClusterPlan(brokers=1, release=release, broker_settings=settings)
    result, entries = finished_run(msgspec.structs.replace(plan, cluster=cluster), seed=4)
    assert result.verdict == "passed", result.reason
    local = facts_of(entries, LocalTransactionEnded)
    raised = {fact.uniq_key for fact in local if fact.error.startswith("LookupError")}
    undecided = {fact.uniq_key for fact in local if fact.outcome == "unknown"} - raised
    assert min(len(raised), len(undecided)) > 10
    given_up = facts_of(entries, TransactionGivenUp)
    assert {fact.uniq_key for fact in given_up} == undecided
    assert {fact.check_times for fact in given_up} == {2}
    ended = {fact.uniq_key for fact in facts_of(entries, TransactionEnded) if fact.by_check}
    assert ended == raised


def test_one_seed_decides_every_outcome() -> None:
    plan = transactions("5.3.3", rollbacks=0.3, unknowns=0.2)
    runs = [finished_run(plan, seed=3)[1] for _ in range(2)]
    assert runs[0] == runs[1]

"""Clients are judged at the master of the moment too: elected, acting, replaced or back again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.server_verdict import SdkJudge, SdkVerdict
from rocketmq_emulator.checks.servers.table import SDK_MONITORS
from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    BrokerRegistered,
    BrokerRoleChanged,
    BrokerUnregistered,
    MemberJoined,
    MessageSentBack,
    MessageStored,
    NodeStarted,
    OffsetCommitted,
    PullAnswered,
    PullHeld,
    QueuesLocked,
    RequestReceived,
)
from rocketmq_emulator.scenarios.plan.plan import (
    ClusterPlan,
    ConsumersPlan,
    Join,
    ListenerPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from tests.support.checks.small_journals import EPOCH_MS, PEER, Q0, AJournal, a_member

OLD, NEW = "broker-a", "broker-a-1"
GO, RUST = "a Go client", "a Rust client"
HERE, OTHER = "10.0.0.9:2", "10.0.0.8:2"  # their connections with the slave
ELECTED_S, SETTLED_S = 100.0, 140.0
MOVED = 21  # PULL_OFFSET_MOVED


def two_masters(elect: bool = True) -> AJournal:
    """Both clients are members at a master and its slave; then the slave is elected, or acts."""
    journal = AJournal()
    for number, (node, peers) in enumerate(((OLD, (PEER, "10.0.0.8:1")), (NEW, (HERE, OTHER)))):
        journal.note(node, NodeStarted("broker", f"10.0.0.{number}:10911", "5.3.3", 5))
        if elect:
            journal.note(node, role("master" if node == OLD else "slave", number))
        for client, peer in zip((GO, RUST), peers, strict=True):
            journal.note(node, a_member(client, peer))
    journal.at_s(ELECTED_S)
    return journal.note(NEW, role("master", 1, 2) if elect else ActingMasterBegan(1))


def role(name: str, number: int, epoch: int = 1) -> BrokerRoleChanged:
    return BrokerRoleChanged(name, number + 1, f"10.0.0.{number}:10911", epoch)


def held(journal: AJournal, offset: int = 0, ms: int = 15_000, node: str = NEW) -> AJournal:
    until_ms = EPOCH_MS + journal.now_us // 1_000 + ms
    peer = HERE if node == NEW else PEER
    return journal.note(node, PullHeld("billing", Q0, offset, until_ms, peer, 1))


def answered(
    journal: AJournal, offset: int, next_offset: int, peer: str = HERE, code: int = 0
) -> AJournal:
    count = max(next_offset - offset, 0)
    fact = PullAnswered("billing", Q0, offset, code, count, next_offset, peer, 1)
    return journal.note(NEW, fact)


def committed(journal: AJournal, offset: int, peer: str = HERE) -> AJournal:
    return journal.note(NEW, OffsetCommitted("billing", Q0, offset, peer))


# What a client does wrong at the slave that is the master now --------------------------------


def pulls_twice(journal: AJournal) -> AJournal:
    return held(held(journal).at_s(SETTLED_S + 1))


def leaves_out(journal: AJournal) -> AJournal:
    return held(answered(journal, 0, 5), 6)


def commits_too_much(journal: AJournal) -> AJournal:
    return committed(answered(journal, 0, 5), 6)


def sends_back_too_late(journal: AJournal) -> AJournal:
    journal.note(NEW, MessageStored(Q0, 0, 700, "key", 100))
    committed(answered(journal, 0, 1), 1)
    back = MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 700, HERE)
    return journal.note(NEW, back)


def commits_of_another(journal: AJournal) -> AJournal:
    answered(answered(journal, 0, 1), 1, 2, OTHER)
    return committed(journal.at_s(SETTLED_S + 31), 1)


def pulls_anothers_queue(journal: AJournal) -> AJournal:
    return answered(answered(answered(journal, 0, 1), 1, 2, OTHER), 2, 3)


def has_anothers_id(journal: AJournal) -> AJournal:
    """The second connection of one id joins before the election, and both pull after it."""
    return answered(answered(journal, 0, 1), 1, 2, OTHER)


def pulls_unlocked(journal: AJournal) -> AJournal:
    return held(journal.note(NEW, QueuesLocked("billing", GO, (), (Q0,))).at_s(SETTLED_S + 2))


def lets_a_lock_end(journal: AJournal) -> AJournal:
    return held(journal.note(NEW, QueuesLocked("billing", GO, (Q0,), ())).at_s(SETTLED_S + 36))


def asks_for_too_long(journal: AJournal) -> AJournal:
    return held(journal, ms=24_000)


WRONGS: tuple[tuple[str, Callable[[AJournal], AJournal]], ...] = (
    ("one_pull_a_member", pulls_twice),
    ("pulls_go_on", leaves_out),
    ("commits_follow_pulls", commits_too_much),
    ("given_back_before_committed", sends_back_too_late),
    ("only_owners_commit", commits_of_another),
    ("one_member_a_queue", pulls_anothers_queue),
    ("locked_pulls", pulls_unlocked),
    ("locks_are_renewed", lets_a_lock_end),
    ("held_pulls", asks_for_too_long),
)


@pytest.mark.parametrize("elect", [True, False], ids=["elected", "acting"])
@pytest.mark.parametrize(("monitor", "does"), WRONGS)
def test_a_client_is_judged_at_the_slave_that_is_the_master_now(
    monitor: str, does: Callable[[AJournal], AJournal], elect: bool
) -> None:
    journal = does(two_masters(elect).at_s(SETTLED_S))
    found = judge(journal.entries, tuple(SDK_MONITORS.values()))
    assert (found.raised, [each.checker for each in found.violations]) == ({}, [monitor])
    assert {key.node for key in found.violations[0].entries} == {NEW}


def test_two_members_with_one_id_are_found_at_an_elected_slave() -> None:
    journal = two_masters()
    for at, entry in enumerate(journal.entries):
        if isinstance(fact := entry.fact, MemberJoined) and fact.client == RUST:
            journal.entries[at] = replace(entry, fact=a_member(GO, fact.peer))
    found = judge(has_anothers_id(journal).entries, tuple(SDK_MONITORS.values()))
    assert [each.checker for each in found.violations] == ["client_ids_differ"]


def test_a_member_without_heartbeats_at_an_elected_slave_is_found() -> None:
    """The former master, which may be gone, is let off."""

    def silent(seconds: float) -> list[str]:
        journal = AJournal()
        for number, (node, peer) in enumerate(((OLD, PEER), (NEW, HERE))):
            journal.note(node, role("master" if node == OLD else "slave", number))
            journal.note(node, a_member(GO, peer)).note(node, RequestReceived(peer, 34, 7))
        journal.at_s(20).note(NEW, role("master", 1, 2)).at_s(seconds).ends()
        found = judge(journal.entries, tuple(SDK_MONITORS.values()))
        return [each.what for each in found.violations if each.checker == "heartbeats_come"]

    assert silent(39) == []
    assert silent(42) == [f"{OLD} got no heartbeat of {HERE} for 42.0 s"]


# What a client may do ------------------------------------------------------------------------


def test_an_elected_slave_that_lacks_messages_lets_a_group_commit_what_it_was_given() -> None:
    """A client commits its offset once more, 10 s after it was told a smaller one at the latest.

    Upstream: DefaultMQPushConsumerImpl.pullMessage, OFFSET_ILLEGAL.
    """
    journal = answered(two_masters().at_s(SETTLED_S), 18, 15, code=MOVED)
    assert judge(committed(journal, 18).entries, tuple(SDK_MONITORS.values())).violations == ()
    wrong = judge(committed(journal, 19).entries, tuple(SDK_MONITORS.values()))
    assert [each.checker for each in wrong.violations] == ["commits_follow_pulls"]


def test_an_elected_slave_knows_no_locks_for_a_while() -> None:
    journal = two_masters().note(NEW, QueuesLocked("billing", GO, (), (Q0,)))
    journal = held(journal.at_s(ELECTED_S + 34))
    assert judge(journal.entries, tuple(SDK_MONITORS.values())).violations == ()


def test_an_acting_master_knows_no_locks_for_a_while() -> None:
    """Its master granted them, and was away before they had to be renewed."""

    def pulls_later(seconds: float) -> list[str]:
        journal = two_masters(elect=False)
        journal.note(OLD, QueuesLocked("billing", GO, (Q0,), ()))
        journal.at_s(SETTLED_S).note(NEW, ActingMasterBegan(1)).at_s(SETTLED_S + seconds)
        found = judge(held(journal).entries, tuple(SDK_MONITORS.values()))
        return [each.checker for each in found.violations]

    assert pulls_later(34) == []
    assert pulls_later(36) == ["locks_are_renewed"]


def test_a_client_may_pull_at_a_slave_and_commit_at_its_master() -> None:
    """As one that reads slowly, with slaveReadEnable; another member's pull is no excuse."""

    def commits(pulling: str) -> list[str]:
        journal = two_masters(elect=False).at_s(SETTLED_S)
        journal.note(OLD, PullAnswered("billing", Q0, 0, 0, 1, 1, PEER, 1))
        answered(answered(journal, 0, 1), 1, 2, pulling).at_s(SETTLED_S + 31)
        journal.note(OLD, OffsetCommitted("billing", Q0, 1, PEER))
        found = judge(journal.entries, tuple(SDK_MONITORS.values()))
        return [each.checker for each in found.violations]

    assert commits(HERE) == []
    assert commits(OTHER) == ["only_owners_commit"]


def test_a_master_that_is_in_no_route_gets_no_heartbeats() -> None:
    """Upstream: MQClientInstance.cleanOfflineBroker, before each round of heartbeats."""

    def silent(back_s: float) -> list[str]:
        journal, address = AJournal(), "10.0.0.0:10911"
        journal.note(OLD, NodeStarted("broker", address, "5.3.3", 5)).note(OLD, a_member(GO))
        journal.note(OLD, RequestReceived(PEER, 34, 7)).at_s(20)
        journal.note("namesrv", BrokerUnregistered(OLD, 0, address, "channel closed"))
        journal.at_s(back_s).note("namesrv", BrokerRegistered("c", OLD, 0, address, 1, first=True))
        found = judge(journal.at_s(200).ends().entries, tuple(SDK_MONITORS.values()))
        return [each.checker for each in found.violations]

    assert silent(131) == []
    assert silent(129) == ["heartbeats_come"]


def test_a_new_process_of_a_broker_has_none_of_the_old_connections() -> None:
    journal, started = AJournal(), NodeStarted("broker", "10.0.0.0:10911", "5.3.3", 5)
    journal.note(OLD, started).note(OLD, a_member(GO)).note(OLD, RequestReceived(PEER, 34, 7))
    journal.at_s(30).note(OLD, started).at_s(200).note(OLD, a_member(GO, OTHER)).ends()
    found = judge(journal.entries, tuple(SDK_MONITORS.values()))
    assert [each for each in found.violations if each.checker == "heartbeats_come"] == []


def test_pulls_that_the_former_master_held_are_forgotten() -> None:
    journal = held(two_masters(), node=OLD)
    journal.note(OLD, role("slave", 1, 2))
    journal.at_s(SETTLED_S).note(OLD, NodeStarted("broker", "10.0.0.0:10911", "5.3.3", 5))
    journal.note(OLD, a_member(GO)).at_s(SETTLED_S + 40)
    journal = held(journal, node=OLD)
    assert judge(journal.entries, tuple(SDK_MONITORS.values())).violations == ()


# Whole runs ----------------------------------------------------------------------------------


def a_plan(cluster: ClusterPlan, *quirks: str) -> Plan:
    """A master is killed for 20 s; later a third member joins."""
    group = ConsumersPlan(
        group="billing", topics={"orders": "*"}, members=2, listener=ListenerPlan(takes_ms=2)
    )
    return Plan(
        name="masters that move",
        cluster=cluster,
        topics={"orders": TopicPlan()},
        quirks=quirks,
        consumers=(group,),
        load=(LoadPlan(topic="orders", rate=4),),
        timeline=(
            Step(does=Kill(node="broker-a"), at_ms=10_000, for_ms=20_000),
            Step(does=Join(group="billing"), at_ms=65_000),
            Step(does=Mark(text="the end"), at_ms=110_000),
        ),
        lasts_ms=110_000,
    )


ELECTING = ClusterPlan(brokers=1, slaves=1, controllers=1, release="5.3.3")
ACTING = ClusterPlan(
    brokers=1,
    slaves=1,
    acting_master=True,
    release="5.3.3",
    name_server_settings={"support_acting_master": True},
    broker_settings={"slave_read": True},
)


def verdict_of_servers(plan: Plan) -> tuple[SdkVerdict, set[str]]:
    """The verdict from the facts of servers alone, and the kinds of these facts."""
    _, entries = finished_run(plan, seed=3)
    of_servers = [e for e in entries if e.node.startswith(("broker-", "namesrv", "controller"))]
    sdk_judge = SdkJudge()
    sdk_judge.take(of_servers)
    return sdk_judge.verdict(), {type(entry.fact).__name__ for entry in of_servers}


@pytest.mark.parametrize("cluster", [ELECTING, ACTING], ids=["elected", "acting"])
def test_a_correct_client_of_masters_that_move_is_not_objected_to(cluster: ClusterPlan) -> None:
    verdict, kinds = verdict_of_servers(a_plan(cluster))
    assert [rule.monitor for rule in verdict.broken] == []
    assert len(verdict.clients) == 3
    assert {"BrokerRoleChanged", "ActingMasterBegan"} & kinds


@pytest.mark.parametrize(
    ("quirk", "monitor"),
    [("keep_queues", "one_member_a_queue"), ("keep_offsets", "only_owners_commit")],
)
def test_a_planted_bug_is_found_after_an_election(quirk: str, monitor: str) -> None:
    verdict, _ = verdict_of_servers(a_plan(ELECTING, quirk))
    broken = {rule.monitor: rule for rule in verdict.broken}
    assert monitor in broken
    assert {frame.server for frame in broken[monitor].frames} == {"broker-a-1"}

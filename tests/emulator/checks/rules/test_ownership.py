"""Queues with two owners or none, members without queues, and moves that were necessary."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.rules.ownership import OneOwner
from rocketmq_emulator.checks.rules.rebalances import fewest_moves
from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerUnregistered,
    MemberLeft,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    PowerLost,
    Queue,
    QueuesLocked,
    RebalancePassed,
    TopicChanged,
    TopicCreated,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, client_of, objections


def two_members(*, orderly: bool = False) -> AJournal:
    journal = AJournal().runs().consumer("billing-1", orderly=orderly)
    return journal.consumer("billing-2", orderly=orderly)


def metrics(journal: AJournal) -> dict[str, float]:
    judgement = journal.judged()
    assert objections(judgement, "ownership") == []
    return {name: round(value, 2) for name, value in judgement.metrics.items()}


def test_a_queue_that_is_handed_over_has_one_owner_and_a_second_without() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0, Q1)
    journal.at_s(10).released("billing-1", Q1).at_s(11).claimed("billing-2", Q1).at_s(20).ends()
    found = metrics(journal)
    assert (found["overlap_s"], found["unowned_s"], found["unowned_s.billing"]) == (0, 1, 1)
    assert (found["moved_queues"], found["skew_queues"], found["queueless_members"]) == (1, 0, 0)


def test_two_owners_are_measured_in_a_concurrent_group() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0, Q1)
    journal.at_s(10).claimed("billing-2", Q0, Q1).at_s(13).released("billing-1", Q0)
    journal.at_s(15).released("billing-1", Q1).at_s(20).ends()
    found = metrics(journal)
    assert (found["overlap_s.billing"], found["overlap_queue_s.billing"]) == (5, 8)


def test_the_longest_time_without_an_owner_is_known_by_queue_with_its_beginning() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0, Q1)
    journal.at_s(10).released("billing-1", Q1).at_s(13).claimed("billing-2", Q1)
    journal.at_s(14).released("billing-2", Q1).at_s(15).claimed("billing-2", Q1)
    judging = Judging((OneOwner,))
    judging.take(journal.at_s(30).released("billing-1", Q0).at_s(60).ends().entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, OneOwner)
    found = [
        (each.queue, round(each.from_us / 1e6), round(each.until_us / 1e6))
        for each in checker.unowned()
    ]
    assert found == [(Q0, 30, 60), (Q1, 10, 13)]


# Start-up ---------------------------------------------------------------------------------

BOTH = "billing-1", "billing-2"


def starts(second_s: float = 0.0) -> AJournal:
    """The first member claims both queues at 0.01 s; the second starts at *second_s*."""
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.consumer("billing-1")
    journal.at_s(0.01).passed("billing-1", 2, "billing-1").claimed("billing-1", Q0, Q1)
    return journal.at_s(second_s or 0.01).consumer("billing-2")


def test_two_owners_and_none_while_a_group_starts_up_are_counted_apart() -> None:
    journal = starts().at_s(0.02).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    journal.at_s(0.05).passed("billing-1", 1, *BOTH).released("billing-1", Q1).at_s(30).ends()
    found = metrics(journal)
    assert (found["overlap_s"], found["overlap_queue_s"], found["startup_overlap_s"]) == (
        0,
        0,
        0.03,
    )
    assert (found["unowned_s"], found["startup_unowned_s.billing"]) == (0, 0.01)


def test_start_up_ends_when_all_first_members_list_each_other_and_hold_their_queues() -> None:
    journal = starts().at_s(5).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    journal.at_s(8).passed("billing-1", 2, "billing-1")  # its broker does not know the second yet
    journal.at_s(15).passed("billing-1", 1, *BOTH).released("billing-1", Q1)
    found = metrics(journal.at_s(20).claimed("billing-1", Q1).at_s(24).ends())
    assert (found["startup_overlap_s"], found["overlap_s"]) == (10, 4)


@pytest.mark.parametrize(("second_s", "expected"), [(1.9, (13.1, 0)), (2.1, (0, 12.9))])
def test_a_member_that_starts_2_s_after_the_first_one_joins_a_group_that_runs(
    second_s, expected
) -> None:
    journal = starts(second_s).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    journal.at_s(15).passed("billing-1", 1, *BOTH).released("billing-1", Q1)
    found = metrics(journal.at_s(20).ends())
    assert (found["startup_overlap_s"], found["overlap_s"]) == expected


def test_start_up_lasts_60_s_at_most_and_does_not_excuse_two_owners_for_so_long() -> None:
    journal = starts().at_s(0.02).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    judgement = journal.at_s(70).ends().judged()
    assert len(objections(judgement, "ownership")) == 1
    found = judgement.metrics
    assert round(found["startup_overlap_s"]) == 60
    assert round(found["overlap_s"]) == 10


def test_a_fault_ends_start_up_and_what_follows_is_an_outage() -> None:
    journal = starts().at_s(0.02).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    found = metrics(journal.at_s(5).fault("pause", "broker-b").at_s(30).ends())
    assert (found["startup_overlap_s"], found["overlap_s"]) == (4.98, 25)
    assert found["startup_s.billing"] == 5


def test_a_broker_that_stops_ends_start_up_and_a_nameserver_does_not() -> None:
    def lasted_s(role: str) -> float:
        journal = starts().at_s(0.02).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
        journal.at_s(5).note("node", NodeStopped(role, "asked"))
        return metrics(journal.at_s(30).ends())["startup_s"]

    assert (lasted_s("broker"), lasted_s("nameserver")) == (5, 30)


def test_a_fault_before_the_first_member_or_within_its_first_2_s_ends_no_start_up_early() -> None:
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.fault("pause", "broker-b").at_s(1).consumer("billing-1").at_s(9)
    journal.passed("billing-1", 2, "billing-1").claimed("billing-1", Q0, Q1)
    assert metrics(journal.at_s(30).ends())["startup_s"] == 8
    journal = starts().at_s(1).fault("pause", "broker-b").at_s(30).ends()
    assert metrics(journal)["startup_s"] == 2


def test_a_first_member_that_ends_is_not_waited_for() -> None:
    journal = starts().at_s(4).passed("billing-1", 2, "billing-1").at_s(5).stopped("billing-2")
    journal.at_s(6).passed("billing-1", 2, "billing-1").at_s(10).released("billing-1", Q0, Q1)
    found = metrics(journal.at_s(13).ends())
    assert (found["startup_unowned_s"], found["unowned_s"]) == (0.01, 3)


def test_a_group_without_a_topic_at_its_start_has_no_start_up() -> None:
    journal = two_members().claimed("billing-1", Q0).claimed("billing-2", Q0)
    found = metrics(journal.at_s(1).released("billing-1", Q0).ends())
    assert (found["startup_overlap_s"], found["overlap_s"]) == (0, 1)


def granted(journal: AJournal, node: str, broker: str = "broker-a") -> AJournal:
    return journal.note(broker, QueuesLocked("billing", client_of(node), (Q0,), ()))


def test_two_owners_of_an_orderly_group_break_the_rule_unless_the_lock_has_changed_hands() -> None:
    journal = granted(two_members(orderly=True), "billing-1").claimed("billing-1", Q0)
    assert objections(journal.at_s(5).claimed("billing-2", Q0).judged(), "ownership") == [
        "billing-2 claimed orders@broker-a:0 of billing-1, which has its lock"
    ]
    journal = granted(two_members(orderly=True), "billing-1").claimed("billing-1", Q0)
    granted(journal.at_s(70), "billing-2").claimed("billing-2", Q0)
    assert metrics(journal)["overlap_s"] == 0


def test_two_owners_that_have_the_locks_of_two_brokers_of_the_name_break_no_rule() -> None:
    """One locks at the master that is back, the other at the slave that acted: neither knows."""

    def claimed(*locks: tuple[str, str], at_s: float = 5) -> list[str]:
        journal = granted(two_members(orderly=True), "billing-1").claimed("billing-1", Q0)
        for node, broker in locks:
            granted(journal.at_s(4), node, broker)
        return objections(journal.at_s(at_s).claimed("billing-2", Q0).judged(), "ownership")

    assert claimed(("billing-2", "broker-a-1")) == []
    assert claimed(("billing-2", "broker-a-1"), ("billing-1", "broker-a")) == []
    assert len(claimed(("billing-2", "broker-a-1"), ("billing-1", "broker-a-1"))) == 1
    assert len(claimed(("billing-2", "broker-a-1"), at_s=65)) == 1  # that lock has expired


def test_queues_of_a_topic_that_an_acting_slave_has_created_need_no_owner() -> None:
    def unowned(broker: str) -> float:
        journal = two_members().note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
        journal.claimed("billing-1", Q0).note(broker, TopicCreated("orders", 2, 2, 6, "send"))
        return metrics(journal.at_s(50).ends())["unowned_s"]

    assert unowned("broker-a-1") == 0
    assert unowned("broker-b") > 0


def test_a_killed_member_owns_nothing_from_then_on() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).at_s(5).fault("kill", "billing-1")
    found = metrics(journal.at_s(8).claimed("billing-2", Q0).at_s(9).ends())
    assert (found["unowned_s"], found["overlap_s"], found["moved_queues"]) == (3, 0, 1)


def test_moves_beyond_the_necessary_ones_are_needless() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).claimed("billing-2", Q1).at_s(40)
    journal.released("billing-1", Q0).released("billing-2", Q1)  # they exchange their queues
    journal.claimed("billing-1", Q1).claimed("billing-2", Q0).at_s(80).ends()
    found = metrics(journal)
    assert (found["moved_queues"], found["necessary_moves"], found["needless_moves"]) == (2, 0, 2)


def test_queues_that_move_while_a_group_starts_up_are_counted_apart() -> None:
    journal = starts().at_s(0.02).passed("billing-2", 1, *BOTH).claimed("billing-2", Q1)
    journal.at_s(0.05).passed("billing-1", 1, *BOTH).released("billing-1", Q1).at_s(30).ends()
    found = metrics(journal)
    assert (found["moved_queues"], found["needless_moves"], found["rebalances"]) == (0, 0, 1)
    assert (found["startup_moved_queues.billing"], found["necessary_moves"]) == (1, 0)


def test_the_claim_that_ends_a_start_up_still_belongs_to_it() -> None:
    journal = starts().at_s(8).passed("billing-1", 1, *BOTH).released("billing-1", Q1)
    journal.passed("billing-2", 1, *BOTH).claimed("billing-2", Q1).at_s(30).ends()
    found = metrics(journal)
    assert found["startup_s"] == 8
    assert (found["startup_moved_queues"], found["moved_queues"]) == (1, 0)


def test_a_rebalance_soon_after_start_up_is_another_one_whose_moves_may_be_necessary() -> None:
    queues = [Queue("orders", "broker-a", number) for number in range(4)]
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 4, 4, 6, "admin"))
    journal.consumer("billing-1").at_s(0.01).passed("billing-1", 4, "billing-1")
    journal.claimed("billing-1", *queues).at_s(10).consumer("billing-2")
    journal.passed("billing-2", 2, *BOTH).claimed("billing-2", *queues[2:])
    journal.passed("billing-1", 2, *BOTH).released("billing-1", *queues[2:])
    found = metrics(journal.at_s(20).ends())
    assert (found["moved_queues"], found["necessary_moves"], found["needless_moves"]) == (2, 2, 0)
    assert (found["rebalances"], found["settle_s"], found["startup_moved_queues"]) == (2, 0, 0)


def test_who_held_a_queue_all_the_time_has_it_again_when_the_other_one_gives_it_up() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).claimed("billing-2", Q1)
    journal.claimed("billing-2", Q0).at_s(2).released("billing-2", Q0).at_s(40).ends()
    assert metrics(journal)["queueless_members"] == 0


def test_the_fact_of_a_kill_alone_ends_a_member_and_starts_the_time_of_its_fail_over() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).sent(0).consumed("billing-1", 0)
    journal.at_s(5).note("world", NodeKilled("billing-1"))
    journal.at_s(8).claimed("billing-2", Q0).sent(1).at_s(9).consumed("billing-2", 1).ends()
    found = metrics(journal)
    assert (found["unowned_s"], found["overlap_s"], found["moved_queues"]) == (3, 0, 1)
    assert found["consumer_failover_s"] == 1


def test_queues_that_nobody_ever_claims_have_no_owner() -> None:
    journal = AJournal().runs().note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.consumer("billing-1").at_s(1).claimed("billing-1", Q0)
    journal.passed("billing-1", 1, "billing-1").at_s(10)
    journal.note("broker-a", TopicChanged("orders", 3, 3, 6))  # a queue that no member learns of
    journal.at_s(30).claimed("billing-1", Q1).at_s(40)
    journal.note("broker-a", TopicChanged("orders", 2, 2, 6)).at_s(99).ends()
    found = metrics(journal)
    assert (found["unowned_queue_s"], found["unowned_s"]) == (28 + 30, 30)  # after start-up: 2 s
    assert found["startup_unowned_s"] == 2


@pytest.mark.parametrize(
    ("documents", "again", "expected"),
    [
        (("topics.json",), False, 0),
        (("consumerOffset.json",), False, 30),
        (("topics.json",), True, 30),
    ],
)
def test_queues_of_a_topic_whose_settings_went_with_the_power_may_be_gone(
    documents, again, expected
) -> None:
    journal = AJournal().runs().store()
    journal.note("broker-a", TopicCreated("orders", 1, 1, 6, "admin")).consumer("billing-1")
    journal.claimed("billing-1", Q0).passed("billing-1", 1, "billing-1")
    journal.at_s(10).note("broker-a", TopicChanged("orders", 2, 2, 6))
    journal.fault("power_off", "broker-a")
    journal.note("broker-a", PowerLost(0, 0, 0, documents)).at_s(20).healed()
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7"))
    if again:
        journal.note("broker-a", TopicChanged("orders", 2, 2, 6))
    journal.note("namesrv-a", BrokerRegistered("c", "broker-a", 0, "", 9, first=True))
    found = journal.at_s(50).ends().judged().metrics
    assert round(found["unowned_queue_s"]) == expected


def test_a_member_that_brokers_lost_and_that_says_nothing_has_ended() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).at_s(5)
    left = MemberLeft("billing", client_of("billing-1"), "10.0.0.1:1", "channel closed")
    journal.note("broker-a", left).at_s(8).claimed("billing-2", Q0).at_s(9).ends()
    found = metrics(journal)
    assert (found["unowned_s"], found["overlap_s"]) == (3, 0)


def test_a_dead_broker_s_queues_need_no_owner_and_a_group_without_members_has_none() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).at_s(5)
    journal.note("n", BrokerUnregistered("broker-a", 0, "", "channel closed"))
    journal.at_s(9).released("billing-1", Q0).at_s(50)
    journal.note("n", BrokerRegistered("c", "broker-a", 0, "", 1, first=True))
    journal.at_s(52).claimed("billing-2", Q0).at_s(60).stopped("billing-1")
    journal.stopped("billing-2").at_s(99).ends()
    assert metrics(journal)["unowned_queue_s"] == 2


def test_only_the_time_in_which_a_group_has_members_counts_as_without_an_owner() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).at_s(5).stopped("billing-1")
    journal.at_s(9).stopped("billing-2").at_s(20)  # 4 s without an owner, then without members
    journal.note("n", BrokerUnregistered("broker-a", 0, "", "channel closed")).at_s(30)
    journal.note("n", BrokerRegistered("c", "broker-a", 0, "", 1, first=True)).at_s(40)
    journal.consumer("billing-1").at_s(43).claimed("billing-1", Q0).at_s(50).ends()
    found = metrics(journal)
    assert (found["unowned_s"], found["unowned_queue_s"]) == (4, 4 + 3)


@pytest.mark.parametrize(
    ("queues", "before", "after", "moves"),
    [
        (8, 3, 2, 2),  # scenarios.md: AVG 8 queues, 3 consumers, the last one leaves
        (24, 5, 4, 4),
        (24, 7, 6, 3),
        (64, 10, 9, 6),
        (8, 2, 4, 4),
        (4, 4, 4, 0),
        (0, 2, 1, 0),
        (4, 2, 0, 0),
    ],
)
def test_the_fewest_moves_that_lead_to_even_shares(
    queues: int, before: int, after: int, moves: int
) -> None:
    members = [f"m{number}" for number in range(max(before, after))]
    share, larger = divmod(queues, before)
    owners = [
        member for n, member in enumerate(members[:before]) for _ in range(share + (n < larger))
    ]
    held = {Queue("t", "b", number): owner for number, owner in enumerate(owners)}
    assert fewest_moves(held, members[:after]) == moves


def test_moves_are_counted_from_one_settled_state_to_the_next() -> None:
    queues = [Queue("orders", "broker-a", number) for number in range(4)]
    journal = (
        two_members().at_s(1).claimed("billing-1", *queues[:2]).claimed("billing-2", *queues[2:])
    )
    journal.at_s(100).stopped("billing-2").at_s(101).claimed("billing-1", *queues[2:])
    journal.at_s(200).consumer("billing-2").released("billing-1", *queues[:3])
    journal.at_s(201).claimed("billing-2", *queues[:3]).at_s(202).released("billing-2", queues[2])
    found = metrics(journal.claimed("billing-1", queues[2]).at_s(300).ends())
    assert found["rebalances"] == 3
    assert found["settle_s.billing"] == 2  # the third: from 200 s to 202 s
    assert (found["moved_queues"], found["necessary_moves"]) == (2 + 4, 2 + 2)


def test_queues_begun_anew_for_want_of_pulls_are_counted() -> None:
    journal = two_members().claimed("billing-1", Q0, Q1)
    journal.at_s(130).released("billing-1", Q0, Q1, reason="pull expired")
    journal.claimed("billing-1", Q0, Q1).at_s(200).released("billing-1", Q0)
    assert metrics(journal.at_s(300).ends())["expired_queues.billing"] == 2


def test_a_member_that_gets_nothing_while_the_others_work_is_idle() -> None:
    journal = two_members()
    for second in range(40):
        journal.at_s(second).consumed("billing-1", second)
        if second in (3, 20, 21):
            journal.consumed("billing-2", second, Q1)
    found = metrics(journal)
    assert found["idle_members.billing"] == 1
    assert found["idle_s.billing"] == (20 - 3) + (39 - 21)


def test_nobody_is_idle_where_there_is_nothing_to_do() -> None:
    journal = two_members().at_s(1).consumed("billing-1", 0).at_s(500).consumed("billing-1", 1)
    assert metrics(journal)["idle_members"] == 0


def test_two_owners_for_a_minute_without_any_fault_break_the_rule() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).at_s(2).claimed("billing-2", Q0)
    what = "billing-1 and billing-2 hold orders@broker-a:0 for 68 s, while no fault touches "
    what += "them, its brokers or NameServers"
    assert objections(journal.at_s(70).ends().judged(), "ownership") == [what]


def test_two_owners_during_a_fault_and_soon_after_do_not() -> None:
    journal = two_members().at_s(1).claimed("billing-1", Q0).fault("partition", "billing-1")
    journal.at_s(2).claimed("billing-2", Q0).at_s(150).healed().at_s(170)
    assert metrics(journal.released("billing-1", Q0).at_s(300).ends())["overlap_s"] == 168


BILLING = json.dumps({"consumers": [{"group": "billing", "settings": {}}]})


def nobody_takes_it(plan: str = BILLING, **of_the_second: object) -> AJournal:
    """Two members rebalance a topic of two queues; only one queue is claimed."""
    journal = AJournal().runs(plan).note("broker-a", TopicCreated("orders", 2, 2, 6, "admin"))
    journal.consumer("billing-1").consumer("billing-2", **of_the_second)
    journal.at_s(1).claimed("billing-1", Q0)
    clients = client_of("billing-1"), client_of("billing-2")
    for node in ("billing-1", "billing-2"):
        journal.note(node, RebalancePassed("billing", "orders", 2, clients, 1, "timer"))
    return journal


def test_a_queue_that_nobody_takes_for_180_s_breaks_the_rule_with_the_last_pass_of_each() -> None:
    assert objections(nobody_takes_it().at_s(179).ends().judged(), "ownership") == []
    judgement = nobody_takes_it().at_s(182).ends().judged()
    (violation,) = [each for each in judgement.violations if each.checker == "ownership"]
    assert violation.what == (
        "no member of billing takes orders@broker-a:1 for 181 s, while members, "
        "brokers and routes do not change and have no fault"
    )
    assert [each.node for each in violation.entries] == ["billing-1", "billing-2", "world"]
    assert judgement.metrics["starved_queues.billing"] == 1


def test_it_is_named_when_somebody_takes_it_after_all() -> None:
    journal = nobody_takes_it().at_s(200).claimed("billing-2", Q1).at_s(500).ends()
    (what,) = objections(journal.judged(), "ownership")
    assert what.startswith("no member of billing takes orders@broker-a:1 for 199 s")


@pytest.mark.parametrize(
    ("at_s", "excused"),
    [(100, [(279, True), (281, False)]), (30, [(209, True), (211, False)])],
)
@pytest.mark.parametrize("node", ["billing-2", "broker-a", "name-server-1"])
def test_a_fault_gives_members_180_s_more(
    node: str, at_s: int, excused: list[tuple[int, bool]]
) -> None:
    for end_s, is_let_off in excused:
        journal = nobody_takes_it()
        fact = BrokerRegistered("c", "broker-a", 0, "", 1, first=True)
        journal.note("name-server-1", fact)
        journal.at_s(at_s).fault("hang", node).at_s(at_s + 0.5).healed().at_s(end_s).ends()
        judgement = journal.judged()
        assert bool(objections(judgement, "ownership")) is not is_let_off, end_s
        assert judgement.metrics["excused_unclaimed.billing"] == is_let_off


def test_a_member_that_comes_or_ends_gives_the_others_180_s_more() -> None:
    for is_named, end_s in ((False, 279), (True, 281)):
        journal = nobody_takes_it().at_s(100).consumer("billing-3").at_s(end_s).ends()
        assert bool(objections(journal.judged(), "ownership")) is is_named
        journal = nobody_takes_it().at_s(100).stopped("billing-2").at_s(end_s).ends()
        assert bool(objections(journal.judged(), "ownership")) is is_named


@pytest.mark.parametrize(
    ("plan", "second"),
    [
        (BILLING, {"topics": ("invoices",)}),
        (BILLING, {"client": client_of("billing-1")}),
        (json.dumps({"consumers": [{"group": "billing", "strategy": "config"}]}), {}),
        ("{}", {}),
    ],
)
def test_members_that_do_not_share_alike_may_leave_queues_to_nobody(
    plan: str, second: dict[str, object]
) -> None:
    judgement = nobody_takes_it(plan, **second).at_s(400).ends().judged()
    assert objections(judgement, "ownership") == []
    assert judgement.metrics["excused_unclaimed.billing"] == 1

"""Excuses of the monitors of members, routes and shares: inside, outside and afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerIsolated,
    BrokerRegistered,
    FaultBegan,
    LogFlushed,
    MasterConnected,
    MemberLeft,
    NodeKilled,
    NodeStarted,
    PowerLost,
    PullFailed,
    Queue,
    QueuesLocked,
    QueuesUnlocked,
    RebalancePassed,
    RouteChanged,
    SendAttempted,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
)
from tests.support.checks.journals_of_members import (
    ONE,
    TWO,
    a_cluster,
    a_fault,
    found,
    joined,
    passed,
    registered,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, client_of

A_AND_B = ("broker-a", "broker-b")


def in_time(journal: AJournal, *steps: tuple[float, Callable[[], object]]) -> AJournal:
    """Run each step at its time."""
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(at_s)
        do()
    return journal


# Members in lists ------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [ONE, "broker-b", "namesrv-a"])
def test_a_member_is_listed_38_s_after_a_fault_that_kept_it_from_it(node) -> None:
    def unlisted(node: str, ends_s: float) -> AJournal:
        journal = joined(a_cluster().consumer(ONE), ONE)
        return a_fault(journal, node, 20, 60).at_s(ends_s).ends()

    assert found(unlisted(node, 97), "members_are_listed") == (0, 1)
    assert found(unlisted(node, 99), "members_are_listed") == (1, 0)
    assert found(unlisted(TWO, 97), "members_are_listed") == (1, 0)


def test_a_broker_that_is_in_no_route_need_not_list_anybody_until_it_is_back() -> None:
    def away(broker: str, *, back: bool) -> AJournal:
        journal = joined(a_cluster().consumer(ONE), ONE).at_s(50)
        journal.note("namesrv-a", BrokerExpired(broker, broker, 120_000))
        if back:
            registered(journal.at_s(100), broker)
        return journal.at_s(200).ends()

    assert found(away("broker-b", back=False), "members_are_listed") == (0, 1)
    assert found(away("broker-a", back=False), "members_are_listed") == (1, 0)
    assert found(away("broker-b", back=True), "members_are_listed") == (1, 0)


# Routes ----------------------------------------------------------------------------------------


def a_share_of_two(node: str, passes_s: float) -> AJournal:
    """The member's share lacks the queues of broker-b, which had a fault from 10 s to 11 s."""
    journal = a_fault(a_cluster().consumer(ONE), "broker-b", 10, 11)
    a_fault(journal, node, 100, 110)
    return passed(journal.at_s(passes_s), ONE, ONE, queues=2)


@pytest.mark.parametrize("node", [ONE, "broker-b", "namesrv-a"])
def test_a_broker_may_be_in_no_route_for_58_s_after_a_fault(node) -> None:
    assert found(a_share_of_two(node, 167), "routes_are_current") == (0, 1)
    assert found(a_share_of_two(node, 169), "routes_are_current") == (1, 0)
    assert found(a_share_of_two("producer-1", 167), "routes_are_current") == (1, 0)


def a_share_with_a_dead_master(*slaves: str, die: bool = False) -> AJournal:
    """The member's share has the queues of broker-b, whose master was killed 70 s before."""
    journal = a_cluster().consumer(ONE)
    for slave in slaves:
        journal.note(slave, NodeStarted("broker", "", "4.9.7"))
        journal.note(slave, MasterConnected("10.0.0.2:10912", 0))
    for node in ("broker-b", *(slaves if die else ())):
        journal.at_s(100).note("world", NodeKilled(node))
    return passed(journal.at_s(170), ONE, ONE, queues=4)


def test_a_slave_keeps_the_queues_of_a_dead_master_in_the_routes() -> None:
    assert found(a_share_with_a_dead_master(), "routes_are_current")[0] == 1
    assert found(a_share_with_a_dead_master("broker-b-1"), "routes_are_current")[0] == 0
    assert found(a_share_with_a_dead_master("broker-a-1"), "routes_are_current")[0] == 1
    dead = a_share_with_a_dead_master("broker-b-1", die=True)
    assert found(dead, "routes_are_current")[0] == 1


def settings_lost(
    *, documents: tuple[str, ...] = ("topics.json",), flushes: int = 0, of: str = "broker-b"
) -> AJournal:
    """A topic of broker-b grew from 2 queues to 8 before *of* lost its power."""
    journal = a_cluster().at_s(2).consumer(ONE).at_s(10)
    journal.note("broker-b", TopicCreated("invoices", 8, 8, 6, "admin"))
    journal.note("broker-b", TopicChanged("orders", 8, 8, 6))
    journal.each(range(flushes), lambda n: journal.note("broker-b", LogFlushed(n, n, 1)))
    journal.note(of, PowerLost(0, 0, 0, documents)).note(of, NodeStarted("broker", "", "4.9.7"))
    return journal.at_s(200)


def shared(journal: AJournal, queues: int = 4, topic: str = "orders") -> AJournal:
    fact = RebalancePassed("billing", topic, queues, (client_of(ONE),), queues, "timer")
    return journal.note(ONE, fact)


def test_settings_of_topics_that_were_not_flushed_may_be_lost_with_the_power() -> None:
    assert found(shared(settings_lost()), "routes_are_current")[0] == 0
    assert found(shared(settings_lost(flushes=1)), "routes_are_current")[0] == 0
    assert found(shared(settings_lost(flushes=2)), "routes_are_current")[0] == 1
    assert found(shared(settings_lost(documents=())), "routes_are_current")[0] == 1
    assert found(shared(settings_lost(of="broker-a")), "routes_are_current")[0] == 1


def test_settings_that_were_lost_are_known_again_once_the_topic_is_changed() -> None:
    changed = settings_lost().note("broker-b", TopicChanged("orders", 8, 8, 6))
    assert found(shared(changed.at_s(300)), "routes_are_current")[0] == 1
    flushed = settings_lost(flushes=2).note("broker-b", TopicCreated("news", 2, 2, 6, "admin"))
    flushed.note("broker-b", PowerLost(0, 0, 0, ("topics.json",))).at_s(400)
    assert found(shared(flushed), "routes_are_current")[0] == 1  # those of news were lost


# Shares that change ----------------------------------------------------------------------------


def a_change_of_hands(node: str, *, word: str = "partition", ends_s: float = 110) -> AJournal:
    """Q0 changes its owner at 170 s; a fault *word* of *node* began at 100 s."""
    journal = a_cluster().consumer(ONE).consumer(TWO)
    journal.note("broker-c", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-c", TopicCreated("invoices", 2, 2, 6, "admin")).claimed(ONE, Q0)
    journal.at_s(100).fault(word, node)
    if ends_s:
        journal.at_s(ends_s).healed()
    return journal.at_s(170).claimed(TWO, Q0)


@pytest.mark.parametrize("node", [ONE, "broker-a", "namesrv-a"])
def test_queues_may_change_hands_for_60_s_after_a_fault(node) -> None:
    assert found(a_change_of_hands(node, ends_s=111), "shares_rest") == (0, 1)
    assert found(a_change_of_hands(node, ends_s=109), "shares_rest") == (1, 0)
    assert found(a_change_of_hands("broker-c", ends_s=111), "shares_rest") == (1, 0)
    assert found(a_change_of_hands("producer-1", ends_s=111), "shares_rest") == (1, 0)


def test_a_broker_that_stays_away_does_not_explain_what_changes_minutes_later() -> None:
    def dead(word: str, claims_s: float) -> AJournal:
        journal = a_change_of_hands("broker-b", word=word, ends_s=0)
        return journal.at_s(claims_s).claimed(ONE, Q0)

    assert found(dead("kill", 289), "shares_rest")[0] == 0
    assert found(dead("kill", 300), "shares_rest")[0] == 1
    assert found(dead("pause", 600), "shares_rest")[0] == 0  # it may come and go meanwhile


def test_a_broker_that_a_name_server_takes_anew_changes_routes_and_one_it_knows_does_not() -> None:
    def taken(at_s: float, *, first: bool, broker: str = "broker-b") -> tuple[int, float]:
        journal = a_cluster().consumer(ONE).consumer(TWO).claimed(ONE, Q0).at_s(at_s)
        fact = BrokerRegistered("c", broker, 0, broker, 9, first=first, known_count=9)
        journal.note("namesrv-a", fact).at_s(170).claimed(TWO, Q0)
        return found(journal, "shares_rest")

    assert taken(111, first=True) == (0, 0)
    assert taken(109, first=True) == (1, 0)
    assert taken(111, first=False) == (1, 0)


def left_locked(
    claimed_s: float, *, granted_s: float = 80.5, to: str = ONE, of: Queue = Q0, back: bool = False
) -> AJournal:
    """ONE releases Q0 at 80 s, *to* gets its lock again, and TWO claims the queue *of*."""
    journal = a_cluster().consumer(ONE, orderly=True).consumer(TWO, orderly=True)
    journal.claimed(ONE, Q0, Q1).at_s(80).released(ONE, Q0)
    journal.note("broker-a", QueuesUnlocked("billing", client_of(ONE), (Q0,)))
    journal.at_s(granted_s).note("broker-a", QueuesLocked("billing", client_of(to), (Q0,), ()))
    if back:
        journal.note("broker-a", QueuesUnlocked("billing", client_of(to), (Q0,)))
    return journal.at_s(claimed_s).claimed(TWO, of)


def test_a_lock_that_was_given_again_after_the_queue_was_given_up_is_waited_for() -> None:
    assert found(left_locked(141), "shares_rest") == (0, 1)
    assert found(left_locked(168), "shares_rest") == (0, 1)
    assert found(left_locked(169), "shares_rest") == (1, 0)
    assert found(left_locked(141, granted_s=89), "shares_rest") == (1, 0)
    assert found(left_locked(141, to=TWO), "shares_rest") == (1, 0)
    assert found(left_locked(141, of=Q1), "shares_rest") == (1, 0)
    assert found(left_locked(141, back=True), "shares_rest") == (1, 0)
    assert found(left_locked(141).at_s(142).claimed(ONE, Q0), "shares_rest") == (1, 1)


def a_wrong_sum(*of_two: str, topic: str = "orders", again: bool = False) -> AJournal:
    """Two members with different routes share 4 queues as 2 + 3."""
    journal = a_cluster().consumer(ONE).consumer(TWO)
    journal.note(ONE, RouteChanged("orders", A_AND_B)).note(TWO, RouteChanged("orders", A_AND_B))
    journal.note(TWO, RouteChanged(topic, of_two))
    if again:
        journal.note(TWO, RouteChanged("orders", A_AND_B))
    passed(journal, ONE, ONE, TWO)
    clients = client_of(ONE), client_of(TWO)
    return journal.note(TWO, RebalancePassed("billing", "orders", 4, clients, 3, "timer"))


def test_members_whose_routes_have_other_brokers_share_other_queues() -> None:
    assert found(a_wrong_sum("broker-a"), "shares_add_up") == (0, 1)
    assert found(a_wrong_sum(*A_AND_B), "shares_add_up") == (1, 0)
    assert found(a_wrong_sum("broker-a", topic="steps"), "shares_add_up") == (1, 0)
    assert found(a_wrong_sum("broker-a", again=True), "shares_add_up") == (1, 0)


# Notices -----------------------------------------------------------------------------------------


def woken(late_s: float, node: str = "", *, until_s: float = 12) -> AJournal:
    """A member joins at 10 s; the other one's rebalance includes it *late_s* later."""
    journal = joined(a_cluster().consumer(ONE).consumer(TWO), ONE)
    joined(journal.at_s(10), TWO)
    if node:
        a_fault(journal, node, 11, until_s)
    return passed(journal.at_s(10 + late_s), ONE, ONE, TWO)


def test_a_notice_may_be_lost_by_a_fault_and_the_next_pass_may_not() -> None:
    for node in (ONE, TWO, "broker-a"):
        assert found(woken(25, node), "notices_wake") == (0, 1)
        assert found(woken(60, node), "notices_wake") == (1, 0)
        assert found(woken(60, node, until_s=45), "notices_wake") == (0, 1)
    for node in ("producer-1", "namesrv-a"):  # a rebalance asks no NameServer
        assert found(woken(25, node), "notices_wake") == (1, 0)


def test_a_pass_waits_for_heartbeats_to_slaves_that_do_not_answer() -> None:
    """A changed share sends heartbeats to every broker of the routes, in the thread of passes."""

    def woken_beside(word: str, slave: str) -> AJournal:
        journal = a_cluster().note("broker-a-1", MasterConnected("10.0.0.2:10912", 0))
        joined(journal.consumer(ONE).consumer(TWO), ONE).at_s(9).fault(word, slave)
        return passed(joined(journal.at_s(10), TWO).at_s(17), ONE, ONE, TWO)

    assert found(woken_beside("pause", "broker-a-1"), "notices_wake") == (0, 1)
    assert found(woken_beside("lag", "broker-a-1"), "notices_wake") == (1, 0)
    assert found(woken_beside("pause", "broker-b-1"), "notices_wake") == (1, 0)


def woken_in(word: str, *nodes: str) -> AJournal:
    """A member joins during a fault *word* of *nodes*; the other one includes it 20 s later."""
    journal = joined(a_cluster().consumer(ONE).consumer(TWO), ONE).at_s(9).fault(word, *nodes)
    return passed(joined(journal.at_s(10), TWO).at_s(30), ONE, ONE, TWO)


def test_a_notice_is_lost_by_what_lies_between_a_broker_and_the_two_members() -> None:
    for nodes in (("broker-a", ONE), ("broker-a", TWO), ("broker-a",)):
        assert found(woken_in("stall", *nodes), "notices_wake") == (0, 1)
    assert found(woken_in("stall", "broker-a", "producer-1"), "notices_wake") == (1, 0)
    assert found(woken_in("slow_disk", "broker-a"), "notices_wake") == (1, 0)
    assert found(woken_in("busy", "broker-a"), "notices_wake") == (0, 1)


def share_without_one(word: str, *nodes: str) -> AJournal:
    """A member starts after a fault of broker-b or its links, and leaves out broker-b's queues."""
    journal = a_cluster().at_s(10).fault(word, *nodes).at_s(15).healed()
    return passed(journal.at_s(16).consumer(ONE).at_s(17), ONE, ONE, queues=2)


def test_a_broker_is_in_no_route_by_what_lies_between_it_and_name_servers() -> None:
    for nodes in (("broker-b", "namesrv-a"), ("broker-b",), ("namesrv-a", ONE)):
        assert found(share_without_one("partition", *nodes), "routes_are_current") == (0, 1)
    for word, *nodes in (("partition", "broker-b", "producer-1"), ("full_disk", "broker-b")):
        assert found(share_without_one(word, *nodes), "routes_are_current") == (1, 0)


def asked_a_new_broker(restarted_s: float, *, listed: bool = False) -> AJournal:
    """A member joins at 100 s; a broker that was restarted may not list the other one."""
    journal = joined(a_cluster().consumer(ONE).consumer(TWO), ONE)
    journal.at_s(restarted_s).note("broker-b", NodeStarted("broker", "", "4.9.7"))
    if listed:
        joined(journal, ONE, "broker-b")
    joined(journal.at_s(100), TWO)
    if listed:
        joined(journal, TWO, "broker-b")
    return passed(journal.at_s(109), ONE, ONE, TWO)


def comes_to(*brokers: str, ended: str = "", at_once: bool = True) -> AJournal:
    """Both brokers list ONE; TWO joins at *brokers* at 100 s; ONE includes it at 120 s."""
    journal = joined(joined(a_cluster().consumer(ONE).consumer(TWO), ONE), ONE, "broker-b")
    if ended:
        journal.at_s(20).note("world", NodeKilled(ended))
    for broker in brokers:
        joined(journal.at_s(100), TWO, broker)
    if at_once:
        passed(journal.at_s(100.1), ONE, ONE)
    return passed(journal.at_s(120), ONE, ONE, TWO)


def test_a_member_may_ask_a_broker_that_does_not_list_yet_who_came_to_another_one() -> None:
    assert found(comes_to("broker-a"), "notices_wake") == (0, 1)
    assert found(comes_to("broker-a", at_once=False), "notices_wake") == (1, 0)
    assert found(comes_to("broker-a", "broker-b"), "notices_wake") == (1, 0)
    assert found(comes_to("broker-a", ended="broker-b"), "notices_wake") == (1, 0)


def test_a_broker_that_was_started_again_does_not_list_a_member_until_its_heartbeat() -> None:
    assert found(asked_a_new_broker(33), "notices_wake") == (0, 1)
    assert found(asked_a_new_broker(33, listed=True), "notices_wake") == (1, 0)
    assert found(asked_a_new_broker(31), "notices_wake") == (1, 0)


def test_a_member_that_came_back_before_anybody_looked_is_not_waited_for() -> None:
    journal = joined(joined(a_cluster().consumer(ONE).consumer(TWO), ONE), TWO)
    passed(journal.at_s(1), ONE, ONE, TWO)
    passed(journal, TWO, ONE, TWO)
    in_time(
        journal,
        (10, lambda: left(journal, TWO)),
        (10, lambda: left(journal, ONE)),
        (12, lambda: joined(joined(journal, TWO), ONE)),
        (13, lambda: passed(passed(journal, ONE, ONE, TWO), TWO, ONE, TWO)),
        (60, journal.ends),
    )
    assert found(journal, "notices_wake") == (0, 0)


def left(journal: AJournal, node: str, broker: str = "broker-a") -> AJournal:
    fact = MemberLeft("billing", client_of(node), f"{node}:1", "channel closed")
    return journal.note(broker, fact)


def gone_from_one(passed_s: float, *, other: str = TWO, also_s: float = 0) -> AJournal:
    """broker-a loses TWO at 10 s; ONE still includes it at *passed_s*, and no more at 30 s."""
    journal = joined(joined(a_cluster().consumer(ONE).consumer(TWO), ONE), TWO)
    joined(joined(journal, ONE, "broker-b"), other, "broker-b")
    passed(passed(journal.at_s(1), ONE, ONE, TWO), TWO, ONE, TWO)
    steps = [
        (10, lambda: left(journal, TWO)),
        (passed_s, lambda: passed(journal, ONE, ONE, TWO)),
        (30, lambda: passed(journal, ONE, ONE)),
    ]
    if also_s:
        steps.append((also_s, lambda: left(journal, TWO, "broker-b")))
    return in_time(journal, *steps)


def test_a_member_that_one_broker_lost_may_be_listed_by_another_that_is_asked() -> None:
    assert found(gone_from_one(11), "notices_wake") == (0, 1)
    assert found(gone_from_one(17), "notices_wake") == (1, 0)  # no notice woke this rebalance
    assert found(gone_from_one(11, other=ONE), "notices_wake") == (1, 0)
    assert found(gone_from_one(11, also_s=10.5), "notices_wake") == (1, 0)
    assert found(gone_from_one(11, also_s=20), "notices_wake") == (1, 0)


# Subscriptions -----------------------------------------------------------------------------------


def refused(journal: AJournal, first_s: float, last_s: float) -> AJournal:
    fact = PullFailed("billing", Q0, "code 25: SUBSCRIPTION_NOT_LATEST")
    return journal.at_s(first_s).note(ONE, fact).at_s(last_s).note(ONE, fact)


def refused_after_a_start(first_s: float, *, broker: str = "broker-a") -> AJournal:
    """A broker starts at 200 s and gets no heartbeat; pulls are refused for 4 s."""
    journal = joined(a_cluster().consumer(ONE), ONE).claimed(ONE, Q0).at_s(200)
    journal.note(broker, NodeStarted("broker", "", "4.9.7"))
    return refused(journal, first_s, first_s + 4)


def test_a_broker_that_was_started_again_refuses_until_the_next_heartbeat() -> None:
    assert found(refused_after_a_start(263), "subscriptions_are_latest") == (0, 1)
    assert found(refused_after_a_start(265), "subscriptions_are_latest") == (1, 0)
    other = refused_after_a_start(280, broker="broker-b")
    assert found(other, "subscriptions_are_latest") == (1, 0)


def refused_after(claimed_s: float, last_s: float, *, of: str = ONE) -> AJournal:
    """A member that began at 0 s sends heartbeats to all brokers at 31 s, 61 s, 91 s …"""
    journal = joined(a_cluster(), ONE).at_s(0).consumer(ONE).consumer(TWO)
    return refused(journal.at_s(claimed_s).claimed(of, Q0), last_s - 4, last_s)


def test_what_changes_while_heartbeats_go_round_is_told_with_the_next_one() -> None:
    assert found(refused_after(92, 120), "subscriptions_are_latest") == (0, 1)
    assert found(refused_after(92, 131), "subscriptions_are_latest") == (1, 0)
    assert found(refused_after(80, 110), "subscriptions_are_latest") == (1, 0)
    assert found(refused_after(92, 120, of=TWO), "subscriptions_are_latest") == (1, 0)


# Plans and clocks --------------------------------------------------------------------------------


def of_loads(
    settings: dict[str, object], facts: Sequence[SendAttempted | BrokerIsolated], of: int
) -> AJournal:
    """The first of two producers has these settings."""
    loads = [{"topic": "orders", "settings": settings}, {"topic": "orders"}]
    journal = AJournal().runs(json.dumps({"load": loads}))
    return journal.each(range(len(facts)), lambda n: journal.note(f"producer-{of}", facts[n]))


FOUR = tuple(SendAttempted("orders", Q0, "k", number, 1, "TimedOut") for number in range(1, 5))
ISOLATED = (BrokerIsolated("broker-a", 30_000),)


@pytest.mark.parametrize(
    ("name", "settings", "facts"),
    [
        ("attempts_are_bounded", {"sync_retries": 9}, FOUR),
        ("isolations_are_tabled", {"send_latency_fault_enable": True}, ISOLATED),
        ("isolations_are_tabled", {"release": "5.3.3"}, ISOLATED),
    ],
)
def test_what_the_plan_sets_for_one_producer_lets_off_no_other(name, settings, facts) -> None:
    assert found(of_loads(settings, facts, of=1), name)[0] == 0
    assert found(of_loads(settings, facts, of=2), name)[0] == 1


def a_retry_at_the_same_broker(topic: str, perm: int) -> AJournal:
    journal = a_cluster().note("broker-b", TopicCreated(topic, 2, 2, perm, "admin"))
    journal.note("producer-1", RouteChanged("orders", A_AND_B))
    for number, outcome in ((1, "RemoteFailed: x"), (2, "SEND_OK")):
        fact = SendAttempted("orders", Q1 if number > 1 else Q0, "k", number, 1, outcome)
        journal.note("producer-1", fact)
    return journal


def test_a_retry_has_no_other_broker_only_if_its_own_topic_is_read_only_there() -> None:
    assert found(a_retry_at_the_same_broker("orders", 4), "retries_change_broker")[0] == 0
    assert found(a_retry_at_the_same_broker("invoices", 4), "retries_change_broker")[0] == 1
    assert found(a_retry_at_the_same_broker("orders", 6), "retries_change_broker")[0] == 1


def a_retry_after_read_only(
    after_s: float,
    *,
    broker: str = "broker-b",
    topic: str = "",
    third: bool = False,
    restarts: bool = False,
) -> AJournal:
    """A broker, or a topic of it, is writable again at 200 s; both attempts go to broker-a."""
    journal = a_cluster().note("broker-b", TopicCreated("invoices", 2, 2, 6, "admin"))
    journal.note("broker-c", TopicCreated("orders", 2, 2, 6, "admin"))
    brokers = (*A_AND_B, "broker-c") if third else A_AND_B
    journal.note("producer-1", RouteChanged("orders", brokers))
    for at_s, perm in ((100, 4), (200, 6)):
        if topic:
            journal.at_s(at_s).note(broker, TopicChanged(topic, 2, 2, perm))
        elif restarts and perm == 6:
            journal.at_s(at_s).store(broker)
        else:
            journal.at_s(at_s).note(
                broker, SettingsChanged("admin", (f"brokerPermission={perm}",))
            )
    journal.at_s(200 + after_s)
    for number, outcome in ((1, "RemoteFailed: x"), (2, "SEND_OK")):
        fact = SendAttempted("orders", Q1 if number > 1 else Q0, "k", number, 1, outcome)
        journal.note("producer-1", fact)
    return journal


def test_a_retry_knows_no_other_broker_until_its_route_says_that_it_may_be_written() -> None:
    name = "retries_change_broker"
    assert found(a_retry_after_read_only(34), name) == (0, 1)
    assert found(a_retry_after_read_only(34, topic="orders"), name) == (0, 1)
    assert found(a_retry_after_read_only(34, restarts=True), name) == (0, 1)
    assert found(a_retry_after_read_only(36), name) == (1, 0)
    assert found(a_retry_after_read_only(36, topic="orders"), name) == (1, 0)
    assert found(a_retry_after_read_only(34, broker="broker-a"), name) == (1, 0)
    assert found(a_retry_after_read_only(34, topic="invoices"), name) == (1, 0)
    assert found(a_retry_after_read_only(34, third=True), name) == (1, 0)


def test_one_fact_alone_is_let_off_for_a_clock_that_moved_two_minutes_before_at_most() -> None:
    def dropped(node: str, moved_s: float) -> AJournal:
        journal = a_cluster().at_s(moved_s).fault("clock_jump", node, ms=60_000).at_s(300)
        return journal.note("namesrv-a", BrokerExpired("broker-a", "broker-a", 12_000))

    assert found(dropped("namesrv-a", 181), "expiries_wait") == (0, 1)
    assert found(dropped("namesrv-a", 179), "expiries_wait") == (1, 0)
    assert found(dropped("broker-a", 181), "expiries_wait") == (1, 0)


def test_a_round_of_heartbeats_waits_for_each_broker_that_does_not_answer() -> None:
    def refused_after_95(*silent: str) -> tuple[int, int]:
        journal = joined(a_cluster(), ONE).at_s(0).consumer(ONE)
        journal.note("broker-b-1", TopicCreated("orders", 4, 4, 6, "tool")).at_s(90)
        for number, node in enumerate(silent):
            pause = f'{{"fault":"pause","node":"{node}"}}'
            journal.note("world", FaultBegan(number, pause, (node,)))
        refused(journal.at_s(95).claimed(ONE, Q0), 116, 120)
        return found(journal, "subscriptions_are_latest")

    assert refused_after_95("broker-b", "broker-b-1") == (0, 1)
    assert refused_after_95("broker-b") == (1, 0)
    assert refused_after_95() == (1, 0)

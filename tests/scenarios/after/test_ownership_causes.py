"""Causes of two owners and of none: each sentence, and when it is not told."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    MisuseNoticed,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    Queue,
    QueuesLocked,
    QueuesUnlocked,
    RouteChanged,
    TopicCreated,
)
from tests.scenarios.after.test_causes import (
    BOTH,
    ONE,
    TWO,
    began,
    cause_of_expectation,
    cause_of_rule,
    expecting,
    left,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, a_member, client_of

THREE = "billing-3"
QB, QC = (Queue("orders", "broker-b", number) for number in range(2))


def a_group(metric: str, *, orderly: bool = False, queues: int = 2) -> AJournal:
    """A topic that is made after the first members: so the group has no start-up."""
    journal = expecting(metric).note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.consumer(ONE, orderly=orderly).consumer(TWO, orderly=orderly)
    return journal.note("broker-a", TopicCreated("orders", queues, queues, 6, ""))


def lock(journal: AJournal, node: str, *, is_granted: bool = True) -> AJournal:
    queues = ((Q0,), ()) if is_granted else ((), (Q0,))
    return journal.note("broker-a", QueuesLocked("billing", client_of(node), *queues))


# Two owners -----------------------------------------------------------------------------------


def test_two_owners_that_counted_different_queues_are_told_with_their_routes() -> None:
    journal = a_group("overlap_s").note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.note(TWO, RouteChanged("orders", ("broker-a", "broker-b")))
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.passed(ONE, 1, *BOTH).claimed(ONE, Q0).at_s(10).passed(TWO, 2, *BOTH, queues=4)
    cause = cause_of_expectation(journal.claimed(TWO, Q0).at_s(30).ends())
    assert (
        "They shared out different queues of orders: billing-2 counted 4, billing-1 2. The route "
        "of billing-1 had broker-a since 0.000 s. The route of billing-2 had broker-a and broker-b"
    ) in cause
    assert "Both held it for 20.0 s, to the end." in cause


def test_a_lock_that_is_granted_twice_is_told_with_both_grants() -> None:
    journal = a_group("locks_refused", orderly=True).at_s(5)
    cause = cause_of_rule(lock(lock(journal, ONE).at_s(6), TWO).at_s(20).ends(), "locks")
    assert cause == (
        "broker-a gave the lock to billing-1 at 5.0 s. broker-a gave the lock to billing-2 at "
        "6.0 s. A lock lasts 60 s from its last renewal, and billing-1 had not unlocked "
        "orders@broker-a:0."
    )


def test_an_old_restart_is_not_told_of_two_owners_with_two_lists() -> None:
    """It is told if the two had no other list, as locks are in a broker's memory."""

    def cause(*members: str) -> str:
        journal = a_group("overlap_s").passed(ONE, 1, *BOTH).claimed(ONE, Q0).at_s(5)
        began(journal, "kill", "broker-a").at_s(20).healed()
        journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(40).consumer(THREE)
        journal.passed(TWO, 1, *members).claimed(TWO, Q0)
        return cause_of_expectation(journal.at_s(60).ends())

    assert "kill" in cause(*BOTH)
    assert "kill" not in cause(*BOTH, THREE)


# No owner -------------------------------------------------------------------------------------


def test_a_silent_member_that_a_broker_dropped_counts_as_no_owner() -> None:
    journal = a_group("unowned_s").note("broker-a", a_member(client_of(ONE))).claimed(ONE, Q0)
    journal.claimed(TWO, Q1).at_s(20).note("broker-a", left(ONE, "channel closed")).at_s(50)
    cause = cause_of_expectation(journal.passed(TWO, 2, TWO).claimed(TWO, Q0).at_s(60).ends())
    assert (
        "billing-1 held orders@broker-a:0 then. broker-a dropped billing-1 at 20.0 s, as its "
        "connection had closed: from 20.0 s on it counts as no owner."
    ) in cause


def test_a_listed_member_that_did_not_rebalance_is_told() -> None:
    journal = a_group("unowned_s").consumer(THREE).claimed(ONE, Q0, Q1).at_s(10)
    journal.passed(ONE, 1, *BOTH, THREE).released(ONE, Q1).at_s(20).passed(TWO, 0, *BOTH, THREE)
    cause = cause_of_expectation(journal.at_s(50).claimed(TWO, Q1).at_s(60).ends())
    assert "The list had billing-3 as well, which did not rebalance orders in that time." in cause


def test_a_member_that_is_listed_twice_takes_one_share() -> None:
    journal = a_group("unowned_s").claimed(ONE, Q0, Q1).at_s(10).released(ONE, Q1)
    journal.passed(ONE, 1, ONE, ONE).at_s(50).claimed(TWO, Q1)
    cause = cause_of_expectation(journal.at_s(60).ends())
    assert "The list had billing-1 twice, and it takes the share of one place only." in cause


def test_a_queue_whose_lock_is_refused_has_no_owner_until_it_is_unlocked() -> None:
    journal = lock(a_group("unowned_s", orderly=True), ONE).claimed(ONE, Q0).claimed(TWO, Q1)
    journal.at_s(10).released(ONE, Q0).at_s(11).passed(TWO, 2, TWO)
    lock(journal, TWO, is_granted=False).at_s(30)
    journal.note("broker-a", QueuesUnlocked("billing", client_of(ONE), (Q0,)))
    cause = cause_of_expectation(lock(journal.at_s(31), TWO).claimed(TWO, Q0).at_s(40).ends())
    assert "broker-a refused billing-2 the lock at 11.0 s; members ask every 20 s." in cause
    assert "billing-1 had it, got or renewed it at 0.000 s, and unlocked it at 30.0 s." in cause


def test_no_rebalance_in_the_time_without_an_owner_is_told() -> None:
    journal = a_group("unowned_s").passed(ONE, 2, ONE).claimed(ONE, Q0, Q1).at_s(10)
    journal.released(ONE, Q0).at_s(25).passed(ONE, 2, ONE).claimed(ONE, Q0)
    cause = cause_of_expectation(journal.at_s(40).ends())
    assert (
        "No member of billing rebalanced orders before 25.0 s: each does so every 20 s." in cause
    )


def test_the_end_of_a_time_without_an_owner_is_told_though_much_happened_in_it() -> None:
    journal = a_group("unowned_s").note(ONE, RouteChanged("orders", ("broker-a", "broker-b")))
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-b", TopicCreated("orders", 2, 2, 6, ""))
    journal.passed(ONE, 3, *BOTH, queues=4).claimed(ONE, Q0, QB, QC)
    began(journal.claimed(TWO, Q1).at_s(10), "pause", "broker-b").fault(
        "pause", "broker-a", number=2
    )
    journal.at_s(12).note(ONE, RouteChanged("orders", ("broker-a",)))
    journal.passed(ONE, 0, *BOTH).released(ONE, Q0).at_s(30)
    journal.note(TWO, RouteChanged("orders", ("broker-a",))).passed(TWO, 1, *BOTH).at_s(50)
    journal.note(TWO, RouteChanged("orders", ("broker-a",))).passed(TWO, 2, TWO).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(60).ends())
    assert cause.endswith("billing-2 claimed it at 50.0 s, after 38.0 s.")


def test_a_member_that_ended_is_told_once() -> None:
    journal = a_group("unowned_s").claimed(ONE, Q0).claimed(TWO, Q1).at_s(10)
    journal.note("world", NodeKilled(ONE)).at_s(30).passed(TWO, 2, TWO).claimed(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(60).ends())
    assert cause.count("billing-1 was killed") == 1


def test_the_stop_of_a_broker_that_a_route_lacks_is_why_a_share_is_too_small() -> None:
    journal = a_group("unowned_s").note("broker-b", NodeStarted("broker", "", "4.9.7"))
    journal.note("broker-b", TopicCreated("orders", 2, 2, 6, "")).claimed(ONE, Q0, Q1, QB, QC)
    journal.at_s(5).note("broker-b", NodeStopped("broker", "asked")).at_s(8)
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7")).at_s(10).stopped(ONE)
    journal.note(TWO, RouteChanged("orders", ("broker-a",))).passed(TWO, 1, TWO).at_s(50)
    cause = cause_of_expectation(journal.claimed(TWO, Q0).at_s(70).ends())
    assert cause.startswith("broker-b was stopped at 5.0 s and started again at 8.0 s.")


def test_a_group_whose_sql_is_refused_is_told_with_the_setting() -> None:
    journal = expecting("backlog").consumer(ONE, expressions=("SQL92: color = 'red'",))
    refused = MisuseNoticed("property_filter_off", client_of(ONE), "billing", "orders", "SQL92")
    journal.note("broker-a", refused).stopped(ONE).at_s(1).consumer(ONE).stopped(ONE)
    journal.at_s(10).each(range(5), journal.sent)
    assert cause_of_expectation(journal.at_s(50).ends()) == (
        "billing has not finished 5 messages of orders@broker-a:0, from 0 on. billing-1 of "
        "billing subscribes to orders by SQL92, and broker-a refused that at 0.000 s: it does "
        "not filter by properties. So billing-1 could not start, twice in all. Brokers filter by "
        "SQL92 if they are started with enablePropertyFilter=true."
    )

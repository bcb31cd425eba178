"""Sentences of causes that a journal shows for sure, and some that it does not show."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    NodeKilled,
    NodeStarted,
    NodeStopped,
    PullFailed,
    Queue,
    QueuesLocked,
    RouteChanged,
    SendAttempted,
    SendFailed,
    TopicCreated,
)
from tests.scenarios.after.test_causes import (
    BOTH,
    ONE,
    TWO,
    began,
    cause_of_expectation,
    expecting,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, a_member, client_of


def a_release_by_another_brokers_stop() -> AJournal:
    """broker-b left the route of the owner; broker-a had been restarted long before."""
    journal = expecting("delivery_gap_s", 5).consumer(ONE).consumer(TWO).pulled(0, 0)
    both = ("broker-a", "broker-b")
    journal.note(ONE, RouteChanged("orders", both)).claimed(ONE, Q0, offsets=(0,)).at_s(40)
    journal.note("broker-a", NodeStopped("broker", "asked")).at_s(48)
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(60).passed(ONE, 2, *BOTH)
    journal.at_s(63).note("broker-b", NodeStopped("broker", "asked")).at_s(65)
    journal.note("broker-b", NodeStarted("broker", "", "4.9.7")).sent(0)
    journal.at_s(67).note(ONE, RouteChanged("orders", ("broker-a",))).passed(ONE, 1, *BOTH)
    journal.released(ONE, Q0).at_s(93).claimed(TWO, Q0, offsets=(0,)).released(TWO, Q0)
    journal.claimed(TWO, Q0, offsets=(0,)).given(TWO, 0).consumed(TWO, 0)
    return journal.at_s(120).ends()


def test_a_wait_for_a_next_owner_that_does_not_end_names_its_fault_and_no_end() -> None:
    journal = expecting("open_failover_s", 5).consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,)).sent(0).given(ONE, 0).consumed(ONE, 0)
    began(journal.at_s(10), "kill", ONE).at_s(15).sent(1)
    cause = cause_of_expectation(journal.at_s(60).ends())
    assert "orders@broker-a:0 had messages from 15.0 s to 60.0 s" in cause
    assert f"kill {ONE}" in cause
    assert "was consumed at" not in cause


def test_a_release_names_the_stop_of_the_broker_that_left_the_route() -> None:
    cause = cause_of_expectation(a_release_by_another_brokers_stop())
    assert "broker-b was stopped at 63.0 s" in cause
    assert "broker-a was stopped" not in cause
    assert "Its owner billing-1 released it (not mine) at 67.0 s." in cause


def test_an_owner_that_stays_is_not_said_to_be_replaced() -> None:
    journal = expecting("delivery_gap_s", 5).consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(TWO, Q0, offsets=(0,)).at_s(8).released(TWO, Q0).claimed(ONE, Q0)
    journal.at_s(10).sent(0).at_s(30).claimed(TWO, Q0).at_s(31).released(TWO, Q0)
    cause = cause_of_expectation(journal.at_s(50).given(ONE, 0).consumed(ONE, 0).at_s(60).ends())
    assert "released" not in cause


def test_failed_pulls_have_each_reason_with_its_times() -> None:
    journal = expecting("delivery_gap_s", 5).consumer(ONE).pulled(0, 0).claimed(ONE, Q0)
    for second in range(50, 58):
        journal.at_s(second).note(ONE, PullFailed("billing", Q0, "no route"))
    journal.at_s(58.5).sent(0)
    for second, error in ((59, "no route"), (60, "code 24: x"), (61, "code 24: x")):
        journal.at_s(second).note(ONE, PullFailed("billing", Q0, error))
    cause = cause_of_expectation(journal.at_s(66).given(ONE, 0).consumed(ONE, 0).ends())
    assert (
        "by billing-1 failed at 59.0 s: no route; 2 from 60.0 s to 61.0 s: the broker did not know"
    ) in cause


def test_failed_sends_name_each_broker_with_its_times() -> None:
    journal = expecting("failed_sends")
    for second, queue in ((10, Q0), (12, Q0), (20, Queue("orders", "broker-b", 0))):
        attempt = SendAttempted("orders", queue, f"K{second}", 1, 3_000, "TimedOut")
        journal.at_s(second).note("producer", attempt)
        journal.note("producer", SendFailed("orders", f"K{second}", 1, "late", maybe_stored=True))
    assert (
        "2 of 3 attempts that failed went to broker-a, from 10.0 s to 12.0 s: TimedOut; 1 to "
        "broker-b, at 20.0 s: TimedOut."
    ) in cause_of_expectation(journal.at_s(30).ends())


def test_a_lock_that_was_got_again_is_not_said_to_be_renewed_last_before() -> None:
    journal = expecting("delivery_gap_s", 5).consumer(ONE, orderly=True)
    journal.consumer(TWO, orderly=True).pulled(0, 0).claimed(ONE, Q0).at_s(31)
    journal.note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ())).at_s(45).sent(0)
    journal.at_s(50).note("broker-a", QueuesLocked("billing", client_of(TWO), (), (Q0,)))
    journal.at_s(85).note("broker-a", QueuesLocked("billing", client_of(ONE), (Q0,), ()))
    cause = cause_of_expectation(journal.given(ONE, 0).consumed(ONE, 0).at_s(90).ends())
    assert "billing-1 had it, got or renewed it at 31.0 s, and again at 85.0 s." in cause


def test_a_listed_member_that_rebalanced_is_not_said_to_have_not() -> None:
    journal = expecting("unowned_s", 5).note("broker-a", TopicCreated("orders", 2, 2, 6, ""))
    journal.consumer(ONE).passed(ONE, 2, ONE).claimed(ONE, Q0, Q1).at_s(40).consumer(TWO)
    journal.released(ONE, Q1).at_s(50).passed(ONE, 1, *BOTH).at_s(59.5).passed(TWO, 1, *BOTH)
    cause = cause_of_expectation(journal.at_s(60).claimed(TWO, Q1).at_s(70).ends())
    assert "did not rebalance" not in cause
    assert "billing-2@1" not in cause


# Gaps: sentences on owners, pulls and heartbeats -------------------------------------------


def a_gap_journal(metric: str = "delivery_gap_s") -> AJournal:
    return expecting(metric, 5).consumer(ONE).consumer(TWO).pulled(0, 0)


def consumed_at(journal: AJournal, at_s: float, node: str = ONE) -> str:
    """The cause after *node* got the only message and consumed it at that time."""
    return cause_of_expectation(journal.at_s(at_s).given(node, 0).consumed(node, 0).ends())


def failing(journal: AJournal, node: str, seconds: range, error: str = "no route") -> AJournal:
    for second in seconds:
        journal.at_s(second).note(node, PullFailed("billing", Q0, error))
    return journal


def test_the_fault_of_an_owner_that_ended_a_minute_before_is_not_told() -> None:
    journal = began(a_gap_journal().claimed(ONE, Q0).at_s(10), "kill", ONE)
    cause = consumed_at(journal.at_s(12).claimed(TWO, Q0).at_s(200).sent(0), 210, TWO)
    assert "kill" not in cause


def test_an_owner_that_had_released_the_queue_before_the_gap_is_not_told() -> None:
    journal = a_gap_journal().claimed(ONE, Q0).at_s(10).released(ONE, Q0).at_s(50).sent(0)
    cause = consumed_at(journal.at_s(55).claimed(TWO, Q0), 60, TWO)
    assert "released" not in cause
    assert "billing-2 claimed the queue at 55.0 s." in cause


def test_an_owner_that_released_the_queue_just_before_the_gap_was_its_last() -> None:
    journal = a_gap_journal().claimed(ONE, Q0).at_s(49).released(ONE, Q0).at_s(50).sent(0)
    cause = consumed_at(journal.at_s(55).claimed(TWO, Q0), 60, TWO)
    assert "Its last owner billing-1 released it (not mine) at 49.0 s." in cause


def test_a_pull_that_failed_just_before_the_gap_is_told() -> None:
    journal = failing(a_gap_journal().claimed(ONE, Q0), ONE, range(48, 49)).at_s(50).sent(0)
    assert "A pull by billing-1 failed at 48.0 s: no route" in consumed_at(journal, 60)


def test_failed_pulls_are_told_of_the_member_with_most_of_them() -> None:
    journal = failing(a_gap_journal().claimed(ONE, Q0).at_s(9).sent(0), ONE, range(10, 14))
    cause = consumed_at(failing(journal, TWO, range(14, 16), "another reason"), 20)
    assert "4 pulls by billing-1 failed, from 10.0 s to 13.0 s: no route." in cause
    assert "another reason" not in cause


def test_a_message_that_failed_pulls_held_up_is_not_said_to_have_come_with_a_pull() -> None:
    journal = a_gap_journal().note("broker-a", a_member(client_of(ONE))).claimed(ONE, Q0)
    journal = failing(journal.at_s(9).sent(0), ONE, range(10, 14)).at_s(15).pulled(0, 1)
    cause = consumed_at(journal, 16)
    assert "its next pull came at 15.0 s." in cause
    assert "got 0 with a pull" not in cause


def test_a_heartbeat_is_told_that_ended_several_refusals_and_no_other() -> None:
    def refused(count: int, member: str) -> str:
        journal = failing(a_gap_journal().claimed(ONE, Q0).at_s(9).sent(0), ONE,
                          range(10, 10 + count), "code 24: x")  # fmt: skip
        return consumed_at(journal.note("broker-a", a_member(client_of(member))), 20)

    heartbeat = "The first heartbeat of billing-1 came to broker-a at"
    assert heartbeat in refused(3, ONE)
    assert heartbeat not in refused(1, ONE)
    assert "heartbeat of" not in refused(3, TWO)


def test_a_route_is_told_that_had_the_broker_again_just_before_the_claim() -> None:
    def claimed(after_s: float) -> str:
        journal = a_gap_journal().note("broker-b", NodeStarted("broker", "", "4.9.7"))
        for second, brokers in ((0, "a"), (5, "b"), (10, "ab")):
            route = tuple(f"broker-{each}" for each in brokers)
            journal.at_s(second).note(TWO, RouteChanged("orders", route))
        journal.sent(0)
        return consumed_at(journal.at_s(10 + after_s).claimed(TWO, Q0), 30, TWO)

    again = "The route of billing-2 had broker-a again with its poll at 10.0 s."
    assert again in claimed(2)
    assert again not in claimed(8)


def test_the_next_owner_is_the_one_that_consumed_the_message() -> None:
    journal = a_gap_journal().at_s(50).sent(0).at_s(55).claimed(TWO, Q0).at_s(56).claimed(ONE, Q0)
    cause = consumed_at(journal, 60, TWO)
    assert "billing-2 claimed the queue at 55.0 s." in cause
    assert "billing-1" not in cause


def test_a_refused_lock_is_why_and_not_what_the_owner_did() -> None:
    journal = expecting("delivery_gap_s", 5).consumer(ONE, orderly=True)
    journal.consumer(TWO, orderly=True).pulled(0, 0).claimed(TWO, Q0).claimed(ONE, Q0)
    journal.note("broker-a", QueuesLocked("billing", client_of(TWO), (Q0,), ())).at_s(5).sent(0)
    journal.at_s(10).note("broker-a", QueuesLocked("billing", client_of(ONE), (), (Q0,)))
    cause = consumed_at(journal, 30)
    assert "broker-a refused billing-1 the lock at 10.0 s" in cause
    assert "held it all the time" not in cause


def test_failed_pulls_show_that_a_restart_half_a_minute_before_matters() -> None:
    def cause(failures: int) -> str:
        journal = a_gap_journal().note("broker-a", NodeStarted("broker", "", "4.9.7"))
        journal.claimed(ONE, Q0).at_s(10).note("broker-a", NodeStopped("broker", "asked"))
        journal.at_s(15).note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(40).sent(0)
        journal = failing(journal, ONE, range(41, 41 + failures)).at_s(45).released(ONE, Q0)
        return consumed_at(journal.at_s(50).claimed(TWO, Q0), 55, TWO)

    assert "broker-a was stopped at 10.0 s" in cause(3)
    assert "broker-a was stopped at 10.0 s" not in cause(0)


def test_a_killed_owner_before_the_one_that_released_the_queue_is_not_told() -> None:
    journal = a_gap_journal().claimed(TWO, Q0).at_s(10).note("world", NodeKilled(TWO))
    journal.claimed(ONE, Q0).passed(ONE, 1, ONE).at_s(40).consumer("billing-3").sent(0)
    journal.passed(ONE, 0, ONE, "billing-3").released(ONE, Q0).at_s(50)
    cause = consumed_at(journal.claimed("billing-3", Q0), 60, "billing-3")
    assert "billing-3 joined at 40.0 s." in cause
    assert "killed" not in cause


def test_pulls_that_failed_before_the_release_are_told_before_it() -> None:
    journal = failing(a_gap_journal().claimed(ONE, Q0).at_s(9).sent(0), ONE, range(10, 12))
    cause = consumed_at(journal.at_s(15).released(ONE, Q0).at_s(20).claimed(TWO, Q0), 25, TWO)
    assert cause.index("2 pulls by billing-1 failed") < cause.index("Its owner billing-1 released")


def test_a_queue_without_an_owner_at_the_end_of_a_gap_is_said_to_have_none() -> None:
    journal = a_gap_journal().claimed(ONE, Q0).sent(0).consumed(ONE, 0)
    journal.at_s(10).sent(1).at_s(12).released(ONE, Q0)
    cause = cause_of_expectation(journal.at_s(40).passed(TWO, 0, *BOTH).at_s(60).ends())
    assert "No member held the queue at its end." in cause


def test_a_gap_with_a_release_that_nothing_explains_names_a_fault_as_near_in_time() -> None:
    journal = a_gap_journal().note("broker-c", NodeStarted("broker", "", "4.9.7"))
    journal.claimed(ONE, Q0).at_s(10).note("broker-c", NodeStopped("broker", "asked")).sent(0)
    journal.at_s(15).released(ONE, Q0).at_s(20).claimed(TWO, Q0)
    cause = consumed_at(journal, 25, TWO)
    assert "broker-c was stopped at 10.0 s: near in time, but no fact ties it to this." in cause


def test_a_failover_is_told_and_not_a_longer_gap_after_it() -> None:
    journal = a_gap_journal("consumer_failover_s").claimed(ONE, Q0).sent(0).consumed(ONE, 0)
    began(journal.at_s(10), "kill", ONE).at_s(11).sent(1).at_s(20).claimed(TWO, Q0)
    journal.given(TWO, 1).consumed(TWO, 1).at_s(30).sent(2).at_s(90).consumed(TWO, 2)
    cause = cause_of_expectation(journal.at_s(100).ends())
    assert cause.startswith("orders@broker-a:0 had messages from 11.0 s to 20.0 s")

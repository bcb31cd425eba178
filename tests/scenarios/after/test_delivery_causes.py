"""Sentences of causes that a journal shows for sure, and some that it does not show."""

from __future__ import annotations

from rocketmq_emulator.facts import (
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
from tests.scenarios.after.test_causes import BOTH, ONE, TWO, cause_of_expectation, expecting
from tests.support.checks.small_journals import Q0, Q1, AJournal, client_of


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

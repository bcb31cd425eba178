"""Causes of repeated and remaining messages: each sentence, and when it is not told."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    MessageGivenToListener,
    NodeStarted,
    NodeStopped,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    RouteChanged,
    SendAttempted,
    SendFailed,
)
from tests.scenarios.after.test_causes import (
    ONE,
    TWO,
    a_bell_is_not_rung,
    cause_of_expectation,
    cause_of_rule,
    expecting,
)
from tests.support.checks.small_journals import (
    EPOCH_MS,
    PEER,
    Q0,
    AJournal,
    a_consumed_journal,
    a_member,
    client_of,
)


def claimed_by_one(metric: str = "duplicates") -> AJournal:
    journal = expecting(metric).consumer(ONE).consumer(TWO).pulled(0, 0)
    return journal.claimed(ONE, Q0, offsets=(0,)).at_s(10)


# Again ----------------------------------------------------------------------------------------


def test_a_message_that_is_consumed_again_under_one_claim_has_no_next_claim() -> None:
    journal = claimed_by_one().sent(0).consumed(ONE, 0).at_s(12).consumed(ONE, 0)
    assert cause_of_rule(journal.at_s(20).ends(), "duplicates") == (
        "billing consumed 1 message again; it is 0 of orders@broker-a:0: billing-1 consumed it "
        "again under the same claim. billing-1 had claimed the queue at 0.000 s, and not again. "
        "It consumed 0 at 10.0 s, and again at 12.0 s."
    )


def test_a_message_that_is_consumed_again_after_the_next_claim_of_its_member() -> None:
    journal = claimed_by_one().sent(0).consumed(ONE, 0).committed(0).at_s(20)
    journal.released(ONE, Q0).at_s(25).claimed(ONE, Q0, offsets=(0,)).consumed(ONE, 0)
    cause = cause_of_expectation(journal.at_s(40).ends())
    assert "it is 0 of orders@broker-a:0: billing-1 consumed it, and again after its next" in cause
    assert "billing-1 released" not in cause
    assert "The last commit before was of 0, at 10.0 s." in cause


def test_the_later_owner_that_consumed_first_is_told_first() -> None:
    journal = claimed_by_one().sent(0).claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0)
    cause = cause_of_expectation(journal.at_s(12).consumed(ONE, 0).at_s(20).ends())
    assert "billing-2 consumed it, then billing-1." in cause
    assert "billing-1 still held the queue, to the end, so it had two owners." in cause


def test_a_commit_before_a_restart_of_the_broker_is_told_with_the_restart() -> None:
    journal = claimed_by_one().note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.sent(0).consumed(ONE, 0).committed(0).at_s(15)
    journal.note("broker-a", NodeStopped("broker", "asked")).at_s(18)
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(20).released(ONE, Q0)
    journal.claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0)
    cause = cause_of_expectation(journal.at_s(30).ends())
    assert "last commit before was of 0, at 10.0 s; broker-a started again since, at 18.0" in cause


def test_a_commit_after_the_claim_is_not_the_last_before_it() -> None:
    journal = claimed_by_one().sent(0).consumed(ONE, 0).committed(0).at_s(20).released(ONE, Q0)
    journal.claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0).at_s(25).committed(1)
    cause = cause_of_expectation(journal.at_s(40).ends())
    assert "The last commit before was of 0, at 10.0 s." in cause


def test_an_older_claim_of_the_same_member_does_not_say_how_the_last_one_ended() -> None:
    journal = claimed_by_one().released(ONE, Q0).at_s(20).claimed(ONE, Q0, offsets=(0,))
    journal.sent(0).consumed(ONE, 0).at_s(30).released(ONE, Q0)
    journal.claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0)
    cause = cause_of_expectation(journal.at_s(40).ends())
    assert "released it (not mine) at 30.0 s" in cause
    assert "at 10.0 s" not in cause


def test_a_repeat_after_a_member_joined_names_it_and_no_restart_long_before() -> None:
    journal = expecting("duplicates").note("broker-a", NodeStarted("broker", "", "4.9.7"))
    journal.consumer(ONE).pulled(0, 0).passed(TWO, 1, TWO).claimed(ONE, Q0, offsets=(0,)).at_s(5)
    journal.note("broker-a", NodeStopped("broker", "asked")).at_s(8)
    journal.note("broker-a", NodeStarted("broker", "", "4.9.7")).at_s(40).consumer("billing-3")
    journal.sent(0).consumed(ONE, 0).released(ONE, Q0).passed(TWO, 1, TWO, "billing-3")
    journal.claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0)
    cause = cause_of_expectation(journal.at_s(60).ends())
    assert "billing-3 joined at 40.0 s." in cause
    assert "broker-a was stopped" not in cause


def test_a_repeat_by_a_member_without_a_noted_claim_has_no_claim() -> None:
    journal = expecting("duplicates").consumer(ONE).consumer(TWO).pulled(0, 0).at_s(10).sent(0)
    journal.consumed(ONE, 0).consumed(TWO, 0)
    assert "claimed" not in cause_of_expectation(journal.at_s(20).ends())


def test_messages_between_two_offsets_are_not_said_to_be_all_of_them() -> None:
    journal = claimed_by_one()
    for offset in range(4):
        journal.sent(offset).consumed(ONE, offset)
    journal.released(ONE, Q0).claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0).consumed(TWO, 3)
    assert "all are between 0 and 3 of orders" in cause_of_expectation(journal.at_s(40).ends())


def test_one_of_several_repeats_is_told_as_one_of_them() -> None:
    journal, other = claimed_by_one(), Queue("orders", "broker-a", 1)
    journal.claimed(ONE, other, offsets=(0,)).pulled(0, 0, other)
    for queue in (Q0, other):
        journal.sent(0, queue).consumed(ONE, 0, queue).released(ONE, queue)
        journal.claimed(TWO, queue, offsets=(0,)).consumed(TWO, 0, queue)
    assert "again; one of them is 0 of" in cause_of_expectation(journal.at_s(40).ends())


def test_a_message_that_was_sent_twice_is_told_as_that() -> None:
    journal, other = claimed_by_one(), Queue("orders", "broker-b", 0)
    attempt = SendAttempted("orders", Q0, "K", 1, 3_000, "TimedOut")
    good = SendAttempted("orders", other, "K", 2, 3, "SEND_OK")
    journal.note("producer", good).note("producer", attempt).stored(0, key="K")
    journal.sent(0, other, key="K", attempts=2).pulled(0, 0, other).claimed(
        ONE, other, offsets=(0,)
    )
    journal.consumed(ONE, 0, key="K").consumed(ONE, 0, other, key="K")
    cause = cause_of_expectation(journal.at_s(40).ends())
    assert cause.startswith("1 message was stored twice, and both copies were consumed. 1 attempt")
    assert "to send it to broker-a had no answer in time, at 10.0 s" in cause


# Left over ------------------------------------------------------------------------------------


def left_over() -> AJournal:
    journal = claimed_by_one("backlog").note("broker-a", a_member(client_of(ONE)))
    return journal.sent(0).consumed(ONE, 0).sent(1).sent(2)


def held(offset: int) -> PullHeld:
    return PullHeld("billing", Q0, offset, EPOCH_MS + 60_000, PEER, 7)


def cause_of_rest(journal: AJournal, at_s: float = 15) -> str:
    return cause_of_expectation(journal.at_s(at_s).ends())


def test_pulls_that_failed_before_the_last_finished_message_are_not_why_others_wait() -> None:
    journal = claimed_by_one("backlog").sent(0).sent(1)
    journal.note(ONE, PullFailed("billing", Q0, "early")).consumed(ONE, 0).at_s(12)
    cause = cause_of_rest(journal.note(ONE, PullFailed("billing", Q0, "late")))
    assert "Once its pull failed, at 12.0 s: late." in cause


def test_an_owner_that_never_pulled_is_said_to_have_not() -> None:
    journal = expecting("backlog").consumer(ONE).consumer(TWO).claimed(TWO, Q0).pulled(0, 0)
    journal.released(TWO, Q0).claimed(ONE, Q0).sent(0)
    assert "billing-1 has never pulled it." in cause_of_rest(journal)


def test_a_held_pull_is_told_with_what_it_should_have_got() -> None:
    assert "which should have answered it with these messages." in cause_of_rest(
        left_over().note("broker-a", held(1))
    )
    assert "it had pulled these messages before." in cause_of_rest(
        left_over().note("broker-a", held(3))
    )


def test_a_last_pull_long_ago_is_told() -> None:
    journal = left_over().pulled(1, 2)
    assert "Its last pull was at 10.0 s, and it has not pulled since." in cause_of_rest(
        journal, 60
    )


def test_a_refused_pull_and_an_unfinished_message_are_told() -> None:
    journal = left_over().note("broker-a", PullAnswered("billing", Q0, 1, 21, 0, 1, PEER, 7))
    cause = cause_of_rest(journal.note(ONE, MessageGivenToListener("billing", Q0, 1, "0-1", 0)))
    assert "broker-a answered its last pull" in cause
    assert "Its listener was given 1 at 10.0 s and has not finished it." in cause


def test_a_queue_without_an_owner_is_why_messages_are_left() -> None:
    cause = cause_of_rest(left_over().at_s(12).released(ONE, Q0))
    assert (
        "billing-1 released it (not mine) at 12.0 s, and orders@broker-a:0 had no owner" in cause
    )


# Lost, late -----------------------------------------------------------------------------------


def test_a_lost_message_that_was_given_and_passed_over_by_a_claim() -> None:
    journal = a_consumed_journal(2).note("broker-a", a_member(client_of(ONE))).consumer(TWO)
    journal.at_s(10).sent(2).sent(3).given(ONE, 2).at_s(15).released(ONE, Q0)
    journal.claimed(TWO, Q0, offsets=(3,)).given(TWO, 3).consumed(TWO, 3).committed(4)
    cause = cause_of_rule(journal.at_s(300).ends(), "lost")
    assert "billing-1 gave it to its listener at 10.0 s, and no listener finished it." in cause
    assert "billing-2 claimed the queue at 15.0 s and began at 3." in cause


def test_a_held_pull_that_a_message_never_woke_is_said_to_have_no_answer() -> None:
    cause = cause_of_rule(a_bell_is_not_rung(is_answered=False), "wakes")
    assert "This one was not answered: the message did not wake it." in cause


# Sends ----------------------------------------------------------------------------------------


def attempted(journal: AJournal, broker: str, key: str, outcome: str = "TimedOut") -> AJournal:
    queue = Queue("orders", broker, 0)
    return journal.note("producer", SendAttempted("orders", queue, key, 1, 3_000, outcome))


def failed(journal: AJournal, key: str) -> AJournal:
    return journal.note("producer", SendFailed("orders", key, 1, "late", maybe_stored=True))


def test_attempts_of_sends_that_succeeded_later_are_not_told_of_failed_sends() -> None:
    journal = attempted(expecting("failed_sends").at_s(10), "broker-a", "K")
    journal = failed(attempted(journal, "broker-b", "L"), "L")
    assert "1 of 1 attempt that failed went to broker-b" in cause_of_rest(journal)


def test_failed_attempts_at_more_than_three_brokers_are_counted() -> None:
    journal = expecting("failed_sends").at_s(10)
    for number, broker in enumerate("aabbccd"):
        journal = failed(attempted(journal, f"broker-{broker}", f"K{number}"), f"K{number}")
    assert "2 to broker-c, from 10.000 s to 10.000 s: TimedOut; 1 to others." in cause_of_rest(
        journal
    )


def test_each_broker_with_failed_sends_has_its_fault() -> None:
    journal = expecting("failed_sends")
    for at_s, broker in ((10, "broker-a"), (20, "broker-b"), (30, "broker-c")):
        journal.note(broker, NodeStarted("broker", "", "4.9.7"))
        journal.at_s(at_s).note(broker, NodeStopped("broker", "asked"))
        journal = failed(attempted(journal, broker, broker), broker)
    cause = cause_of_rest(journal, 40)
    assert "broker-a was stopped at 10.0 s. broker-b was stopped at 20.0 s. broker-c was" in cause


def test_a_route_that_lost_the_broker_is_told_of_one_broker_only() -> None:
    def cause(*brokers: str) -> str:
        journal = expecting("failed_sends").note("broker-b", NodeStarted("broker", "", "4.9.7"))
        journal.note("producer", RouteChanged("orders", ("broker-a", "broker-b"))).at_s(10)
        for broker in brokers:
            journal = failed(attempted(journal, broker, broker), broker)
        journal.at_s(15).note("producer", RouteChanged("orders", ("broker-b",))).at_s(16)
        journal = failed(attempted(journal, brokers[0], "last"), "last")
        return cause_of_rest(journal, 40)

    assert "The route of producer had broker-a until 15.0 s." in cause("broker-a")
    assert "The route of producer" not in cause("broker-a", "broker-b")

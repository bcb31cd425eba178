"""A broker's share of all sends during its faults, and its share without a fault."""

from __future__ import annotations

from rocketmq_emulator.facts import Queue, SendAttempted
from tests.support.checks.small_journals import Q0, AJournal

OTHER = Queue("orders", "broker-b", 0)


def attempts(journal: AJournal, here: int, elsewhere: int, took_ms: int = 1) -> AJournal:
    for queue, count in ((Q0, here), (OTHER, elsewhere)):
        for _ in range(count):
            journal.note("producer", SendAttempted("orders", queue, "k", 1, took_ms, "SEND_OK"))
    return journal


def test_shares_are_of_the_time_in_which_a_broker_was_ill_and_of_that_in_which_it_was_well() -> (
    None
):
    journal = attempts(AJournal().runs().at_s(1), 5, 5)  # before the first fault: not counted
    attempts(journal.at_s(10).fault("pause", "broker-a", "producer").at_s(11), 1, 9)
    attempts(journal.at_s(20).healed().at_s(21), 3, 9)
    found = journal.ends().judged().metrics
    assert found["broker_share_ill"] == found["broker_share_ill.broker-a"] == 0.1
    assert found["broker_share_well.broker-a"] == 0.25
    assert (found["send_attempts.broker-a"], found["send_attempts"]) == (9, 32)
    assert "broker_share_well.broker-b" not in found


def test_an_attempt_belongs_to_the_moment_at_which_it_began() -> None:
    journal = attempts(AJournal().runs().at_s(9), 1, 0)
    journal.at_s(10).fault("slow_link", "broker-a").at_s(10.2)
    attempts(journal, 1, 0, took_ms=600)  # began before the fault
    attempts(journal.at_s(15), 0, 4)
    journal.at_s(20).healed().at_s(20.2)
    attempts(journal, 1, 0, took_ms=600)  # began while the broker was ill
    attempts(journal.at_s(25), 1, 1)
    found = journal.ends().judged().metrics
    assert found["broker_share_ill.broker-a"] == 0.2
    assert found["broker_share_well.broker-a"] == 0.5


def test_a_broker_is_ill_until_the_last_of_several_faults_ends() -> None:
    journal = AJournal().runs().at_s(10).fault("pause", "broker-a", number=1)
    journal.at_s(11).fault("slow_link", "broker-a", number=2).at_s(12).healed(1).at_s(13)
    found = attempts(journal, 1, 3).at_s(14).healed(2).ends().judged().metrics
    assert found["broker_share_ill"] == 0.25


def test_nothing_is_said_of_a_journal_without_attempts() -> None:
    assert "send_attempts" not in AJournal().runs().judged().metrics

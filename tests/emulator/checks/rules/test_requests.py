"""Requests without replies, counted from small journals."""

from __future__ import annotations

from rocketmq_emulator.facts import (
    ReplyDropped,
    ReplyNotPushed,
    ReplyReceived,
    RequestGivenUp,
    RequestSent,
)
from tests.support.checks.small_journals import AJournal


def sent(journal: AJournal, at_s: float, number: int) -> AJournal:
    return journal.at_s(at_s).note("asker", RequestSent("asks", f"c{number}", f"K{number}", 900))


def replied(journal: AJournal, at_s: float, number: int) -> AJournal:
    return journal.at_s(at_s).note("asker", ReplyReceived("asks", f"c{number}", 10))


def given_up(journal: AJournal, at_s: float, number: int, **fields: object) -> AJournal:
    values = {"after_ms": 900, "stored": True, "reason": "timeout", **fields}
    return journal.at_s(at_s).note("asker", RequestGivenUp("asks", f"c{number}", **values))


def measured(journal: AJournal, *names: str) -> tuple[float, ...]:
    judgement = journal.judged()
    assert judgement.raised == {}
    return tuple(round(judgement.metrics[name], 3) for name in names)


NUMBERS = ("requests_sent.asks", "requests_unanswered.asks", "unanswered_s")


def test_the_longest_time_without_replies_is_from_the_first_request_to_the_next_reply() -> None:
    journal = AJournal().runs()
    for number, at_s in enumerate((1, 2, 3, 10, 11)):
        sent(journal, at_s, number)
        (replied if at_s in (1, 10) else given_up)(journal, at_s + 0.9, number)
    assert measured(journal.at_s(12).ends(), *NUMBERS) == (5, 3, 8.9)


def test_a_request_that_was_not_stored_or_was_cancelled_is_not_counted() -> None:
    journal = sent(AJournal().runs(), 1, 1)
    given_up(journal, 2, 1, reason="cancelled")
    given_up(journal, 3, 2, stored=False, reason="not sent")
    assert measured(journal.at_s(9).ends(), *NUMBERS) == (1, 0, 0)


def test_lost_and_dropped_replies_are_counted() -> None:
    journal = replied(sent(AJournal().runs(), 1, 1), 1.1, 1)
    journal.note("broker-a", ReplyNotPushed("r", "c1", "asker", "no channel", stored=True))
    for reason in ("second", "late"):
        journal.note("asker", ReplyDropped("r", "c1", "10.0.0.9:1", reason, ""))
    counts = measured(journal.at_s(2).ends(), "replies_not_pushed", "replies_dropped")
    assert counts == (1, 2)

"""A message that comes twice has a cause, or is a violation."""

from __future__ import annotations

import pytest
from small_journals import Q0, Q1, AJournal, a_consumed_journal, objections

from emulator.facts import GroupOffsetMoved, LogRecovered, MessagePolled, Queue, SendAttempted

RETRY = Queue("%RETRY%billing", "broker-a", 0)


def figures(journal: AJournal) -> dict[str, float]:
    """Of duplicates; there are no violations."""
    judgement = journal.judged()
    assert objections(judgement, "duplicates") == []
    found = {name: value for name, value in judgement.metrics.items() if "duplicates" in name}
    return {n.removeprefix("duplicates_"): v for n, v in found.items() if v and "." not in n}


def test_a_message_that_comes_again_for_no_cause_is_a_violation() -> None:
    journal = a_consumed_journal(200).consumed("billing-1", 150)
    judgement = journal.judged()
    assert objections(judgement, "duplicates") == [
        "billing consumed offset 150 of orders@broker-a:0 again, for no cause"
    ]
    assert judgement.metrics["unexplained_duplicates.billing"] == 1


def test_messages_that_come_once_are_no_duplicates() -> None:
    judgement = a_consumed_journal(200).judged()
    assert judgement.metrics["duplicates"] == judgement.metrics["duplicates.billing"] == 0


def test_the_next_owner_begins_at_the_committed_offset() -> None:
    journal = a_consumed_journal(200).consumer("billing-2").released("billing-1", Q0)
    journal.claimed("billing-2", Q0).consumed("billing-2", 190)
    assert figures(journal) == {"duplicates": 1, "handed_over": 1}


def test_what_was_committed_long_before_the_hand_over_does_not_come_again() -> None:
    journal = a_consumed_journal(200).at_s(10).committed(200).at_s(20).committed(200)
    journal.consumer("billing-2").at_s(30).released("billing-1", Q0)
    journal.claimed("billing-2", Q0).consumed("billing-2", 150)
    assert len(objections(journal.judged(), "duplicates")) == 1


def test_messages_that_came_after_the_hand_over_come_once() -> None:
    journal = a_consumed_journal(200).claimed("billing-1", Q0)
    for offset in range(200, 400):
        journal.sent(offset).pulled(offset, 1).consumed("billing-1", offset)
    journal.consumed("billing-1", 390)
    assert len(objections(journal.judged(), "duplicates")) == 1


def test_a_process_that_was_started_again_begins_at_the_committed_offset() -> None:
    journal = a_consumed_journal(200).fault("kill", "billing-1").consumer("billing-1")
    assert figures(journal.consumed("billing-1", 190)) == {"duplicates": 1, "handed_over": 1}


def test_owners_of_a_queue_that_nobody_has_pulled_yet_are_known_too() -> None:
    journal = AJournal().runs().store().consumer("billing-1").claimed("billing-1", Q0)
    journal.sent(0).consumer("billing-2").claimed("billing-2", Q0)
    journal.consumed("billing-2", 0).consumed("billing-1", 0)
    assert objections(journal.judged(), "duplicates") == []


def test_two_owners_consume_twice() -> None:
    journal = a_consumed_journal(200).consumer("billing-2").claimed("billing-2", Q0)
    for offset in range(200, 300):
        journal.sent(offset).pulled(offset, 1)
        journal.consumed("billing-1", offset).consumed("billing-2", offset)
    found = figures(journal)
    assert found["duplicates"] == 100
    assert found["two_owners"] + found["handed_over"] == 100


@pytest.mark.parametrize(
    "fact",
    [
        GroupOffsetMoved("billing", Q0, 3, "broker", "10.0.0.8:1"),
        LogRecovered(200, 0, 20_000),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_an_offset_that_went_back_explains_what_comes_again(fact) -> None:
    journal = a_consumed_journal(200).note("broker-a", fact).consumed("billing-1", 5)
    assert figures(journal) == {"duplicates": 1, "older_offsets": 1}


def test_offsets_that_a_full_disk_did_not_take_are_older_than_usual() -> None:
    def journal(word: str) -> AJournal:
        found = a_consumed_journal(200).fault(word, "broker-a").at_s(10).committed(200)
        found.at_s(20).committed(200).healed().note("broker-a", LogRecovered(200, 0, 20_000))
        return found.consumed("billing-1", 150)

    assert figures(journal("full_disk")) == {"duplicates": 1, "older_offsets": 1}
    assert len(objections(journal("stall").judged(), "duplicates")) == 1


def test_a_lower_offset_that_was_committed_explains_what_comes_again() -> None:
    journal = a_consumed_journal(200).committed(100).consumed("billing-1", 120)
    assert figures(journal) == {"duplicates": 1, "older_offsets": 1}


def test_a_send_that_was_retried_may_be_stored_and_consumed_twice() -> None:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    journal.stored(0, Q1, key="k")
    lost = SendAttempted("orders", Q1, "k", 1, 3_000, "NoAnswer")
    journal.note("producer", lost).sent(0, Q0, key="k", attempts=2)
    journal.consumed("billing-1", 0, Q1, key="k").consumed("billing-1", 0, Q0, key="k")
    assert figures(journal) == {"duplicates": 1, "sent_twice": 1}
    assert journal.judged().metrics["stored_twice"] == 1


def test_each_member_of_a_broadcasting_group_gets_a_retried_send_once() -> None:
    journal = AJournal().runs().store()
    for node in ("billing-1", "billing-2"):
        journal.consumer(node, broadcast=True).claimed(node, Q0)
    journal.sent(0, key="k", attempts=2)
    journal.consumed("billing-1", 0, key="k").consumed("billing-2", 0, key="k")
    assert figures(journal) == {}
    journal.stored(1, key="k").consumed("billing-2", 1, key="k")
    assert figures(journal) == {"duplicates": 1, "sent_twice": 1}


def test_a_message_sent_back_whose_first_delivery_succeeded_comes_twice() -> None:
    journal = AJournal().runs().store().consumer("billing-1").sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False).stored(0, RETRY, key="k")
    journal.consumed("billing-1", 0, key="k")  # the answer of the send-back was lost
    journal.consumed("billing-1", 0, RETRY, key="k", times=1)
    assert figures(journal) == {"duplicates": 1, "sent_back_twice": 1}


def test_a_retry_is_no_duplicate() -> None:
    journal = AJournal().runs().store().consumer("billing-1").sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False).stored(0, RETRY, key="k")
    assert figures(journal.consumed("billing-1", 0, RETRY, key="k", times=1)) == {}


@pytest.mark.parametrize(("node", "unexplained"), [("billing-2", 0), ("billing-1", 1)])
def test_a_lite_pull_consumer_may_read_a_queue_that_it_was_allotted_and_has_not_claimed(
    node, unexplained
) -> None:
    journal = AJournal().runs().store()
    for member in ("billing-1", "billing-2"):
        journal.consumer(member, consumer_kind="lite_pull")
    journal.claimed("billing-1", Q0).sent(0).pulled(0, 1)
    for reader in ("billing-1", node):
        journal.note(reader, MessagePolled("billing", Q0, 0, "0-0"))
    assert len(objections(journal.judged(), "duplicates")) == unexplained
    if not unexplained:
        assert figures(journal) == {"duplicates": 1, "handed_over": 1}

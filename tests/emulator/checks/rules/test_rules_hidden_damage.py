"""Damage that leaves no hole: checkers object to each kind, with the facts that show it."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.state.violation import Violation
from rocketmq_emulator.facts import (
    MessageSent,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PullFailed,
    PullHeld,
    Queue,
    QueuesLocked,
)
from rocketmq_emulator.facts.journal import Entry
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    client_of,
    objections,
)

RETRY = Queue("%RETRY%billing", "broker-a", 0)
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)


def the_violation(journal: AJournal, checker: str) -> Violation:
    judgement = journal.judged()
    assert judgement.raised == {}
    (found,) = [each for each in judgement.violations if each.checker == checker]
    return found


def cited(journal: AJournal, violation: Violation) -> list[Entry]:
    by_key = {(each.node, each.seq): each for each in journal.entries}
    return [by_key[key.node, key.seq] for key in violation.entries]


def kinds_cited(journal: AJournal, violation: Violation) -> list[str]:
    return [type(entry.fact).__name__ for entry in cited(journal, violation)]


def test_a_message_that_was_acknowledged_and_never_stored_is_lost() -> None:
    journal = a_consumed_journal(5).acknowledged(5, key="k").at_s(60).ends()
    found = the_violation(journal, "lost")
    assert found.what == "broker-a acknowledged k in orders@broker-a:0 and never stored it"
    assert kinds_cited(journal, found) == ["MessageSent"]
    assert found.node == "broker-a"


def test_a_place_that_is_acknowledged_twice_is_no_place() -> None:
    journal = a_consumed_journal(5).sent(5, key="k").acknowledged(5, key="other")
    found = the_violation(journal, "places")
    assert found.what == "offset 5 of orders@broker-a:0 was acknowledged to two sends"
    assert kinds_cited(journal, found) == ["MessageStored", "MessageSent", "MessageSent"]


def test_an_acknowledgement_names_the_place_of_its_own_message() -> None:
    journal = a_consumed_journal(5).stored(5, key="k").stored(6, key="l")
    journal.acknowledged(6, key="k")
    found = the_violation(journal, "places")
    assert found.what == "k was acknowledged at offset 6 of orders@broker-a:0, where l is stored"


def test_members_of_a_batch_may_share_the_key_of_the_first() -> None:
    journal = a_consumed_journal(5)
    for offset in (5, 6, 7):
        journal.stored(offset, key="k")
    for offset, key in ((5, "k"), (6, "l"), (7, "m")):
        journal.acknowledged(offset, key=key)
    assert objections(journal.judged(), "places") == []
    assert journal.judged().metrics["stored_twice"] == 0


@pytest.mark.parametrize(("stored", "expected"), [("A5", 0), ("A6", 1), ("A3", 1)])
def test_a_batch_of_one_message_has_the_key_that_was_drawn_after_the_message_s(
    stored, expected
) -> None:
    prefix = "0A00000803EA70693D7947B8235D00"
    journal = a_consumed_journal(5).stored(5, key=prefix + stored)
    journal.acknowledged(5, key=prefix + "A4")
    assert len(objections(journal.judged(), "places")) == expected


def test_two_messages_in_one_place_are_objected_to() -> None:
    journal = a_consumed_journal(5).stored(4, key="k")
    found = the_violation(journal, "places")
    assert found.what == "orders@broker-a:0 has two messages at offset 4: 0-4 and k"
    assert kinds_cited(journal, found) == ["MessageStored", "MessageSent", "MessageStored"]


def test_a_queue_without_the_next_offset_has_a_gap() -> None:
    journal = a_consumed_journal(5).stored(6, key="k")
    assert "goes on at offset 6 where 5 is next" in the_violation(journal, "places").what


def test_a_message_that_is_consumed_in_the_place_of_another_is_objected_to() -> None:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    for offset in range(3):
        journal.sent(offset)
    for offset in range(3):  # one message three times, the others never
        journal.pulled(offset, 1).consumed("billing-1", offset, key="0-0")
    judgement = journal.committed(3).judged()
    assert objections(judgement, "places") == [
        f"billing-1 was given 0-0 as offset {offset} of orders@broker-a:0, "
        f"where 0-{offset} is stored"
        for offset in (1, 2)
    ]


def a_message_sent_back(*, again: bool, behind: bool) -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    journal.sent(0, key="k").pulled(0, 1).consumed("billing-1", 0, key="k", ok=False)
    journal.stored(0, AFTER_10_S, key="k")
    back = MessageSentBack("billing", "orders", RETRY.topic, 1, 3, 0, "10.0.0.9:1")
    journal.note("broker-a", back).committed(1)
    if behind:
        journal.stored(1, AFTER_10_S, key="later").at_s(11)
    if again:
        journal.at_s(10).delivered(0, RETRY, 3, "k").consumed(
            "billing-1", 0, RETRY, key="k", times=1
        )
    if behind:
        journal.delivered(int(again), RETRY, 3, "later")
    return journal


def test_a_retry_that_never_returns_is_lost() -> None:
    assert objections(a_message_sent_back(again=True, behind=False).judged(), "lost") == []
    soon = a_message_sent_back(again=False, behind=False).at_s(39).ends()
    assert objections(soon.judged(), "lost") == []
    assert soon.judged().metrics["waiting"] == 1
    journal = a_message_sent_back(again=False, behind=False).at_s(191).ends()
    found = the_violation(journal, "lost")
    assert found.what == (
        "a retry (k) waits at offset 0 of SCHEDULE_TOPIC_XXXX@broker-a:2, and broker-a has not "
        "delivered it"
    )
    assert kinds_cited(journal, found) == [
        "MessageStored",
        "MessageSent",
        "MessageConsumed",
        "MessageStored",
        "MessageSentBack",
        "RunEnded",
    ]
    assert journal.judged().metrics["lost.billing"] == 1


def test_a_copy_that_a_member_sent_itself_is_of_its_own_group() -> None:
    """A message failed in two groups; one sends its copy; the other copy comes later or never."""

    def lost(group: str, *, other_comes: bool) -> list[str]:
        journal = AJournal().runs().store().consumer("billing-1")
        journal.consumer("shipping-1", group="shipping").sent(0, key="k").pulled(0, 1)
        journal.pulled(0, 1, group="shipping").consumed(
            "shipping-1", 0, key="k", ok=False, group="shipping"
        )
        journal.consumed("billing-1", 0, key="k", ok=False).stored(0, AFTER_10_S, key="k")
        own = Queue(f"%RETRY%{group}", "broker-a", 0)
        journal.note("billing-1", MessageSent(own.topic, own, 0, "k", 1, 1, "SEND_OK"))
        if other_comes:
            journal.stored(0, Queue("%DLQ%shipping", "broker-a", 0), key="k")
        journal.committed(1).committed(1, group="shipping").at_s(1)
        return objections(journal.judged(), "lost")

    assert lost("billing", other_comes=True) == []
    (what,) = lost("billing", other_comes=False)
    assert what.startswith("shipping never consumed offset 0")


def test_a_retry_that_its_broker_passed_over_is_lost_at_once() -> None:
    journal = a_message_sent_back(again=False, behind=True).at_s(12).ends()
    assert "passed it over" in the_violation(journal, "lost").what


@pytest.mark.parametrize("word", ["pause", "full_disk"])
def test_a_broker_that_is_disturbed_may_deliver_later(word) -> None:
    journal = a_message_sent_back(again=False, behind=False).at_s(5).fault(word, "broker-a")
    assert objections(journal.at_s(191).healed().ends().judged(), "lost") == []


def test_a_delayed_message_is_promised_from_its_first_place_on() -> None:
    journal = a_consumed_journal(1).stored(0, AFTER_10_S, key="k").acknowledged(0, Q1, key="k")
    assert objections(journal.judged(), "places") == []
    missed = the_violation(journal.at_s(191).ends(), "lost")
    assert kinds_cited(journal, missed) == ["MessageStored", "MessageSent", "RunEnded"]


def test_a_delayed_message_comes_neither_early_nor_late() -> None:
    def comes(at_s: float, fault: str = "") -> list[str]:
        journal = a_consumed_journal(1).stored(0, AFTER_10_S, key="k")
        if fault:
            journal.fault(fault, "broker-a").at_s(4).healed()
        return objections(journal.at_s(at_s).delivered(0, Q1, 3, "k").judged(), "delays")

    assert comes(10) == comes(12) == comes(20, "kill") == comes(2, "clock_jump") == []
    assert "before its time" in comes(8)[0]
    assert "after its time" in comes(14)[0]
    assert "before its time" in comes(8, "kill")[0]


def test_a_lost_message_is_told_with_its_life() -> None:
    journal = (
        AJournal().runs().store().consumer("billing-1").claimed("billing-1", Q0, offsets=(0,))
    )
    journal.sent(0).sent(1).pulled(0, 2).given("billing-1", 0).given("billing-1", 1)
    journal.consumed("billing-1", 1).committed(2).ends()
    found = the_violation(journal, "lost")
    assert kinds_cited(journal, found) == [
        "QueuesClaimed",
        "MessageStored",
        "MessageSent",
        "PullAnswered",
        "MessageGivenToListener",
        "OffsetCommitted",
        "RunEnded",
    ]


def test_a_send_that_is_stored_twice_without_a_retry_is_objected_to() -> None:
    journal = a_consumed_journal(5).stored(5, key="k").stored(0, Q1, key="k")
    journal.acknowledged(5, key="k")
    assert objections(journal.judged(), "duplicates") == [
        "k was sent once and stored twice, also in orders@broker-a:1"
    ]


def test_a_record_that_a_broker_kept_is_not_stored_in_its_place_again() -> None:
    journal = a_consumed_journal(5)
    journal.note("broker-a", MessageStored(Q0, 5, 500, "k", RECORD_BYTES))
    assert objections(journal.judged(), "places") == []


# The evidence of each kind -----------------------------------------------------------------------


def consumed_in_the_place_of_another() -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0).sent(0).sent(1)
    return journal.consumed("billing-1", 0).consumed("billing-1", 1, key="0-0")


def repeated_an_hour_after_one_claim() -> AJournal:
    journal = a_consumed_journal(200).committed(100)
    journal.claimed("billing-1", Q0, offsets=(100,)).at_s(3_600)
    journal.each(range(100, 200), lambda offset: journal.consumed("billing-1", offset))
    return journal.consumed("billing-1", 150)


def rung_and_never_answered() -> AJournal:
    journal = a_consumed_journal(5)
    held = PullHeld("billing", Q0, 5, 0, PEER, 1)
    return journal.note("broker-a", held).sent(5).at_s(100).ends()


def lost_after_one_member_filtered() -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    journal.consumer("billing-2", expressions=("TagA",)).at_s(10).stopped("billing-2")
    journal.at_s(300).sent(0, tags="TagB").pulled(0, 1)
    refused = PullFailed("billing", Q0, "code 2: the broker is busy")
    return journal.note("billing-1", refused).committed(1).at_s(400).ends()


def locked_twice_long_after_a_clock_jumped() -> AJournal:
    journal = AJournal().runs().store()
    for node in ("billing-1", "billing-2"):
        journal.consumer(node, orderly=True)
    journal.at_s(5).fault("clock_jump", "broker-a", ms=60_000).at_s(6).healed().at_s(3_600)
    for node in ("billing-1", "billing-2"):
        journal.note("broker-a", QueuesLocked("billing", client_of(node), (Q0,), ()))
    return journal


def stuck_with_refusals() -> AJournal:
    journal = a_consumed_journal(5).sent(5).pulled(5, 1).given("billing-1", 5).at_s(30)
    refused = PullFailed("billing", Q0, "code 2: the broker is busy")
    return journal.note("billing-1", refused).at_s(300).ends()


@pytest.mark.parametrize(
    ("make", "checker", "kinds"),
    [
        (
            consumed_in_the_place_of_another,
            "places",
            ["MessageStored", "MessageSent", "MessageConsumed"],
        ),
        (
            repeated_an_hour_after_one_claim,
            "duplicates",
            ["MessageStored", "QueuesClaimed", "MessageConsumed"],
        ),
        (rung_and_never_answered, "wakes", ["PullHeld", "MessageStored", "RunEnded"]),
        (
            lost_after_one_member_filtered,
            "lost",
            [
                "MessageStored",
                "MessageSent",
                "PullAnswered",
                "PullFailed",
                "OffsetCommitted",
                "RunEnded",
            ],
        ),
        (locked_twice_long_after_a_clock_jumped, "locks", ["QueuesLocked", "QueuesLocked"]),
        (
            stuck_with_refusals,
            "liveness",
            [
                "QueuesClaimed",
                "MessageStored",
                "MessageSent",
                "PullAnswered",
                "MessageGivenToListener",
                "PullFailed",
                "RunEnded",
            ],
        ),
    ],
)
def test_hidden_damage_is_shown_by_the_life_of_its_message(make, checker, kinds) -> None:
    journal = make()
    assert kinds_cited(journal, the_violation(journal, checker)) == kinds


def test_the_commit_that_is_cited_is_the_first_one_that_passed_the_message() -> None:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    journal.each(range(99), journal.sent).stored(0, AFTER_10_S, key="0-0")
    journal.consumed("billing-1", 0, ok=False).stored(0, RETRY, key="0-0")  # consumed at the end
    for offset in range(1, 99):
        if offset != 50:
            journal.consumed("billing-1", offset)
        journal.committed(offset + 1)
    journal.consumed("billing-1", 0, RETRY, key="0-0", times=1).ends()
    found = the_violation(journal, "lost")
    (commit,) = [e for e in cited(journal, found) if isinstance(e.fact, OffsetCommitted)]
    assert commit.fact == OffsetCommitted("billing", Q0, 51, PEER)


def test_a_refusal_from_before_the_message_is_not_on_its_way() -> None:
    journal = a_consumed_journal(5)
    journal.note("billing-1", PullFailed("billing", Q0, "code 2: the broker is busy"))
    journal.sent(5).at_s(300).ends()
    assert "PullFailed" not in kinds_cited(journal, the_violation(journal, "liveness"))

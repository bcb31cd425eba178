"""A message that comes twice has a cause, or is a violation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_emulator.facts import (
    GroupOffsetMoved,
    LogRecovered,
    MessagePolled,
    MessageStored,
    Queue,
    QueuesLocked,
    SendAttempted,
    SendFailed,
    TopicCreated,
)
from tests.support.checks.small_journals import (
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    client_of,
    objections,
)

RETRY = Queue("%RETRY%billing", "broker-a", 0)


def figures(journal: AJournal) -> dict[str, float]:
    """The metrics of duplicates; there are no violations."""
    judgement = journal.judged()
    assert objections(judgement, "duplicates") == []
    found = {name: value for name, value in judgement.metrics.items() if "duplicates" in name}
    return {n.removeprefix("duplicates_"): v for n, v in found.items() if v and "." not in n}


def test_a_message_that_comes_again_for_no_cause_is_a_violation() -> None:
    journal = a_consumed_journal(200).consumed("billing-1", 150)
    judgement = journal.judged()
    assert objections(judgement, "duplicates") == [
        "billing consumed offset 150 of orders@broker-a:0 again without a cause"
    ]
    assert judgement.metrics["unexplained_duplicates.billing"] == 1


def test_messages_that_come_once_are_no_duplicates() -> None:
    judgement = a_consumed_journal(200).judged()
    assert judgement.metrics["duplicates"] == judgement.metrics["duplicates.billing"] == 0


def test_the_next_owner_begins_at_the_committed_offset() -> None:
    journal = a_consumed_journal(200).consumer("billing-2").released("billing-1", Q0)
    journal.claimed("billing-2", Q0).consumed("billing-2", 190)
    assert figures(journal) == {"duplicates": 1, "handed_over": 1}


@pytest.mark.parametrize("settled_s", [1, 5])  # a start-up takes 2 s at least
def test_duplicates_in_a_groups_start_up_are_counted_and_counted_apart(settled_s: int) -> None:
    journal = AJournal().runs().store().note("broker-a", TopicCreated("orders", 1, 1, 6, "admin"))
    journal.consumer("billing-1").consumer("billing-2").pulled(0, 0).sent(0).sent(1)
    journal.claimed("billing-1", Q0).consumed("billing-1", 0).released("billing-1", Q0)
    journal.claimed("billing-2", Q0).consumed("billing-2", 0).at_s(settled_s)
    journal.passed("billing-1", 0, "billing-1", "billing-2", queues=1)
    journal.passed("billing-2", 1, "billing-1", "billing-2", queues=1).consumed("billing-2", 1)
    journal.claimed("billing-1", Q0).at_s(6).consumed("billing-1", 1)
    assert figures(journal) == {
        "duplicates": 2,
        "startup_duplicates": 1,
        "handed_over": 1,
        "two_owners": 1,
    }


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
    assert figures(journal) == {"duplicates": 100, "two_owners": 100}


def test_a_claim_lets_each_message_come_again_once() -> None:
    """Also an hour later, if the member reaches the message only then; twice is a violation."""
    journal = a_consumed_journal(200).committed(100)
    journal.claimed("billing-1", Q0, offsets=(100,)).at_s(3_600)
    journal.each(range(100, 200), lambda offset: journal.consumed("billing-1", offset))
    assert figures(journal) == {"duplicates": 100, "handed_over": 100}
    assert objections(journal.consumed("billing-1", 150).judged(), "duplicates") == [
        "billing consumed offset 150 of orders@broker-a:0 again without a cause"
    ]


def test_a_claim_does_not_reach_below_where_it_begins() -> None:
    journal = a_consumed_journal(200).claimed("billing-1", Q0, offsets=(200,))
    assert len(objections(journal.consumed("billing-1", 199).judged(), "duplicates")) == 1


def test_a_claim_that_begins_below_what_the_broker_had_for_a_minute_explains_nothing() -> None:
    journal = a_consumed_journal(200).at_s(90).claimed("billing-1", Q0, offsets=(0,))
    assert len(objections(journal.consumed("billing-1", 5).judged(), "duplicates")) == 1


def test_both_members_may_finish_what_they_were_given_when_a_queue_changed_hands() -> None:
    """The old owner releases the queue while it works at a message that the next one also has."""
    journal = a_consumed_journal(10).sent(10).pulled(10, 1).given("billing-1", 10)
    journal.consumer("billing-2").released("billing-1", Q0)
    journal.claimed("billing-2", Q0, offsets=(10,)).given("billing-2", 10)
    journal.consumed("billing-2", 10).consumed("billing-1", 10)
    assert figures(journal) == {"duplicates": 1, "handed_over": 1}


def test_a_tool_that_moved_the_group_explains_what_comes_again() -> None:
    moved = GroupOffsetMoved("billing", Q0, 3, "broker", "10.0.0.8:1")
    journal = a_consumed_journal(200).note("broker-a", moved).consumed("billing-1", 5)
    assert figures(journal) == {"duplicates": 1, "older_offsets": 1}
    assert len(objections(journal.consumed("billing-1", 2).judged(), "duplicates")) == 1
    assert len(objections(journal.consumed("billing-1", 5).judged(), "duplicates")) == 2


def a_broker_that_restarts(word: str = "stall", *, claims: bool = True) -> AJournal:
    journal = a_consumed_journal(200).fault(word, "broker-a").at_s(30).committed(200)
    journal.at_s(95).committed(200).note("broker-a", LogRecovered(200, 0, 20_000)).healed()
    if claims:
        journal.claimed("billing-1", Q0, offsets=(0,))
    return journal.consumed("billing-1", 150)


def test_offsets_that_a_full_disk_did_not_take_are_older_than_usual() -> None:
    assert figures(a_broker_that_restarts("full_disk")) == {"duplicates": 1, "handed_over": 1}
    assert len(objections(a_broker_that_restarts().judged(), "duplicates")) == 1
    kept = a_broker_that_restarts("full_disk", claims=False)  # no new claim: it continues
    assert len(objections(kept.judged(), "duplicates")) == 1


def test_a_lower_offset_that_was_committed_explains_nothing_by_itself() -> None:
    journal = a_consumed_journal(200).committed(100).consumed("billing-1", 120)
    assert len(objections(journal.judged(), "duplicates")) == 1


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
        assert figures(journal) == {"duplicates": 1, "two_owners": 1}


def test_a_copy_that_waits_for_its_retry_is_no_second_place_of_a_failed_send() -> None:
    """The producer got no answer; a member that consumed the message has sent it back."""

    def failed(*again: Queue) -> list[str]:
        journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0).stored(0, key="k")
        waiting = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
        position = 2 * RECORD_BYTES
        retry = MessageStored(waiting, 0, position, "k", RECORD_BYTES, "", RETRY.topic)
        journal.note("broker-a", retry)
        for queue in again:
            journal.stored(0, queue, key="k")
        error = "MaybeStored: 1 attempt in 3000 ms"
        journal.note("producer", SendFailed("orders", "k", 1, error, maybe_stored=True))
        return objections(journal.ends().judged(), "duplicates")

    assert failed() == []
    assert failed(Q1) == ["k was sent once and stored twice, also in orders@broker-a:0"]


def test_the_offset_of_a_slave_that_gave_the_lock_may_be_older() -> None:
    """The member's route still has the slave as its master; the pull asks the true one."""

    def begins_again(broker: str, locked_s: float) -> list[str]:
        journal = AJournal().runs().store().consumer("billing-1", orderly=True).pulled(0, 0)
        lock = QueuesLocked("billing", client_of("billing-1"), (Q0,), ())
        journal.sent(0).sent(1).note("broker-a", lock)
        steps: list[tuple[float, Callable[[], object]]] = [
            (1, lambda: journal.claimed("billing-1", Q0, offsets=(0,))),
            (2, lambda: journal.pulled(0, 2).consumed("billing-1", 0).consumed("billing-1", 1)),
            (3, lambda: journal.committed(2)),
            (5, lambda: journal.released("billing-1", Q0).claimed("billing-1", Q0, offsets=(2,))),
            (locked_s, lambda: journal.note(broker, lock)),
        ]
        for at_s, do in sorted(steps, key=lambda step: step[0]):
            journal.at_s(at_s)
            do()
        journal.at_s(20).pulled(1, 1).consumed("billing-1", 1)
        return objections(journal.judged(), "duplicates")

    assert begins_again("broker-a-1", 10) == []
    assert len(begins_again("broker-a-1", 4)) == 1  # before it claimed the queue
    assert len(begins_again("broker-a", 10)) == 1

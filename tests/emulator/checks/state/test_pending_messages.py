"""Offsets that a commit may pass: those that stay settled are checked once."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.state.pending_messages import Failure, PendingMessages, RetryState
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.facts import LogFlushed, MessageStored, PowerLost, Queue
from rocketmq_emulator.facts.journal import Entry, EntryKey
from tests.support.checks.small_journals import Q0, RECORD_BYTES, AJournal, objections

COUNT = 20


class CountingChains(PendingMessages):
    """Counts the queries for the outcome of a failed message."""

    looks = 0

    def failure(self, key: str, group: str, queue: Queue, offset: int) -> Failure | None:
        self.looks += 1
        return super().failure(key, group, queue, offset)


@pytest.fixture
def pending() -> CountingChains:
    return CountingChains()


@pytest.fixture
def reading() -> QueueReading:
    """Every second message was consumed; the others failed, and their retries were consumed."""
    found = QueueReading("billing", Q0, 0, QueueRecords(Q0))
    for offset in range(COUNT):
        if offset % 2:
            found.failed[offset] = f"key-{offset}"
        else:
            found.takes(offset, f"key-{offset}")
    return found


def fails(pending: PendingMessages, offset: int, passed: RetryState) -> Failure:
    failure = Failure(Q0, offset, offset * 100, EntryKey(1, "billing-1", 1), passed)
    pending.failures[f"key-{offset}"] = {"billing": [failure]}
    return failure


def unsettled(pending: PendingMessages, reading: QueueReading) -> list[int]:
    return list(pending.unsettled(reading, 0, COUNT))


def test_what_came_as_a_retry_or_is_a_dead_letter_is_looked_at_once(pending, reading) -> None:
    fails(pending, 5, "dead")
    assert unsettled(pending, reading) == []
    assert pending.looks == COUNT / 2
    assert unsettled(pending, reading) == []
    assert pending.looks == COUNT / 2


@pytest.mark.parametrize("passed", ["waiting", "retry"])
def test_a_retry_under_way_is_looked_at_again(pending, reading, passed) -> None:
    failure = fails(pending, 7, passed)
    assert unsettled(pending, reading) == []
    failure.passed = ""  # the record belonged to another message
    assert unsettled(pending, reading) == [7]


def test_a_dead_letter_that_may_be_another_s_is_looked_at_again(pending, reading) -> None:
    failure = fails(pending, 7, "dead")
    pending._taken_for["broker-a"] = 9, failure, "", "key-7"
    assert unsettled(pending, reading) == []
    failure.passed = ""
    assert unsettled(pending, reading) == [7]


def test_what_is_consumed_later_is_settled_then(pending, reading) -> None:
    fails(pending, 3, "")
    assert unsettled(pending, reading) == [3]
    reading.takes(3, "key-3")
    assert unsettled(pending, reading) == []


def test_places_that_a_broker_lost_are_open_again(pending, reading) -> None:
    assert unsettled(pending, reading) == []
    reading.cut(12)
    pending.reopens(reading, 12)
    assert unsettled(pending, reading) == list(range(12, COUNT))


def test_a_commit_may_not_pass_what_stands_in_the_place_of_a_lost_message() -> None:
    journal = AJournal().runs().store(sync=False).consumer("billing-1").pulled(0, 0)
    journal.each(range(3), journal.sent).pulled(0, 3)
    for offset in (0, 2):
        journal.consumed("billing-1", offset)
    journal.committed(3).consumed("billing-1", 1)  # the commit passed 1
    kept = 2 * RECORD_BYTES
    journal.note("broker-a", LogFlushed(kept, kept, 2))
    journal.note("broker-a", PowerLost(kept, kept, 3 * RECORD_BYTES, ())).store(sync=False)
    journal.sent(2, key="new").claimed("billing-1", Q0, offsets=(2,)).committed(3)
    assert [each.rpartition("passed ")[2] for each in objections(journal.judged(), "commits")] == [
        "1, which no member was given",
        "2, which no member was given",
    ]


@pytest.mark.parametrize(("real_topic", "is_retry"), [("orders", False), ("%RETRY%billing", True)])
def test_a_delayed_copy_of_a_producer_is_no_retry_of_a_failure(
    pending, real_topic: str, is_retry: bool
) -> None:
    fails(pending, 5, "")
    waiting = Queue("SCHEDULE_TOPIC_XXXX", Q0.broker, 0)
    stored = MessageStored(waiting, 2, 0, "key-5", RECORD_BYTES, real_topic=real_topic)
    entry = Entry(1, 0, 1, Q0.broker, stored)
    pending.waits(stored, entry, QueueRecords(waiting))
    (copy,) = pending.waiting["key-5"]
    assert copy.is_of_retry is is_retry


def test_a_dead_letter_is_of_the_queue_in_which_its_message_failed_last() -> None:
    """An acting master may send one message to several queues, and each copy may fail."""
    earlier, later = Queue("orders", "broker-a", 1), Q0
    pending, dead = PendingMessages(), Queue("%DLQ%billing", "broker-b", 0)
    places = [(earlier, 2, 10), (later, 5, 20), (later, 4, 20)]
    pending.failures["k"] = {
        "billing": [
            Failure(queue, offset, offset * 100, EntryKey(at_us, "billing-1", number))
            for number, (queue, offset, at_us) in enumerate(places)
        ]
    }
    order: list[tuple[Queue, int]] = []
    for number in range(3):
        stored = MessageStored(dead, number, number * RECORD_BYTES, "k", RECORD_BYTES)
        pending.passes_on(stored, Entry(number, 30, 30, "broker-b", stored))
        passed = [(f.queue, f.offset) for f in pending.failures["k"]["billing"] if f.passed]
        order += [place for place in passed if place not in order]
    assert order == [(later, 4), (later, 5), (earlier, 2)]


# Places that were used before a loss ----------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "reused_to"),
    [
        (6, 6),  # the older offset was a slave's: the master has still the one before the loss
        (4, 0),  # a commit went back: the group has to read from the older offset on
    ],
)
def test_places_stay_reused_while_the_master_has_the_offset_of_before_the_loss(
    committed: int, reused_to: int
) -> None:
    reading = QueueReading("billing", Q0, 0, QueueRecords(Q0))
    reading.reused_to, reading.committed = 6, 6
    reading.resume_from(0, "billing-1", 1)
    assert reading.reused_to == 0
    reading.committed = committed
    reading.resume_from(6, "billing-2", 2)
    assert reading.reused_to == reused_to

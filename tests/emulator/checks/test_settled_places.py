"""Places that a commit may pass: those that stay settled are looked at once."""

from __future__ import annotations

import pytest
from small_journals import Q0, RECORD_BYTES, AJournal, objections

from emulator.checks.chains import Chains, Failure, Passed
from emulator.checks.queue_records import QueueReading, QueueRecords
from emulator.facts import LogFlushed, PowerLost, Queue
from emulator.journal import EntryKey

COUNT = 20


class CountingChains(Chains):
    """It counts how often somebody asks what became of a failed message."""

    looks = 0

    def failure(self, key: str, group: str, queue: Queue, offset: int) -> Failure | None:
        self.looks += 1
        return super().failure(key, group, queue, offset)


@pytest.fixture
def chains() -> CountingChains:
    return CountingChains()


@pytest.fixture
def reading() -> QueueReading:
    """Every second message was consumed; the others failed, and their retries were consumed."""
    found = QueueReading("billing", Q0, 0, QueueRecords(Q0))
    for offset in range(COUNT):
        if offset % 2:
            found.failed[offset] = f"key-{offset}"
        else:
            found.takes(offset)
    return found


def fails(chains: Chains, offset: int, passed: Passed) -> Failure:
    failure = Failure(Q0, offset, offset * 100, EntryKey(1, "billing-1", 1), passed)
    chains.failures[f"key-{offset}"] = {"billing": [failure]}
    return failure


def unsettled(chains: Chains, reading: QueueReading) -> list[int]:
    return list(chains.unsettled(reading, 0, COUNT))


def test_what_came_as_a_retry_or_is_a_dead_letter_is_looked_at_once(chains, reading) -> None:
    fails(chains, 5, "dead")
    assert unsettled(chains, reading) == []
    assert chains.looks == COUNT / 2
    assert unsettled(chains, reading) == []
    assert chains.looks == COUNT / 2


@pytest.mark.parametrize("passed", ["waiting", "retry"])
def test_a_retry_under_way_is_looked_at_again(chains, reading, passed) -> None:
    failure = fails(chains, 7, passed)
    assert unsettled(chains, reading) == []
    failure.passed = ""  # the record was another one's
    assert unsettled(chains, reading) == [7]


def test_a_dead_letter_that_may_be_another_s_is_looked_at_again(chains, reading) -> None:
    failure = fails(chains, 7, "dead")
    chains._taken_for["broker-a"] = 9, failure, "", "key-7"
    assert unsettled(chains, reading) == []
    failure.passed = ""
    assert unsettled(chains, reading) == [7]


def test_what_is_consumed_later_is_settled_then(chains, reading) -> None:
    fails(chains, 3, "")
    assert unsettled(chains, reading) == [3]
    reading.takes(3)
    assert unsettled(chains, reading) == []


def test_places_that_a_broker_lost_are_open_again(chains, reading) -> None:
    assert unsettled(chains, reading) == []
    reading.cut(12)
    chains.reopens(reading, 12)
    assert unsettled(chains, reading) == list(range(12, COUNT))


def test_a_commit_may_not_pass_what_stands_in_the_place_of_a_lost_message() -> None:
    journal = AJournal().runs().store(sync=False).consumer("billing-1").pulled(0, 0)
    journal.each(range(3), journal.sent).pulled(0, 3)
    for offset in (0, 2):
        journal.consumed("billing-1", offset)
    journal.committed(3).consumed("billing-1", 1)  # it passed 1
    kept = 2 * RECORD_BYTES
    journal.note("broker-a", LogFlushed(kept, kept, 2))
    journal.note("broker-a", PowerLost(kept, kept, 3 * RECORD_BYTES, ())).store(sync=False)
    journal.sent(2, key="new").claimed("billing-1", Q0, offsets=(2,)).committed(3)
    assert [each.rpartition("passed ")[2] for each in objections(journal.judged(), "commits")] == [
        "1, which nobody was given",
        "2, which nobody was given",
    ]

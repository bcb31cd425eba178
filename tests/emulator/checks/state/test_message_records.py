"""Records of messages are kept while a reader may need them, and no longer."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.state.message_labels import MessageLabels
from rocketmq_emulator.checks.state.message_records import (
    SPARSE_MAX,
    MessageRecord,
    MessageRecords,
)
from rocketmq_emulator.checks.state.queue_records import HOLES_MAX, TRIMMED_EVERY, QueueRecords
from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.facts.journal import Entry
from tests.support.checks.small_journals import Q0, AJournal


def lives_of(count: int) -> MessageRecords:
    lives = MessageRecords()
    for offset in range(count):
        fact = MessageStored(Q0, offset, 10 * offset, f"k{offset}", 10, f"t{offset}")
        assert lives.add(fact, Entry(offset + 1, 0, 100 * offset, "broker-a", fact)) == offset + 1
    return lives


def test_a_life_has_all_that_was_noted_when_the_message_was_stored() -> None:
    lives = lives_of(3)
    assert lives.at(2) == MessageRecord(200, 3, 20, "k2", MessageLabels("t2", ()))
    assert (lives.key_at(2), lives.stored_us(2)) == ("k2", 200)
    assert (lives.at(3), lives.key_at(3), lives.stored_us(3)) == (None, None, None)


def test_those_that_stayed_behind_are_kept_alone() -> None:
    lives = lives_of(10)
    lives.forget_before(8, but=(2, 5))
    known = [offset for offset in range(10) if lives.at(offset) is not None]
    assert known == [2, 5, 8, 9]
    assert (lives.key_at(5), lives.stored_us(5), len(lives)) == ("k5", 500, 2)
    assert [(at, each.tags) for at, each in lives.with_labels(5)] == [
        (5, "t5"),
        (8, "t8"),
        (9, "t9"),
    ]
    lives.forget_before(9, but=(5,))
    assert [offset for offset in range(10) if lives.at(offset)] == [5, 9]


def test_what_is_cut_is_told_and_forgotten() -> None:
    lives = lives_of(10)
    lives.forget_before(8, but=(2, 5))
    assert [(offset, life.key) for offset, life in lives.cut(5)] == [
        (5, "k5"),
        (8, "k8"),
        (9, "k9"),
    ]
    assert [offset for offset in range(10) if lives.at(offset)] == [2]


def test_the_oldest_of_too_many_are_forgotten() -> None:
    count = SPARSE_MAX + 7
    lives = lives_of(count)
    lives.forget_before(count, but=range(count))
    assert (lives.at(6), lives.key_at(7)) == (None, "k7")


def read_but_for(*left: int, count: int) -> QueueRecords:
    """One member consumes each of *count* messages, except *left*."""
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    for offset in range(count):
        journal.sent(offset)
        if offset not in left:
            journal.consumed("billing-1", offset)
    judging = Judging()
    judging.take(journal.entries)
    return judging.messages.queues[Q0]


def test_a_message_that_nobody_finishes_does_not_keep_those_behind_it() -> None:
    count = 3 * TRIMMED_EVERY
    records = read_but_for(5, count=count)
    assert records.key_at(5) == "0-5"
    assert len(records.entries_of_message(5)) == 2  # also its acknowledgement
    assert (records.key_at(4), records.key_at(6)) == (None, None)
    assert len(records.message_records) < 2 * TRIMMED_EVERY
    assert len(records.sent) < 2 * TRIMMED_EVERY


@pytest.mark.parametrize("left", [HOLES_MAX - 1, HOLES_MAX + 1])
def test_a_reader_that_is_far_behind_keeps_all_that_it_has_not_read(left) -> None:
    count = left + 2 * TRIMMED_EVERY
    records = read_but_for(*range(left), count=count)
    known = [offset for offset in range(count) if records.key_at(offset) is not None]
    assert known[:left] == list(range(left))

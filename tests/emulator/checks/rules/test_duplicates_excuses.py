"""Causes of messages that come again: each inside, just outside, and once it is over."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import entries_in
from rocketmq_emulator.facts import (
    Fact,
    GroupOffsetMoved,
    LogRecovered,
    MasterConnected,
    MessagePolled,
    MetadataSynced,
    MetadataTakenBack,
    OffsetRepaired,
    Queue,
    SeekRequested,
)
from tests.support.checks.small_journals import Q0, Q1, AJournal, a_consumed_journal, objections

ONE, TWO = "billing-1", "billing-2"
OFFSETS = "consumer offsets"


def unexplained(journal: AJournal) -> int:
    return len(objections(journal.judged(), "duplicates"))


# A claim ------------------------------------------------------------------------------------


def claimed_at_100(node: str, queue: Queue = Q0) -> AJournal:
    """200 messages are consumed, 100 of them are committed, and *node* claims *queue* at 100."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,))
    journal.each(range(200), journal.sent)
    journal.each(range(200), lambda offset: journal.consumed(ONE, offset)).committed(100)
    return journal.claimed(node, queue, offsets=(100,))


def test_a_claim_explains_what_its_member_gets_from_there_on_once() -> None:
    assert unexplained(claimed_at_100(TWO).consumed(TWO, 100)) == 0
    assert unexplained(claimed_at_100(TWO).consumed(TWO, 99)) == 1
    assert unexplained(claimed_at_100(TWO).consumed(ONE, 100)) == 1
    assert unexplained(claimed_at_100(ONE, Q1).consumed(ONE, 100)) == 1
    assert unexplained(claimed_at_100(TWO).consumed(TWO, 100).consumed(TWO, 100)) == 1


def test_a_claim_that_does_not_say_where_it_begins_was_told_an_offset_of_the_last_6_s() -> None:
    def claimed_without_an_offset(at_s: float) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
        journal.claimed(ONE, Q0, offsets=(0,)).each(range(200), journal.sent)
        journal.each(range(200), lambda offset: journal.consumed(ONE, offset))
        journal.at_s(10).committed(100).at_s(20).committed(200)
        return journal.at_s(at_s).claimed(TWO, Q0).consumed(TWO, 150)

    assert unexplained(claimed_without_an_offset(25.9)) == 0
    assert unexplained(claimed_without_an_offset(26.1)) == 1


def given_after_a_release(after_s: float, paused_s: float = 0) -> AJournal:
    """TWO claims the queue and consumes 150; ONE is given 150 *after_s* after its release."""
    journal = claimed_at_100(ONE).at_s(10).released(ONE, Q0).claimed(TWO, Q0, offsets=(100,))
    journal.consumed(TWO, 150)
    if paused_s:
        journal.fault("pause", ONE).at_s(10 + paused_s).healed()
    return journal.at_s(10 + after_s).given(ONE, 150).consumed(ONE, 150)


def test_a_member_is_given_nothing_more_of_a_queue_that_it_gave_up_long_ago() -> None:
    assert unexplained(given_after_a_release(9)) == 0
    assert unexplained(given_after_a_release(11)) == 1
    assert unexplained(given_after_a_release(60, paused_s=55)) == 0
    assert unexplained(given_after_a_release(60, paused_s=45)) == 1


# A broker that has older offsets ------------------------------------------------------------


def restarted(at_s: float, *, claim_s: float = 0, broker: str = "broker-a") -> AJournal:
    """100 was committed at 10 s, 200 at 100 s; the next member begins at 100."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,))
    journal.each(range(200), journal.sent)
    journal.each(range(200), lambda offset: journal.consumed(ONE, offset))
    journal.at_s(10).committed(100).at_s(100).committed(200)
    journal.at_s(at_s).note(broker, LogRecovered(20_000, 0, 20_000))
    if claim_s:
        journal.committed(200).at_s(claim_s)
    return journal.claimed(TWO, Q0).consumed(TWO, 150)


def test_a_broker_that_ended_has_the_offsets_of_the_last_15_s() -> None:
    assert unexplained(restarted(114)) == 0
    assert unexplained(restarted(116)) == 1
    assert unexplained(restarted(114, broker="broker-b")) == 1
    assert unexplained(restarted(114, claim_s=119)) == 0  # read before the commit
    assert unexplained(restarted(114, claim_s=130)) == 1


def taken_back(copied_s: float, *, is_taken: bool = True, table: str = OFFSETS) -> AJournal:
    """As ``restarted`` at 190 s; the slave copied the offsets once, and has given its table."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.note("broker-a-1", MasterConnected("10.0.0.1:10912", 0))
    journal.claimed(ONE, Q0, offsets=(0,))
    journal.each(range(200), journal.sent)
    journal.each(range(200), lambda offset: journal.consumed(ONE, offset))
    synced = MetadataSynced("10.0.0.1:10911", OFFSETS)
    journal.at_s(10).committed(100).at_s(100).committed(200).at_s(copied_s)
    journal.note("broker-a-1", synced).at_s(190).committed(200)
    journal.note("broker-a", LogRecovered(20_000, 0, 20_000))
    journal.note("broker-a", MetadataTakenBack("10.0.0.2:10911", table, is_taken))
    return journal.claimed(TWO, Q0).consumed(TWO, 150)


def test_a_master_that_takes_offsets_back_has_those_that_its_slave_copied_last() -> None:
    assert unexplained(taken_back(102)) == 0
    assert unexplained(taken_back(104)) == 1  # a copy of 3 s ago may have the older offset
    assert unexplained(taken_back(102, is_taken=False)) == 1
    assert unexplained(taken_back(102, table="delay offsets")) == 1


def with_a_disk_fault(word: str, node: str, began_s: float, ended_s: float) -> AJournal:
    """100 was committed at 10 s, 200 at 20 s, and the broker is started again at 90 s."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
    journal.claimed(ONE, Q0, offsets=(0,))
    journal.each(range(200), journal.sent)
    journal.each(range(200), lambda offset: journal.consumed(ONE, offset))
    journal.at_s(10).committed(100).at_s(20).committed(200)
    journal.at_s(began_s).fault(word, node).at_s(ended_s).healed()
    journal.at_s(90).note("broker-a", LogRecovered(20_000, 0, 20_000))
    return journal.claimed(TWO, Q0).consumed(TWO, 150)


@pytest.mark.parametrize("word", ["full_disk", "slow_disk", "failing_flush"])
def test_offsets_are_as_old_as_the_fault_of_the_disk_that_held_before_the_end(word) -> None:
    assert unexplained(with_a_disk_fault(word, "broker-a", 30, 80)) == 0
    assert unexplained(with_a_disk_fault(word, "broker-a", 40, 80)) == 1
    assert unexplained(with_a_disk_fault(word, "broker-b", 30, 80)) == 1
    assert unexplained(with_a_disk_fault(word, "broker-a", 30, 70)) == 1  # written meanwhile
    assert unexplained(with_a_disk_fault("stall", "broker-a", 30, 80)) == 1


# Offsets that were moved or corrected -------------------------------------------------------


def moved_to_100(by: str, *, group: str = "billing", queue: Queue = Q0) -> AJournal:
    journal = a_consumed_journal(200).consumer(TWO).consumer("shipping-1", group="shipping")
    journal.claimed(TWO, Q0, offsets=(200,))
    facts = {
        "tool": ("broker-a", GroupOffsetMoved(group, queue, 100, "broker", "10.0.0.8:1")),
        "seek": (ONE, SeekRequested(group, queue, 100)),
        "repair": (ONE, OffsetRepaired(group, queue, 500, 100)),
    }
    return journal.note(*facts[by])


@pytest.mark.parametrize("by", ["tool", "seek", "repair"])
def test_an_offset_that_goes_back_explains_what_comes_from_there_on_once(by) -> None:
    assert unexplained(moved_to_100(by).consumed(ONE, 100)) == 0
    assert unexplained(moved_to_100(by).consumed(ONE, 99)) == 1
    assert unexplained(moved_to_100(by, queue=Q1).consumed(ONE, 100)) == 1
    assert unexplained(moved_to_100(by, group="shipping").consumed(ONE, 100)) == 1
    assert unexplained(moved_to_100(by).consumed(ONE, 100).consumed(ONE, 100)) == 1


@pytest.mark.parametrize(("by", "count"), [("tool", 0), ("seek", 1), ("repair", 1)])
def test_a_tool_moves_all_members_a_seek_or_a_repair_only_its_own(by, count) -> None:
    assert unexplained(moved_to_100(by).consumed(TWO, 100)) == count


def test_a_journal_that_is_read_back_is_judged_as_the_run_itself() -> None:
    """The strings that were read are equal, and not the same objects."""
    journal = restarted(114).consumed(TWO, 120, ok=False).consumed(ONE, 199)
    read = judge(list(entries_in(journal.lines())))
    assert read.metrics == journal.judged().metrics
    assert read.violations == journal.judged().violations


# Queues without a claim ------------------------------------------------------------------------


def polled(journal: AJournal, node: str, offset: int, queue: Queue = Q0) -> AJournal:
    key = f"{queue.queue_id}-{offset}"
    return journal.note(node, MessagePolled("billing", queue, offset, key))


def polled_before_the_claim(polls_s: float, *, paused_s: float = 0) -> AJournal:
    """TWO claims from 0 and consumes all; ONE polls the same messages before it notes a claim."""
    journal = AJournal().runs().store()
    for node in (ONE, TWO):
        journal.consumer(node, consumer_kind="lite_pull")
    journal.claimed(TWO, Q0, offsets=(0,)).claimed(ONE, Q1, offsets=(0,))
    journal.each(range(3), journal.sent).pulled(0, 3)
    journal.each(range(3), lambda offset: polled(journal, TWO, offset))
    polled(journal.at_s(10), ONE, 0)
    if paused_s:
        journal.fault("pause", ONE).at_s(10 + paused_s).healed()
    return polled(journal.at_s(10 + polls_s), ONE, 1)


def test_a_lite_pull_member_may_poll_for_60_s_before_it_notes_its_claim() -> None:
    assert unexplained(polled_before_the_claim(59)) == 0
    assert unexplained(polled_before_the_claim(61)) == 1
    assert unexplained(polled_before_the_claim(61, paused_s=5)) == 0
    assert unexplained(polled_before_the_claim(90, paused_s=5)) == 1
    assert unexplained(polled(polled_before_the_claim(59), ONE, 1)) == 1  # each message once
    claimed = polled_before_the_claim(59).claimed(ONE, Q0, offsets=(2,))
    assert unexplained(polled(claimed, ONE, 2)) == 0
    assert unexplained(polled(claimed, ONE, 1)) == 1


def test_a_lite_pull_member_asks_for_itself_where_to_pull_up_to_6_s_before_its_claim() -> None:
    def asked(committed_s: float) -> int:
        """0 was committed at 1 s, 2 later; the claim at 40 s has 2, the first poll returns 0."""
        journal = AJournal().runs().store()
        for node in (ONE, TWO):
            journal.consumer(node, consumer_kind="lite_pull")
        journal.claimed(TWO, Q0, offsets=(0,)).each(range(2), journal.sent).pulled(0, 2)
        journal.each(range(2), lambda offset: polled(journal, TWO, offset))
        journal.at_s(1).committed(0).at_s(committed_s).committed(2).at_s(40)
        journal.claimed(ONE, Q0, offsets=(2,))
        return unexplained(polled(journal, ONE, 0))

    assert asked(committed_s=35) == 0
    assert asked(committed_s=33) == 1


def test_a_member_that_never_claims_a_queue_gets_nothing_of_it_for_long() -> None:
    def given_without_a_claim(at_s: float, *, claims: bool = True) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).consumer(TWO).pulled(0, 0)
        journal.claimed(ONE, Q0, offsets=(0,)).each(range(9), journal.sent)
        journal.each(range(9), lambda offset: journal.consumed(ONE, offset))
        if claims:
            journal.claimed(TWO, Q1, offsets=(0,))
        return journal.consumed(TWO, 3).at_s(at_s).consumed(TWO, 4)

    assert unexplained(given_without_a_claim(50)) == 0
    assert unexplained(given_without_a_claim(70)) == 1
    assert unexplained(given_without_a_claim(70, claims=False)) == 0  # a member without claims


def asked_again(*, orderly: bool, falls_s: float = 1, pulls_s: float = 2) -> AJournal:
    """200 is committed and is the claim's offset; then a commit of 100 comes late."""
    journal = AJournal().runs().store().consumer(ONE, orderly=orderly)
    journal.consumer(TWO, orderly=orderly).pulled(0, 0).claimed(ONE, Q0, offsets=(0,))
    journal.each(range(200), journal.sent)
    journal.each(range(200), lambda offset: journal.consumed(ONE, offset))
    journal.at_s(100).committed(200).at_s(200)
    steps = [
        (0.0, lambda: journal.claimed(TWO, Q0, offsets=(200,))),
        (falls_s, lambda: journal.committed(100)),
        (pulls_s, lambda: journal.consumed(TWO, 100)),
    ]
    for after_s, do in sorted(steps, key=lambda step: step[0]):
        journal.at_s(200 + after_s)
        do()
    return journal


def test_an_orderly_member_asks_again_at_its_first_pull_and_no_other_does() -> None:
    assert unexplained(asked_again(orderly=True)) == 0
    assert unexplained(asked_again(orderly=False)) == 1
    assert unexplained(asked_again(orderly=True, falls_s=3)) == 1
    again = asked_again(orderly=True, pulls_s=3)
    assert unexplained(again.consumed(TWO, 99)) == 1


# Messages pulled but not polled ------------------------------------------------------------------


def polled_around(*facts: Fact, kind: str = "lite_pull", polls: tuple[int, ...]) -> AJournal:
    """ONE has pulled 4 messages and polled 2, *facts* move it, and it polls *polls*."""
    journal = AJournal().runs().store().consumer(ONE, consumer_kind=kind)
    journal.claimed(ONE, Q0, offsets=(0,)).each(range(4), journal.sent).pulled(0, 4)
    journal.each(range(2), lambda offset: polled(journal, ONE, offset))
    for fact in facts:
        journal.note(ONE, fact)
    return journal.each(range(len(polls)), lambda at: polled(journal, ONE, polls[at]))


def test_a_corrected_offset_leaves_a_lite_pull_member_what_it_had_pulled() -> None:
    """DefaultLitePullConsumerImpl.PullTaskImpl, OFFSET_ILLEGAL; a seek clears its cache."""
    corrected = OffsetRepaired("billing", Q0, 4, 1)
    assert unexplained(polled_around(corrected, polls=(2, 3, 1, 2, 3))) == 0
    assert unexplained(polled_around(corrected, polls=(2, 3, 1, 2, 3, 3))) == 1
    assert unexplained(polled_around(corrected, polls=(2, 3, 1, 1))) == 1
    assert unexplained(polled_around(polls=(2, 3, 2))) == 1
    sought = SeekRequested("billing", Q0, 1)
    assert unexplained(polled_around(sought, polls=(1, 2, 3, 3))) == 1
    assert unexplained(polled_around(corrected, sought, polls=(1, 2, 3, 3))) == 1

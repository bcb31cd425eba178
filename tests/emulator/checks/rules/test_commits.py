"""A commit never passes a message that no member was given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.facts import (
    LogRecovered,
    MessagePolled,
    OffsetRepaired,
    OldestDropped,
    PowerLost,
    PullAnswered,
    PullFailed,
    PullHeld,
    Queue,
    SeekRequested,
)
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    a_member,
    client_of,
    objections,
)

WAITING = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)


def a_started_journal(count: int = 5, **consumer: object) -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1", **consumer).pulled(0, 0)
    for offset in range(count):
        journal.sent(offset)
    return journal.pulled(0, count)


def broken(journal: AJournal) -> list[str]:
    return objections(journal.judged(), "commits")


def test_what_was_given_may_be_committed() -> None:
    assert broken(a_consumed_journal()) == []


def test_a_commit_of_what_was_only_pulled_is_a_violation() -> None:
    journal = a_started_journal().consumed("billing-1", 0).consumed("billing-1", 1).committed(5)
    assert broken(journal) == [
        "billing committed 5 of orders@broker-a:0 and passed 2, which no member was given"
    ]
    assert journal.judged().metrics["early_commits.billing"] == 1


def test_the_smallest_unfinished_offset_counts_and_not_the_largest_finished_one() -> None:
    journal = a_started_journal().consumed("billing-1", 0).consumed("billing-1", 3)
    assert broken(journal.committed(1)) == []
    assert len(broken(journal.committed(4))) == 1


def test_what_filters_pass_over_is_not_given_to_anybody() -> None:
    journal = a_started_journal(expressions=("TagA",)).consumed("billing-1", 0)
    assert broken(journal.committed(5)) == []


def test_a_commit_of_the_highest_finished_offset_is_a_violation() -> None:
    journal = a_started_journal()
    for offset in (0, 1, 2):
        journal.given("billing-1", offset)
    journal.consumed("billing-1", 0).consumed("billing-1", 2)  # 1 takes longer
    assert broken(journal.committed(3)) == [
        "billing committed 3 of orders@broker-a:0 and passed 1, which billing-1 has not finished"
    ]


def a_batch_that_failed(*copies: str, tags: tuple[str, str]) -> AJournal:
    """Two messages of a batch share a key; the second fails first; *copies* wait as retries."""
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0)
    for offset, tag in enumerate(tags):
        journal.stored(offset, key="batch", tags=tag)
    for offset in (1, 0):
        journal.consumed("billing-1", offset, key="batch", ok=False)
    for offset, tag in enumerate(copies):
        journal.stored(offset, WAITING, key="batch", tags=tag)
    return journal


def test_a_copy_is_of_the_member_of_a_batch_whose_tags_it_has() -> None:
    two = ("TagB", "TagA")
    assert broken(a_batch_that_failed("TagB", tags=two).committed(1)) == []
    assert len(broken(a_batch_that_failed("TagA", tags=two).committed(1))) == 1
    assert len(broken(a_batch_that_failed("TagB", tags=two).committed(2))) == 1
    assert broken(a_batch_that_failed("TagA", "TagB", tags=two).committed(2)) == []


def test_a_copy_is_of_the_first_of_two_members_of_a_batch_that_are_alike() -> None:
    alike = ("TagA", "TagA")
    assert broken(a_batch_that_failed("TagA", tags=alike).committed(1)) == []
    assert len(broken(a_batch_that_failed("TagA", tags=alike).committed(2))) == 1
    assert len(broken(a_batch_that_failed(tags=alike).committed(1))) == 1


def a_member_that_commits(first: int, second: int, *, claims_again: bool = False) -> AJournal:
    journal = a_started_journal(10).note("broker-a", a_member(client_of("billing-1")))
    journal.claimed("billing-1", Q0, offsets=(0,))
    journal.each(range(10), lambda offset: journal.consumed("billing-1", offset))
    journal.committed(first)
    if claims_again:
        journal.claimed("billing-1", Q0, offsets=(second,))
    return journal.committed(second)


def test_a_member_s_commits_rise_while_it_holds_the_queue() -> None:
    assert broken(a_member_that_commits(8, 10)) == []
    assert broken(a_member_that_commits(10, 8)) == [
        "billing-1 commits 8 of orders@broker-a:0 after 10"
    ]
    assert broken(a_member_that_commits(10, 8, claims_again=True)) == []


def an_orderly_member_that_claims_again(
    *commits: int, waits_before: bool = True, is_orderly: bool = True, found: int = 0
) -> AJournal:
    """It consumed 5, its pull waits at 5, and it claims the queue again at 0; then it commits.

    The pull begins before that claim or after it, and is answered with *found* messages.
    """
    held = PullHeld("billing", Q0, 5, 15_000, PEER, 7)
    journal = a_started_journal(orderly=is_orderly).note(
        "broker-a", a_member(client_of("billing-1"))
    )
    journal.claimed("billing-1", Q0, offsets=(0,))
    journal.each(range(5), lambda offset: journal.consumed("billing-1", offset)).committed(5)
    if waits_before:
        journal.note("broker-a", held)
    journal.at_s(2).released("billing-1", Q0).at_s(3).claimed("billing-1", Q0, offsets=(0,))
    if not waits_before:
        journal.note("broker-a", held)
    code = 0 if found else 19
    journal.at_s(5).note("broker-a", PullAnswered("billing", Q0, 5, code, found, 5, PEER, 7))
    return journal.each(range(len(commits)), lambda at: journal.committed(commits[at]))


def test_an_old_empty_pull_raises_the_offset_of_the_next_claim_once() -> None:
    """DefaultMQPushConsumerImpl.correctTagsOffset; the offset of the next message replaces it."""
    assert broken(an_orderly_member_that_claims_again(5, 3, 4)) == []
    lower = ["billing-1 commits 3 of orders@broker-a:0 after 5"]
    assert broken(an_orderly_member_that_claims_again(5, 3, waits_before=False)) == lower
    assert broken(an_orderly_member_that_claims_again(5, 3, is_orderly=False)) == lower
    assert broken(an_orderly_member_that_claims_again(5, 3, found=1)) == lower
    assert broken(an_orderly_member_that_claims_again(4, 3)) == [
        "billing-1 commits 3 of orders@broker-a:0 after 4"
    ]
    assert broken(an_orderly_member_that_claims_again(5, 3, 5, 4)) == [
        "billing-1 commits 4 of orders@broker-a:0 after 5"
    ]


def a_member_that_seeks(*commits: int, to: int = 0) -> AJournal:
    """A member has committed 2 and seeks to *to*; its next commits are *commits*."""
    journal = a_started_journal(consumer_kind="lite_pull").note(
        "broker-a", a_member(client_of("billing-1"))
    )
    journal.claimed("billing-1", Q0, offsets=(0,))
    for offset in range(2):
        journal.note("billing-1", MessagePolled("billing", Q0, offset, f"0-{offset}"))
    journal.committed(2).note("billing-1", SeekRequested("billing", Q0, to))
    return journal.each(range(len(commits)), lambda at: journal.committed(commits[at]))


def test_commits_go_back_once_to_where_a_member_was_moved() -> None:
    """Until its next poll a member commits what poll returned: LitePullConsumer's commitAll."""
    assert broken(a_member_that_seeks(2, 2, 0, 1, 2)) == []
    assert broken(a_member_that_seeks(2, 0, 1, 0)) == [
        "billing-1 commits 0 of orders@broker-a:0 after 1"
    ]
    assert broken(a_member_that_seeks(2, 0, to=1)) == [
        "billing-1 commits 0 of orders@broker-a:0 after 2"
    ]


def test_what_the_log_no_longer_has_is_passed() -> None:
    journal = a_started_journal().note("broker-a", OldestDropped(300, 300))
    journal.note("billing-1", OffsetRepaired("billing", Q0, 0, 3))
    assert broken(journal.consumed("billing-1", 3).committed(4)) == []


def test_a_client_may_repeat_an_offset_that_the_broker_s_log_lost() -> None:
    journal = a_consumed_journal(10).note("broker-a", LogRecovered(4, 0, 400)).store()
    assert broken(journal.sent(4).committed(10)) == []


@given(st.permutations(range(8)), st.data())
def test_a_client_that_commits_the_smallest_unfinished_offset_is_never_objected_to(
    order: list[int], data: st.DataObject
) -> None:
    journal = a_started_journal(8)
    finished: set[int] = set()
    for offset in order:
        journal.given("billing-1", offset).consumed("billing-1", offset)
        finished.add(offset)
        if data.draw(st.booleans()):
            journal.committed(next(n for n in range(9) if n not in finished))
    assert broken(journal) == []


def a_late_commit(after_s: float) -> AJournal:
    journal = a_consumed_journal(5)
    journal.note("broker-a", a_member(client_of("billing-1")))
    journal.at_s(10).released("billing-1", Q0)
    return journal.at_s(10 + after_s)


def test_a_member_commits_nothing_of_a_queue_that_it_gave_away_long_ago() -> None:
    assert broken(a_late_commit(11).committed(5)) == [
        "billing-1@1 commits 5 of orders@broker-a:0, which it gave up 11 s before"
    ]


def test_what_was_on_its_way_then_may_come_and_so_may_what_a_fault_held_up() -> None:
    assert broken(a_late_commit(9).committed(5)) == []
    assert broken(a_late_commit(1).claimed("billing-1", Q0).at_s(50).committed(5)) == []
    assert broken(a_late_commit(1).fault("stall", "broker-a").at_s(50).healed().committed(5)) == []


def test_a_commit_just_before_the_end_of_the_pass_that_claims_the_queue_again_is_not_late() -> (
    None
):
    def late_commits(claimed_after_s: float, queue: Queue = Q0) -> int:
        journal = a_late_commit(40).committed(5).at_s(50 + claimed_after_s)
        return len(broken(journal.claimed("billing-1", queue).at_s(80).committed(5)))

    assert late_commits(2.9) == 0
    assert late_commits(3.1) == 1
    assert late_commits(1, Q1) == 2  # it never claimed Q0 again


def test_a_member_corrects_an_illegal_offset_10_s_later_whoever_has_the_queue_then() -> None:
    def corrected(to: int, after_s: float) -> list[str]:
        journal = a_consumed_journal(5).note("broker-a", a_member(client_of("billing-1")))
        journal.at_s(20).note("billing-1", OffsetRepaired("billing", Q0, 9, 5))
        journal.at_s(20.1).released("billing-1", Q0).at_s(20 + after_s)
        return broken(journal.committed(to))

    assert corrected(5, after_s=10.5) == []
    assert len(corrected(5, after_s=11.5)) == 1
    assert len(corrected(4, after_s=10.5)) == 1


def gives_up_what_it_consumed(written: int, at_s: float = 100) -> AJournal:
    journal = AJournal().runs().store().at_s(at_s)
    journal.note("broker-a", a_member(client_of("billing-1"))).consumer("billing-1")
    journal.claimed("billing-1", Q0, offsets=(0,))
    for offset in range(4):
        journal.sent(offset).given("billing-1", offset).consumed("billing-1", offset)
    journal.released("billing-1", Q0).committed(written)
    return journal.at_s(at_s + 20).ends()


def test_a_member_that_gives_up_a_queue_writes_how_far_it_has_come() -> None:
    assert not objections(gives_up_what_it_consumed(4).judged(), "commits")
    (what,) = objections(gives_up_what_it_consumed(3).judged(), "commits")
    assert what == (
        "billing-1 gave up orders@broker-a:0, of which it had consumed all before 4, "
        "and did not commit that"
    )


def test_a_fault_of_the_broker_or_the_member_may_have_stopped_that_request() -> None:
    for word, node, objects in (("cut", "billing-1", 0), ("kill", "broker-b", 1)):
        journal = AJournal().runs().store().at_s(95).fault(word, node).at_s(99).healed()
        main = gives_up_what_it_consumed(3).entries[2:]
        for entry in main:
            journal.at_s(entry.mono_us / 1e6).note(entry.node, entry.fact)
        judged = journal.judged()
        assert len(objections(judged, "commits")) == objects
        assert judged.metrics.get("excused_lost_offsets.billing", 0) == 1 - objects


def test_a_former_owner_may_commit_beyond_a_lost_place_that_its_successor_reads() -> None:
    """billing-1 had consumed the lost message at offset 1; billing-2 begins at offset 1."""

    def broken_by(peer: str, at_s: float) -> int:
        journal = AJournal().runs().store().consumer("billing-1").consumer("billing-2")
        for node, its_peer in (("billing-1", "peer-1"), ("billing-2", "peer-2")):
            journal.note("broker-a", a_member(client_of(node), peer=its_peer))
        journal.claimed("billing-1", Q0, offsets=(0,)).pulled(0, 2)
        for offset in (0, 1):
            journal.sent(offset).consumed("billing-1", offset)
        journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ()))
        journal.store().stored(1, key="another").stored(2).at_s(10)
        journal.consumed("billing-1", 2).released("billing-1", Q0)
        journal.claimed("billing-2", Q0, offsets=(1,))
        journal.at_s(at_s).sent(0, Q1).consumed("billing-1", 0, Q1)  # it is alive
        return len(broken(journal.committed(3, peer=peer)))

    assert broken_by("peer-1", 11) == 0
    assert broken_by("peer-2", 11) == 1
    assert broken_by("peer-1", 25) == 2  # too late, and beyond what is consumed


def test_a_member_whose_pull_fails_after_a_seek_commits_the_offset_of_the_seek() -> None:
    def stays(*, fails: bool, consumes: bool = False, repaired: bool = False) -> list[str]:
        journal = AJournal().runs().store().consumer("billing-1", consumer_kind="lite_pull")
        journal.sent(0).sent(1).sent(2).claimed("billing-1", Q0, offsets=(0,)).pulled(0, 3)
        for offset in range(3):
            journal.consumed("billing-1", offset)
        journal.committed(3).note("billing-1", SeekRequested("billing", Q0, 1))
        if fails:
            journal.at_s(11).note("billing-1", PullFailed("billing", Q0, "busy"))
        if consumes:
            journal.at_s(12).consumed("billing-1", 1)
        if repaired:  # its next pull is from an offset that the broker has lost
            journal.at_s(13).note("billing-1", OffsetRepaired("billing", Q0, 3, 2))
        journal.at_s(15).committed(1)
        return objections(journal.at_s(60).ends().judged(), "commits")

    assert stays(fails=True) == stays(fails=True, repaired=True) == []
    assert len(stays(fails=False, repaired=True)) == 1
    assert len(stays(fails=False)) == len(stays(fails=True, consumes=True)) == 1

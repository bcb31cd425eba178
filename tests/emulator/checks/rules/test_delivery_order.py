"""Orderly groups consume a queue's messages in order; other groups in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.facts import PowerLost, Queue
from tests.support.checks.small_journals import Q0, RECORD_BYTES, AJournal, objections

RETRY = Queue("%RETRY%billing", "broker-a", 0)


def an_orderly_journal(count: int, *, orderly: bool = True) -> AJournal:
    journal = AJournal().runs().store().consumer("billing-1", orderly=orderly)
    journal.claimed("billing-1", Q0).pulled(0, count)
    for offset in range(count):
        journal.sent(offset, key=f"0-{offset}")
    return journal


def consumed(journal: AJournal, *offsets: int, by: str = "billing-1") -> AJournal:
    """Consume *offsets*, one a second; negative ones fail."""
    for offset in offsets:
        journal.at_s(journal.now_us / 1e6 + 1)
        journal.consumed(by, abs(offset), ok=offset >= 0)
    return journal


def broken(journal: AJournal) -> list[str]:
    return objections(journal.judged(), "order")


def test_one_after_the_other_is_order_and_a_failure_comes_again_first() -> None:
    assert broken(consumed(an_orderly_journal(5), 0, -1, -1, 1, 2, 3)) == []


def test_a_later_message_before_an_earlier_one_is_a_violation() -> None:
    journal = consumed(an_orderly_journal(5), 0, 2, 1)
    assert broken(journal)[0] == (
        "billing consumed offset 2 of orders@broker-a:0 where 1 was next"
    )
    assert journal.judged().metrics["out_of_order.billing"] == 2


def test_a_later_message_before_the_retry_of_a_failed_one_is_a_violation() -> None:
    assert len(broken(consumed(an_orderly_journal(5), 0, -1, 2))) == 1


def test_a_message_that_was_given_up_is_passed() -> None:
    journal = consumed(an_orderly_journal(5), 0, -1).stored(0, RETRY, key="0-1")
    assert broken(consumed(journal, 2, 3)) == []


def test_a_batch_that_fails_comes_again_as_a_whole() -> None:
    journal = consumed(an_orderly_journal(5), 0)
    journal.at_s(9).consumed("billing-1", 1, ok=False).consumed("billing-1", 2, ok=False)
    assert broken(consumed(journal, 1, 2, 3)) == []


def test_what_fails_in_one_call_fails_within_a_millisecond() -> None:
    def failed_after(us: int) -> AJournal:
        journal = an_orderly_journal(5).at_s(9).consumed("billing-1", 0, ok=False)
        return journal.at_s(9 + us / 1e6).consumed("billing-1", 1, ok=False)

    assert broken(failed_after(900)) == []
    assert len(broken(failed_after(1_100))) == 1


def test_the_next_owner_begins_where_the_offset_is() -> None:
    journal = consumed(an_orderly_journal(5), 0, 1, 2).claimed("billing-2", Q0)
    assert broken(consumed(journal, 1, 2, 3, by="billing-2")) == []
    assert len(broken(consumed(journal, 1, by="billing-2"))) == 1  # 1 comes again, without a cause


def test_each_of_two_members_that_hold_a_queue_has_an_order_of_its_own() -> None:
    def both(*steps: tuple[str, int]) -> list[str]:
        journal = an_orderly_journal(5).claimed("billing-2", Q0)
        for node, offset in steps:
            consumed(journal, offset, by=node)
        return broken(journal)

    one, two = "billing-1", "billing-2"
    assert both((one, 0), (one, -1), (two, 0), (two, 1), (two, 2), (one, -1), (one, 2)) == []
    assert len(both((one, 0), (one, -1), (two, 0), (one, 2))) == 1
    assert len(both((one, 0), (two, 0), (two, 2), (one, 1))) == 1


def test_other_groups_take_messages_as_they_come() -> None:
    assert broken(consumed(an_orderly_journal(5, orderly=False), 3, 1, 2, 0)) == []


@given(st.lists(st.integers(0, 2), max_size=30))
def test_no_orderly_history_is_objected_to(outcomes: list[int]) -> None:
    """0: it fails; 1: it succeeds; 2: the queue is claimed again, from the committed offset."""
    journal = an_orderly_journal(40)
    at = committed = 1
    for outcome in outcomes:
        if outcome == 2:
            journal.claimed("billing-1", Q0)
            at = committed
            continue
        consumed(journal, at if outcome else -at)
        at += outcome
        committed = max(committed, at - 2)
    assert broken(journal) == []


def filtered(*, joins_s: float, ends_s: float, takes: int, tags: str = "TagB") -> AJournal:
    """The group takes all; another member takes TagA alone for a while; messages come at 300 s."""
    journal = AJournal().runs().store().consumer("billing-1", orderly=True)
    journal.claimed("billing-1", Q0).pulled(0, 4).at_s(joins_s)
    journal.consumer("billing-2", orderly=True, expressions=("TagA",)).at_s(ends_s)
    journal.stopped("billing-2").at_s(300)
    journal.each(range(4), lambda offset: journal.sent(offset, key=f"0-{offset}", tags=tags))
    return consumed(journal, 0, takes)


def test_what_a_member_did_not_take_is_passed_while_it_runs_and_shortly_after() -> None:
    assert broken(filtered(joins_s=10, ends_s=200, takes=2)) == []
    assert len(broken(filtered(joins_s=10, ends_s=200, takes=2, tags="TagA"))) == 1
    assert len(broken(filtered(joins_s=10, ends_s=100, takes=2))) == 1


def goes_on_beyond(had: int, takes: int) -> AJournal:
    """A member had *had* of 4 messages that are lost; another one takes the first new one."""
    journal = an_orderly_journal(4).consumer("billing-2", orderly=True)
    journal = consumed(journal, *range(had))
    journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, 4 * RECORD_BYTES, ())).store()
    journal.each(range(1, 8), lambda offset: journal.sent(offset, key=f"new-{offset}"))
    journal.claimed("billing-2", Q0).at_s(20).consumed("billing-2", 1, key="new-1")
    return journal.at_s(22).consumed("billing-1", takes, key=f"new-{takes}")


def test_a_member_that_had_what_was_lost_of_a_queue_goes_on_behind_it() -> None:
    assert broken(goes_on_beyond(4, 4)) == []
    assert len(broken(goes_on_beyond(4, 5))) == 1  # 4 was not consumed
    assert len(broken(goes_on_beyond(3, 4))) == 1  # 3 was not consumed
    assert len(broken(goes_on_beyond(4, 4).at_s(23).consumed("billing-1", 6, key="new-6"))) == 1

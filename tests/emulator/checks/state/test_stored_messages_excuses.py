"""Why an offset may have another message: a log that lost its end, or a second store.

Each cause is tested inside, just outside, and once it is over.
"""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.state import pending_messages
from rocketmq_emulator.facts import (
    BrokerReset,
    DelayedDelivered,
    LogRecovered,
    MessageSentBack,
    NodeStarted,
    OffsetRepaired,
    PowerLost,
    Queue,
    TopicDeleted,
)
from tests.support.checks.small_journals import Q0, Q1, RECORD_BYTES, AJournal, objections

ONE, TWO = "billing-1", "billing-2"
RETRY, DEAD = Queue("%RETRY%billing", "broker-a", 0), Queue("%DLQ%billing", "broker-a", 0)
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)


def found(journal: AJournal, checker: str) -> int:
    return len(objections(journal.judged(), checker))


def metric(journal: AJournal, name: str) -> float:
    return journal.judged().metrics[name]


def without_power(journal: AJournal, kept: int, written: int) -> AJournal:
    """Cut the log of broker-a back to its first *kept* records."""
    ends = kept * RECORD_BYTES, kept * RECORD_BYTES, written * RECORD_BYTES
    return journal.note("broker-a", PowerLost(*ends, ()))


# Messages of a log that lost its end ---------------------------------------------------------


def given_after_a_loss(key: str, *, at: int = 1, queue: Queue = Q0) -> AJournal:
    """Of three messages one is kept; new ones take the places of the others; then a fourth."""
    journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, Q1, offsets=(0, 0))
    journal.each(range(3), journal.sent).pulled(0, 3).sent(0, Q1)
    without_power(journal, 1, 4).store()
    journal.sent(1, key="new-1").sent(2, key="new-2").sent(3).sent(0, Q1)
    return journal.consumed(ONE, at, queue, key=key)


def test_a_message_that_its_broker_lost_may_be_on_its_way_to_a_listener() -> None:
    inside = given_after_a_loss("0-1")
    assert found(inside, "places") == 0
    assert metric(inside, "excused_lost_places") == 1
    assert found(given_after_a_loss("new-1"), "places") == 0
    assert found(given_after_a_loss("0-2"), "places") == 1  # 0-2 was in another place
    assert found(given_after_a_loss("0-1", queue=Q1, at=0), "places") == 1
    assert found(given_after_a_loss("0-2", at=3), "places") == 1  # a place that was never lost


def test_a_place_that_was_lost_promises_what_its_new_message_was_promised() -> None:
    def lost_again(status: str) -> AJournal:
        journal = AJournal().runs().store(sync=True).consumer(ONE).pulled(0, 0)
        journal.sent(0).sent(1, status="FLUSH_DISK_TIMEOUT")
        without_power(journal, 1, 2).store(sync=True)
        journal.sent(1, key="new", status=status)
        return without_power(journal, 1, 2).store(sync=True)

    assert found(lost_again("FLUSH_DISK_TIMEOUT"), "lost") == 0
    assert metric(lost_again("FLUSH_DISK_TIMEOUT"), "lost_with_power") == 2
    assert found(lost_again("SEND_OK"), "lost") == 1


def acknowledged_after_the_loss(*, sync: bool, key: str = "late") -> AJournal:
    journal = AJournal().runs().store(sync=sync).consumer(ONE).pulled(0, 0)
    journal.sent(0).stored(1, key="late")
    without_power(journal, 1, 2).store(sync=sync)
    return journal.acknowledged(1, key=key).at_s(100).ends()


def test_an_acknowledgement_may_come_after_its_message_was_lost() -> None:
    inside = acknowledged_after_the_loss(sync=False)
    assert found(inside, "lost") == 0
    assert metric(inside, "lost_with_power") == 1
    assert found(acknowledged_after_the_loss(sync=True), "lost") == 1
    assert found(acknowledged_after_the_loss(sync=False, key="other"), "lost") == 1


def failed_and_lost(*, again: bool) -> AJournal:
    """The message at 1 failed and was lost before it was sent back; another takes its place."""
    journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, offsets=(0,))
    journal.sent(0).sent(1).pulled(0, 2).consumed(ONE, 0).consumed(ONE, 1, ok=False)
    without_power(journal, 1, 2).store()
    journal.note(ONE, OffsetRepaired("billing", Q0, 2, 1)).released(ONE, Q0, reason="reset")
    journal.claimed(ONE, Q0, offsets=(1,)).sent(1, key="new").sent(2)
    journal.consumed(ONE, 1, key="new", ok=not again)
    return journal.consumed(ONE, 2).committed(3).at_s(200).ends()


def test_a_failure_at_a_place_that_was_lost_is_not_that_of_its_new_message() -> None:
    assert found(failed_and_lost(again=False), "lost") == 0
    assert metric(failed_and_lost(again=False), "lost_with_power") == 1
    assert metric(failed_and_lost(again=True), "lost.billing") == 1


def stale(offset: int, *, queue: Queue = Q0, comes: bool = False) -> AJournal:
    """The log is cut back to 1, and the member's offset is corrected from 3 to 1."""
    journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, Q1, offsets=(0, 0))
    journal.each(range(3), journal.sent).each(range(3), lambda o: journal.sent(o, Q1))
    journal.each(range(3), lambda o: journal.consumed(ONE, o)).committed(3)
    without_power(journal, 1, 3).store().each(range(1, 6), lambda o: journal.sent(o, key=f"n{o}"))
    journal.sent(0, Q1, key="m0").sent(1, Q1, key="m1")
    journal.note(ONE, OffsetRepaired("billing", Q0, 3, 1)).released(ONE, Q0, reason="reset")
    journal.claimed(ONE, Q0, offsets=(1,))
    if comes:
        journal.consumed(ONE, 1, key="n1")
    return journal.committed(offset, queue)


def test_a_member_that_was_sent_back_may_still_commit_the_offset_that_it_asked_for() -> None:
    inside = stale(3)
    assert metric(inside, "early_commits.billing") == 0
    assert metric(inside, "excused_early_commits.billing") == 1
    assert metric(stale(4), "early_commits.billing") == 1
    assert metric(stale(2, queue=Q1), "early_commits.billing") == 1
    assert metric(stale(3, comes=True), "early_commits.billing") == 1


@pytest.mark.parametrize(
    ("word", "fact"),
    [("reset", BrokerReset(("billing",), ("orders",))), ("deleted", TopicDeleted("orders"))],
)
def test_what_an_operator_deletes_is_not_owed_and_what_comes_then_is(word, fact) -> None:
    def deleted(broker: str) -> AJournal:
        journal = AJournal().runs().store().store("broker-b").consumer(ONE).pulled(0, 0)
        return journal.sent(0).sent(1).note(broker, fact)

    inside = deleted("broker-a")
    assert (found(inside, "lost"), metric(inside, "excused_lost_with_memory.billing")) == (0, 2)
    assert metric(deleted("broker-b").committed(2), "lost.billing") == 2
    after = deleted("broker-a").sent(0, key="x").sent(1, key="y").consumed(ONE, 1, key="y")
    assert metric(after.committed(2), "lost.billing") == 1


# Deliveries that a broker forgot ---------------------------------------------------------------


def delivered_twice(
    *, ended_s: float = 0, broker: str = "broker-a", again: int = 1, copies: int = 1
) -> AJournal:
    """A delayed message comes at 100 s, and again at 200 s; *broker* is killed between."""
    journal = AJournal().runs().store().at_s(90)
    journal.each(range(copies), lambda offset: journal.stored(offset, AFTER_10_S, key="k"))
    journal.at_s(100).each(range(copies), lambda offset: journal.delivered(offset, Q1, 3, "k"))
    if ended_s:
        journal.at_s(ended_s).fault("kill", broker).at_s(ended_s + 1).healed()
        journal.note(broker, NodeStarted("broker", "", "4.9.7"))
    later = range(copies, copies + again)
    return journal.at_s(200).each(later, lambda offset: journal.delivered(offset, Q1, 3, "k"))


def test_a_broker_that_ended_within_25_s_may_deliver_a_delayed_message_again() -> None:
    inside = delivered_twice(ended_s=124)
    assert found(inside, "places") == 0
    assert metric(inside, "excused_forgotten_deliveries") == 1
    assert found(delivered_twice(ended_s=126), "places") == 1
    assert found(delivered_twice(ended_s=124, broker="broker-b"), "places") == 1
    assert found(delivered_twice(), "places") == 1
    assert found(delivered_twice(ended_s=124, again=2), "places") == 1
    assert found(delivered_twice(ended_s=124, again=2, copies=2), "places") == 0


def delivered_by_the_third_process(lived_s: int, *, killed_s: int = 110) -> int:
    """It was delivered at 100 s by the first process, which is killed; so is the second."""
    journal = AJournal().runs().store().at_s(90).stored(0, AFTER_10_S, key="k")
    journal.at_s(100).delivered(0, Q1, 3, "k")
    started = NodeStarted("broker", "", "5.3.3")
    for ended_s, back_s in ((killed_s, 150), (150 + lived_s, 180)):
        journal.at_s(ended_s).fault("kill", "broker-a").at_s(back_s).healed()
        journal.note("broker-a", started)
    return found(journal.at_s(200).delivered(1, Q1, 3, "k"), "places")


def test_a_process_that_ends_within_10_s_leaves_the_progress_of_the_one_before() -> None:
    """Upstream: ScheduleMessageService.start writes the progress first after 10 s."""
    assert delivered_by_the_third_process(9) == 0
    assert delivered_by_the_third_process(11) == 1  # it wrote what it had
    assert delivered_by_the_third_process(9, killed_s=126) == 1  # the first had written it


# One message, several records ------------------------------------------------------------------


def given_up_by_two(*acknowledged: int, key: str = "k") -> AJournal:
    """Two members send one failed message back for the last time: two dead letters."""
    journal = AJournal().runs().store().consumer(ONE).consumer(TWO).sent(0, key="k").pulled(0, 1)
    journal.claimed(ONE, Q0, offsets=(0,)).claimed(TWO, Q0, offsets=(0,))
    for node in (ONE, TWO):
        journal.consumed(node, 0, key="k", ok=False)
    journal.stored(0, DEAD, key=key).stored(1, DEAD, key=key)
    return journal.each(range(len(acknowledged)), lambda n: acked(journal, acknowledged[n], key))


def acked(journal: AJournal, offset: int, key: str) -> AJournal:
    return journal.acknowledged(offset, RETRY, key=key)


def test_a_message_that_two_members_give_up_has_two_dead_letters() -> None:
    both = given_up_by_two(0, 1)
    assert found(both, "places") == found(both, "duplicates") == found(both, "lost") == 0
    assert metric(both, "stored_twice") == 0
    assert found(given_up_by_two(0, 1, 2).at_s(100).ends(), "lost") == 1  # a third was not stored


def test_a_dead_letter_of_another_message_settles_nothing() -> None:
    journal = given_up_by_two(0, 1, key="other").committed(1)
    assert metric(journal, "lost.billing") == 1


def test_a_failure_that_has_another_place_comes_to_a_second_owner_and_is_one() -> None:
    def failed_twice(*, settles: bool) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).consumer(TWO).sent(0, key="k")
        journal.pulled(0, 1).consumed(ONE, 0, key="k", ok=False)
        if settles:
            journal.stored(0, AFTER_10_S, key="k")
            back = MessageSentBack("billing", "orders", RETRY.topic, 1, 3, 0, "10.0.0.9:1")
            journal.note("broker-a", back)
        journal.claimed(TWO, Q0, offsets=(0,)).consumed(TWO, 0, key="k", ok=False).committed(1)
        return journal.at_s(15).ends()

    assert found(failed_twice(settles=True), "lost") == 0
    assert found(failed_twice(settles=False), "lost") == 1


# Sends that are forgotten ---------------------------------------------------------------------


def after_one_way_sends(count: int, *, stored_first: bool) -> AJournal:
    """After *count* one-way sends, a send is acknowledged with the place of an earlier message."""
    journal = AJournal().runs().store()
    if stored_first:
        journal.stored(0, Q1, key="early")
    journal.each(range(count), lambda offset: journal.stored(offset, key=f"one way {offset}"))
    if not stored_first:
        journal.stored(0, Q1, key="early")
    return journal.acknowledged(0, Q1, key="late")


def test_only_messages_older_than_a_forgotten_send_may_be_of_its_batch(monkeypatch) -> None:
    monkeypatch.setattr(pending_messages, "OPEN_SENDS_MAX", 5)
    assert found(after_one_way_sends(4, stored_first=True), "places") == 1
    assert found(after_one_way_sends(9, stored_first=True), "places") == 0
    assert found(after_one_way_sends(9, stored_first=False), "places") == 1


def test_a_broker_that_delivers_what_it_has_not_stored_is_objected_to() -> None:
    journal = AJournal().runs().store().stored(0, AFTER_10_S, key="k").at_s(10)
    assert found(journal.note("broker-a", DelayedDelivered(Q1, 3, 0)), "places") == 1
    assert found(journal.note("broker-a", LogRecovered(1, 0, RECORD_BYTES)), "places") == 1


def acknowledged_under(key: str, *, stored_as: str) -> AJournal:
    return AJournal().runs().store().stored(0, key=stored_as).acknowledged(0, key=key)


def test_a_batch_of_one_has_a_key_of_its_own_from_the_same_process() -> None:
    mine, other = "0A00000B03ED6B6F008A", "0A00000C03ED6B6F008A"
    batch, member = f"{mine}47B8235E00A5", f"{mine}47B8235E00A4"
    assert found(acknowledged_under(member, stored_as=batch), "places") == 0
    stranger = f"{other}47B8235E00A4"
    assert found(acknowledged_under(stranger, stored_as=batch), "places") == 1
    assert found(acknowledged_under("late", stored_as="early"), "places") == 1

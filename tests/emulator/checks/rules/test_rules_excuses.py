"""Excuses for messages that were not consumed: each inside, just outside, once it is over."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator.facts import (
    GroupOffsetMoved,
    LogFlushed,
    LogRecovered,
    MessagePolled,
    MessageSentBack,
    OffsetRepaired,
    OldestDropped,
    PowerLost,
    Queue,
    SeekRequested,
    StoreOpened,
)
from tests.support.checks.small_journals import (
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    objections,
)

ONE, TWO = "billing-1", "billing-2"
RETRY = Queue("%RETRY%billing", "broker-a", 0)
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
Q_OF_B = Queue("orders", "broker-b", 0)
FOLDER = json.dumps({"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]})


def lost(journal: AJournal) -> int:
    """The number of objections."""
    return len(objections(journal.judged(), "lost"))


def metric(journal: AJournal, name: str) -> float:
    return journal.judged().metrics[name]


# A retry that waits ------------------------------------------------------------------------


def a_retry_that_waits(group: str = "billing") -> AJournal:
    """A retry that is due at 10 s."""
    journal = AJournal().runs().store().store("broker-b").consumer(ONE)
    journal.sent(0, key="k").pulled(0, 1).consumed(ONE, 0, key="k", ok=False)
    journal.stored(0, AFTER_10_S, key="k")
    back = MessageSentBack(group, "orders", f"%RETRY%{group}", 1, 3, 0, "10.0.0.9:1")
    return journal.note("broker-a", back).committed(1)


def a_retry_while(word: str, node: str, ends_s: float) -> AJournal:
    """A retry waits during a fault *word* of *node* from 5 s to 100 s."""
    journal = a_retry_that_waits().at_s(5).fault(word, node).at_s(100).healed()
    return journal.at_s(ends_s).ends()


@pytest.mark.parametrize("word", ["pause", "full_disk", "partition"])
def test_a_retry_may_wait_for_30_s_after_something_happened_to_its_broker(word) -> None:
    inside = a_retry_while(word, "broker-a", 129)
    assert lost(inside) == 0
    assert (metric(inside, "excused_overdue"), metric(inside, "waiting")) == (1, 1)
    assert lost(a_retry_while(word, "broker-b", 129)) == 1
    assert lost(a_retry_while(word, "broker-a", 131)) == 1


def test_a_retry_that_waited_in_vain_before_the_fault_is_lost() -> None:
    journal = a_retry_that_waits().at_s(100).fault("pause", "broker-a").at_s(110).healed()
    assert lost(journal.at_s(111).ends()) == 1


def test_a_retry_may_come_late_by_as_much_as_its_broker_s_clock_was_moved() -> None:
    def moved(node: str, ends_s: float) -> AJournal:
        journal = a_retry_that_waits().at_s(5).fault("clock_jump", node, ms=-60_000)
        return journal.at_s(6).healed().at_s(ends_s).ends()

    assert lost(moved("broker-a", 155)) == 0
    assert lost(moved("broker-b", 155)) == 1
    assert lost(moved("broker-a", 165)) == 1


def test_a_retry_of_another_group_settles_nothing() -> None:
    def failed(group: str) -> AJournal:
        return a_retry_that_waits_for_two(group).at_s(20).ends()

    def a_retry_that_waits_for_two(group: str) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).consumer("shipping-1", group="shipping")
        journal.sent(0, key="k").pulled(0, 1).pulled(0, 1, group="shipping")
        journal.consumed(ONE, 0, key="k", ok=False)
        journal.consumed("shipping-1", 0, key="k", ok=False, group="shipping")
        journal.stored(0, AFTER_10_S, key="k")
        back = MessageSentBack(group, "orders", f"%RETRY%{group}", 1, 3, 0, "10.0.0.9:1")
        return journal.note("broker-a", back).committed(1).committed(1, group="shipping")

    for group, other in (("billing", "shipping"), ("shipping", "billing")):
        metrics = failed(group).judged().metrics
        assert (metrics[f"lost.{group}"], metrics[f"lost.{other}"]) == (0, 1)


def test_a_retry_that_was_sent_back_survives_a_kill_and_not_a_loss_of_power() -> None:
    killed = a_retry_that_waits().note("broker-a", LogRecovered(RECORD_BYTES, 0, RECORD_BYTES))
    assert lost(killed) == 1
    powerless = PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ())
    unflushed = a_retry_that_waits().note("broker-a", powerless)
    assert lost(unflushed) == 0
    assert metric(unflushed, "lost_with_power") == 1


def without_power_while_a_retry_waits(flushed: int) -> AJournal:
    """The broker has SYNC_FLUSH; *flushed* of its two records are flushed, and only those kept."""
    journal = AJournal().runs().store(sync=True).consumer(ONE)
    journal.sent(0, key="k").pulled(0, 1).consumed(ONE, 0, key="k", ok=False)
    journal.stored(0, AFTER_10_S, key="k")
    back = MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 0, "10.0.0.9:1")
    end = flushed * RECORD_BYTES
    journal.note("broker-a", back).committed(1).note("broker-a", LogFlushed(end, end, flushed))
    return journal.note("broker-a", PowerLost(end, end, 2 * RECORD_BYTES, ()))


def test_with_sync_flush_a_message_is_promised_at_once_and_its_retry_once_it_is_flushed() -> None:
    assert lost(without_power_while_a_retry_waits(flushed=1)) == 0
    assert metric(without_power_while_a_retry_waits(flushed=1), "lost_with_power") == 1
    assert lost(without_power_while_a_retry_waits(flushed=0)) == 1
    assert metric(without_power_while_a_retry_waits(flushed=2), "lost_with_power") == 0


def test_a_retry_that_was_not_flushed_yet_was_not_answered_to_the_member_that_sent_it_back() -> (
    None
):
    def without_power(*, acknowledged: bool) -> AJournal:
        journal = AJournal().runs().store(sync=True).consumer(ONE)
        journal.sent(0, key="k").note("broker-a", LogFlushed(RECORD_BYTES, RECORD_BYTES, 1))
        journal.pulled(0, 1).consumed(ONE, 0, key="k", ok=False).stored(0, AFTER_10_S, key="k")
        if acknowledged:  # a producer's delayed message
            journal.acknowledged(0, Q1, key="k")
        else:
            back = MessageSentBack("billing", "orders", RETRY.topic, 1, 3, 0, "10.0.0.9:1")
            journal.note("broker-a", back)
        powerless = PowerLost(RECORD_BYTES, RECORD_BYTES, 2 * RECORD_BYTES, ())
        return journal.note("broker-a", powerless)

    assert lost(without_power(acknowledged=False)) == 0
    assert metric(without_power(acknowledged=False), "lost_with_power") == 1
    assert lost(without_power(acknowledged=True)) == 1


def test_what_failed_is_not_stuck_while_its_retry_waits_and_is_if_it_went_nowhere() -> None:
    waits = a_retry_that_waits().at_s(185).ends()
    assert objections(waits.judged(), "liveness") == []
    assert lost(waits) == 1  # reported as lost, not as stuck
    nowhere = AJournal().runs().store().consumer(ONE).sent(0, key="k").pulled(0, 1)
    nowhere.consumed(ONE, 0, key="k", ok=False).at_s(185).ends()
    assert len(objections(nowhere.judged(), "liveness")) == 1


# Offsets that were moved --------------------------------------------------------------------


def skipped(fact_at: str, *, to: int = 4, queue: Queue = Q0, group: str = "billing") -> AJournal:
    """Of five messages the first and the last are consumed; *group* was moved between them."""
    journal = AJournal().runs().store().consumer(ONE).consumer("x", group="shipping")
    journal.each(range(5), journal.sent).pulled(0, 5).consumed(ONE, 0)
    if fact_at == "broker-a":
        journal.note(fact_at, GroupOffsetMoved(group, queue, to, "broker", "10.0.0.8:1"))
    else:
        journal.note(fact_at, SeekRequested(group, queue, to))
    return journal.consumed(ONE, 4).committed(5)


@pytest.mark.parametrize("by", ["broker-a", ONE])
def test_what_a_tool_or_a_seek_skips_is_not_owed_in_that_queue_to_that_group(by) -> None:
    inside = skipped(by)
    assert lost(inside) == 0
    assert metric(inside, "excused_moved.billing") == 3
    assert metric(skipped(by, to=3), "lost.billing") == 1  # 3 is owed: the group was moved to it
    assert metric(skipped(by, queue=Q1), "lost.billing") == 3
    assert metric(skipped(by, group="shipping"), "lost.billing") == 3


def test_messages_that_come_after_a_tool_moved_the_group_are_owed() -> None:
    journal = skipped("broker-a").sent(5).sent(6).consumed(ONE, 6)
    assert metric(journal.committed(7), "lost.billing") == 1


def repaired(dropped_to: int, *, broker: str = "broker-a", to: int = 2) -> AJournal:
    """Of three messages those before *dropped_to* are deleted; a pull of 0 is moved to *to*."""
    journal = AJournal().runs().store().store("broker-b").consumer(ONE).pulled(0, 0)
    journal.each(range(3), journal.sent)
    position = dropped_to * RECORD_BYTES
    journal.note(broker, OldestDropped(position, position))
    journal.note(ONE, OffsetRepaired("billing", Q0, 0, to))
    return journal.each(range(to, 3), lambda o: journal.consumed(ONE, o)).committed(3)


def test_a_repaired_offset_skips_what_retention_has_deleted_and_nothing_else() -> None:
    inside = repaired(2)
    assert lost(inside) == 0
    assert metric(inside, "excused_not_in_log.billing") == 2
    assert metric(repaired(1), "lost.billing") == 1
    assert metric(repaired(2, broker="broker-b"), "lost.billing") == 2


def test_what_comes_after_a_deletion_is_owed() -> None:
    journal = repaired(2).sent(3).sent(4)
    journal.note(ONE, OffsetRepaired("billing", Q0, 3, 4)).consumed(ONE, 4).committed(5)
    assert metric(journal, "lost.billing") == 1


def test_a_log_that_lost_its_end_does_not_explain_a_repair_that_skips() -> None:
    journal = AJournal().runs().store().consumer(ONE).pulled(0, 0)
    journal.each(range(4), journal.sent)
    journal.note("broker-a", PowerLost(300, 300, 400, ())).store()
    journal.note(ONE, OffsetRepaired("billing", Q0, 0, 2)).consumed(ONE, 2).committed(3)
    assert metric(journal, "lost.billing") == 2


# Members that filter ----------------------------------------------------------------------


def a_message_missed(sent_s: float, filtering: tuple[float, float], topic: str = "orders") -> int:
    """Sent at *sent_s* and passed 1 s later; TWO takes only TagA during *filtering*."""
    began_s, ended_s = filtering
    steps = [
        (0.0, lambda journal: journal.consumer(ONE)),
        (
            began_s,
            lambda journal: journal.consumer(TWO, expressions=("TagA",), topics=(topic,)),
        ),
        (ended_s, lambda journal: journal.stopped(TWO)),
        (sent_s, lambda journal: journal.sent(0, tags="TagB").pulled(0, 1)),
        (sent_s + 1, lambda journal: journal.committed(1)),
    ]
    journal = AJournal().runs().store()
    for at_s, do in sorted(steps, key=lambda step: step[0]):
        do(journal.at_s(at_s))
    judged = journal.at_s(9_999).ends().judged()
    assert judged.metrics["excused_inconsistent"] == 1 - judged.metrics["lost"]
    assert len(objections(judged, "commits")) == judged.metrics["lost"]
    return lost(journal)


def test_what_one_member_does_not_take_may_be_missed_while_it_runs_and_shortly_after() -> None:
    assert a_message_missed(50, filtering=(10, 100)) == 0
    assert a_message_missed(279, filtering=(10, 100)) == 0  # brokers may still list the member
    assert a_message_missed(50, filtering=(10, 100), topic="invoices") == 1
    assert a_message_missed(5, filtering=(10, 100)) == 1
    assert a_message_missed(281, filtering=(10, 100)) == 1


def test_what_a_member_that_left_long_ago_did_not_take_is_not_left_behind_for_ever() -> None:
    def left(stopped_s: float) -> AJournal:
        journal = AJournal().runs().store().consumer(ONE).consumer(TWO, expressions=("TagA",))
        journal.pulled(0, 0).sent(0, tags="TagB").at_s(stopped_s).stopped(TWO)
        return journal.at_s(400).ends()

    assert objections(left(300).judged(), "liveness") == []
    assert len(objections(left(10).judged(), "liveness")) == 1


# Broadcasting members that start again ------------------------------------------------------


def a_broadcaster(plan: str = "{}", **times_s: float) -> AJournal:
    """A member is given 0, 1 and 2, consumes 0 and 2, is killed, and restarts after 3 came."""
    given_s, killed_s = times_s.get("given_s", 10), times_s.get("killed_s", 20)
    journal = AJournal().runs(plan).store().consumer(ONE, broadcast=True)
    journal.claimed(ONE, Q0, offsets=(0,)).each(range(3), journal.sent).at_s(given_s)
    journal.each(range(3), lambda offset: journal.given(ONE, offset))
    journal.consumed(ONE, 0).consumed(ONE, 2)
    journal.at_s(killed_s).fault("kill", ONE).sent(3).at_s(killed_s + 5)
    journal.consumer(ONE, broadcast=True).healed()
    return journal


def and_goes_on(journal: AJournal, at: int = 4) -> AJournal:
    journal.claimed(ONE, Q0, offsets=(at,))
    return journal.sent(4).given(ONE, 4).consumed(ONE, 4)


def test_a_broadcaster_without_a_folder_misses_what_came_while_it_was_away() -> None:
    journal = and_goes_on(a_broadcaster())
    assert lost(journal) == 0
    assert metric(journal, "excused_began_anew.billing") == 2  # 1 unfinished, 3 never given
    assert metric(and_goes_on(a_broadcaster(FOLDER)), "lost.billing") == 2


def test_what_a_broadcaster_was_given_long_before_it_was_killed_is_not_explained_by_that() -> None:
    assert metric(and_goes_on(a_broadcaster(killed_s=69)), "lost.billing") == 0
    assert metric(and_goes_on(a_broadcaster(killed_s=71)), "lost.billing") == 1


def test_what_a_broadcaster_passed_over_long_before_it_was_killed_is_lost() -> None:
    def passed_over(killed_s: float) -> float:
        journal = AJournal().runs().store().consumer(ONE, broadcast=True)
        journal.claimed(ONE, Q0, offsets=(0,)).each(range(3), journal.sent)
        journal.given(ONE, 0).consumed(ONE, 0).given(ONE, 2).consumed(ONE, 2)
        journal.at_s(killed_s).fault("kill", ONE).consumer(ONE, broadcast=True)
        journal.claimed(ONE, Q0, offsets=(3,))
        return metric(journal, "lost.billing")

    assert passed_over(59) == 0
    assert passed_over(61) == 1


def test_a_broadcaster_does_not_miss_what_comes_after_its_claim_nor_in_other_queues() -> None:
    journal = and_goes_on(a_broadcaster(), at=9)  # 9 is beyond the end: 4 is given, and 5 is owed
    assert metric(journal.sent(5).sent(6).consumed(ONE, 6), "lost.billing") == 1
    other = a_broadcaster().claimed(ONE, Q1, offsets=(0,)).sent(0, Q1).sent(1, Q1)
    assert metric(and_goes_on(other.consumed(ONE, 1, Q1)), "lost.billing") == 1


def test_another_broadcaster_of_the_group_is_owed_everything() -> None:
    journal = AJournal().runs().store().consumer(TWO, broadcast=True)
    journal.claimed(TWO, Q0, offsets=(0,)).consumer(ONE, broadcast=True).claimed(ONE, Q0)
    journal.sent(0).fault("kill", ONE).sent(1).consumer(ONE, broadcast=True).claimed(ONE, Q0)
    assert metric(journal.sent(2).consumed(ONE, 2).consumed(TWO, 2), "lost.billing") == 2


def test_a_file_that_was_written_without_a_queue_has_no_offset_of_it_whatever_came_then() -> None:
    def given_up(held_s: float, release: str = "4.9.7") -> float:
        """Of two queues Q0 is released at 24 s, and Q1 *held_s* later."""
        journal = AJournal().runs().store().consumer(ONE, broadcast=True, release=release)
        journal.claimed(ONE, Q0, Q1, offsets=(0, 0)).sent(0).given(ONE, 0).consumed(ONE, 0)
        journal.at_s(24).released(ONE, Q0).sent(1).at_s(24 + held_s)
        journal.released(ONE, Q1, reason="reset").at_s(60).claimed(ONE, Q0, Q1, offsets=(2, 0))
        return metric(journal.sent(2).given(ONE, 2).consumed(ONE, 2), "lost.billing")

    assert given_up(held_s=2) == 0
    assert given_up(held_s=0.9) == 1
    assert given_up(held_s=2, release="4.9.8") == 1


# Groups that begin --------------------------------------------------------------------------


def begins(
    *, claimed_s: float = 1.1, at: int = 2, release: str = "5.3.3", committed: int | None = None
) -> AJournal:
    """Two messages are stored in an empty queue at 1 s; a new group continues at *at*."""
    journal = AJournal().runs(release=release).store().consumer(ONE, release=release)
    journal.claimed(ONE, Q0, offsets=(0,)).at_s(0.5).released(ONE, Q0)
    if committed is not None:
        journal.committed(committed)
    journal.at_s(1).sent(0).sent(1).at_s(claimed_s).claimed(ONE, Q0, offsets=(at,))
    return journal.sent(2).given(ONE, 2).consumed(ONE, 2).committed(3)


def test_a_new_group_goes_on_from_where_a_queue_ends_that_was_empty_when_it_asked() -> None:
    assert lost(begins()) == 0
    assert metric(begins(), "excused_began_at_end.billing") == 2
    assert lost(begins(at=0)) == 0  # a lite pull member asks once more when it pulls
    assert metric(begins(at=0), "excused_began_at_end.billing") == 2


def first_polls_2(kind: str = "lite_pull", release: str = "5.3.3", stored_s: float = 1) -> float:
    """The queue is claimed empty at 0.5 s; of three messages the first poll returns the third."""
    journal = AJournal().runs(release=release).store()
    journal.consumer(ONE, release=release, consumer_kind=kind)
    journal.at_s(0.5).claimed(ONE, Q0, offsets=(0,)).at_s(stored_s).sent(0).sent(1).sent(2)
    journal.note(ONE, MessagePolled("billing", Q0, 2, "0-2")).committed(3)
    return metric(journal, "lost.billing")


def test_a_lite_pull_member_asks_where_it_begins_just_before_its_first_pull() -> None:
    assert (first_polls_2(), first_polls_2(stored_s=3.4)) == (0, 0)
    assert first_polls_2(stored_s=3.6) == 2
    assert first_polls_2(release="5.0.0") == 2
    assert first_polls_2(kind="push") == 2


def test_a_group_misses_nothing_by_that_later_nor_with_an_offset_nor_before_5_1_0() -> None:
    assert metric(begins(claimed_s=10), "lost.billing") == 2
    assert metric(begins(committed=0), "lost.billing") == 2
    assert lost(begins(release="5.1.0")) == 0
    assert metric(begins(release="5.0.0"), "lost.billing") == 2


@pytest.mark.parametrize(("release", "came_s", "expected"), [("4.9.7", 9, 2), ("5.3.3", 9, 0)])
def test_a_new_group_begins_with_the_first_message_of_a_queue_that_has_it(
    release, came_s, expected
) -> None:
    journal = AJournal().runs(release=release).store().at_s(came_s).sent(0).sent(1).at_s(10)
    journal.consumer(ONE, release=release).claimed(ONE, Q0, offsets=(2,))
    journal.sent(2).given(ONE, 2).consumed(ONE, 2).committed(3)
    assert metric(journal, "lost.billing") == expected


def test_what_a_member_passed_over_after_it_was_given_something_is_lost() -> None:
    journal = AJournal().runs(release="5.3.3").store().consumer(ONE, release="5.3.3")
    journal.sent(0).claimed(ONE, Q0, offsets=(0,)).given(ONE, 0).consumed(ONE, 0)
    journal.sent(1).sent(2).given(ONE, 2).consumed(ONE, 2).committed(3)
    assert metric(journal, "lost.billing") == 1


# Logs that lose messages ----------------------------------------------------------------------


def without_power(*, sync: bool, broker: str = "broker-a", flushed: int = 1) -> AJournal:
    """Of two messages *flushed* were flushed when *broker* lost its power; one was kept."""
    journal = AJournal().runs().store(sync=sync).store("broker-b", sync=sync).consumer(ONE)
    journal.pulled(0, 0).sent(0).sent(1).sent(0, Q_OF_B)
    end = flushed * RECORD_BYTES
    journal.note("broker-a", LogFlushed(end, end, flushed))
    return journal.note(broker, PowerLost(end, RECORD_BYTES, 2 * RECORD_BYTES, ()))


def test_a_loss_of_power_takes_what_was_not_flushed_at_that_broker() -> None:
    inside = without_power(sync=False)
    assert lost(inside) == 0
    assert metric(inside, "lost_with_power") == 1
    assert lost(without_power(sync=True)) == 1
    elsewhere = without_power(sync=False, broker="broker-b").committed(2)
    assert metric(elsewhere, "lost.billing") == 2


def test_what_is_lost_in_a_kill_after_the_loss_of_power_is_not_explained_by_it() -> None:
    journal = without_power(sync=False).note("broker-a", LogRecovered(RECORD_BYTES, 0, 100))
    journal.store().sent(1, key="new")
    assert lost(journal.note("broker-a", LogRecovered(RECORD_BYTES, 0, 100))) == 1


def a_restart_of_a_memory_store(broker: str) -> AJournal:
    journal = AJournal().runs().consumer(ONE)
    in_memory = StoreOpened("ASYNC_FLUSH", outlives_process=False, retained_hours_max=72)
    journal.note("broker-a", in_memory).note("broker-b", in_memory)
    journal.pulled(0, 0).sent(0).sent(1).sent(2)
    return journal.note(broker, in_memory)


def test_a_store_in_memory_ends_with_its_process_and_promises_what_comes_then() -> None:
    inside = a_restart_of_a_memory_store("broker-a")
    assert lost(inside) == 0
    assert metric(inside, "excused_lost_with_memory.billing") == 3
    assert metric(a_restart_of_a_memory_store("broker-b").committed(3), "lost.billing") == 3
    after = a_restart_of_a_memory_store("broker-a").sent(0, key="x").sent(1, key="y")
    assert metric(after.consumed(ONE, 1, key="y").committed(2), "lost.billing") == 1


def a_place_used_again() -> AJournal:
    """The group was at 3 when the log was cut back to 1; no member has the two new messages."""
    journal = AJournal().runs().store().consumer(ONE).claimed(ONE, Q0, offsets=(0,))
    journal.each(range(3), journal.sent).pulled(0, 3)
    journal.each(range(3), lambda offset: journal.consumed(ONE, offset)).committed(3)
    journal.note("broker-a", PowerLost(100, 100, 300, ())).store()
    return journal.sent(1, key="new-1").sent(2, key="new-2")


def found_early(journal: AJournal) -> float:
    return metric(journal, "early_commits.billing")


def test_places_are_hidden_from_a_reader_that_was_beyond_until_it_comes_back() -> None:
    beyond = a_place_used_again().sent(3).consumed(ONE, 3).committed(4)
    assert (lost(beyond), metric(beyond, "hidden.billing")) == (0, 2)
    behind = a_place_used_again().sent(3).sent(4).consumed(ONE, 4).committed(5)
    assert (lost(behind), metric(behind, "lost.billing")) == (1, 1)
    repaired = a_place_used_again().note(ONE, OffsetRepaired("billing", Q0, 3, 1))
    assert found_early(repaired.committed(3)) == 0  # until it claims the queue again
    repaired.released(ONE, Q0, reason="reset").claimed(ONE, Q0, offsets=(1,))
    repaired.consumed(ONE, 2, key="new-2").committed(3)
    assert found_early(repaired) == 1
    assert (lost(repaired), metric(repaired, "hidden.billing")) == (1, 0)
    anew = a_place_used_again().released(ONE, Q0).consumer(TWO)
    anew.claimed(TWO, Q0, offsets=(1,)).consumed(TWO, 2, key="new-2").committed(3)
    assert (lost(anew), metric(anew, "hidden.billing")) == (1, 0)


def test_a_consumed_journal_needs_no_excuse() -> None:
    metrics = a_consumed_journal().at_s(500).ends().judged().metrics
    assert [name for name in metrics if name.startswith("excused") and metrics[name]] == []

"""A promised message must not be lost; one that was not promised is not reported as lost."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import (
    DelayedMessageDropped,
    Fact,
    GroupOffsetMoved,
    LogFlushed,
    MessagePolled,
    OffsetRepaired,
    OldestDropped,
    PowerLost,
    Queue,
    SeekRequested,
)
from tests.support.checks.small_journals import (
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_consumed_journal,
    objections,
)

RETRY = Queue("%RETRY%billing", "broker-a", 0)
WAITING = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)


def a_started_journal(**consumer: object) -> AJournal:
    return AJournal().runs().store().consumer("billing-1", **consumer)


def lost(journal: AJournal) -> list[str]:
    return objections(journal.judged(), "lost")


def test_all_consumed_is_nothing_lost() -> None:
    judgement = a_consumed_journal().judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["lost"] == judgement.metrics["lost.billing"] == 0
    assert judgement.metrics["backlog"] == 0


def test_a_message_that_the_committed_offset_passed_and_nobody_consumed_is_lost() -> None:
    journal = a_started_journal()
    for offset in range(6):
        journal.sent(offset)
    journal.pulled(0, 6)
    for offset in (0, 1, 4, 5):
        journal.consumed("billing-1", offset)
    judgement = journal.committed(6).judged()
    assert objections(judgement, "lost") == [
        (
            "billing never consumed offset 2, 3 of orders@broker-a:0 (0-2), which were "
            "acknowledged, and continues at 6"
        )
    ]
    assert judgement.metrics["lost.billing"] == 2


def test_what_the_offset_has_not_passed_is_backlog_and_not_lost() -> None:
    journal = a_started_journal().sent(0).sent(1).sent(2).sent(0, Q1)
    judgement = journal.pulled(0, 3).consumed("billing-1", 0).committed(1).judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["backlog.billing"] == 3


def test_a_group_owes_nothing_from_before_it_began() -> None:
    journal = a_started_journal().sent(0).sent(1).pulled(2, 0).sent(2).consumed("billing-1", 2)
    assert lost(journal.committed(3)) == []


def test_a_failed_message_waits_for_its_retry_and_is_not_lost() -> None:
    journal = a_started_journal().sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False)
    assert lost(journal.stored(0, WAITING, key="k").committed(1)) == []
    journal.stored(0, RETRY, key="k").pulled(0, 1, RETRY)
    journal.consumed("billing-1", 0, RETRY, key="k", times=1)
    assert lost(journal.committed(1, RETRY)) == []


def test_a_failed_message_that_is_stored_nowhere_is_lost() -> None:
    journal = a_started_journal().sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False).committed(1)
    assert len(lost(journal)) == 1


def test_a_retry_that_nobody_consumed_is_lost() -> None:
    journal = a_started_journal().sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False).committed(1)
    journal.stored(0, WAITING, key="k").stored(0, RETRY, key="k")
    assert len(lost(journal.pulled(0, 1, RETRY).committed(1, RETRY))) == 1


def test_a_dead_letter_is_not_lost() -> None:
    journal = a_started_journal().sent(0, key="k").pulled(0, 1)
    journal.consumed("billing-1", 0, key="k", ok=False).committed(1)
    assert lost(journal.stored(0, Queue("%DLQ%billing", "broker-a", 0), key="k")) == []


def test_a_tool_that_moves_the_group_loses_nothing() -> None:
    journal = a_started_journal()
    for offset in range(5):
        journal.sent(offset)
    journal.pulled(0, 5).consumed("billing-1", 0)
    journal.note("broker-a", GroupOffsetMoved("billing", Q0, 4, "broker", "10.0.0.8:1"))
    judgement = journal.consumed("billing-1", 4).committed(5).judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["excused.billing"] == 3


def test_what_the_log_no_longer_has_is_not_owed() -> None:
    def passed(*facts: Fact) -> AJournal:
        journal = a_started_journal().sent(0).sent(1).pulled(0, 0)
        for fact in facts:
            journal.note("broker-a", fact)
        journal.note("billing-1", OffsetRepaired("billing", Q0, 0, 1))
        return journal.consumed("billing-1", 1).committed(2)

    dropped = passed(OldestDropped(RECORD_BYTES, RECORD_BYTES))
    assert lost(dropped) == []
    assert dropped.judged().metrics["excused_not_in_log.billing"] == 1
    assert len(lost(passed())) == 1  # the broker still has it


def test_a_group_with_tags_passes_over_what_it_does_not_want() -> None:
    def tagged(*tags: str) -> AJournal:
        journal = a_started_journal(expressions=("TagA || TagB",))
        for offset, each in enumerate(tags):
            journal.sent(offset, tags=each)
        return journal.pulled(0, 2).consumed("billing-1", 1).committed(2)

    judgement = tagged("TagC", "TagB").judged()
    assert objections(judgement, "lost") == objections(judgement, "commits") == []
    assert judgement.metrics["filtered.billing"] == 1
    assert len(lost(tagged("TagA", "TagB"))) == 1


def test_what_only_some_members_want_may_be_passed_over_by_the_others() -> None:
    journal = a_started_journal(expressions=("TagA",)).consumer("billing-2", expressions=("TagB",))
    journal.sent(0, tags="TagA").sent(1, tags="TagB").sent(2, tags="TagC").pulled(0, 3)
    judgement = journal.consumed("billing-2", 1).committed(3).judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["excused_inconsistent.billing"] == 1
    assert judgement.metrics["filtered.billing"] == 2


def test_an_sql92_expression_over_tags_is_judged_as_tags_are() -> None:
    def filtered(expression: str, *given: int) -> AJournal:
        journal = a_started_journal(expressions=(f"SQL92: {expression}",))
        journal.sent(0, tags="TagC").sent(1, tags="TagB").pulled(0, 2)
        for offset in given:
            journal.consumed("billing-1", offset)
        return journal.committed(2)

    judgement = filtered("TAGS IN ('TagA', 'TagB')", 1).judged()
    assert objections(judgement, "lost") == objections(judgement, "filters") == []
    assert judgement.metrics["filtered.billing"] == 1
    assert len(lost(filtered("TAGS <> 'TagC'"))) == 1
    assert len(objections(filtered("TAGS = 'TagB'", 0, 1).judged(), "filters")) == 1


def test_what_depends_on_other_properties_than_tags_is_not_judged() -> None:
    for given in ((), (0,), (0, 1)):
        journal = a_started_journal(expressions=("SQL92: price > 5 OR TAGS = 'TagZ'",))
        journal.sent(0, tags="TagA").sent(1, tags="TagB").pulled(0, 2)
        for offset in given:
            journal.consumed("billing-1", offset)
        judgement = journal.committed(2).judged()
        assert objections(judgement, "lost") == objections(judgement, "filters") == []


def test_a_member_that_is_given_what_it_does_not_subscribe_is_objected_to() -> None:
    journal = a_started_journal(expressions=("TagA",)).sent(0, tags="TagB").pulled(0, 1)
    judgement = journal.consumed("billing-1", 0).committed(1).judged()
    assert objections(judgement, "filters") == [
        (
            "billing-1 was given offset 0 of orders@broker-a:0 with the tags 'TagB', which it "
            "does not subscribe"
        )
    ]
    assert objections(judgement, "duplicates") == []


def a_journal_with_power_lost(*, sync: bool, status: str = "SEND_OK") -> AJournal:
    journal = AJournal().runs().store(sync=sync).consumer("billing-1").pulled(0, 0)
    journal.sent(0).note("broker-a", LogFlushed(RECORD_BYTES, RECORD_BYTES, 1))
    journal.sent(1, status=status)
    end = 2 * RECORD_BYTES
    journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, end, ()))
    return journal.store(sync=sync)


def test_what_was_not_flushed_may_go_with_the_power() -> None:
    judgement = a_journal_with_power_lost(sync=False).judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["lost_with_power"] == 1


def another_in_the_place_of_a_lost_message() -> AJournal:
    """A member had pulled the lost message at offset 1, and consumes it after the loss."""
    journal = a_journal_with_power_lost(sync=False).pulled(1, 0)
    journal.claimed("billing-1", Q0).consumed("billing-1", 0).consumed("billing-1", 1)
    journal.note("billing-1", OffsetRepaired("billing", Q0, 2, 1))
    return journal.sent(1, key="another").committed(1)


def test_a_lost_message_that_is_consumed_late_is_not_the_next_one_at_its_offset() -> None:
    judgement = (
        another_in_the_place_of_a_lost_message().consumed("billing-1", 1, key="another").judged()
    )
    assert judgement.metrics["duplicates"] == 0
    assert objections(judgement, "lost") == []


def test_a_lost_message_that_is_consumed_twice_is_a_duplicate() -> None:
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 1)
    journal.sent(0).consumed("billing-1", 0).note("broker-a", PowerLost(0, 0, RECORD_BYTES, ()))
    assert journal.consumed("billing-1", 0).judged().metrics["duplicates"] == 1


def test_the_next_message_at_the_offset_of_a_lost_one_is_missed_though_that_was_consumed() -> None:
    journal = another_in_the_place_of_a_lost_message().at_s(200).committed(2).at_s(400).ends()
    assert "offset 1" in str(lost(journal))


def test_what_was_acknowledged_as_flushed_may_not() -> None:
    assert lost(a_journal_with_power_lost(sync=True)) == [
        (
            "broker-a acknowledged offset 1 of orders@broker-a:0 (1 messages) and does not have "
            "them after a restart"
        )
    ]
    assert lost(a_journal_with_power_lost(sync=True, status="FLUSH_DISK_TIMEOUT")) == []


@pytest.mark.parametrize(("status", "losses"), [("SEND_OK", 1), ("FLUSH_DISK_TIMEOUT", 0)])
def test_the_status_of_a_delayed_message_is_that_of_its_waiting_copy(status, losses) -> None:
    """Its acknowledgement names the queue of the send, and the offset of the copy."""
    waiting = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2)
    journal = AJournal().runs().store(sync=True).stored(0, waiting, key="late")
    journal.acknowledged(0, key="late", status=status)
    journal.note("broker-a", PowerLost(0, 0, RECORD_BYTES, ()))
    assert len(lost(journal)) == losses


def test_it_is_shown_by_its_life_and_what_cut_it_off() -> None:
    journal = a_journal_with_power_lost(sync=True)
    (violation,) = [each for each in journal.judged().violations if each.checker == "lost"]
    facts = {
        (entry.mono_us, entry.node, entry.seq): type(entry.fact).__name__
        for entry in journal.entries
    }
    cited = [(key.node, facts[key.mono_us, key.node, key.seq]) for key in violation.entries]
    assert cited == [
        ("broker-a", "MessageStored"),
        ("producer", "MessageSent"),
        ("broker-a", "PowerLost"),
        ("broker-a", "StoreOpened"),
    ]


def test_a_place_that_is_used_again_is_another_message() -> None:
    journal = a_journal_with_power_lost(sync=False).sent(1, key="new").pulled(0, 2)
    journal.consumed("billing-1", 0).committed(2)
    assert len(lost(journal)) == 1
    journal = a_journal_with_power_lost(sync=False).sent(1, key="new").pulled(0, 2)
    journal.consumed("billing-1", 0).consumed("billing-1", 1, key="new").committed(2)
    assert lost(journal) == []


def test_what_takes_a_place_that_the_group_was_beyond_is_hidden_not_lost() -> None:
    journal = AJournal().runs().store(sync=False).consumer("billing-1").pulled(0, 0)
    journal.sent(0).note("broker-a", LogFlushed(RECORD_BYTES, RECORD_BYTES, 1))
    for offset in (1, 2):
        journal.sent(offset)
    journal.pulled(0, 3).each(range(3), lambda offset: journal.consumed("billing-1", offset))
    journal.committed(3)
    end = 3 * RECORD_BYTES
    journal.note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, end, ())).store(sync=False)
    for offset in (1, 2, 3, 4):
        journal.sent(offset, key=f"new-{offset}")
    journal.pulled(3, 2).consumed("billing-1", 3, key="new-3")
    judgement = journal.consumed("billing-1", 4, key="new-4").committed(5).judged()
    assert objections(judgement, "lost") == objections(judgement, "commits") == []
    assert (judgement.metrics["hidden.billing"], judgement.metrics["lost"]) == (2, 0)


def test_behind_the_hidden_places_everything_is_owed() -> None:
    journal = AJournal().runs().store(sync=False).consumer("billing-1").pulled(0, 0)
    journal.sent(0).sent(1).pulled(0, 2).consumed("billing-1", 0).consumed("billing-1", 1)
    journal.note("broker-a", PowerLost(0, 0, 2 * RECORD_BYTES, ())).store(sync=False)
    for offset in (0, 1, 2, 3):
        journal.sent(offset, key=f"new-{offset}")
    journal.pulled(2, 2).consumed("billing-1", 3, key="new-3").committed(4)
    judgement = journal.judged()
    assert len(objections(judgement, "lost")) == 1
    assert len(objections(judgement, "commits")) == 1
    assert judgement.metrics["lost"] == 1


def test_a_delayed_message_that_a_broker_gave_up_is_lost() -> None:
    fact = DelayedMessageDropped(Q0, 3, "the disk is full", "k")
    assert len(lost(a_consumed_journal().note("broker-a", fact))) == 1


def test_each_member_of_a_broadcasting_group_owes_every_message() -> None:
    journal = a_started_journal(broadcast=True).consumer("billing-2", broadcast=True)
    for offset in range(3):
        journal.sent(offset)
        journal.consumed("billing-1", offset, ok=offset != 1)  # broadcasting drops failures
    assert lost(journal.consumed("billing-2", 0).consumed("billing-2", 1)) == []
    assert len(lost(journal.consumed("billing-2", 3))) == 1


def a_broadcasting_member(plan: str = "{}") -> AJournal:
    journal = AJournal().runs(plan).store().consumer("billing-1", broadcast=True)
    return journal.claimed("billing-1", Q0).sent(0).consumed("billing-1", 0)


def test_a_broadcasting_member_that_starts_again_begins_at_the_end() -> None:
    def missed(plan: str, killed_s: float = 16) -> AJournal:
        journal = a_broadcasting_member(plan).at_s(killed_s).fault("kill", "billing-1").sent(1)
        journal.consumer("billing-1", broadcast=True).claimed("billing-1", Q0)
        return journal.sent(2).consumed("billing-1", 2)

    folder = '{"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]}'
    assert lost(missed("{}")) == []
    assert missed("{}").judged().metrics["excused.billing"] == 1
    assert len(lost(missed(folder))) == 1
    assert lost(missed(folder, killed_s=9)) == []  # the file is written after 10 s
    same_process = a_broadcasting_member().sent(1).claimed("billing-1", Q0)
    assert len(lost(same_process.sent(2).consumed("billing-1", 2))) == 1


def a_queue_given_up(
    for_s: float = 2.0, *, release: str = "4.9.7", kind: str = "push", beside: Queue | None = Q1
) -> AJournal:
    journal = AJournal().runs().store()
    journal.consumer("billing-1", broadcast=True, release=release, consumer_kind=kind)
    journal.claimed("billing-1", Q0, *([beside] if beside else []))
    journal.sent(0).consumed("billing-1", 0)
    journal.at_s(14).released("billing-1", Q0).sent(1)
    journal.at_s(14 + for_s).claimed("billing-1", Q0)
    return journal.sent(2).consumed("billing-1", 2)


def a_queue_missing_after_a_restart(for_s: float, *, release: str = "4.9.7") -> AJournal:
    folder = '{"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]}'
    journal = a_broadcasting_member(folder).at_s(20).fault("kill", "billing-1").sent(1).at_s(30)
    journal.consumer("billing-1", broadcast=True, release=release).claimed("billing-1", Q1)
    journal.at_s(30 + for_s).claimed("billing-1", Q0)
    return journal.sent(2).consumed("billing-1", 2)


def test_its_file_also_forgets_a_queue_that_a_new_process_began_without() -> None:
    assert lost(a_queue_missing_after_a_restart(11)) == []
    assert len(lost(a_queue_missing_after_a_restart(9))) == 1
    assert len(lost(a_queue_missing_after_a_restart(11, release="5.3.3"))) == 1


def test_a_broadcasting_member_begins_at_the_end_of_a_queue_that_its_file_forgot() -> None:
    """Before 4.9.8 and 5.2.0 its file has only the queues that it held at the last write."""
    assert lost(a_queue_given_up()) == []
    assert a_queue_given_up().judged().metrics["excused.billing"] == 1
    for kept in (
        a_queue_given_up(0.9),  # the file is written at 10, 15, 20 s …
        a_queue_given_up(beside=None),  # no other queue to write
        a_queue_given_up(release="4.9.8"),
        a_queue_given_up(release="5.3.3"),
        a_queue_given_up(kind="lite_pull"),  # its offset is still in memory
    ):
        assert len(lost(kept)) == 1


def test_what_a_broadcasting_member_was_beyond_is_hidden_and_no_backlog() -> None:
    journal = a_broadcasting_member().sent(1).sent(2)
    journal.consumed("billing-1", 1).consumed("billing-1", 2)
    journal.note("broker-a", PowerLost(0, 0, 3 * RECORD_BYTES, ())).store()
    metrics = journal.sent(0, key="new-0").sent(1, key="new-1").judged().metrics
    assert (metrics["hidden.billing"], metrics["backlog.billing"]) == (2, 0)


def a_broadcasting_member_that_finishes_lost_messages(plan: str = "{}") -> AJournal:
    """It is paused with messages 1 and 2, whose broker loses them and stores two new ones."""
    journal = a_broadcasting_member(plan).note(
        "broker-a", LogFlushed(RECORD_BYTES, RECORD_BYTES, 1)
    )
    end = 3 * RECORD_BYTES
    journal.sent(1).sent(2).note("broker-a", PowerLost(RECORD_BYTES, RECORD_BYTES, end, ()))
    journal.store().sent(1, key="new-1").sent(2, key="new-2")
    return journal.at_s(20).consumed("billing-1", 1).consumed("billing-1", 2)


def test_a_broadcasting_member_that_finishes_lost_messages_goes_on_behind_them() -> None:
    journal = a_broadcasting_member_that_finishes_lost_messages().sent(3)
    judgement = journal.consumed("billing-1", 3).judged()
    assert objections(judgement, "lost") == []
    assert judgement.metrics["hidden.billing"] == 2


def test_a_broadcasting_member_owes_what_follows_lost_messages() -> None:
    journal = a_broadcasting_member_that_finishes_lost_messages().sent(3).sent(4)
    assert "offset 3 of" in str(lost(journal.consumed("billing-1", 4)))


def test_a_broadcasting_member_owes_new_messages_after_it_goes_back_to_them() -> None:
    folder = '{"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]}'
    again = a_broadcasting_member_that_finishes_lost_messages(folder)
    again.fault("kill", "billing-1").consumer("billing-1", broadcast=True)
    again.claimed("billing-1", Q0, offsets=(1,)).consumed("billing-1", 2, key="new-2")
    repaired = a_broadcasting_member_that_finishes_lost_messages()
    repaired.note("billing-1", OffsetRepaired("billing", Q0, 3, 1))
    repaired.consumed("billing-1", 2, key="new-2")
    for journal in (again, repaired):
        assert "offset 1 of" in str(lost(journal))


def a_broadcasting_member_killed_after_its_repair(lives_s: float) -> AJournal:
    """It goes back to the two new messages, is killed, and its file still has the old offset."""
    folder = '{"consumers": [{"group": "billing", "settings": {"offset_folder": "x"}}]}'
    killed = a_broadcasting_member_that_finishes_lost_messages(folder)
    killed.note("billing-1", OffsetRepaired("billing", Q0, 3, 1))
    killed.at_s(20 + lives_s).fault("kill", "billing-1").consumer("billing-1", broadcast=True)
    return killed.claimed("billing-1", Q0, offsets=(3,)).sent(3).consumed("billing-1", 3)


def test_a_repair_that_a_killed_broadcasting_member_did_not_write_hides_new_messages() -> None:
    killed = a_broadcasting_member_killed_after_its_repair(3)
    assert lost(killed) == []
    assert killed.judged().metrics["hidden.billing"] == 2
    # The file is written every 5 s: 20 s later it has the repaired offset.
    assert "offset 1, 2 of" in str(lost(a_broadcasting_member_killed_after_its_repair(20)))


def test_a_lite_pull_consumer_is_judged_by_what_it_polled() -> None:
    journal = a_started_journal(consumer_kind="lite_pull").sent(0).sent(1).pulled(0, 2)
    assert "MessagePolled is enabled" in journal.judged().not_judged["lost"]
    journal.note("billing-1", MessagePolled("billing", Q0, 0, "0-0")).committed(1)
    assert lost(journal) == []
    assert len(lost(journal.committed(2))) == 1
    journal = a_started_journal(consumer_kind="lite_pull").sent(0).sent(1).pulled(0, 2)
    journal.note("billing-1", SeekRequested("billing", Q0, 1))
    journal.note("billing-1", MessagePolled("billing", Q0, 1, "0-1"))
    assert lost(journal.committed(2)) == []


def test_without_consumers_facts_nothing_is_judged() -> None:
    judgement = AJournal().runs().store().sent(0).judged()
    assert "no group is known" in judgement.not_judged["lost"]
    assert "lost" not in judgement.metrics

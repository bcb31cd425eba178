"""Messages around an election: what the elected slave lacks, and what the old master stores yet.

broker-a is the master; its slave broker-a-1 has the beginning of its log, and is elected at 200 s.
"""

from __future__ import annotations

import json
from typing import Any, Self

import pytest

from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerRoleChanged,
    DelayedDelivered,
    EpochBegun,
    EpochsCompared,
    HalfMessageStored,
    LogCopied,
    LogFlushed,
    LogRecovered,
    LogTruncated,
    MasterConnected,
    MasterDisconnected,
    MessageStored,
    MetadataSynced,
    NodeStarted,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    Queue,
    RunEnded,
    SlaveConnected,
    StoreOpened,
    SyncStateSetChanged,
    TopicChanged,
    TopicCreated,
    TransactionAnswered,
    TransactionChecked,
    TransactionEnded,
)
from rocketmq_emulator.facts.replication import NO_COMMON_EPOCH
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    Q1,
    RECORD_BYTES,
    AJournal,
    a_member,
    client_of,
    objections,
)

MASTER, SLAVE, MEMBER = "broker-a", "broker-a-1", "billing-1"
RELEASE = "5.3.3"
AFTER_10_S = Queue("SCHEDULE_TOPIC_XXXX", MASTER, 2)
NEW = Queue("orders", MASTER, 2)
HALF = Queue("RMQ_SYS_TRANS_HALF_TOPIC", MASTER, 0)
DEAD = Queue("%DLQ%billing", MASTER, 0)
TIMES_OUT = "FLUSH_SLAVE_TIMEOUT"


class AnElection(AJournal):
    """A master and a slave with a controller; of their facts only what the tests need."""

    def begins(self) -> Self:
        self.runs(release=RELEASE)
        for number, node in enumerate((MASTER, SLAVE)):
            self.note(node, NodeStarted("broker", f"10.0.0.{number}:10911", RELEASE))
            self.note(
                node, StoreOpened("ASYNC_FLUSH", outlives_process=True, retained_hours_max=72)
            )
            self.takes_role(node, "slave" if number else "master", 1)
        return self.note(MASTER, SlaveConnected("10.0.0.1:1", 0, 0))

    def takes_role(self, node: str, role: str, epoch: int) -> Self:
        return self.note(node, BrokerRoleChanged(role, 1, "10.0.0.0:10911", epoch))

    def copied(self, count: int) -> Self:
        """The slave has the first *count* records."""
        size = count * RECORD_BYTES
        return self.note(SLAVE, LogCopied(size, size, count))

    def synced(self, table: str = "delay offsets") -> Self:
        """The slave has copied *table*."""
        return self.note(SLAVE, MetadataSynced("10.0.0.0:10911", table))

    def elects(self) -> Self:
        return self.at_s(200).takes_role(SLAVE, "master", 2)

    def stored_by(self, node: str, offset: int, queue: Queue, key: str, at: int) -> Self:
        """*node* stores its record number *at*."""
        stored = MessageStored(queue, offset, at * RECORD_BYTES, key, RECORD_BYTES)
        return self.note(node, stored)


def an_election() -> AnElection:
    return AnElection().begins()


def found(journal: AJournal, checker: str) -> list[str]:
    return objections(journal.judged(), checker)


# What the elected slave does not know ---------------------------------------------------------


def delivered_again(*, synced_s: float) -> list[str]:
    """A delayed message comes at 100 s and, from the elected slave, at 210 s.

    The slave copies the progress at *synced_s*, and no more.
    """
    journal = an_election().at_s(90).stored(0, AFTER_10_S, key="k")
    if synced_s < 100:
        journal.at_s(synced_s).synced()
    journal.at_s(100).delivered(0, Q1, 3, "k").copied(2)
    if synced_s > 100:
        journal.at_s(synced_s).synced()
    journal.elects().at_s(210).stored_by(SLAVE, 1, Q1, "k", 2)
    return found(journal.note(SLAVE, DelayedDelivered(Q1, 3, 0)), "places")


def test_an_elected_slave_delivers_again_what_came_after_its_last_copy_of_the_progress() -> None:
    assert delivered_again(synced_s=95) == []
    assert delivered_again(synced_s=102) == []  # its master may have answered 3 s before
    assert len(delivered_again(synced_s=104)) == 1


def delivered_again_after_a_restart(*, synced_s: float = 0) -> list[str]:
    """As ``delivered_again``; the slave copies at 110 s, and the master starts again at 150 s."""
    journal = an_election().at_s(90).stored(0, AFTER_10_S, key="k").at_s(95).synced()
    journal.at_s(100).delivered(0, Q1, 3, "k").copied(2).at_s(110).synced().at_s(150)
    journal.note(MASTER, LogRecovered(2, 0, 2 * RECORD_BYTES))
    journal.note(MASTER, StoreOpened("ASYNC_FLUSH", outlives_process=True, retained_hours_max=72))
    if synced_s:
        journal.at_s(synced_s).synced()
    journal.elects().at_s(210).stored_by(SLAVE, 1, Q1, "k", 2)
    return found(journal.note(SLAVE, DelayedDelivered(Q1, 3, 0)), "places")


def test_a_restarted_master_gives_its_slaves_the_progress_of_before_its_end() -> None:
    """Its file of delay offsets is up to 25 s old: later deliveries are repeated."""
    assert delivered_again_after_a_restart(synced_s=152) == []
    assert len(delivered_again_after_a_restart()) == 1  # not copied since then
    assert len(delivered_again_after_a_restart(synced_s=176)) == 1  # it has gone on since then


def consumed_again(*, synced_s: float, at: str = MASTER) -> list[str]:
    """Offset 1 is committed at *at* at 80 s; a member begins at 0 long after the election.

    The slave copies the offsets at *synced_s*, and no more.
    """
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,))
    journal.sent(0).copied(1).committed(0).pulled(0, 1).consumed(MEMBER, 0)
    if at == MASTER:
        journal.at_s(80).committed(1).at_s(synced_s).synced("consumer offsets").elects()
    else:
        journal.at_s(synced_s).synced("consumer offsets").elects()
        journal.note(MASTER, OffsetCommitted("billing", Q0, 1, PEER))
    journal.at_s(210).released(MEMBER, Q0).at_s(300).claimed(MEMBER, Q0, offsets=(0,))
    return found(journal.consumed(MEMBER, 0), "duplicates")


def test_an_elected_slave_has_the_offsets_of_its_last_copy() -> None:
    assert consumed_again(synced_s=79) == []
    assert consumed_again(synced_s=82) == []  # its master may have answered 3 s before
    assert len(consumed_again(synced_s=84)) == 1


def test_offsets_that_a_replaced_master_is_told_are_not_its_successors() -> None:
    assert consumed_again(synced_s=84, at=SLAVE) == []


def sent_once(*, copied: int) -> list[str]:
    """The slave has *copied* of two messages, and the second one's answer comes later."""
    journal = an_election().stored(0, key="a").stored(1, key="k").copied(copied).elects()
    if copied == 1:
        journal.stored_by(SLAVE, 1, Q0, "other", 1)
    else:
        journal.stored_by(SLAVE, 2, Q0, "k", 2)
    return found(journal.acknowledged(1, key="k", status="FLUSH_SLAVE_TIMEOUT"), "duplicates")


def test_a_send_that_the_elected_slave_lacks_is_stored_nowhere_else() -> None:
    assert sent_once(copied=1) == []
    assert len(sent_once(copied=2)) == 1


def copied_after_a_loss(*, anew: bool) -> list[str]:
    """The master loses its second record with its power, and a slave appends it later."""
    journal = an_election().note(SLAVE, MasterConnected("10.0.0.0:10912", 0)).stored(0).copied(1)
    journal.stored(1).note(MASTER, PowerLost(*(RECORD_BYTES,) * 2, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES)).takes_role(MASTER, "master", 1)
    if anew:
        journal.note(SLAVE, MasterConnected("10.0.0.0:10912", RECORD_BYTES))
    copied = LogCopied(2 * RECORD_BYTES, RECORD_BYTES, 1)
    return found(journal.note(SLAVE, copied).ends(), "slave_logs")


def test_a_slave_may_append_what_was_under_way_when_its_master_lost_it() -> None:
    assert copied_after_a_loss(anew=False) == []
    assert len(copied_after_a_loss(anew=True)) == 1


def lost_and_elected(*, copied: int) -> list[str]:
    """The master restarts without its second record; the slave, which has *copied*, is elected."""
    journal = an_election().stored(0, key="a").stored(1, key="b").copied(copied)
    journal.note(MASTER, PowerLost(*(RECORD_BYTES,) * 2, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES)).elects()
    return found(journal.stored_by(SLAVE, 2, Q0, "c", copied), "places")


def test_what_a_restarted_master_lost_is_there_again_if_a_slave_that_has_it_is_elected() -> None:
    assert lost_and_elected(copied=2) == []
    assert len(lost_and_elected(copied=1)) == 1  # offset 1 is missing


def commits_what_its_master_lost(*, copied: int) -> list[str]:
    """A half message is lost with the power; the slave, which has *copied*, commits it later."""
    journal = an_election().consumer(MEMBER).stored(0, key="a").stored(0, HALF, key="h")
    journal.note(MASTER, HalfMessageStored(Q1, 0, 0, "group", "h", -1)).copied(copied)
    journal.note(MASTER, PowerLost(*(RECORD_BYTES,) * 2, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES)).takes_role(MASTER, "master", 1)
    journal.stored(1, key="b").elects().stored_by(SLAVE, 0, Q1, "h", 2)
    journal.note(
        SLAVE,
        TransactionEnded(Q1, 0, "commit", "group", by_check=True, stored_offset=0, uniq_key="h"),
    )
    journal.consumed(MEMBER, 0, Q1, key="h")
    return [each for each in found(journal.ends(), "transactions") if "not ended" in each]


def test_an_elected_slave_ends_transactions_that_its_master_had_lost() -> None:
    assert commits_what_its_master_lost(copied=2) == []
    assert len(commits_what_its_master_lost(copied=1)) == 1  # it cannot know of it


def committed_past_a_loss(*, given: bool) -> list[str]:
    """A master loses offset 1, which the slave has; members commit 2 after its election."""
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,)).stored(0, key="a")
    journal.stored(1, key="b").copied(2).consumed(MEMBER, 0, key="a")
    journal.note(MASTER, PowerLost(*(RECORD_BYTES,) * 2, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES)).takes_role(MASTER, "master", 1)
    journal.stored(1, key="other").elects()
    if given:
        journal.consumed(MEMBER, 1, key="b")
    journal.stored_by(SLAVE, 2, Q0, "c", 2).at_s(210)
    journal.note(SLAVE, OffsetCommitted("billing", Q0, 2, PEER))
    return found(journal, "commits")


def test_members_are_given_what_a_master_had_lost_by_an_elected_slave() -> None:
    assert committed_past_a_loss(given=True) == []
    assert len(committed_past_a_loss(given=False)) == 1


def not_committed(*, goes_on: bool) -> list[str]:
    """The run ends 30 s after the election; the member *goes_on* and consumes offset 2."""
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,)).stored(0, key="a")
    journal.stored(1, key="b").copied(2).consumed(MEMBER, 0, key="a").consumed(MEMBER, 1, key="b")
    journal.note(MASTER, PowerLost(*(RECORD_BYTES,) * 2, 2 * RECORD_BYTES, ()))
    journal.note(MASTER, LogRecovered(1, 0, RECORD_BYTES)).takes_role(MASTER, "master", 1)
    journal.note(MASTER, OffsetCommitted("billing", Q0, 1, PEER)).elects()
    if goes_on:
        journal.stored_by(SLAVE, 2, Q0, "c", 2).consumed(MEMBER, 2, key="c")
    return [each for each in found(journal.at_s(230).ends(), "commits") if "up to" in each]


def test_a_member_need_not_commit_what_it_consumed_before_a_loss_until_it_goes_on() -> None:
    assert not_committed(goes_on=False) == []
    assert len(not_committed(goes_on=True)) == 1


def elected_again(*, truncates: bool) -> list[str]:
    """A master that was replaced has offset 1 alone, and is elected again; members commit 2."""
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,)).stored(0, key="a")
    journal.stored(1, key="b").copied(1).elects()
    if truncates:
        journal.note(MASTER, LogTruncated(RECORD_BYTES, 2 * RECORD_BYTES, 1, "it differs"))
    journal.at_s(205).takes_role(MASTER, "master", 3).consumed(MEMBER, 0, key="a")
    journal.consumed(MEMBER, 1, key="b").stored_by(MASTER, 2, Q0, "c", 2).at_s(210)
    return found(journal.note(MASTER, OffsetCommitted("billing", Q0, 2, PEER)), "commits")


def test_a_master_that_is_elected_again_has_what_only_it_had_unless_it_truncated_its_log() -> None:
    assert elected_again(truncates=False) == []
    assert len(elected_again(truncates=True)) == 1


def lost_by_both(*, flushed: int) -> list[str]:
    """The slave loses its second record with its power, unless it *flushed* it, and is elected."""
    journal = an_election().stored(0, key="a").stored(1, key="b").copied(2)
    journal.note(SLAVE, LogFlushed(*(flushed * RECORD_BYTES,) * 2, flushed))
    journal.note(MASTER, LogFlushed(*(2 * RECORD_BYTES,) * 2, 2))
    end = RECORD_BYTES
    journal.note(SLAVE, PowerLost(min(end, flushed * RECORD_BYTES), end, 2 * RECORD_BYTES, ()))
    journal.note(SLAVE, LogRecovered(1, 0, end)).elects()
    return found(journal.stored_by(SLAVE, 1, Q0, "c", 1), "places")


def test_an_elected_slave_uses_places_again_that_its_power_took_from_it_alone() -> None:
    assert lost_by_both(flushed=1) == []
    assert len(lost_by_both(flushed=2)) == 1  # a flushed record is not lost


# What a replaced master stores ------------------------------------------------------------------


def waits_at_a_replaced_master(key: str) -> list[str]:
    """A delayed send is acknowledged after the election, at an offset that its queue has too."""
    journal = an_election().stored(0, key="a").copied(1)
    journal.stored_by(MASTER, 0, AFTER_10_S, "delayed", 1).elects()
    return found(journal.acknowledged(0, key=key, status=TIMES_OUT), "places")


def test_a_late_answer_of_a_replaced_master_names_a_place_in_its_own_queue() -> None:
    assert waits_at_a_replaced_master("delayed") == []
    assert len(waits_at_a_replaced_master("strange")) == 1


def given_by_a_replaced_master(key: str) -> list[str]:
    """Both masters store a message at offset 1; a member gets *key* there."""
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,))
    journal.stored(0, key="a").copied(1).elects()
    journal.stored_by(MASTER, 1, Q0, "old", 1).stored_by(SLAVE, 1, Q0, "new", 1)
    return found(journal.consumed(MEMBER, 1, key=key), "places")


def test_members_of_a_replaced_master_are_given_its_messages() -> None:
    assert given_by_a_replaced_master("old") == given_by_a_replaced_master("new") == []
    assert len(given_by_a_replaced_master("strange")) == 1


def given_unwanted(key: str) -> list[str]:
    """Both masters store at offset 1, the new one what the member does not want; it gets *key*."""
    journal = an_election().consumer(MEMBER, expressions=("TagA",))
    journal.claimed(MEMBER, Q0, offsets=(0,)).stored(0, key="a", tags="TagA").copied(1).elects()
    for node, name, tags in ((MASTER, "old", "TagA"), (SLAVE, "new", "TagB")):
        journal.note(node, MessageStored(Q0, 1, RECORD_BYTES, name, RECORD_BYTES, tags))
    return found(journal.consumed(MEMBER, 1, key=key), "filters")


def test_labels_of_a_place_are_not_those_of_a_replaced_masters_message() -> None:
    assert given_unwanted("old") == []
    assert len(given_unwanted("new")) == len(given_unwanted("strange")) == 1


def a_failure_goes_to(node: str, queue: Queue) -> list[str]:
    """An orderly member gives up offset 0, which *node* stores in *queue*, and takes offset 1."""
    journal = an_election().consumer(MEMBER, orderly=True).claimed(MEMBER, Q0, offsets=(0,))
    journal.stored(0, key="a").stored(1, key="b").copied(2).elects()
    journal.consumed(MEMBER, 0, key="a", ok=False).stored_by(node, 0, queue, "a", 2)
    return found(journal.at_s(201).consumed(MEMBER, 1, key="b"), "order")


def test_an_orderly_member_goes_on_when_a_replaced_master_stores_its_dead_letter() -> None:
    assert a_failure_goes_to(MASTER, DEAD) == a_failure_goes_to(SLAVE, DEAD) == []
    other = Queue("%DLQ%other", MASTER, 0)
    assert len(a_failure_goes_to(MASTER, other)) == 1


def passed_over(node: str) -> list[str]:
    """A pull at *node* goes on at offset 3, as a filter wants none of its messages; a commit."""
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,))
    journal.stored(0, key="a").copied(1).elects().consumed(MEMBER, 0, key="a")
    for offset in (1, 2):
        journal.stored_by(SLAVE, offset, Q0, f"new-{offset}", offset)
    journal.note(node, PullAnswered("billing", Q0, 1, 0, 0, 3, PEER, 0))
    return found(journal.note(SLAVE, OffsetCommitted("billing", Q0, 3, PEER)), "commits")


def test_a_member_goes_on_behind_what_it_read_at_a_replaced_master() -> None:
    assert passed_over(MASTER) == []
    assert len(passed_over(SLAVE)) == 1


def a_retry_of_a_commit(*, by: str) -> list[str]:
    """*by* commits a half message, and a member sends it back to another broker."""
    journal = an_election().stored(0, HALF, key="h")
    journal.note(MASTER, HalfMessageStored(Q0, 0, 0, "group", "h", -1)).copied(1).elects()
    if by:
        journal.stored_by(by, 0, Q0, "h", 1)
        journal.note(
            by,
            TransactionEnded(
                Q0, 0, "commit", "group", by_check=False, stored_offset=0, uniq_key="h"
            ),
        )
    waiting = Queue("SCHEDULE_TOPIC_XXXX", "broker-b", 2)
    journal.note("broker-b", MessageStored(waiting, 0, 0, "h", 100, real_topic="%RETRY%billing"))
    return [each for each in found(journal.ends(), "transactions") if "not ended" in each]


def test_a_message_that_a_replaced_master_committed_is_sent_back_to_another_broker() -> None:
    assert a_retry_of_a_commit(by=MASTER) == a_retry_of_a_commit(by=SLAVE) == []
    assert len(a_retry_of_a_commit(by="")) == 1


def filtered_by_broadcasters(node: str, peer: str) -> float:
    """A broadcasting member's pull at *node* goes on at 2: offset 1 has a tag that it filters.

    The elected master stores a wanted message there.  Return how many messages the member owes.
    """
    journal = an_election().note(MASTER, a_member(client_of(MEMBER)))
    journal.consumer(MEMBER, broadcast=True, expressions=("TagA",), release=RELEASE)
    journal.claimed(MEMBER, Q0, offsets=(0,)).stored(0, key="a", tags="TagA").copied(1)
    journal.consumed(MEMBER, 0, key="a").elects()
    journal.note(node, PullAnswered("billing", Q0, 1, 20, 0, 2, peer, 0))
    stored = MessageStored(Q0, 1, RECORD_BYTES, "new", RECORD_BYTES, tags="TagA")
    journal.note(SLAVE, stored).at_s(260).released(MEMBER, Q0).claimed(MEMBER, Q0, offsets=(2,))
    return journal.ends().judged().metrics["backlog.billing"]


def test_a_broadcasting_member_goes_on_behind_what_it_filtered_at_a_replaced_master() -> None:
    assert filtered_by_broadcasters(MASTER, PEER) == 0
    assert filtered_by_broadcasters(SLAVE, PEER) == 1
    assert filtered_by_broadcasters(MASTER, "10.0.0.99:1") == 1  # another member's


def began_again(offset: int) -> list[str]:
    """A member consumed and committed offset 1, which the elected slave lacks; its next claim.

    The elected master stores another message there, and the member reads none.
    """
    journal = an_election().consumer(MEMBER).claimed(MEMBER, Q0, offsets=(0,))
    journal.sent(0).sent(1).copied(1).pulled(0, 2).consumed(MEMBER, 0).consumed(MEMBER, 1)
    journal.committed(2).at_s(190).elects().at_s(210).released(MEMBER, Q0)
    journal.claimed(MEMBER, Q0, offsets=(offset,)).stored_by(SLAVE, 1, Q0, "new", 1)
    journal.acknowledged(1, key="new").at_s(220)
    if offset == 0:  # a later commit passes over it again
        assert found(journal, "lost") == []
        journal.note(SLAVE, OffsetCommitted("billing", Q0, 2, PEER))
    return found(journal.ends(), "lost")


def test_what_was_committed_of_a_lost_end_passes_over_no_new_message() -> None:
    assert len(began_again(0)) == 1  # only by the commit that comes after the claim
    assert began_again(2) == []  # the member goes on behind it


def asked_by(node: str) -> list[str]:
    """*node* asks about a half message, and its producer answers once."""
    journal = an_election().stored(0, HALF, key="h")
    journal.note(MASTER, HalfMessageStored(Q0, 0, 0, "group", "h", -1)).copied(1).elects()
    if node:
        journal.stored_by(node, 1, HALF, "h", 1)
        journal.note(node, TransactionChecked(Q0, 0, 1, 1, "client", "group", "h"))
    journal.note("producer", TransactionAnswered("group", "h", "commit", ""))
    return [each for each in found(journal, "transaction_checks") if "answered" in each]


def test_a_replaced_master_asks_too() -> None:
    assert asked_by(MASTER) == asked_by(SLAVE) == []
    assert len(asked_by("")) == 1


# What the master loses with its power -----------------------------------------------------------


def only_at_slaves(*, elects: bool) -> float:
    """The master loses its power with one message that the slave has."""
    journal = an_election().sent(0).copied(1).at_s(190)
    journal.note(MASTER, PowerLost(0, 0, RECORD_BYTES, ()))
    if elects:
        journal.elects()
    return journal.ends().judged().metrics["only_at_slaves"]


def test_an_elected_slave_gives_the_messages_that_the_master_lost_with_its_power() -> None:
    assert only_at_slaves(elects=False) == 1
    assert only_at_slaves(elects=True) == 0


def waits_at_the_end(*, lost: int) -> list[str]:
    """A delayed message is flushed and copied; the slave loses *lost* records, and is elected."""
    journal = an_election().at_s(100).stored(0, key="a").stored(0, AFTER_10_S, key="k").copied(2)
    journal.note(MASTER, LogFlushed(2 * RECORD_BYTES, 2 * RECORD_BYTES, 2)).at_s(102)
    kept = (2 - lost) * RECORD_BYTES
    journal.note(SLAVE, PowerLost(kept, kept, 2 * RECORD_BYTES, ()))
    journal.note(SLAVE, LogRecovered(2 - lost, 0, kept)).elects().at_s(400)
    return found(journal.ends(), "lost")


def test_a_slave_that_loses_its_power_may_be_elected_without_what_its_master_flushed() -> None:
    assert waits_at_the_end(lost=1) == []
    assert len(waits_at_the_end(lost=0)) == 1  # it has the message, and never delivers it


# A set that stays too small ---------------------------------------------------------------------


def a_master_alone_in_its_set(least: int, *, slave_has: int, joins: bool = False) -> AJournal:
    """It stores nothing unless its set has *least* members; its slave has so many bytes."""
    settings = {"min_in_sync_replicas": least}
    plan = json.dumps({"cluster": {"broker_settings": settings, "slaves": 1}})
    journal = AJournal().runs(plan, release=RELEASE).store().consumer("billing-1")
    journal.note("broker-a", BrokerRoleChanged("master", 1, "10.0.0.6:10911", 1)).sent(0)
    journal.note("controller-a", SyncStateSetChanged("broker-a", (1,), 2))
    journal.note("broker-a", SlaveConnected("10.0.0.7:1", slave_has, slave_has))
    if joins:
        journal.note("controller-a", SyncStateSetChanged("broker-a", (1, 2), 3))
    return journal


@pytest.mark.parametrize(
    ("otherwise", "is_excused"),
    [
        ({}, True),
        ({"slave_has": RECORD_BYTES}, False),  # it can go on, and has to join the set
        ({"joins": True}, False),
        ({"least": 1}, False),
    ],
)
def test_a_broker_never_rests_if_its_only_slave_has_more_log_and_its_set_is_too_small(
    otherwise: dict[str, Any], *, is_excused: bool
) -> None:
    """Upstream: the slave truncates nothing, and gets nothing; so the set never grows."""
    journal = a_master_alone_in_its_set(**{"least": 2, "slave_has": 9 * RECORD_BYTES, **otherwise})
    metrics = journal.note("world", RunEnded("finished", "not quiet")).judged().metrics
    assert (metrics["unrest"], metrics["excused_unrest"]) == (not is_excused, is_excused)


def test_a_broker_never_rests_if_its_only_slave_has_none_of_its_epochs() -> None:
    journal = a_master_alone_in_its_set(2, slave_has=0)
    journal.note("broker-a-1", MasterDisconnected("10.0.0.6:10912", NO_COMMON_EPOCH))
    metrics = journal.note("world", RunEnded("finished", "not quiet")).judged().metrics
    assert (metrics["unrest"], metrics["excused_unrest"]) == (0, 1)


# Topics -----------------------------------------------------------------------------------------


def unowned_and_unrest(*, copied_after_s: float) -> tuple[int, float]:
    """A topic grows at 100 s; the slave, elected at 200 s, copied the topics *copied_after_s*.

    The member that had the new queue gives it up after the election.
    """
    journal = an_election().note(MASTER, TopicCreated("orders", 2, 2, 6, "admin"))
    journal.consumer(MEMBER).at_s(1).claimed(MEMBER, Q0, Q1).passed(MEMBER, 2, MEMBER)
    journal.at_s(100)
    journal.note(MASTER, TopicChanged("orders", 3, 3, 6)).claimed(MEMBER, NEW).sent(0, NEW)
    journal.at_s(100 + copied_after_s).synced("topics").copied(1)
    journal.elects().note("namesrv-a", BrokerRegistered("c", MASTER, 0, "", 9, first=True))
    journal.at_s(230).released(MEMBER, NEW).at_s(330)
    journal.note("world", RunEnded("finished", "billing has 1 message to consume"))
    metrics = journal.judged().metrics
    return round(metrics["unowned_queue_s"]), metrics["unrest"]


def test_queues_that_came_while_an_elected_slave_copied_its_topics_need_no_owner() -> None:
    assert unowned_and_unrest(copied_after_s=2) == (0, 0)
    assert unowned_and_unrest(copied_after_s=4) == (100, 1)


# Epochs beyond the end of a log -----------------------------------------------------------------


def grown_past_its_slave(*, epoch_start: int, again: bool = False) -> list[str]:
    """The elected master lost the second of two records, with its power, that its slave has.

    The slave compares epochs before the master stores more and, if *again*, after it, too.
    """
    journal = an_election().note(MASTER, EpochBegun(1, 0)).stored(0, key="a").stored(1, key="b")
    journal.copied(2).elects().note(SLAVE, EpochBegun(2, epoch_start))
    journal.note(SLAVE, PowerLost(0, RECORD_BYTES, 2 * RECORD_BYTES, ()))
    journal.note(SLAVE, LogRecovered(1, 0, RECORD_BYTES)).takes_role(SLAVE, "master", 2)
    journal.takes_role(MASTER, "slave", 2)
    ends = 2 * RECORD_BYTES, RECORD_BYTES
    journal.note(MASTER, MasterConnected("10.0.0.1:10912", ends[0]))
    journal.note(MASTER, EpochsCompared("10.0.0.1:10912", *ends, (1,), (1, 2)))
    journal.stored_by(SLAVE, 1, Q0, "c", at=1).stored_by(SLAVE, 2, Q0, "d", at=2)
    if again:
        ends = 2 * RECORD_BYTES, 3 * RECORD_BYTES
        journal.note(MASTER, EpochsCompared("10.0.0.1:10912", *ends, (1,), (1, 2)))
    return found(journal.note(MASTER, LogCopied(3 * RECORD_BYTES, RECORD_BYTES, 1)), "slave_logs")


def test_a_slave_truncates_nothing_if_its_master_s_next_epoch_begins_behind_both_logs() -> None:
    """Upstream: EpochFileCache.findConsistentPoint."""
    assert grown_past_its_slave(epoch_start=2 * RECORD_BYTES) == []
    assert grown_past_its_slave(epoch_start=2 * RECORD_BYTES, again=True) == []
    assert len(grown_past_its_slave(epoch_start=RECORD_BYTES)) == 1

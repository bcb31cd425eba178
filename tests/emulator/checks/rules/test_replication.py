"""The rules of masters and slaves, each on a journal that keeps it and on one that breaks it."""

from __future__ import annotations

from typing import Any, Self

import pytest

from docs.generate import replication
from docs.generate.sections import with_section
from rocketmq_emulator.checks.state.promises import (
    MODES,
    PROMISED_BY,
    copies_promised,
    stays_in_log,
)
from rocketmq_emulator.checks.state.violation import Judgement
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    BrokerRegistered,
    BrokerUnregistered,
    Fact,
    LogCopied,
    LogFlushed,
    LogRecovered,
    MasterConnected,
    MasterElected,
    MetadataSynced,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    OffsetCommitted,
    PowerLost,
    PullAnswered,
    Queue,
    QueuesClaimed,
    RouteChanged,
    SendAttempted,
    SlaveConnected,
    SlaveDisconnected,
    StoreOpened,
    TopicCreated,
)
from tests.support.checks.small_journals import (
    PEER,
    Q0,
    RECORD_BYTES,
    AJournal,
    a_member,
    client_of,
    objections,
)

MASTER, SLAVE, OTHER = "broker-a", "broker-a-1", "broker-a-2"
AT_SLAVE = "10.0.0.3:5"


class AReplicatedJournal(AJournal):
    """A journal of a master and its slaves; positions are multiples of ``RECORD_BYTES``."""

    def opens(self, *, slaves: int = 1, awaited: int = 0, sync: bool = False) -> Self:
        flush: Any = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        self.note(MASTER, NodeStarted("broker", "10.0.0.2:10911", "4.9.7"))
        self.note(MASTER, StoreOpened(flush, True, 72, awaited))
        for number in range(1, slaves + 1):
            node = f"{MASTER}-{number}"
            self.note(node, NodeStarted("broker", f"10.0.0.{2 + number}:10911", "4.9.7"))
            self.note(node, StoreOpened(flush, True, 72))
            self.note(node, MasterConnected("10.0.0.2:10912", 0))
            self.note(MASTER, SlaveConnected(f"10.0.0.{2 + number}:5", 0, 0))
        return self

    def copied(self, end: int, count: int = 1, node: str = SLAVE, messages: int = -1) -> Self:
        """The slave's log ends after *end* messages, of which *count* are new."""
        messages = count if messages < 0 else messages
        fact = LogCopied(end * RECORD_BYTES, count * RECORD_BYTES, messages)
        return self.note(node, fact)

    def loses_power(self, kept: int, end: int, node: str = MASTER) -> Self:
        kept, end = kept * RECORD_BYTES, end * RECORD_BYTES
        return self.note(node, PowerLost(kept, kept, end, ()))

    def recovers(self, count: int, node: str = MASTER, awaited: int = 0) -> Self:
        """The node starts again with *count* messages."""
        self.note(node, LogRecovered(count, 0, count * RECORD_BYTES))
        self._positions[node] = count * RECORD_BYTES
        self.note(node, NodeStarted("broker", "10.0.0.2:10911", "4.9.7"))
        return self.note(node, StoreOpened("ASYNC_FLUSH", True, 72, awaited))

    def found(self, name: str) -> Judgement:
        """The judgement; ``violations`` has those of the checker *name*."""
        judgement = self.ends().judged()
        self.violations = objections(judgement, name)
        return judgement


def a_journal(**fields: Any) -> AReplicatedJournal:
    return AReplicatedJournal().runs().opens(**fields)


def values(judgement: Judgement, *names: str) -> list[float]:
    return [judgement.metrics.get(name, 0.0) for name in names]


# The promises ----------------------------------------------------------------------------


def test_the_page_has_the_promises_of_the_checkers() -> None:
    page = replication.PAGE.read_text()
    assert with_section(page, "promises", replication.promises_text()) == page, "run make page"
    assert {status for mode in MODES for status in mode.statuses} == PROMISED_BY.keys()


@pytest.mark.parametrize(
    ("status", "copies", "stays"),
    [
        ("SEND_OK", 2, True),
        ("FLUSH_DISK_TIMEOUT", 2, False),
        ("FLUSH_SLAVE_TIMEOUT", 0, False),
        ("SLAVE_NOT_AVAILABLE", 0, False),
    ],
)
def test_a_status_says_which_promise_was_not_met(status: str, copies: int, stays: bool) -> None:
    store = StoreOpened("SYNC_FLUSH", True, 72, slaves_awaited=2)
    assert copies_promised(store, status) == copies
    assert stays_in_log(store, "power_off", status) is stays
    assert stays_in_log(store, "kill", status)
    assert not stays_in_log(StoreOpened("ASYNC_FLUSH", True, 72), "power_off", status)


# Copies before acknowledgements ------------------------------------------------------------


def test_an_acknowledged_message_that_its_slave_has_is_right() -> None:
    journal = a_journal(awaited=1).stored(0).copied(1).acknowledged(0)
    judgement = journal.found("copies")
    assert journal.violations == []
    assert (judgement.tried["copies"], judgement.metrics["copied_acks"]) == (1, 1)


def test_an_acknowledgement_before_the_copy_is_found() -> None:
    journal = a_journal(awaited=1).stored(0).stored(1).copied(1).acknowledged(1)
    journal.found("copies")
    (what,) = journal.violations
    assert "0 of its slaves have it, and 1 are promised" in what


@pytest.mark.parametrize("status", ["FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_a_status_without_the_promise_needs_no_copy(status: str) -> None:
    journal = a_journal(awaited=1).stored(0).acknowledged(0, status=status)
    assert not journal.found("copies").tried["copies"]


def test_two_promised_copies_are_those_of_two_slaves() -> None:
    journal = a_journal(slaves=2, awaited=2).stored(0).copied(1).copied(1, node=OTHER)
    journal.acknowledged(0).stored(1).copied(2).acknowledged(1)
    journal.found("copies")
    (what,) = journal.violations
    assert "1 of its slaves have it, and 2 are promised" in what


def test_a_retry_of_a_consumer_with_the_same_key_is_another_message() -> None:
    waiting = Queue("SCHEDULE_TOPIC_XXXX", MASTER, 2)
    journal = a_journal(awaited=1).stored(0, key="k").copied(1).stored(0, waiting, key="k")
    journal.acknowledged(0, key="k").found("copies")
    assert journal.violations == []


def test_a_delayed_message_is_not_the_one_with_its_offset_in_the_queue_of_the_send() -> None:
    waiting = Queue("SCHEDULE_TOPIC_XXXX", MASTER, 2)
    journal = a_journal(awaited=1).stored(0, waiting, key="late").copied(1).stored(0, key="k")
    journal.acknowledged(0, key="late").found("copies")
    assert journal.violations == []


def a_slave_with_another_log() -> AReplicatedJournal:
    """A message is acknowledged because the slave has as many bytes."""
    journal = a_journal(awaited=1)
    journal.stored(0).stored(1).copied(2, 2).acknowledged(0).acknowledged(1)
    journal.loses_power(kept=1, end=2).recovers(1, awaited=1)
    journal.note(SLAVE, MasterConnected("10.0.0.2:10912", 2 * RECORD_BYTES))
    journal.note(MASTER, SlaveConnected(AT_SLAVE, 2 * RECORD_BYTES, 2 * RECORD_BYTES))
    return journal.stored(1, key="new").acknowledged(1, key="new")


def test_what_a_slave_with_another_log_acknowledges_is_counted_apart() -> None:
    journal = a_slave_with_another_log()
    judgement = journal.found("copies")
    assert journal.violations == []
    assert values(judgement, "excused_other_logs", "only_at_slaves") == [1, 1]


def test_what_only_a_slave_with_another_log_acknowledged_is_lost_without_a_promise() -> None:
    journal = a_slave_with_another_log().stored(2).copied(3, messages=0).acknowledged(2)
    journal.loses_power(kept=2, end=3)
    judgement = journal.found("lost_with_masters")
    assert journal.violations == []
    assert judgement.metrics["lost_with_masters"] == 1


# Lost with the master ----------------------------------------------------------------------


def test_what_dies_with_an_async_master_is_counted_with_the_lag() -> None:
    journal = a_journal().sent(0).sent(1).sent(2).copied(1)
    judgement = journal.loses_power(kept=0, end=3).found("lost_with_masters")
    assert journal.violations == []
    names = ("not_copied", "lost_with_masters", "only_at_slaves", "lag_at_death_bytes")
    assert values(judgement, *names) == [2, 2, 1, 2 * RECORD_BYTES]


def test_a_kill_loses_nothing_but_what_was_not_copied_is_away() -> None:
    journal = a_journal().sent(0).sent(1).copied(1).note("world", NodeKilled(MASTER))
    judgement = journal.found("lost_with_masters")
    names = ("not_copied", "lost_with_masters", "lag_at_death_bytes")
    assert values(judgement, *names) == [1, 0, RECORD_BYTES]


def test_a_promised_message_that_no_slave_has_is_found() -> None:
    journal = a_journal(awaited=1).stored(0).acknowledged(0).loses_power(kept=0, end=1)
    judgement = journal.found("lost_with_masters")
    (what,) = journal.violations
    assert "no slave has it, and 1 were promised" in what
    assert judgement.metrics["lost_with_masters"] == 0


def test_a_promised_message_may_be_lost_if_the_slave_loses_its_power_too() -> None:
    journal = a_journal(awaited=1).stored(0).copied(1).acknowledged(0)
    journal.loses_power(kept=0, end=1, node=SLAVE).loses_power(kept=0, end=1)
    judgement = journal.found("lost_with_masters")
    assert journal.violations == []
    assert judgement.metrics["lost_with_masters"] == 1


def test_flushed_and_copied_messages_are_no_loss() -> None:
    journal = a_journal().sent(0).copied(1)
    journal.note(MASTER, LogFlushed(RECORD_BYTES, RECORD_BYTES, 1)).sent(1).copied(2)
    judgement = journal.loses_power(kept=1, end=2).found("lost_with_masters")
    assert values(judgement, "not_copied", "only_at_slaves", "lag_at_death_bytes") == [0, 1, 0]


# Logs of slaves ----------------------------------------------------------------------------


def test_a_log_that_grows_as_its_masters_is_right() -> None:
    journal = a_journal().stored(0).stored(1).copied(1).copied(2)
    judgement = journal.found("slave_logs")
    assert journal.violations == []
    assert judgement.tried["slave_logs"] == 2


def test_a_gap_in_a_slaves_log_is_found() -> None:
    journal = a_journal().stored(0).stored(1).stored(2).copied(1).copied(3)
    journal.found("slave_logs")
    assert any("to a log that ends at 100" in what for what in journal.violations)


def test_another_number_of_messages_is_found() -> None:
    journal = a_journal().stored(0).stored(1).copied(2, 2, messages=1)
    journal.found("slave_logs")
    assert journal.violations == [
        "broker-a-1 has 1 messages up to byte 200, and its master 2",
    ]


def test_bytes_that_no_master_wrote_are_found() -> None:
    journal = a_journal().stored(0).copied(2, 2)
    journal.found("slave_logs")
    assert journal.violations == ["broker-a-1 has bytes up to 200 that its master never wrote"]


def test_a_copy_of_what_the_master_notes_later_is_right() -> None:
    journal = a_journal().stored(0).copied(2, 2).stored(1)
    journal.found("slave_logs")
    assert journal.violations == []


def test_a_log_beyond_that_of_its_master_is_measured() -> None:
    journal = a_journal().stored(0).stored(1).copied(2, 2)
    journal.loses_power(kept=1, end=2).recovers(1).stored(1, key="new").stored(2, key="more")
    judgement = journal.copied(3).found("slave_logs")
    assert journal.violations == []
    assert judgement.metrics["other_log_bytes"] == 2 * RECORD_BYTES


def test_a_slave_that_begins_with_the_last_file_of_its_master_may_have_fewer_messages() -> None:
    journal = a_journal().stored(0).stored(1).stored(2)
    journal.note(SLAVE, MasterConnected("10.0.0.2:10912", 0)).copied(3, 1).found("slave_logs")
    assert journal.violations == []


def test_a_slave_that_lost_its_whole_log_begins_anew() -> None:
    journal = a_journal().stored(0).stored(1).copied(2, 2)
    journal.loses_power(kept=0, end=2, node=SLAVE)
    journal.note(SLAVE, MasterConnected("10.0.0.2:10912", 0)).copied(2, 2).found("slave_logs")
    assert journal.violations == []


def test_tags_of_a_message_of_another_log_are_not_those_of_the_masters() -> None:
    """The master lost message 1 with its power and has a new one there; the slave has the old."""

    def given(broker: str, answers: str = "") -> list[str]:
        journal = a_journal().consumer("billing-1", expressions=("TagB",)).pulled(0, 0)
        journal.claimed("billing-1", Q0).stored(0, tags="TagB").stored(1, tags="TagB")
        journal.pulled(0, 1).consumed("billing-1", 0).copied(2, 2)
        journal.loses_power(kept=1, end=2).recovers(1).stored(1, key="new", tags="TagA")
        for node in (broker, answers):
            if node:
                journal.note(node, PullAnswered("billing", Q0, 0, 0, 2, 2, PEER, 0))
        journal.consumed("billing-1", 1).found("filters")
        return journal.violations

    assert given(SLAVE) == []
    assert len(given(MASTER)) == 1
    assert len(given(SLAVE, MASTER)) == 1


def test_a_member_whose_filter_takes_none_of_another_log_passes_the_masters_messages() -> None:
    """An answer without a message that it wants names the next offset; ONE pulls, TWO does not."""
    one, two = "billing-1", "billing-2"

    def left(node: str, code: int = 20, behind: int = 2) -> list[float]:
        journal = a_journal()
        for name, peer in ((one, PEER), (two, "10.0.0.8:1")):
            journal.consumer(name, broadcast=True, expressions=("TagA",))
            for broker in (MASTER, SLAVE):
                journal.note(broker, a_member(client_of(name), peer))
            journal.claimed(name, Q0, offsets=(0,))
        journal.sent(0, tags="TagA").stored(1, tags="TagB").copied(2, 2)
        journal.consumed(one, 0).consumed(two, 0)
        journal.loses_power(kept=1, end=2).recovers(1).sent(1, key="new", tags="TagA")
        for name in (one, two):
            journal.released(name, Q0).claimed(name, Q0, offsets=(1,))
        journal.note(node, PullAnswered("billing", Q0, 1, code, 0, behind, PEER, 0))
        journal.at_s(400).ends()
        metrics = journal.judged().metrics
        return [metrics["stuck.billing"], metrics["backlog.billing"]]

    assert left(SLAVE) == [1, 1]  # TWO has it still to come
    assert left(MASTER) == left(SLAVE, 21) == left(SLAVE, 19, 1) == [2, 2]


# Offsets -----------------------------------------------------------------------------------


def an_offset_journal(*, begins: int) -> AReplicatedJournal:
    """Offset 5 is committed and copied, 9 committed; then the master dies, a member begins."""
    journal = a_journal().consumer("billing-2")
    journal.note(MASTER, OffsetCommitted("billing", Q0, 5, PEER)).at_s(10)
    journal.note(SLAVE, MetadataSynced("10.0.0.2:10911", "consumer offsets")).at_s(12)
    journal.note(MASTER, OffsetCommitted("billing", Q0, 9, PEER)).at_s(20)
    journal.note("world", NodeKilled(MASTER)).at_s(30)
    return journal.note("billing-2", QueuesClaimed("billing", (Q0,), (begins,)))


def test_a_group_goes_back_to_the_last_copy_of_its_offset() -> None:
    journal = an_offset_journal(begins=5)
    judgement = journal.found("copied_offsets")
    assert journal.violations == []
    assert (judgement.tried["copied_offsets"], judgement.metrics["went_back.billing"]) == (1, 4)


def test_what_comes_again_from_the_offset_of_a_slave_is_explained_while_its_master_is_away() -> (
    None
):
    def again(
        *, dies: bool = True, routed: bool = True, slaves: int = 1, back_s: float = 0
    ) -> list[str]:
        journal = a_journal(slaves=slaves).consumer("billing-1").consumer("billing-2")
        journal.pulled(0, 0).claimed("billing-1", Q0, offsets=(0,)).sent(0).sent(1).pulled(0, 2)
        journal.consumed("billing-1", 0).consumed("billing-1", 1).at_s(5).committed(2).at_s(100)
        if dies:
            journal.note("world", NodeKilled(MASTER)).at_s(120)
        if back_s:
            journal.at_s(120 - back_s).note(
                MASTER, NodeStarted("broker", "10.0.0.2:10911", "4.9.7")
            )
            journal.at_s(120)
        for node, lacks in (("billing-1", routed), ("billing-2", not routed)):
            without = (MASTER,) if lacks else ()
            journal.note(node, RouteChanged("orders", (MASTER,), without))
        journal.released("billing-1", Q0).claimed("billing-2", Q0, offsets=(0,))
        journal.consumed("billing-2", 0).consumed("billing-2", 1).found("duplicates")
        return journal.violations

    assert again() == []
    assert again(back_s=2) == []  # it was away when the member asked
    assert len(again(back_s=4)) == 2
    assert again(dies=False, routed=False) == []
    assert len(again(dies=False)) == 2
    assert len(again(slaves=0)) == 2
    assert len(again(dies=False, routed=False, slaves=0)) == 2


def test_an_offset_that_was_committed_at_a_slave_is_not_its_masters() -> None:
    """The member's routes lacked the master; the next one asks the master where it begins."""

    def again(at: str, *, acts: bool = False, begins: int = 1) -> list[str]:
        journal = a_journal().consumer("billing-1").consumer("billing-2").pulled(0, 0)
        journal.claimed("billing-1", Q0, offsets=(0,)).sent(0).sent(1).pulled(0, 2)
        journal.consumed("billing-1", 0).consumed("billing-1", 1).at_s(5).committed(1).at_s(10)
        if acts:
            journal.note(SLAVE, ActingMasterBegan(1))
        journal.note(at, OffsetCommitted("billing", Q0, 2, PEER)).at_s(100)
        journal.released("billing-1", Q0).claimed("billing-2", Q0, offsets=(begins,))
        journal.consumed("billing-2", begins).found("duplicates")
        return journal.violations

    assert again(SLAVE) == []
    assert len(again(MASTER)) == 1
    assert len(again(SLAVE, acts=True)) == 1  # the master takes it back
    assert len(again(SLAVE, begins=0)) == 1


def test_a_group_that_goes_back_further_is_found() -> None:
    journal = an_offset_journal(begins=4)
    journal.found("copied_offsets")
    (what,) = journal.violations
    assert "begins at offset 4 of orders@broker-a:0 while its master is away" in what
    assert "each slave had copied 5 or more" in what


def test_the_copy_of_a_restarted_master_is_of_what_it_had_written() -> None:
    def begins_at_5(end: Fact, *, commits_again: bool = False) -> list[str]:
        journal = a_journal().consumer("billing-2").at_s(1)
        journal.note(MASTER, OffsetCommitted("billing", Q0, 9, PEER)).at_s(20)
        node = MASTER if isinstance(end, NodeStopped) else "world"
        journal.note(node, end).at_s(30)
        journal.note(MASTER, NodeStarted("broker", "10.0.0.2:10911", "4.9.7")).at_s(31)
        if commits_again:
            journal.note(MASTER, OffsetCommitted("billing", Q0, 9, PEER))
        journal.at_s(40).note(SLAVE, MetadataSynced("10.0.0.2:10911", "consumer offsets"))
        journal.at_s(50).note("world", NodeKilled(MASTER)).at_s(60)
        journal.note("billing-2", QueuesClaimed("billing", (Q0,), (5,)))
        journal.found("copied_offsets")
        return journal.violations

    assert begins_at_5(NodeKilled(MASTER)) == []
    assert len(begins_at_5(NodeKilled(MASTER), commits_again=True)) == 1
    assert len(begins_at_5(NodeStopped("broker", "asked"))) == 1


def begins_without_the_master_in_its_routes(
    offset: int, *, copied_s: float = 110, restarts_s: float = 0
) -> AReplicatedJournal:
    """Offset 5 is committed and copied at 10 s, 9 at *copied_s*; a member begins at 120 s."""
    journal = a_journal().consumer("billing-2")
    journal.note(MASTER, OffsetCommitted("billing", Q0, 5, PEER)).at_s(10)
    synced = MetadataSynced("10.0.0.2:10911", "consumer offsets")
    journal.note(SLAVE, synced).at_s(12)
    journal.note(MASTER, OffsetCommitted("billing", Q0, 9, PEER)).at_s(copied_s)
    journal.note(SLAVE, synced)
    if restarts_s:
        journal.at_s(restarts_s).note(MASTER, NodeStarted("broker", "10.0.0.2:10911", "5.3.3"))
    journal.note("billing-2", RouteChanged("orders", (MASTER,), (MASTER,)))
    return journal.at_s(120).note("billing-2", QueuesClaimed("billing", (Q0,), (offset,)))


def test_a_member_whose_routes_lack_the_master_goes_back_to_a_copy_not_further() -> None:
    def found(offset: int, **times: float) -> list[str]:
        journal = begins_without_the_master_in_its_routes(offset, **times)
        journal.found("copied_offsets")
        return journal.violations

    assert found(9) == found(5) == []  # it may have asked before the last copy
    (what,) = found(4)
    assert "of orders@broker-a:0 while its master is not in its routes; each slave had" in what
    assert len(found(8, copied_s=50)) == 1
    assert found(8, copied_s=70) == []
    assert found(4, restarts_s=115) == []  # the master may have answered, with an older offset


def test_an_offset_that_the_master_itself_answered_is_not_judged() -> None:
    journal = a_journal().consumer("billing-2")
    journal.note(MASTER, OffsetCommitted("billing", Q0, 5, PEER)).at_s(10)
    journal.note(SLAVE, MetadataSynced("10.0.0.2:10911", "consumer offsets")).at_s(20)
    journal.note("world", NodeKilled(MASTER)).at_s(21)
    journal.note("billing-2", QueuesClaimed("billing", (Q0,), (1,)))
    assert not journal.found("copied_offsets").tried["copied_offsets"]


# One master --------------------------------------------------------------------------------


def registered(address: str) -> BrokerRegistered:
    return BrokerRegistered("DefaultCluster", MASTER, 0, address, 1, first=True)


def test_two_masters_of_one_name_are_found() -> None:
    journal = a_journal().note("namesrv", registered("10.0.0.2:10911"))
    journal.note("namesrv", registered("10.0.0.3:10911")).found("one_master")
    (what,) = journal.violations
    assert "10.0.0.3:10911 registers as its master, too" in what


@pytest.mark.parametrize(
    "between",
    [
        BrokerUnregistered(MASTER, 0, "10.0.0.2:10911", "channel closed"),
        MasterElected(MASTER, 2, 2, 2),
    ],
)
def test_a_master_may_follow_one_that_has_left_or_lost_an_election(between: Any) -> None:
    journal = a_journal().note("namesrv", registered("10.0.0.2:10911"))
    journal.note("namesrv", between).note("namesrv", registered("10.0.0.3:10911"))
    journal.found("one_master")
    assert journal.violations == []


# Times without a master ----------------------------------------------------------------------


def test_times_without_writes_and_reads_end_at_the_next_success() -> None:
    journal = a_journal().sent(0).at_s(10).note("world", NodeKilled(MASTER)).at_s(14)
    journal.note("producer", SendAttempted("orders", Q0, "k", 1, 1, "NoAnswer: gone")).at_s(17)
    journal.note(SLAVE, PullAnswered("billing", Q0, 0, 0, 3, 3, PEER, 0)).at_s(40)
    journal.note("producer", SendAttempted("orders", Q0, "k", 2, 1, "SEND_OK"))
    judgement = journal.found("master_absences")
    names = ("without_writes_s.broker-a", "without_reads_s.broker-a", "read_from_slaves")
    assert values(judgement, *names) == pytest.approx([30, 7, 3], abs=0.01)


def test_a_slave_that_left_is_no_copy_that_a_send_waited_for() -> None:
    journal = a_journal(awaited=1).note(MASTER, TopicCreated("orders", 1, 1, 6, "tool")).at_s(200)
    journal.note(MASTER, SlaveDisconnected(AT_SLAVE, "reset", 0)).at_s(300)
    attempt = SendAttempted("orders", Q0, "k", 1, 3_000, "TimedOut: no answer in time")
    judgement = journal.note("producer", attempt).found("healthy_attempts_succeed")
    assert journal.violations == []
    assert judgement.metrics["excused_healthy_attempts_succeed"] == 1

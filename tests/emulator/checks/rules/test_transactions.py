"""Transactions: seen after their commit only, as they were sent, and ended as told."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    EndTransactionRefused,
    HalfMessageSent,
    HalfMessageStored,
    LocalTransactionEnded,
    MessageStored,
    SlaveConnected,
    SlaveDisconnected,
    StoreOpened,
)
from tests.support.checks.small_journals import Q0, Q1, RECORD_BYTES, objections
from tests.support.checks.small_transactions import GROUP, KEY, NODE, ATransaction


def test_a_committed_message_is_owed_to_the_group_and_a_rolled_back_one_is_not() -> None:
    lost = ATransaction().consumer("billing-1").claimed("billing-1", Q0).half().commits()
    lost.pulled(0, 1).committed(1)
    assert objections(lost.ends().judged(), "lost") != []
    ended = (
        ATransaction()
        .consumer("billing-1")
        .claimed("billing-1", Q0)
        .half("rollback")
        .over("rollback")
    )
    judged = ended.ends().judged()
    assert (objections(judged, "lost"), objections(judged, "transactions")) == ([], [])
    assert judged.metrics["rolled_back.orders"] == 1
    assert judged.metrics["open_transactions"] == 0


@pytest.mark.parametrize(
    ("outcome", "ends"), [("rollback", "was rolled back"), ("unknown", "was not ended")]
)
def test_a_message_that_is_seen_without_its_commit_is_objected_to(outcome, ends) -> None:
    journal = ATransaction().half(outcome)
    if outcome == "rollback":
        journal.over("rollback")
    (said,) = journal.stored(0, Q0, KEY).objected()
    assert said == f"{KEY} is in orders@broker-a:0, and its transaction {ends}"


def test_a_message_that_is_consumed_without_its_commit_is_objected_to() -> None:
    journal = ATransaction().consumer("billing-1").claimed("billing-1", Q0).half("rollback")
    said = journal.over("rollback").consumed("billing-1", 0, key=KEY).objected()
    assert f"{KEY} was consumed by billing, and its transaction was rolled back" in said


def test_an_end_that_no_producer_told_is_objected_to() -> None:
    (said,) = ATransaction().half("rollback").commits().objected()
    assert said == f"{KEY} ended with a commit, and its producers said rollback"
    assert (
        ATransaction()
        .half("unknown")
        .at_s(60)
        .asked(1)
        .answers("commit")
        .commits(half=1)
        .objected()
        == []
    )


def test_a_second_commit_is_explained_by_a_second_producer_s_word_only() -> None:
    journal = ATransaction().half().at_s(60).asked(1).commits().answers("commit")
    again = journal.commits(1, half=1, by_check=True)
    judged = again.ends().judged()
    assert objections(judged, "transactions") == []
    assert judged.metrics["committed_again"] == 1
    (said,) = ATransaction().half().commits().commits(1).objected()
    assert said == f"{KEY} was committed 2 times, and its producers said so 1 times"


def test_client_invariant_24_an_unsafe_half_message_is_rolled_back() -> None:
    (objection,) = ATransaction().half("commit", status="FLUSH_DISK_TIMEOUT").commits().objected()
    assert objection == (
        f"{KEY} was stored with FLUSH_DISK_TIMEOUT, and its local transaction ran: commit"
    )
    journal = ATransaction().half("rollback", status="FLUSH_DISK_TIMEOUT").over("rollback")
    assert journal.objected() == []


@pytest.mark.parametrize(
    ("stored", "wrong"),
    [
        ({"queue": Q1}, "is in orders@broker-a:1, and was sent to orders@broker-a:0"),
        ({"tags": "TagB"}, "has the tags 'TagB', and was sent with ''"),
        ({"size_bytes": 50}, f"has 50 bytes: {RECORD_BYTES} were sent"),
    ],
)
def test_a_commit_that_changes_the_message_is_objected_to(
    stored: dict[str, Any], wrong: str
) -> None:
    record = {"queue": Q0, "size_bytes": RECORD_BYTES, "tags": "", **stored}
    fact = MessageStored(offset=0, position=900, uniq_key=KEY, **record)
    journal = ATransaction().half().note("broker-a", fact).over("commit", stored=0)
    assert journal.objected() == [f"{KEY} was committed, and {wrong}"]


def test_a_commit_that_stores_nothing_is_objected_to() -> None:
    assert ATransaction().half().over("commit").objected() == [
        f"{KEY} was committed, and broker-a has not stored it in orders@broker-a:0"
    ]


def test_an_end_that_its_broker_ignores_is_objected_to_once_it_is_late() -> None:
    told = f"{NODE} told broker-a to end {KEY} with a commit, and it did not"
    assert ATransaction().half().at_s(5).objected() == []
    assert told in ATransaction().half().at_s(20).objected()
    cut = ATransaction().fault("cut", NODE).half().at_s(20).ends().judged()
    assert objections(cut, "transactions") == []
    assert cut.metrics["excused_ends"] == 1


TOLD = f"{NODE} told broker-a to end {KEY} with a commit, and it did not"
AT_SLAVE = "10.0.0.3:5"


@pytest.mark.parametrize(
    ("node", "acts", "key", "is_excused"),
    [
        ("broker-a-1", True, KEY, True),
        ("broker-a-1", False, KEY, False),  # no route has it as the master
        ("broker-a-1", True, "0-9", False),  # another message
        ("broker-b-1", True, KEY, False),
        ("broker-a", True, KEY, False),  # the master is no slave
    ],
)
def test_an_end_that_an_acting_master_refuses_is_excused(
    node: str, acts: bool, key: str, is_excused: bool
) -> None:
    journal = ATransaction("5.3.3")
    if acts:
        journal.note(node if node != "broker-a" else "broker-a-1", ActingMasterBegan(1))
    journal.half().note(node, EndTransactionRefused(GROUP, "", 11, "not set", key))
    assert journal.at_s(20).objected() == ([] if is_excused else [TOLD])


@pytest.mark.parametrize("remark", ["in-sync replicas not enough", "Create mapped file failed."])
@pytest.mark.parametrize(
    ("slaves", "awaited", "is_excused"), [(0, 1, True), (1, 1, False), (0, 0, False)]
)
def test_an_end_is_refused_for_lack_of_replicas_only_while_slaves_lack(
    slaves: int, awaited: int, is_excused: bool, remark: str
) -> None:
    plan = {"cluster": {"acting_master": True, "release": "5.3.3"}}
    journal = ATransaction("5.3.3", plan)
    journal.note("broker-a", StoreOpened("ASYNC_FLUSH", True, 72, awaited))
    journal.note("broker-a", SlaveConnected(AT_SLAVE, 0, 0))
    if not slaves:
        journal.at_s(5).note("broker-a", SlaveDisconnected(AT_SLAVE, "reset", 0))
    refused = EndTransactionRefused(GROUP, "orders", 1, remark, KEY)
    journal.at_s(15).half().note("broker-a", refused)
    is_lack = remark.startswith("in-sync")
    assert journal.at_s(40).objected() == ([] if is_excused and is_lack else [TOLD])


def test_a_refusal_before_the_end_was_told_excuses_nothing() -> None:
    journal = ATransaction("5.3.3").note("broker-a-1", ActingMasterBegan(1))
    journal.note("broker-a-1", EndTransactionRefused(GROUP, "", 11, "not set", KEY))
    assert journal.half().at_s(20).objected() == [TOLD]


def test_the_broker_may_note_an_end_before_its_producer_does() -> None:
    journal = ATransaction().half(None).commits()
    told = LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, "commit", "")
    assert journal.note(NODE, told).at_s(20).objected() == []


def test_an_answer_that_its_broker_ignores_is_objected_to() -> None:
    journal = ATransaction().half("unknown").at_s(60).asked(1).answers("rollback").at_s(80)
    told = f"{NODE} told broker-a to end {KEY} with a rollback, and it did not"
    assert journal.objected() == [told]


def test_an_end_that_was_not_reported_is_not_awaited() -> None:
    journal = ATransaction().half(None)
    why = "not reported: broker-a has no master"
    told = LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, "commit", why)
    assert journal.note(NODE, told).at_s(20).objected() == []


def test_a_listener_that_raises_decides_nothing() -> None:
    journal = ATransaction().half(None)
    told = LocalTransactionEnded("orders", Q0, 0, GROUP, KEY, "commit", "LookupError: no row")
    journal.note(NODE, told).commits()
    assert journal.objected() == [f"the listener of {KEY} raised, and its producer says commit"]


def test_an_acknowledged_half_message_that_is_stored_as_another_is_objected_to() -> None:
    journal = ATransaction().stored(0, Q0, KEY)
    journal.at_s(20).note(NODE, HalfMessageSent("orders", Q0, 0, KEY, 1, 1, "SEND_OK"))
    assert f"broker-a acknowledged the half message {KEY}, and stored none" in journal.judged_now()


def test_a_half_message_is_kept_for_the_queue_to_which_it_was_sent() -> None:
    journal = ATransaction().half_record()
    journal.note("broker-a", HalfMessageStored(Q1, 0, 0, GROUP, KEY, -1))
    journal.note(NODE, HalfMessageSent("orders", Q0, 0, KEY, 1, 1, "SEND_OK"))
    assert journal.objected() == [
        f"{KEY} was sent to orders@broker-a:0, and its broker keeps it for orders@broker-a:1"
    ]

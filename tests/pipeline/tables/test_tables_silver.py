"""Silver tables from journals of a few facts, with results computed by hand."""

from __future__ import annotations

import msgspec
import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    MemberLeft,
    MessageConsumed,
    MessageSent,
    MessageSentBack,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SendAttempted,
    SendFailed,
)
from rocketmq_emulator.pipeline.tables.folder import TableFolder
from tests.support.pipeline.written_journals import QUEUE, a_start, entries, stored, write

SECOND = 1_000_000
OTHER = Queue("orders", "broker-a", 1)


def a_member(client: str, group: str = "billing", **changed) -> ConsumerStarted:
    known = {
        "group": group,
        "client": client,
        "consumer_kind": "push",
        "broadcast": False,
        "orderly": False,
        "topics": ("orders",),
        "expressions": ("*",),
        "release": "4.9.7",
    }
    return ConsumerStarted(**(known | changed))


def consumed(offset: int, group: str = "billing", **changed) -> MessageConsumed:
    known = MessageConsumed(group, "orders", QUEUE, offset, f"key-{offset}", 0, ok=True)
    return msgspec.structs.replace(known, **changed)


@pytest.fixture
def tables(spark, tmp_path):
    """A function from facts, each (seconds, node, fact), to a folder of tables."""

    def made(*facts) -> TableFolder:
        told = [(round(at_s * SECOND), node, fact) for at_s, node, fact in facts]
        journal = write(tmp_path / "run.jsonl", entries((0, "world", a_start()), *told))
        folder = TableFolder(tmp_path / "tables", spark)
        folder.add([journal])
        return folder

    return made


def rows(table, *columns: str) -> list[tuple]:
    return [tuple(row) for row in table.orderBy(*columns).select(*columns).collect()]


def test_faults_and_members_are_intervals(tables) -> None:
    folder = tables(
        (1, "c-1", a_member("one")),
        (1, "c-2", a_member("two")),
        (2, "c-3", a_member("three")),
        (3, "world", FaultBegan(1, '{"fault":"kill","node":"c-1"}', ("c-1",))),
        (3, "world", FaultBegan(2, '{"fault":"slow_link"}', ("c-2",))),
        (4, "world", FaultEnded(1, "time is up", 1)),
        (5, "c-1", a_member("one")),
        (6, "c-2", ConsumerStopped("billing", "two")),
        (7, "world", NodeKilled("c-3")),
    )
    assert rows(folder.table("faults"), "fault_id", "word", "began_us", "ended_us") == [
        (1, "kill", 3 * SECOND, 4 * SECOND),
        (2, "slow_link", 3 * SECOND, None),
    ]
    assert rows(folder.table("members"), "node", "from_us", "until_us", "was_killed") == [
        ("c-1", 1 * SECOND, 3 * SECOND, True),
        ("c-1", 5 * SECOND, None, False),
        ("c-2", 1 * SECOND, 6 * SECOND, False),
        ("c-3", 2 * SECOND, 7 * SECOND, True),
    ]


def test_a_delivery_knows_how_often_the_record_was_taken_before(tables) -> None:
    folder = tables(
        (0.1, "c-1", a_member("one")),
        (0.1, "n-1", a_member("news", "news", broadcast=True)),
        (1, "broker-a", stored(0)),
        (1, "producer", MessageSent("orders", QUEUE, 0, "key-0", 1, 5, "SEND_OK")),
        (2, "c-1", consumed(0, ok=False)),
        (2.1, "broker-a", MessageSentBack("billing", "orders", "%RETRY%billing", 1, 3, 0, "p")),
        (3, "c-2", consumed(0)),
        (4, "c-1", consumed(0)),
        (5, "n-1", consumed(0, "news", ok=False)),
        (6, "n-1", consumed(0, "news")),
        (7, "broker-a", stored(0)),  # the first was lost: its offset is used again
        (8, "c-1", consumed(0)),
    )
    assert rows(
        folder.table("deliveries"), "reader", "mono_us", "life", "delivery", "is_repeat"
    ) == [
        ("billing", 2 * SECOND, 1, 1, False),
        ("billing", 3 * SECOND, 1, 2, False),
        ("billing", 4 * SECOND, 1, 3, True),
        ("billing", 8 * SECOND, 2, 1, False),
        ("news@n-1", 5 * SECOND, 1, 1, False),
        ("news@n-1", 6 * SECOND, 1, 2, True),
    ]
    columns = ("life", "stored_us", "sent_us", "deliveries", "consumed", "failed", "sent_back")
    assert rows(folder.table("messages"), *columns) == [
        (1, 1 * SECOND, 1 * SECOND, 5, 3, 2, 1),
        (2, 7 * SECOND, 1 * SECOND, 1, 1, 0, 1),
    ]


def test_a_queue_is_held_from_its_claim_to_the_first_thing_that_ends_it(tables) -> None:
    both = (QUEUE, OTHER)
    folder = tables(
        (0, "c-1", a_member("one")),
        (0, "c-2", a_member("two")),
        (0, "c-3", a_member("three")),
        (1, "c-1", QueuesClaimed("billing", both)),
        (2, "c-1", QueuesReleased("billing", (OTHER,), "not mine")),
        (3, "c-2", QueuesClaimed("billing", (OTHER,))),
        (4, "broker-a", MemberLeft("billing", "one", "peer", "expired")),
        (5, "c-3", QueuesClaimed("billing", (QUEUE,))),  # c-1 expired, and notes no release
        (6, "c-2", QueuesClaimed("billing", (OTHER,))),  # again: c-2 holds it already
        (7, "world", NodeKilled("c-2")),
    )
    table = folder.table("ownership").selectExpr(
        "queue.queue_id", "node", "from_us", "until_us", "ended_by"
    )
    assert rows(table, *table.columns) == [
        (0, "c-1", 1 * SECOND, 4 * SECOND, "lost"),
        (0, "c-3", 5 * SECOND, None, None),
        (1, "c-1", 1 * SECOND, 2 * SECOND, "released"),
        (1, "c-2", 3 * SECOND, 7 * SECOND, "ended"),
    ]


def test_a_send_is_a_row_and_so_is_each_of_its_attempts(tables) -> None:
    folder = tables(
        (1, "p", SendAttempted("orders", QUEUE, "k", 1, 3_000, "NoAnswer: timeout")),
        (2, "p", SendAttempted("orders", OTHER, "k", 2, 5, "SEND_OK")),
        (2, "p", MessageSent("orders", OTHER, 4, "k", 2, 3_005, "SEND_OK")),
        (3, "p", SendFailed("orders", "l", 3, "NoRoute: none", maybe_stored=False)),
    )
    assert rows(folder.table("calls"), "mono_us", "call", "attempts", "is_ok", "outcome") == [
        (1 * SECOND, "attempt", 1, False, "NoAnswer: timeout"),
        (2 * SECOND, "attempt", 2, True, "SEND_OK"),
        (2 * SECOND, "send", 2, True, "SEND_OK"),
        (3 * SECOND, "send", 3, False, "NoRoute: none"),
    ]

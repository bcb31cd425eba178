"""Gold tables of idle members and of send shares, from a few facts, computed by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.facts import (
    BrokerIsolated,
    Fact,
    FaultBegan,
    FaultEnded,
    Queue,
    QueuesClaimed,
    RunEnded,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.pipeline.tables.folder import TableFolder
from tests.pipeline.tables.test_tables_silver import OTHER, SECOND, a_member, consumed
from tests.support.pipeline.written_journals import QUEUE, a_start, entries, write

ELSEWHERE = Queue("orders", "broker-b", 0)
KILL = '{"fault":"kill","node":"broker-b"}'


def the_facts() -> list[Entry]:
    """Two members, of which c-2 gets nothing from 1 s to 21 s; a producer that avoids broker-b.

    It avoids broker-b from 5 s to 35 s: 90 of its 120 attempts at broker-a are at the second of
    two queues; it makes 20 more while a fault is active.
    """
    told: list[tuple[float, str, Fact]] = [
        (0.0, "c-1", a_member("one")),
        (0.0, "c-2", a_member("two")),
        (0.0, "c-1", QueuesClaimed("billing", (QUEUE,))),
        (0.0, "c-2", QueuesClaimed("billing", (OTHER,))),
        (1.0, "c-2", consumed(0, queue=OTHER)),
        *((1.5 + second, "c-1", consumed(second)) for second in range(20)),
        (21.0, "c-2", consumed(1, queue=OTHER)),
        (1.0, "p", an_attempt(1, ELSEWHERE)),
        (2.0, "p", an_attempt(2, QUEUE)),
        (5.0, "p", BrokerIsolated("broker-b", 30_000)),
        *((6 + n / 10, "p", an_attempt(n, OTHER if n % 4 else QUEUE)) for n in range(120)),
        (19.0, "world", FaultBegan(1, KILL, ("broker-b",))),
        *((20 + n / 10, "p", an_attempt(n, QUEUE)) for n in range(20)),
        (24.0, "world", FaultEnded(1, "time is up", 1)),
        (36.0, "p", an_attempt(3, QUEUE)),
        (40.0, "world", RunEnded("finished", "")),
    ]
    told.sort(key=lambda each: each[0])
    return entries(
        (0, "world", a_start()),
        *((round(at_s * SECOND), node, fact) for at_s, node, fact in told),
    )


def an_attempt(number: int, queue: Queue) -> SendAttempted:
    return SendAttempted("orders", queue, f"sent-{number}", 1, 3, "SEND_OK")


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory) -> TableFolder:
    path = tmp_path_factory.mktemp("shares")
    found = TableFolder(path / "tables", spark)
    found.add([write(path / "run.jsonl", the_facts())])
    return found


def test_a_member_is_idle_while_the_others_get_more_than_their_share(folder) -> None:
    (row,) = folder.table("idleness").collect()
    # c-2 is idle from 1 s to 21 s, while 20 messages came.  c-1 gets nothing after 20.5 s, but
    # it is not idle: then only one message comes, and five are needed.
    assert (row.group, row.idle_s, row.idle_members) == ("billing", 20.0, 1)
    assert row.idle_ratio == 20 / (2 * 40)
    checked = judge(the_facts()).metrics
    assert (checked["idle_s"], checked["idle_members"]) == (row.idle_s, row.idle_members)


def test_shares_of_sends_are_counted_apart_while_a_broker_is_avoided(folder) -> None:
    rows = {row.queue.broker + str(row.queue.queue_id): row for row in
            folder.table("send_shares").collect()}  # fmt: skip
    found = {key: (row.attempts, row.crowded, row.crowding) for key, row in rows.items()}
    assert found == {
        "broker-a0": (2 + 30 + 20, 30, 0.5),
        "broker-a1": (90, 90, 1.5),
        "broker-b0": (1, 0, None),
    }

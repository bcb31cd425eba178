"""Gold tables of groups from a few facts, with results computed by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from rocketmq_emulator.facts import (
    FaultBegan,
    FaultEnded,
    MessageSent,
    MessageStored,
    NodeKilled,
    OffsetCommitted,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
    RunEnded,
    SendAttempted,
    TopicCreated,
)
from rocketmq_emulator.pipeline.tables.folder import TableFolder
from tests.pipeline.tables.test_tables_silver import OTHER, SECOND, a_member, consumed
from tests.support.pipeline.written_journals import QUEUE, a_start, entries, stored, write

THIRD = Queue("orders", "broker-a", 2)


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory) -> TableFolder:
    """A group of two members; one is killed while it holds two of the three queues."""
    told = (
        (0.0, "broker-a", TopicCreated("orders", 3, 3, 6, "admin")),
        (0.0, "c-1", a_member("one")),
        (1.0, "c-1", RebalancePassed("billing", "orders", 3, ("one",), 3, "started")),
        (1.0, "c-1", QueuesClaimed("billing", (QUEUE, OTHER, THIRD))),
        (2.0, "broker-a", stored(0)),
        (2.0, "broker-a", stored(1)),
        (2.0, "p", SendAttempted("orders", QUEUE, "key-0", 1, 7, "SEND_OK")),
        (2.0, "p", MessageSent("orders", QUEUE, 0, "key-0", 1, 7, "SEND_OK")),
        (2.05, "broker-a", stored(2)),
        (2.1, "c-2", a_member("two")),  # 2 s after the first one: it joins
        (2.2, "c-2", QueuesClaimed("billing", (OTHER,))),
        (2.4, "c-1", QueuesReleased("billing", (OTHER,), "not mine")),
        (2.5, "c-1", consumed(0)),
        (2.6, "c-1", OffsetCommitted("billing", QUEUE, 1, "peer")),
        (3.0, "world", FaultBegan(1, '{"fault":"kill","node":"c-1"}', ("c-1", "broker-b"))),
        (3.0, "world", NodeKilled("c-1")),
        (3.1, "c-1", consumed(2)),  # its listener still had it
        (3.2, "p", SendAttempted("orders", Queue("orders", "broker-b", 0), "k", 1, 9, "Cut: x")),
        (4.0, "world", FaultEnded(1, "time is up", 1)),
        (20.0, "broker-a", MessageStored(QUEUE, 3, 300, "key-3", 100)),
        (43.0, "c-2", QueuesClaimed("billing", (QUEUE, THIRD))),
        (44.0, "c-2", consumed(0)),
        (44.5, "c-2", consumed(3)),
        (45.0, "c-2", consumed(1, ok=False)),
        (50.0, "world", RunEnded("finished", "")),
    )
    path = tmp_path_factory.mktemp("gold")
    facts = [(round(at_s * SECOND), node, fact) for at_s, node, fact in told]
    journal = write(path / "run.jsonl", entries((0, "world", a_start()), *facts))
    found = TableFolder(path / "tables", spark)
    found.add([journal])
    return found


def the_row(folder: TableFolder, name: str, *columns: str) -> tuple:
    (row,) = folder.table(name).select(*columns).collect()
    return tuple(row)


def test_latency_is_of_first_deliveries_and_failover_of_the_oldest_that_waits(folder) -> None:
    # c-1 is hit at 3 s; 3 is the first message after that of c-2, which took 1 with it.
    assert the_row(
        folder,
        "delivery",
        *("longest_deliver_ms", "deliver_ms_p50", "consumer_failover_s"),
        *("deliveries", "repeats", "failed_deliveries"),
    ) == (43_000.0, 1_050.0, 41.5, 5, 1, 1)


def test_overlap_and_orphan_time_are_of_the_longest_and_of_all_queues(folder) -> None:
    names = ("overlap_s", "startup_overlap_s", "overlap_queue_s")
    assert the_row(folder, "overlap", *names) == (0.2, 0.0, 0.2)
    # No owner: all three from 0 s to 1 s, in start-up; two from 3 s to 43 s.
    names = ("unowned_s", "startup_unowned_s", "unowned_queue_s", "starved_queues")
    assert the_row(folder, "orphans", *names) == (40.0, 1.0, 80.0, 0)


def test_churn_counts_moves_and_how_few_were_necessary(folder) -> None:
    # c-1 claims all 3 in start-up, until 2 s; c-2 takes one of them (1 of 1 that must),
    # and after the kill the other two (2 of 2), more than 25 s later.
    assert the_row(
        folder,
        "churn",
        *("rebalances", "moved_queues", "startup_moved_queues", "necessary_moves"),
        *("needless_moves", "settle_s", "skew_queues", "queueless_members"),
    ) == (3, 3, 0, 3, 0, 0.8, 0, 0)


def test_lag_is_what_was_not_committed_at_the_end_and_at_most(folder) -> None:
    assert the_row(folder, "offset_lag", "lag", "lag_max") == (3, 2)


def test_sends_and_what_producers_felt_of_a_fault(folder) -> None:
    assert the_row(
        folder, "sends", "sends", "failed_attempts", "longest_send_ms", "send_ms_p99"
    ) == (1, 1, 7, 7)
    node, failover_s = the_row(folder, "producer_failover", "node", "producer_failover_s")
    assert (node, round(failover_s, 3)) == ("broker-b", 0.2)


def test_the_long_table_has_each_number_of_each_group_and_of_the_run(folder) -> None:
    rows = folder.table("metrics").where("metric = 'overlap_s'").collect()
    assert sorted((row.of, row.value) for row in rows) == [("", 0.2), ("billing", 0.2)]

"""End offsets of micro-batches while a cluster changes; tests call the reader as Spark does."""

from __future__ import annotations

import json
import os
import pickle
import socket
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rocketmq_emulator import Message
from rocketmq_emulator.facts import MemberJoined, OffsetCommitted
from rocketmq_emulator.pipeline.source import group_membership
from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE
from rocketmq_emulator.pipeline.source.errors import (
    BadOption,
    GroupInUse,
    MessagesLost,
    ServerUnavailable,
    TopicUnknown,
)
from rocketmq_emulator.pipeline.source.queue_offsets import limited, ranges
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.sync import PushConsumer
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import (
    a_source,
    bodies,
    numbered,
    rows_of,
    send,
    send_many,
)

ALL = ReadAllAvailable()


@pytest.fixture
def cluster():
    with RocketMQ(topics={"orders": 1}, brokers=2) as cluster:
        yield cluster


@pytest.fixture
def open_stream():
    """A function that opens a stream; the streams are stopped at the end of the test."""
    opened = []

    def a_stream(cluster, topic="orders", **options):
        reader = a_source(cluster.namesrv, topic, **options).streamReader(ROW_SHAPE)
        opened.append(reader)
        return reader

    yield a_stream
    for reader in opened:
        reader.stop()


def next_batch(stream, start, limit=ALL):
    """The end of a batch from *start*, and its rows; offsets go through JSON as Spark's do."""
    end = json.loads(json.dumps(stream.latestOffset(start, limit)))
    return end, rows_of(stream, stream.partitions(start, end))


def queues(offset, topic="orders"):
    return offset["queues"].get(topic, {})


def test_a_new_stream_begins_behind_what_is_there_or_before_it(cluster, open_stream) -> None:
    send(cluster.namesrv, *numbered("orders", 4))
    assert queues(open_stream(cluster).initialOffset()) == {
        "broker-a": {"0": 2},
        "broker-b": {"0": 2},
    }
    early = open_stream(cluster, startingOffsets="earliest").initialOffset()
    assert queues(early) == {"broker-a": {"0": 0}, "broker-b": {"0": 0}}


def test_batches_follow_one_another_without_gap_or_overlap(cluster, open_stream) -> None:
    stream = open_stream(cluster)
    at, seen = stream.initialOffset(), []
    for number in range(3):
        send(cluster.namesrv, *numbered("orders", 6, start=6 * number))
        at, rows = next_batch(stream, at)
        seen += rows
        assert len(rows) == 6
    assert bodies(seen) == [b"%06d" % i for i in range(18)]
    again, rows = next_batch(stream, at)
    assert json.dumps(again) == json.dumps(at), "Spark compares offsets as texts"
    assert rows == []


def test_a_batch_planned_again_after_a_restart_has_the_same_rows(cluster, open_stream) -> None:
    stream = open_stream(cluster)
    start = stream.initialOffset()
    send(cluster.namesrv, *numbered("orders", 6))
    end, rows = next_batch(stream, start)
    send(cluster.namesrv, *numbered("orders", 6, start=6))
    restarted = open_stream(cluster)
    assert bodies(rows_of(restarted, restarted.partitions(start, end))) == bodies(rows)


def test_a_limit_is_shared_and_no_queue_starves(cluster, open_stream) -> None:
    cluster.create_topic("skewed", 2)
    stream = open_stream(cluster, "skewed", maxOffsetsPerTrigger=100)
    at = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxRows(100)
    send_many(cluster.namesrv, "skewed", 600)
    send(cluster.namesrv, Message("skewed", b"last"))
    seen, sizes = [], []
    while True:
        at, rows = next_batch(stream, at, ReadMaxRows(100))
        if not rows:
            break
        seen += rows
        sizes.append(len(rows))
    assert len(seen) == 601
    assert max(sizes) <= 104
    assert len(sizes) <= 9


def test_all_available_ends_where_the_run_began(cluster, open_stream) -> None:
    stream = open_stream(cluster, startingOffsets="earliest")
    send(cluster.namesrv, *numbered("orders", 6))
    stream.prepareForTriggerAvailableNow()
    send(cluster.namesrv, *numbered("orders", 6, start=6))
    cluster.create_topic("orders", 2)
    at, rows = next_batch(stream, stream.initialOffset())
    for _ in range(3):
        at, more = next_batch(stream, at)
        rows += more
    assert bodies(rows) == [b"%06d" % i for i in range(6)]
    assert stream.latestOffset(at, ALL) == at


def test_the_progress_shows_how_far_the_queues_are_filled(cluster, open_stream) -> None:
    stream = open_stream(cluster)
    at = stream.initialOffset()
    assert stream.reportLatestOffset() is None
    send_many(cluster.namesrv, "orders", 200)
    stream.latestOffset(at, ReadMaxRows(10))
    newest = queues(stream.reportLatestOffset())
    assert sum(offset for ids in newest.values() for offset in ids.values()) == 200


# A cluster that changes ---------------------------------------------------------------


def test_a_new_queue_is_read_from_its_first_message(cluster, open_stream) -> None:
    stream = open_stream(cluster)
    at = stream.initialOffset()
    cluster.create_topic("orders", 3)
    send(cluster.namesrv, *numbered("orders", 12))
    at, rows = next_batch(stream, at)
    begun = queues(at)["broker-a"]
    assert begun["1"] == begun["2"] == 0, "a new queue's first offset is in the checkpoint first"
    at, more = next_batch(stream, at)
    assert bodies(rows + more) == [b"%06d" % i for i in range(12)]


def test_a_new_broker_is_read_from_its_first_message(open_stream) -> None:
    with RocketMQ(topics={"orders": 1}, brokers=2) as cluster:
        cluster.stop("broker-b")
        stream = open_stream(cluster)
        at = stream.initialOffset()
        assert list(queues(at)) == ["broker-a"]
        cluster.start("broker-b")
        cluster.create_topic("orders", 1)
        send(cluster.namesrv, *numbered("orders", 8))
        at, rows = next_batch(stream, at)
        at, more = next_batch(stream, at)
        assert bodies(rows + more) == [b"%06d" % i for i in range(8)]


@pytest.mark.parametrize("absence", ["kill", "pause"])
def test_a_broker_that_is_away_keeps_its_place(cluster, open_stream, absence) -> None:
    stream = open_stream(cluster, requestTimeoutMs=300)
    at = stream.initialOffset()
    send(cluster.namesrv, *numbered("orders", 10))
    getattr(cluster, absence)("broker-b")
    at, rows = next_batch(stream, at)
    assert len(rows) == 5
    assert queues(at)["broker-b"] == {"0": 0}
    getattr(cluster, {"kill": "start", "pause": "resume"}[absence])("broker-b")
    at, more = next_batch(stream, at)
    assert bodies(rows + more) == [b"%06d" % i for i in range(10)]


def test_a_restarted_stream_goes_on_without_any_broker_or_name_server(open_stream) -> None:
    with RocketMQ(topics={"orders": 1}, brokers=1) as cluster:
        at = open_stream(cluster).initialOffset()
        send(cluster.namesrv, *numbered("orders", 3))
        cluster.kill("broker-a")
        restarted = open_stream(cluster, group="g")
        assert restarted.latestOffset(at, ALL) == at, "no route: the topic has no broker"
        cluster.kill("namesrv")
        assert restarted.latestOffset(at, ALL) == at
        cluster.start("namesrv", "broker-a")
        at, rows = next_batch(restarted, at)
        assert len(rows) == 3


def test_all_there_is_needs_every_broker(cluster, open_stream) -> None:
    stream = open_stream(cluster, requestTimeoutMs=200, brokerTimeoutMs=300)
    cluster.pause("broker-b")
    with pytest.raises(ServerUnavailable, match=r"broker-b is away.*waited 300 ms for it"):
        stream.prepareForTriggerAvailableNow()


# Removed messages ---------------------------------------------------------------------


@pytest.fixture
def forgetful():
    settings = {
        "segment_bytes": 256 * 1024,
        "message_bytes_max": 64 * 1024,
        "retained_bytes_max": 512 * 1024,
    }
    with RocketMQ(topics={"orders": 1}, brokers=1, broker_settings=settings) as cluster:
        yield cluster


def overtaken(cluster, stream):
    """A start offset whose messages retention has removed, and the number of removed messages."""
    start = stream.initialOffset()
    big = [Message("orders", os.urandom(20_000)) for _ in range(100)]
    send(cluster.namesrv, *big)
    cluster.advance("1m")
    first = stream._seen().look(stream._routes()).bounds.popitem()[1].first
    assert 0 < first < 100
    return start, first


def test_retention_that_overtook_the_checkpoint_ends_the_stream(forgetful, open_stream) -> None:
    stream = open_stream(forgetful)
    start, first = overtaken(forgetful, stream)
    with pytest.raises(MessagesLost, match=rf"{first} messages from 0 on are gone.*failOnDataL"):
        stream.latestOffset(start, ALL)


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(30)])
def test_or_is_counted_in_the_offset_and_passed_over(forgetful, open_stream, limit) -> None:
    stream = open_stream(forgetful, failOnDataLoss="false")
    at, first = overtaken(forgetful, stream)
    rows = []
    for _ in range(10):
        at, more = next_batch(stream, at, limit)
        rows += more
    assert at["lost"] == first
    assert [row["offset"] for row in rows] == list(range(first, 100))


def test_messages_that_go_between_plan_and_read_are_an_error_there(forgetful, open_stream) -> None:
    strict, lax = open_stream(forgetful), open_stream(forgetful, failOnDataLoss="false")
    start = strict.initialOffset()
    send(forgetful.namesrv, Message("orders", b"first"))
    end = strict.latestOffset(start, ALL)
    overtaken(forgetful, strict)
    with pytest.raises(MessagesLost, match="1 messages from 0 on are gone"):
        rows_of(strict, strict.partitions(start, end))
    assert rows_of(lax, lax.partitions(start, end)) == []


def test_a_queue_that_lost_its_end_stops_the_stream_or_goes_on_there(cluster, open_stream) -> None:
    strict, lax = open_stream(cluster), open_stream(cluster, failOnDataLoss="false")
    at = {"version": 1, "queues": {"orders": {"broker-a": {"0": 50}}}, "lost": 0}
    with pytest.raises(MessagesLost, match="the stream was at 50: the broker lost"):
        strict.latestOffset(at, ALL)
    end, rows = next_batch(lax, at)
    assert (queues(end)["broker-a"], rows) == ({"0": 0}, [])


# Groups -------------------------------------------------------------------------------


def test_a_group_follows_the_batches_that_are_done(cluster, open_stream) -> None:
    stream = open_stream(cluster, group="watchers")
    start = stream.initialOffset()
    send(cluster.namesrv, *numbered("orders", 6))
    end, _ = next_batch(stream, start)
    assert cluster.consumed_by("watchers") == []
    stream.commit(end)
    assert len(cluster.consumed_by("watchers")) == 6
    send(cluster.namesrv, *numbered("orders", 4))
    end, _ = next_batch(stream, end)
    assert len(cluster.consumed_by("watchers")) == 6
    stream.latestOffset(end, ALL)  # Spark calls this after it has written a batch
    assert len(cluster.consumed_by("watchers")) == 10


@pytest.mark.parametrize("options", [{}, {"group": "watchers", "commitOffsets": "false"}])
def test_nothing_is_committed_where_that_is_not_wanted(cluster, open_stream, options) -> None:
    stream = open_stream(cluster, **options)
    start = stream.initialOffset()
    send(cluster.namesrv, *numbered("orders", 6))
    end, _ = next_batch(stream, start)
    stream.commit(end)
    assert cluster.facts(OffsetCommitted, MemberJoined) == []


def test_a_second_stream_of_a_group_is_refused_and_the_first_goes_on(cluster, open_stream) -> None:
    first = open_stream(cluster, group="one")
    at = first.initialOffset()
    second = open_stream(cluster, group="one", groupTimeoutMs=100)
    with pytest.raises(GroupInUse, match=r"'one' has another member .spark@.*a group of its own"):
        second.initialOffset()
    send(cluster.namesrv, *numbered("orders", 4))
    at, rows = next_batch(first, at)
    assert len(rows) == 4
    first.commit(at)
    assert len(cluster.consumed_by("one")) == 4
    first.stop()
    third = open_stream(cluster, group="one", groupTimeoutMs=100)
    assert third.latestOffset(at, ALL) == at


def test_a_stream_does_not_join_the_group_of_a_consumer(cluster, open_stream) -> None:
    with PushConsumer(lambda _: None, {"orders": "*"}, group="shop", namesrv=cluster.namesrv):
        stream = open_stream(cluster, group="shop", groupTimeoutMs=100)
        with pytest.raises(GroupInUse, match="a query and a consumer"):
            stream.initialOffset()


def test_a_stream_commits_nothing_while_another_member_is_there(
    cluster, open_stream, monkeypatch
) -> None:
    monkeypatch.setattr(group_membership, "HEARTBEAT_S", 0.05)
    stream = open_stream(cluster, group="one")
    start = stream.initialOffset()
    send(cluster.namesrv, *numbered("orders", 4))
    end, _ = next_batch(stream, start)
    cluster.create_topic("stock", 1)
    with PushConsumer(lambda _: None, {"stock": "*"}, group="one", namesrv=cluster.namesrv):
        until(lambda: not stream._membership.is_only_member())
        stream.commit(end)
        of_stream = [f for f in cluster.facts(OffsetCommitted) if f.queue.topic == "orders"]
        assert {fact.offset for fact in of_stream} == {0}, "committed before the other joined"
    until(stream._membership.is_only_member)
    stream.commit(end)
    assert len(cluster.consumed_by("one")) == 4


def until(is_so, patience_s=20.0) -> None:
    deadline_s = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_stream_that_was_killed_does_not_stop_its_restart(cluster, open_stream) -> None:
    killed = open_stream(cluster, group="one")
    at = killed.initialOffset()
    for connection in killed._membership._brokers.all():
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)  # as the kernel does when a process is killed
    assert open_stream(cluster, group="one").latestOffset(at, ALL) == at


# Choice of offsets --------------------------------------------------------------------

BIG, SMALL = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def test_each_queue_goes_on_by_one_at_least_however_few_a_batch_may_have() -> None:
    ends = limited({BIG: 0, SMALL: 7}, {BIG: 10_000, SMALL: 10}, 20)
    assert ends == {BIG: 19, SMALL: 8}
    assert limited({BIG: 5, SMALL: 7}, {BIG: 5, SMALL: 7}, 20) == {BIG: 5, SMALL: 7}


def test_a_queue_that_has_only_an_end_is_not_read_in_this_batch() -> None:
    assert ranges({}, {BIG: 5}, {"broker-a": "here"}) == []
    (part,) = ranges({SMALL: 2}, {BIG: 5, SMALL: 3}, {"broker-a": "here"})
    assert (part.queue, part.start, part.end, part.address) == (SMALL, 2, 3, "here")


# Errors -------------------------------------------------------------------------------


def test_a_stream_of_no_topic_or_of_no_cluster_is_refused_at_once(cluster, open_stream) -> None:
    with pytest.raises(TopicUnknown, match="did you mean orders"):
        open_stream(cluster, "order", brokerTimeoutMs=60_000).initialOffset()
    cluster.kill("namesrv")
    with pytest.raises(ServerUnavailable, match="no NameServer answers"):
        open_stream(cluster, brokerTimeoutMs=60_000).initialOffset()


def test_a_stream_has_no_end(cluster) -> None:
    with pytest.raises(BadOption, match="a stream has no end"):
        a_source(cluster.namesrv, "orders", end="latest").streamReader(ROW_SHAPE)


def test_a_checkpoint_of_another_release_is_refused(cluster, open_stream) -> None:
    with pytest.raises(ValueError, match="version 2, this one reads 1"):
        open_stream(cluster).latestOffset({"version": 2}, ALL)


def test_a_reader_travels_to_tasks_before_it_is_used(cluster) -> None:
    reader = a_source(cluster.namesrv, "orders", group="g").streamReader(ROW_SHAPE)
    assert pickle.loads(pickle.dumps(reader)) is not None  # noqa: S301  # our own bytes

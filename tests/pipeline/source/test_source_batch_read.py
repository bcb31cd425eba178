"""Batch reads of topics: start and end offsets, the number of partitions, and errors."""

from __future__ import annotations

import json
import os
import socket
import threading

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from rocketmq_emulator import Message
from rocketmq_emulator.facts import PullAnswered
from rocketmq_emulator.pipeline.source.errors import (
    BadOption,
    CredentialsRequired,
    OffsetsOutOfRange,
    ServerUnavailable,
    TopicUnknown,
)
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.sync import Producer
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import (
    a_reader,
    a_source,
    bodies,
    numbered,
    read,
    rows_of,
    send,
    send_many,
)


@pytest.fixture(scope="module")
def cluster():
    topics = {"orders": 2, "stock": 1, "many": 2, "tagged": 1, "timed": 1, "empty": 1}
    with RocketMQ(topics=topics, brokers=2) as cluster:
        send(cluster.namesrv, *numbered("orders", 40))
        send(cluster.namesrv, *numbered("stock", 3))
        send_many(cluster.namesrv, "many", 3000)
        yield cluster


def test_a_topic_is_read_whole_and_every_message_once(cluster) -> None:
    rows = read(cluster.namesrv, "orders")
    assert bodies(rows) == [b"%06d" % i for i in range(40)]
    places = {(row["broker"], row["queue_id"], row["offset"]) for row in rows}
    assert len(places) == 40
    assert {row["broker"] for row in rows} == {"broker-a", "broker-b"}


def test_several_topics_are_read_together(cluster) -> None:
    rows = read(cluster.namesrv, "orders, stock")
    assert [row["topic"] for row in rows].count("stock") == 3
    assert len(rows) == 43


def test_a_topic_without_messages_has_no_rows(cluster) -> None:
    assert read(cluster.namesrv, "empty") == []


def test_a_long_queue_comes_in_windows_and_in_order(cluster) -> None:
    reader = a_reader(cluster.namesrv, "many")
    for partition in reader.partitions():
        offsets = [row["offset"] for row in rows_of(reader, [partition])]
        assert offsets == list(range(partition.start, partition.end))
    assert bodies(read(cluster.namesrv, "many")) == [b"%06d" % i for i in range(3000)]


def test_answers_shorter_than_their_windows_are_filled_up_in_order(cluster) -> None:
    cluster.create_topic("uneven", 1)
    sizes = [10] * 130 + [60_000] * 40 + [10] * 130  # one answer has at most 256 KiB
    send(cluster.namesrv, *(Message("uneven", os.urandom(size)) for size in sizes))
    reader = a_reader(cluster.namesrv, "uneven", "offset")
    for partition in reader.partitions():
        offsets = [row["offset"] for row in rows_of(reader, [partition])]
        assert offsets == list(range(150))


def test_windows_widen_again_behind_large_messages(cluster) -> None:
    cluster.create_topic("widening", 1)
    sizes = [100_000] * 8 + [10] * 4_000
    with Producer(group="source-tests", namesrv=cluster.namesrv) as producer:
        for at in range(0, 8, 2):
            producer.send_batch(
                [Message("widening", os.urandom(size)) for size in sizes[at : at + 2]]
            )
        for _ in range(8, len(sizes), 100):
            producer.send_batch([Message("widening", b"x" * 10)] * 100)
    pulls = len(cluster.facts(PullAnswered))
    assert len(read(cluster.namesrv, "widening", "offset")) == len(sizes)
    assert 100 < len(cluster.facts(PullAnswered)) - pulls < len(sizes) / 32 * 2


def test_queues_are_cut_when_more_parts_are_wanted(cluster) -> None:
    assert len(a_reader(cluster.namesrv, "many").partitions()) == 4
    reader = a_reader(cluster.namesrv, "many", minPartitions=10)
    parts = reader.partitions()
    assert 10 <= len(parts) <= 14
    assert bodies(rows_of(reader, parts)) == [b"%06d" % i for i in range(3000)]


def test_a_read_ends_where_it_was_planned(cluster) -> None:
    cluster.create_topic("growing", 1)
    send(cluster.namesrv, *numbered("growing", 5))
    reader = a_reader(cluster.namesrv, "growing")
    parts = reader.partitions()
    send(cluster.namesrv, *numbered("growing", 5, start=5))
    assert bodies(rows_of(reader, parts)) == [b"%06d" % i for i in range(5)]


def test_tags_are_filtered_by_the_broker_and_by_their_text(cluster) -> None:
    tags = ["TagA", "TagB", "Aa", "BB", None]  # Aa and BB have the same hash code
    sent = [Message("tagged", b"%d" % i, tags=tags[i % 5]) for i in range(100)]
    send(cluster.namesrv, *sent)
    rows = read(cluster.namesrv, "tagged", tags="TagA || BB")
    assert {row["tags"] for row in rows} == {"TagA", "BB"}
    assert len(rows) == 40


def test_offsets_bound_a_read_queue_by_queue(cluster) -> None:
    start = {"orders": {"broker-a": {"0": 3, "1": -1}, "broker-b": {"0": -2}}}
    end = {"orders": {"broker-b": {"1": 4}}}
    options = {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    rows = read(cluster.namesrv, "orders", **options)
    found = {}
    for row in rows:
        found.setdefault((row["broker"], row["queue_id"]), []).append(row["offset"])
    assert found == {
        ("broker-a", 0): list(range(3, 10)),
        ("broker-b", 0): list(range(10)),
        ("broker-b", 1): list(range(4)),
    }


def test_a_time_begins_with_the_first_message_stored_at_it(cluster) -> None:
    for number in range(5):
        send(cluster.namesrv, *numbered("timed", 6, start=6 * number))
        cluster.advance("1s")
    send_many(cluster.namesrv, "timed", 100, start=30)  # many in one millisecond
    stored_ms = {
        (row["broker"], row["offset"]): round(row["store_timestamp"].timestamp() * 1000)
        for row in read(cluster.namesrv, "timed")
    }
    for at_ms in {ms + near for ms in stored_ms.values() for near in (-1, 0, 1)}:
        rows = read(cluster.namesrv, "timed", "broker offset", start=at_ms)
        expected = {place for place, ms in stored_ms.items() if ms >= at_ms}
        assert {(row["broker"], row["offset"]) for row in rows} == expected


# Errors -------------------------------------------------------------------------------


def test_a_topic_there_is_not_is_answered_with_the_nearest(cluster) -> None:
    with pytest.raises(TopicUnknown, match=r"a topic 'order'.*did you mean orders\?"):
        read(cluster.namesrv, "order")
    with pytest.raises(TopicUnknown, match="create it, send to it first, or start its broker"):
        read(cluster.namesrv, "zzzzzzzz")


def test_a_name_server_that_is_down_is_named_and_nothing_is_waited_for() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(
        ServerUnavailable, match=f"no NameServer answers: .*{address}.*option namesrv"
    ):
        read(address, "orders", brokerTimeoutMs=60_000)


def test_a_name_server_that_is_down_leaves_the_next_one(cluster) -> None:
    assert len(read(f"127.0.0.1:9;{cluster.namesrv}", "stock")) == 3


@pytest.mark.parametrize(
    ("start", "error", "says"),
    [
        (99, OffsetsOutOfRange, "asks for 99 in queue 0 of orders at broker-a.*0 to 10: take one"),
        (-3, OffsetsOutOfRange, "asks for -3"),
    ],
)
def test_offsets_that_a_queue_has_not_are_refused(cluster, start, error, says) -> None:
    with pytest.raises(error, match=says):
        read(cluster.namesrv, "orders", start=f'{{"orders": {{"broker-a": {{"0": {start}}}}}}}')


def test_a_queue_there_is_not_is_answered_with_the_nearest(cluster) -> None:
    with pytest.raises(BadOption, match=r"names orders/broker-c/0.*did you mean orders/broker-"):
        read(cluster.namesrv, "orders", start='{"orders": {"broker-c": {"0": 1}}}')


def test_an_end_before_any_message_is_refused(cluster) -> None:
    with pytest.raises(BadOption, match="cannot be latest: it would be empty"):
        read(cluster.namesrv, "orders", start="latest")
    with pytest.raises(BadOption, match="cannot be earliest"):
        read(cluster.namesrv, "orders", end="earliest")


def test_a_column_there_is_not_is_answered_with_the_nearest(cluster) -> None:
    source = a_source(cluster.namesrv, "orders")
    with pytest.raises(BadOption, match="no column 'bodies': did you mean body"):
        source.reader(StructType([StructField("bodies", BinaryType())]))
    with pytest.raises(
        BadOption, match="body is binary, not string: read it with that type, and cast"
    ):
        source.reader(StructType([StructField("body", StringType())]))


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"),
        (16, "The username cannot be null."),
    ],
)
def test_access_control_is_refused_by_name(cluster, code, remark) -> None:
    rule = ReplyRule(code=RequestCode.GET_MIN_OFFSET, error_code=code, remark=remark, count=1)
    cluster.set_reply_rule("broker-a", rule)
    with pytest.raises(
        CredentialsRequired, match=r"asks for credentials.*not supported.*white list"
    ):
        read(cluster.namesrv, "orders")
    cluster.remove_reply_rule("broker-a")


def test_a_topic_that_may_not_be_read_is_no_access_control(cluster) -> None:
    rule = ReplyRule(
        code=RequestCode.PULL_MESSAGE,
        error_code=ResponseCode.NO_PERMISSION,
        remark="the topic[orders] pulling message is forbidden",
        count=1,
    )
    cluster.set_reply_rule("broker-a", rule)
    with pytest.raises(Exception, match=r"refused PULL_MESSAGE with code 16.*is forbidden"):
        read(cluster.namesrv, "orders")
    cluster.remove_reply_rule("broker-a")


def test_a_broker_that_comes_back_is_waited_for_and_the_read_goes_on(cluster) -> None:
    reader = a_reader(cluster.namesrv, "many", brokerTimeoutMs=20_000)
    parts = reader.partitions()
    cluster.kill("broker-a")
    back = threading.Timer(0.3, cluster.start, ["broker-a"])
    back.start()
    rows = rows_of(reader, parts)
    back.join()
    assert bodies(rows) == [b"%06d" % i for i in range(3000)]


def test_a_connection_that_is_cut_costs_no_message_and_doubles_none(cluster) -> None:
    for share in (1.0, 0.2, 0.05):
        pulls = RequestCode.PULL_MESSAGE
        cut = ReplyRule(code=pulls, cut_connection=True, count=3, probability=share)
        cluster.set_reply_rule("broker-a", cut)
        rows = read(cluster.namesrv, "many", brokerTimeoutMs=20_000)
        assert bodies(rows) == [b"%06d" % i for i in range(3000)]
        cluster.remove_reply_rule("broker-a")


def test_a_broker_that_stays_away_is_an_error_that_says_how_long(cluster) -> None:
    cluster.pause("broker-b")
    try:
        with pytest.raises(
            ServerUnavailable, match=r"broker-b.*waited 200 ms for it .option brokerTimeout"
        ):
            read(cluster.namesrv, "stock", requestTimeoutMs=100, brokerTimeoutMs=200)
    finally:
        cluster.resume("broker-b")

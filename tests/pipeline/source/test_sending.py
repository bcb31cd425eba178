"""Rows written to topics: their messages, the number of rows in a send, and errors."""

from __future__ import annotations

import contextlib
import threading

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource
from rocketmq_emulator.pipeline.source.errors import BadOption, NotSent
from rocketmq_emulator.pipeline.source.options import SinkOptions
from rocketmq_emulator.pipeline.source.sending import TaskSender
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import bodies, read

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
KINDS = {
    "body": BinaryType(),
    "topic": StringType(),
    "keys": ArrayType(StringType()),
    "tags": StringType(),
    "properties": MapType(StringType(), StringType()),
    "delay_level": IntegerType(),
    "shard_key": StringType(),
}


@pytest.fixture(scope="module")
def servers():
    with RocketMQ(topics={"orders": 2}, brokers=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(servers):
    servers.reset()
    return servers


def a_writer(namesrv, columns="body", *, kinds=KINDS, **options):
    schema = StructType([StructField(name, kinds[name]) for name in columns.split()])
    texts = {name: str(value) for name, value in options.items()}
    given = {"namesrv": namesrv, "topic": "orders", "brokerTimeoutMs": "0", **texts}
    source = RocketMQDataSource(CaseInsensitiveDict({k: v for k, v in given.items() if v}))
    return source.writer(schema, overwrite=False)


def write(namesrv, rows, columns="body", **options):
    batch = pa.Table.from_pylist(rows).to_batches()
    return a_writer(namesrv, columns, **options).write(iter(batch)).count


def test_every_row_becomes_a_message_with_what_its_columns_say(cluster) -> None:
    row = {
        "body": b"two cups",
        "keys": ["k1", "k2"],
        "tags": "tea",
        "properties": {"colour": "green", "城市": "杭州", "UNIQ_KEY": "old", "empty": ""},
    }
    assert write(cluster.namesrv, [row], "body keys tags properties") == 1
    (found,) = read(cluster.namesrv, "orders")
    assert (found["body"], found["keys"], found["tags"]) == (b"two cups", "k1 k2", "tea")
    properties = dict(found["properties"])
    assert (properties["colour"], properties["城市"]) == ("green", "杭州")
    assert found["msg_id"] != "old"
    assert "empty" not in properties


def test_many_rows_go_in_few_sends_over_all_queues(cluster) -> None:
    rows = [{"body": b"%05d" % i} for i in range(5_000)]
    assert write(cluster.namesrv, rows) == 5_000
    found = read(cluster.namesrv, "orders")
    assert bodies(found) == [row["body"] for row in rows]
    assert len({row["msg_id"] for row in found}) == 5_000
    assert len({(row["broker"], row["queue_id"]) for row in found}) == 4
    assert cluster.facts(MessageStored)
    large = [{"body": b"x" * 400_000} for _ in range(20)]
    assert write(cluster.namesrv, large) == 20
    assert len(read(cluster.namesrv, "orders", "offset")) == 5_020


def test_a_row_may_name_its_topic_and_a_new_topic_is_made(cluster) -> None:
    rows = [{"body": b"%d" % i, "topic": ["new", "other", None][i % 3]} for i in range(9)]
    write(cluster.namesrv, rows, "body topic")
    counts = [len(read(cluster.namesrv, topic)) for topic in ("new", "other", "orders")]
    assert counts == [3, 3, 3]


def test_rows_of_one_shard_key_keep_their_order_in_one_queue(cluster) -> None:
    rows = [{"body": b"%03d" % i, "shard_key": f"user-{i % 5}"} for i in range(50)]
    write(cluster.namesrv, rows, "body shard_key")
    places: dict[str, list] = {}
    for row in read(cluster.namesrv, "orders"):
        shard = dict(row["properties"])["__SHARDINGKEY"]
        place = (row["broker"], row["queue_id"])
        places.setdefault(shard, []).append((place, row["offset"], row["body"]))
    for found in places.values():
        assert len({place for place, _, _ in found}) == 1
        in_order = [body for _, _, body in sorted(found, key=lambda one: one[1])]
        assert in_order == sorted(in_order)


def test_a_delayed_row_comes_when_it_is_due(cluster) -> None:
    rows = [{"body": b"now", "delay_level": None}, {"body": b"later", "delay_level": 1}]
    write(cluster.namesrv, rows, "body delay_level")
    assert bodies(read(cluster.namesrv, "orders")) == [b"now"]
    cluster.advance("2s")
    assert bodies(read(cluster.namesrv, "orders")) == [b"later", b"now"]


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION])
def test_a_refusal_leads_to_another_broker(cluster, code) -> None:
    remark = "sending is forbidden"
    for request in SENDS:
        rule = ReplyRule(code=request, error_code=code, remark=remark)
        cluster.set_reply_rule("broker-a", rule)
    assert write(cluster.namesrv, [{"body": b"%d" % i} for i in range(10)]) == 10
    assert {row["broker"] for row in read(cluster.namesrv, "orders")} == {"broker-b"}


def test_a_refused_send_goes_elsewhere_at_once_however_many_queues_its_broker_has(cluster) -> None:
    cluster.create_topic("wide", 8)
    for request in SENDS:
        rule = ReplyRule(code=request, error_code=ResponseCode.SYSTEM_ERROR, count=2)
        cluster.set_reply_rule("broker-a", rule)
    rows = [{"body": b"%d" % i, "shard_key": None} for i in range(3)]
    with contextlib.closing(
        TaskSender(SinkOptions(namesrv=(cluster.namesrv,), topic="wide"), 0)
    ) as sender:
        for row in rows:  # each send begins with the first queue, of broker-a
            sender._turn = 0
            sender.send(pa.RecordBatch.from_pylist([row]))
    placed = [row["broker"] for row in read(cluster.namesrv, "wide")]
    assert sorted(placed) == ["broker-a", "broker-b", "broker-b"]


def test_a_broker_that_is_away_is_waited_for(cluster) -> None:
    for name in ("broker-a", "broker-b"):
        cluster.kill(name)
    back = threading.Timer(0.3, cluster.start, ["broker-a", "broker-b"])
    back.start()
    rows = [{"body": b"%d" % i} for i in range(10)]
    assert write(cluster.namesrv, rows, brokerTimeoutMs=30_000) == 10
    back.join()
    assert len(read(cluster.namesrv, "orders")) == 10


def test_a_send_without_an_answer_is_sent_again_so_rows_may_come_twice(cluster) -> None:
    for request in SENDS:
        cut = ReplyRule(code=request, cut_connection=True, count=1)
        cluster.set_reply_rule("broker-a", cut)
        cluster.set_reply_rule("broker-b", cut)
    rows = [{"body": b"%d" % i} for i in range(10)]
    write(cluster.namesrv, rows, brokerTimeoutMs=30_000)
    found = bodies(read(cluster.namesrv, "orders"))
    assert set(found) == {row["body"] for row in rows}


# Errors -------------------------------------------------------------------------------


def test_who_cannot_be_reached_is_named_with_what_was_sent(cluster) -> None:
    for name in ("broker-a", "broker-b"):
        cluster.pause(name)
    try:
        with pytest.raises(NotSent, match=r"0 rows of this task were sent, 1 or more.*orders: .*"):
            write(cluster.namesrv, [{"body": b"x"}], requestTimeoutMs=200)
    finally:
        for name in ("broker-a", "broker-b"):
            cluster.resume(name)


def test_a_topic_that_nobody_may_make_is_answered_with_the_nearest() -> None:
    says = r"'order'.*did you mean orders\?.*option brokerTimeout"
    settings = {"auto_create_topic": False}
    with (
        RocketMQ(topics={"orders": 1}, brokers=1, broker_settings=settings) as cluster,
        pytest.raises(NotSent, match=says),
    ):
        write(cluster.namesrv, [{"body": b"x"}], topic="order")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"body": None}, "row 1 of 2 cannot be sent: its body is null"),
        ({"body": b""}, "row 1 of 2 cannot be sent: a message has a body"),
        ({"body": b"x" * (4 << 20)}, "is over the limit"),
        ({"body": b"x", "tags": "a || b"}, "a message has one tag"),
        ({"body": b"x", "tags": "a\x02b"}, "which end properties"),
        ({"body": b"x", "topic": "a b"}, "illegal characters"),
        ({"body": b"x", "properties": {"a": "b" * 40_000}}, "longer than 32767"),
    ],
)
def test_a_row_that_cannot_be_sent_stops_the_others(cluster, row, says) -> None:
    columns = "body topic tags properties"
    empty = dict.fromkeys(columns.split())
    rows = [{**empty, "body": b"good"}, {**empty, **row}]
    with pytest.raises(NotSent, match=says):
        write(cluster.namesrv, rows, columns)
    assert read(cluster.namesrv, "orders") == []


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("body value", {}, "no column 'value': it writes body, topic, keys"),
        ("body tag", {}, "no column 'tag': .*did you mean tags"),
        ("keys", {}, "a column body is missing"),
        ("number", {}, "no column 'number'"),
        ("body", {"topic": ""}, "no topic.*or a column topic"),
        ("body", {"topics": "orders"}, "no option 'topics': did you mean topic"),
        ("body", {"topic": "a b"}, "illegal characters"),
        ("body", {"group": "a b"}, "illegal characters"),
    ],
)
def test_a_wrong_column_or_option_is_named(columns, options, says) -> None:
    kinds = {**KINDS, **dict.fromkeys(("value", "tag", "number"), StringType())}
    with pytest.raises(BadOption, match=says):
        a_writer("127.0.0.1:1", columns, kinds=kinds, **options)


def test_a_column_of_another_type_is_to_be_cast() -> None:
    kinds = {**KINDS, "tags": IntegerType()}
    with pytest.raises(BadOption, match="tags is string, not int: cast it"):
        a_writer("127.0.0.1:1", "body tags", kinds=kinds)


def test_topics_are_not_overwritten() -> None:
    source = RocketMQDataSource(CaseInsensitiveDict({}))
    with pytest.raises(BadOption, match="cannot be overwritten"):
        source.writer(StructType([]), overwrite=True)


def test_what_was_read_can_be_written_elsewhere(cluster) -> None:
    write(cluster.namesrv, [{"body": b"x", "tags": "t"}], "body tags")
    columns = "body keys tags properties"
    (row,) = read(cluster.namesrv, "orders", columns)
    row["properties"] = dict(row["properties"])
    write(cluster.namesrv, [row], columns, kinds={**KINDS, "keys": StringType()}, topic="copy")
    (copied,) = read(cluster.namesrv, "copy", columns)
    assert (copied["body"], copied["tags"]) == (b"x", "t")

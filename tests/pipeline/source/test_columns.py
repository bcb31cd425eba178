"""Records of each layout become columns with the values that the client reads."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE, record_batch
from rocketmq_emulator.pipeline.source.errors import MessagesLost, SourceError
from rocketmq_emulator.protocol.flags import INNER_BATCH, LZ4, ZLIB, ZSTD
from rocketmq_emulator.protocol.messages.compression import compress, compressed_flag
from rocketmq_emulator.protocol.messages.message import decode_messages
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.properties import encode_properties
from rocketmq_emulator.protocol.messages.records import encode_record
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.pipeline.source_topics import shape_of

QUEUE = MessageQueue("orders", "broker-a", 3)
V4, V6 = host_bytes("10.0.0.1:10911"), host_bytes("[fd00::1]:10911")
ALL = to_arrow_schema(ROW_SHAPE, timezone="UTC")


def a_record(offset: int = 0, body: bytes = b"hello", properties: bytes = b"", **more) -> bytes:
    values = {
        "queue_id": 3,
        "queue_offset": offset,
        "position": 100 + offset,
        "born_ms": 1_000 + offset,
        "born_host": V4,
        "store_ms": 2_000 + offset,
        "store_host": V4,
        "reconsume_times": offset % 3,
        "topic": b"orders",
        **more,
    }
    return encode_record(values.pop("topic"), body, properties, **values)


def rows(data: bytes, offsets: range = range(1 << 62), columns: str = "", tags=()) -> list[dict]:
    schema = to_arrow_schema(shape_of(columns), timezone="UTC")
    return record_batch(data, schema, QUEUE, offsets, tags).to_pylist()


def as_the_client_reads(data: bytes) -> list[dict]:
    """The same columns from the client's decoder, which decodes messages one by one."""
    return [
        {
            "topic": QUEUE.topic,
            "broker": QUEUE.broker_name,
            "queue_id": message.queue_id,
            "offset": message.queue_offset,
            "msg_id": message.msg_id,
            "keys": message.keys,
            "tags": message.tags,
            "properties": sorted(message.properties.items()),
            "body": message.body,
            "born_timestamp": dt.datetime.fromtimestamp(message.born_timestamp / 1000, dt.UTC),
            "store_timestamp": dt.datetime.fromtimestamp(message.store_timestamp / 1000, dt.UTC),
            "reconsume_times": message.reconsume_times,
        }
        for message in decode_messages(data)
    ]


texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]))
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "DELAY", "城市"])
records = st.builds(
    a_record,
    offset=st.integers(0, 2**40),
    body=st.binary(max_size=40),
    properties=st.lists(st.tuples(names, texts), max_size=5).flatmap(
        lambda pairs: st.booleans().map(lambda end: encode_properties(pairs, trailing=end))
    ),
    born_host=st.sampled_from([V4, V6]),
    store_host=st.sampled_from([V4, V6]),
    topic=st.sampled_from([b"orders", b"o" * 200]),
)


@given(st.lists(records, min_size=1, max_size=8))
def test_any_records_become_what_the_client_makes_of_them(some) -> None:
    data = b"".join(some)
    found = rows(data)
    for row in found:
        row["properties"].sort()
    assert found == as_the_client_reads(data)


@pytest.mark.parametrize("kind", [None, ZLIB, LZ4, ZSTD])
def test_compressed_bodies_are_plain_among_plain_ones(kind) -> None:
    packed = compress(b"x" * 5000, kind or ZLIB)
    data = a_record(0) + a_record(1, packed, sys_flag=compressed_flag(0, kind)) + a_record(2)
    assert [row["body"] for row in rows(data)] == [b"hello", b"x" * 5000, b"hello"]


def test_of_two_properties_of_one_name_the_last_counts() -> None:
    data = a_record(properties=b"TAGS\x01old\x02a\x011\x02TAGS\x01new\x02")
    (row,) = rows(data)
    assert row["tags"] == "new"
    assert dict(row["properties"]) == {"TAGS": "new", "a": "1"}
    assert len(row["properties"]) == 2


def test_properties_that_are_not_utf8_are_read_as_upstream_reads_them() -> None:
    (row,) = rows(a_record(properties=b"KEYS\x01\xff\x02"))
    assert row["keys"] == "�"


def test_a_message_without_a_producers_id_has_that_of_its_store() -> None:
    for host in (V4, V6):
        (row,) = rows(a_record(7, store_host=host))
        assert row["msg_id"] == host.hex().upper() + f"{107:016X}"


def test_only_the_wanted_columns_are_made() -> None:
    (row,) = rows(a_record(5, b"body"), columns="body offset")
    assert row == {"body": b"body", "offset": 5}


def test_rows_outside_of_the_range_are_left_out() -> None:
    data = b"".join(map(a_record, range(5)))
    assert [row["offset"] for row in rows(data, range(1, 3))] == [1, 2]


def test_tags_are_compared_as_texts() -> None:
    # Brokers compare hash codes, which are equal for these two tags.
    data = a_record(0, properties=b"TAGS\x01Aa") + a_record(1, properties=b"TAGS\x01BB")
    data += a_record(2)
    assert [row["offset"] for row in rows(data, tags=("BB",), columns="offset")] == [1]


def test_batches_have_the_schema_that_spark_compares_them_with() -> None:
    batch = record_batch(a_record(), ALL, QUEUE, range(9))
    assert batch.schema.equals(ALL)
    batch.validate(full=True)
    assert isinstance(batch, pa.RecordBatch)


@pytest.mark.parametrize("cut", [1, 50, 95])
def test_a_record_cut_short_is_an_error_and_no_row(cut) -> None:
    with pytest.raises(MessagesLost, match="cut short"):
        rows(a_record() + a_record(1)[:-cut])


def test_bytes_that_are_no_record_are_an_error() -> None:
    data = bytearray(a_record())
    data[4:8] = b"none"
    with pytest.raises(MessagesLost, match="no record"):
        rows(bytes(data))


def test_inner_batches_are_refused_by_name() -> None:
    with pytest.raises(SourceError, match="BatchCQ"):
        rows(a_record(sys_flag=INNER_BATCH))

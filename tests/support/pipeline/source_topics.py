"""For the tests of the source: sending numbered messages, and reading them without Spark.

Spark only passes options to the reader and Arrow batches from it.  So most tests call the reader
directly, which takes milliseconds, and only a few use Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader
from pyspark.sql.types import StructType

from rocketmq_emulator import Message
from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE
from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource
from rocketmq_emulator.sync import Producer

QUICK = {"requestTimeoutMs": "2000", "brokerTimeoutMs": "0"}  # no waiting for brokers


def a_source(namesrv: str, topic: str, **options: Any) -> RocketMQDataSource:
    """The source as Spark creates it: names of options ignore case, and values are texts."""
    texts = {name: str(value) for name, value in options.items()}
    given = {"namesrv": namesrv, "topic": topic, **QUICK, **texts}
    return RocketMQDataSource(CaseInsensitiveDict(given))


def shape_of(columns: str) -> StructType:
    """The schema of the named *columns*, separated by spaces; of all if the text is empty."""
    return StructType([ROW_SHAPE[name] for name in columns.split()]) if columns else ROW_SHAPE


def a_reader(namesrv: str, topic: str, columns: str = "", **options: Any) -> DataSourceReader:
    return a_source(namesrv, topic, **options).reader(shape_of(columns))


def rows_of(reader: Any, partitions: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """All rows of a read, from the Arrow batches that Spark would get."""
    found = reader.partitions() if partitions is None else partitions
    batches = [batch for partition in found for batch in reader.read(partition)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def read(namesrv: str, topic: str, columns: str = "", **options: Any) -> list[dict[str, Any]]:
    return rows_of(a_reader(namesrv, topic, columns, **options))


def bodies(rows: Iterable[dict[str, Any]]) -> list[bytes]:
    return sorted(row["body"] for row in rows)


def send(namesrv: str, *messages: Message, **settings: Any) -> None:
    with Producer(group="source-tests", namesrv=namesrv, **settings) as producer:
        for message in messages:
            producer.send(message)


def numbered(topic: str, count: int, start: int = 0, **more: Any) -> list[Message]:
    return [Message(topic, b"%06d" % i, keys=f"k{i}", **more) for i in range(start, start + count)]


def send_many(namesrv: str, topic: str, count: int, start: int = 0) -> None:
    """Send in batches of a hundred, so that thousands of messages take little time."""
    with Producer(group="source-tests", namesrv=namesrv) as producer:
        for at in range(start, start + count, 100):
            producer.send_batch(numbered(topic, min(100, start + count - at), at))

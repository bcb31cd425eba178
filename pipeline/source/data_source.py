"""``format("rocketmq")`` of Spark: readers and writers, for batches and for streams.

    spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876").option("topic", "orders")

In a write each task sends its rows.  There is nothing to commit: what was sent is stored.  A task
or a batch that is done again sends its rows again, so each row arrives at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE, check_shape
from rocketmq_emulator.pipeline.source.errors import BadOption
from rocketmq_emulator.pipeline.source.options import SinkOptions, sink_options, source_options
from rocketmq_emulator.pipeline.source.readers import RocketMQBatchReader, RocketMQStreamReader
from rocketmq_emulator.pipeline.source.sending import send_all

if TYPE_CHECKING:
    import pyarrow as pa


class RocketMQDataSource(DataSource):
    """Topics of RocketMQ as rows.  See docs/spark-source.md."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """All columns, for who asks for none.  Raises ``BadOption``."""
        source_options(self.options)
        return ROW_SHAPE

    def reader(self, schema: StructType) -> RocketMQBatchReader:
        """Of ``spark.read``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQBatchReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:  # noqa: N802  # Spark's
        """Of ``spark.readStream``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQStreamReader(source_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> RocketMQWriter:
        """Of ``df.write``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption('topics cannot be overwritten: mode("append")')
        return RocketMQWriter(sink_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RocketMQStreamWriter:  # noqa: N802
        """Of ``df.writeStream``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption(
                'a topic takes messages, it has no rows to replace: outputMode("append")'
            )
        return RocketMQStreamWriter(sink_options(self.options, schema))


def register(spark: SparkSession) -> None:
    """Let *spark* know the format, where it is not found by itself (``pyspark_rocketmq``)."""
    spark.dataSource.register(RocketMQDataSource)


# Writers ------------------------------------------------------------------------------


Messages = list[WriterCommitMessage | None]
log = logging.getLogger("rocketmq_emulator.spark")


class RowsSent(WriterCommitMessage):
    """What a task has sent."""

    def __init__(self, count: int) -> None:
        self.count = count


class RocketMQWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages) -> None:
        """Tasks that were done before another one failed have sent their rows."""
        _log_rows_kept(messages)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """As ``RocketMQWriter.abort``."""
        _log_rows_kept(messages)


def _sent(iterator: Iterator[pa.RecordBatch], options: SinkOptions) -> RowsSent:
    task = TaskContext.get()
    return RowsSent(send_all(iterator, options, task.partitionId() if task else 0))


def _log_rows_kept(messages: Messages) -> None:
    done = [message.count for message in messages if isinstance(message, RowsSent)]
    log.warning(
        "a write failed: the %d rows of %d tasks that were done stay in their topics",
        sum(done),
        len(done),
    )

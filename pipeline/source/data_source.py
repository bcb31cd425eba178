"""``format("rocketmq")`` of Spark: readers and writers, for batches and for streams.

    spark.read.format("rocketmq").option("namesrv", "127.0.0.1:9876").option("topic", "orders")

In a write each task sends its rows.  There is nothing to commit: a sent row is stored at once.  A
task or a batch that is repeated sends its rows again, so each row arrives at least once.
"""

from __future__ import annotations

import logging
import os
import sys
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
        """The name for ``format(…)``."""
        return "rocketmq"

    def schema(self) -> StructType:
        """All columns; used if the query gives no schema.  Raises ``BadOption``."""
        source_options(self.options)
        return ROW_SHAPE

    def reader(self, schema: StructType) -> RocketMQBatchReader:
        """The reader of ``spark.read``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQBatchReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:  # noqa: N802  # Spark's
        """The reader of ``spark.readStream``.  Raises ``BadOption``."""
        check_shape(schema)
        return RocketMQStreamReader(source_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> RocketMQWriter:
        """The writer of ``df.write``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption('topics cannot be overwritten: mode("append")')
        return RocketMQWriter(sink_options(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RocketMQStreamWriter:  # noqa: N802
        """The writer of ``df.writeStream``.  Raises ``BadOption``."""
        if overwrite:
            raise BadOption(
                'a topic takes messages, it has no rows to replace: outputMode("append")'
            )
        return RocketMQStreamWriter(sink_options(self.options, schema))


def register(spark: SparkSession) -> None:
    """Register the format at *spark*, to run in this interpreter.

    Without it Spark looks for ``pyspark_rocketmq`` in PYSPARK_PYTHON, or in the first ``python3``
    on PATH, which is another one if this environment is not activated.  If PYSPARK_PYTHON is set,
    the format runs there.
    """
    is_here = isinstance(spark, SparkSession) and str(spark.sparkContext.master).startswith(
        "local"
    )
    if is_here and "PYSPARK_PYTHON" not in os.environ:
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(RocketMQDataSource)


# Writers ------------------------------------------------------------------------------


Messages = list[WriterCommitMessage | None]
log = logging.getLogger("rocketmq_emulator.spark")


class RowsSent(WriterCommitMessage):
    """The number of rows that a task has sent."""

    def __init__(self, count: int) -> None:
        self.count = count


class RocketMQWriter(DataSourceArrowWriter):
    """Writes a batch; tasks send their rows."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages) -> None:
        """Logs the rows that finished tasks have sent: they stay in their topics."""
        _log_rows_kept(messages)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream; tasks send their rows."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Logs the rows that finished tasks have sent, as ``RocketMQWriter.abort``."""
        _log_rows_kept(messages)


def _sent(iterator: Iterator[pa.RecordBatch], options: SinkOptions) -> RowsSent:
    task = TaskContext.get()
    return RowsSent(send_all(iterator, options, task.partitionId() if task else 0))


def _log_rows_kept(messages: Messages) -> None:
    done = [message.count for message in messages if isinstance(message, RowsSent)]
    log.warning(
        "a write failed: the %d rows of %d finished tasks stay in their topics",
        sum(done),
        len(done),
    )

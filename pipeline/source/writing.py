"""``df.write.format("rocketmq")`` and ``df.writeStream``: each task sends its rows.

There is nothing to commit: what was sent is there.  A task or a batch that is done again sends
its rows again, so each row arrives at least once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pipeline.source.sending import send_all
from pipeline.source.sink_options import SinkOptions

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

    def write(self, iterator: Iterator[Any]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages) -> None:
        """Tasks that were done before another one failed have sent their rows."""
        _say_what_stays(messages)


class RocketMQStreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> RowsSent:
        """In a task.  Raises ``NotSent``."""
        return _sent(iterator, self._options)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """As ``RocketMQWriter.abort``."""
        _say_what_stays(messages)


def _sent(iterator: Iterator[Any], options: SinkOptions) -> RowsSent:
    task = TaskContext.get()
    return RowsSent(send_all(iterator, options, task.partitionId() if task else 0))


def _say_what_stays(messages: Messages) -> None:
    done = [message.count for message in messages if isinstance(message, RowsSent)]
    log.warning(
        "a write failed: the %d rows of %d tasks that were done stay in their topics",
        sum(done),
        len(done),
    )

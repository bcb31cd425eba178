"""One read of topics from a place to another one, planned once.

The end is fixed when the read is planned: messages that come later belong to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.source.columns import record_batch
from pipeline.source.errors import BadOption
from pipeline.source.options import EARLIEST, LATEST, PlaceInQueues, SourceOptions
from pipeline.source.pulling import record_blocks
from pipeline.source.queue_ranges import QueueRange, ranges
from pipeline.source.topics_seen import TopicsSeen
from pipeline.source.waiting import patiently
from protocol.subscription import build_subscription

BATCH_BYTES = 1 << 20  # of stored records; one of an answer may be more


class RocketMQBatchReader(DataSourceReader):
    """A batch read.  A broker that is away is waited for: a part would be no answer."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        if options.start is not None and options.start.name == LATEST:
            raise BadOption("startingOffsets of a batch read cannot be latest: it would be empty")
        if options.end is not None and options.end.name == EARLIEST:
            raise BadOption("endingOffsets cannot be earliest: the read would be empty")

    def partitions(self) -> list[QueueRange]:
        """What there is to read, fixed now.  Raises ``SourceError``."""
        view = TopicsSeen(self._options)
        try:
            view.topics()  # without a NameServer or the topic nothing is waited for
            return patiently(self._options.broker_away_ms_max, lambda: self._plan(view))
        finally:
            view.close()

    def _plan(self, view: TopicsSeen) -> list[QueueRange]:
        options = self._options
        sight = view.look(view.topics())
        sight.require_all()
        starts = view.places(options.start or PlaceInQueues(EARLIEST), "startingOffsets", sight)
        ends = view.places(options.end or PlaceInQueues(LATEST), "endingOffsets", sight)
        return ranges(starts, ends, sight.topics.addresses, options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one of them."""
        return batches_of(partition, self._options, self._schema)


def batches_of(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[Any]:
    """The Arrow batches of one range.  Raises ``SourceError``.

    Spark hands in a partition without a range when there was none to plan.
    """
    if not isinstance(partition, QueueRange):
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    tags = build_subscription("", options.tags).tags_set
    offsets = range(partition.start, partition.end)
    for data in _gathered(record_blocks(partition, options)):
        batch = record_batch(data, arrow, partition.queue, offsets, tags)
        if batch.num_rows:
            yield batch


def _gathered(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Several answers as one, so that a batch is worth its handling."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= BATCH_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)

"""Reads topics with Spark, in a batch or as a stream: the end of each read, and its ranges.

A batch read is planned once; messages that come later belong to the next one.  A stream's offsets
are in Spark's checkpoint, one for each queue; they are never read from the brokers.  A repeated
micro-batch has the same offsets, so a sink that writes each batch once has each message once.
Three rules keep that true while a cluster changes.  A new queue enters a batch at its first
offset, without messages, so its first offset is in the checkpoint before any message is read.
While a broker is unavailable, the ends of its queues do not move; if its slave answers, they move
to the slave's ends.  Messages that are gone end the stream, or are counted in the offset
(``lost``) and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rocketmq_emulator.pipeline.source.broker_offsets import Bounds, commit
from rocketmq_emulator.pipeline.source.columns import record_batch
from rocketmq_emulator.pipeline.source.errors import (
    BadOption,
    MessagesLost,
    ServerUnavailable,
    SourceError,
    TopicUnknown,
    retry_until_available,
)
from rocketmq_emulator.pipeline.source.group_membership import StreamMembership
from rocketmq_emulator.pipeline.source.options import (
    EARLIEST,
    LATEST,
    PlaceInQueues,
    SourceOptions,
)
from rocketmq_emulator.pipeline.source.pulling import DATA_LOSS_ADVICE, record_blocks
from rocketmq_emulator.pipeline.source.queue_offsets import (
    Positions,
    QueueRange,
    limited,
    positions_of,
    ranges,
)
from rocketmq_emulator.pipeline.source.routing import RoutedQueues
from rocketmq_emulator.pipeline.source.topic_snapshot import SnapshotReader, TopicSnapshot
from rocketmq_emulator.protocol.queues import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

# A batch ------------------------------------------------------------------------------


BATCH_BYTES = 1 << 20  # of stored records; a batch of a single answer may be larger


class RocketMQBatchReader(DataSourceReader):
    """Reads a batch.  It waits for unavailable brokers: it never returns a part of the topic."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        if options.start is not None and options.start.name == LATEST:
            raise BadOption("startingOffsets of a batch read cannot be latest: it would be empty")
        if options.end is not None and options.end.name == EARLIEST:
            raise BadOption("endingOffsets cannot be earliest: the read would be empty")

    def partitions(self) -> list[QueueRange]:
        """The ranges to read, fixed now.  Raises ``SourceError``."""
        view = SnapshotReader(self._options)
        try:
            view.topics()  # without a NameServer or the topic: fail at once, no retry
            return retry_until_available(
                self._options.broker_unavailable_ms_max, lambda: self._plan(view)
            )
        finally:
            view.close()

    def _plan(self, view: SnapshotReader) -> list[QueueRange]:
        options = self._options
        snapshot = view.look(view.topics())
        snapshot.require_all()
        starts = view.places(options.start or PlaceInQueues(EARLIEST), "startingOffsets", snapshot)
        ends = view.places(options.end or PlaceInQueues(LATEST), "endingOffsets", snapshot)
        return ranges(starts, ends, snapshot.topics.addresses, options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one range."""
        return batches_of(partition, self._options, self._schema)


def batches_of(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The Arrow batches of one range.  Raises ``SourceError``.

    Spark passes a partition without a range if ``partitions`` returned none.
    """
    if not isinstance(partition, QueueRange):
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    tags = options.subscription("").tags_set
    offsets = range(partition.start, partition.end)
    for data in _gathered(record_blocks(partition, options)):
        batch = record_batch(data, arrow, partition.queue, offsets, tags)
        if batch.num_rows:
            yield batch


def _gathered(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """*blocks* joined up to ``BATCH_BYTES``: fewer and larger Arrow batches."""
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


# A stream -----------------------------------------------------------------------------


log = logging.getLogger("rocketmq_emulator.spark")


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a stream in one process of its own; Spark calls its copies in tasks to ``read``."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._view: SnapshotReader | None = None  # no sockets before the first call: it is pickled
        self._membership: StreamMembership | None = None
        self._routed = RoutedQueues((), {})
        self._newest: Positions | None = None
        self._committed: dict[MessageQueue, int] | None = None
        self._target: dict[MessageQueue, int] | None = None
        if options.end is not None:
            raise BadOption("a stream has no end: leave endingOffsets out")

    # Where a batch ends ---------------------------------------------------------------

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        """The start offsets of a query without a checkpoint.  Raises ``SourceError``."""
        where = self._options.start or PlaceInQueues(LATEST)
        view = self._seen()
        view.topics()  # without a NameServer or the topic: fail at once, no retry
        self._join()
        # With earliest, the queues of an unavailable broker enter later, at their first offset.
        is_early = where.name == EARLIEST
        seen = view.look(view.topics()) if is_early else self._all_queues()
        return Positions(view.places(where, "startingOffsets", seen)).as_json()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """The end offsets of the stored messages, or those that *limit* allows."""
        self._join()
        before = positions_of(start)
        seen = self._seen().look(self._routes())
        self._commit(before.offsets)  # Spark calls this after all batches up to *start*
        for broker, error in seen.away.items():
            log.warning("%s is away, its queues are read later: %s", broker, error)
        starts, ends = dict(before.offsets), dict(before.offsets)
        lost = before.lost
        for queue, bounds in seen.bounds.items():
            at = before.offsets.get(queue)
            if at is None:
                ends[queue] = bounds.first
                continue
            if queue.broker_name in seen.by_slaves and not bounds.first <= at <= bounds.end:
                continue  # the master may have the messages: read the queue later
            starts[queue] = self._resume_offset(queue, at, bounds)
            lost += max(0, starts[queue] - at)
            ends[queue] = max(starts[queue], bounds.end)
        self._newest = Positions(ends, lost)
        ends = self._before_target(starts, ends)
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return Positions(ends, lost).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """The limit of the option ``maxOffsetsPerTrigger``, else none."""
        count_max = self._options.offsets_per_trigger_max
        return ReadMaxRows(count_max) if count_max else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802  # Spark's name
        """The queues' end offsets when last read, for the progress of the query."""
        return None if self._newest is None else self._newest.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Fixes the end of the run.  Waits for every broker, to miss no messages."""
        seen = self._all_queues()
        self._target = {queue: bounds.end for queue, bounds in seen.bounds.items()}

    # What is read ---------------------------------------------------------------------

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[QueueRange]:
        """The ranges of a batch, also of a batch planned by an earlier run."""
        before, until = positions_of(start).offsets, positions_of(end).offsets
        if before == until:
            return []
        addresses = self._routes().addresses
        return ranges(before, until, addresses, self._options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one range, in a task."""
        return batches_of(partition, self._options, self._schema)

    def commit(self, end: dict[str, object]) -> None:
        """Commits the offsets of *end*: Spark has finished all batches before it."""
        self._commit(positions_of(end).offsets)

    def stop(self) -> None:
        """Leaves the group, closes every connection."""
        if self._membership is not None:
            self._membership.leave()
        if self._view is not None:
            self._view.close()

    # Inside ---------------------------------------------------------------------------

    def _seen(self) -> SnapshotReader:
        if self._view is None:
            self._view = SnapshotReader(self._options)
        return self._view

    def _join(self) -> None:
        """Join the group once, if offsets are committed.  Raises ``GroupInUse``."""
        if self._options.commits and self._membership is None:
            self._membership = StreamMembership(self._options)
            self._membership.join()

    def _commit(self, offsets: dict[MessageQueue, int]) -> None:
        """Commit *offsets* for tools that show the group's progress; no stream reads them."""
        if self._membership is None or offsets == self._committed:
            return
        if not self._membership.is_only_member():
            return
        for broker, address in self._routed.addresses.items():
            own = {q: offset for q, offset in offsets.items() if q.broker_name == broker}
            asked = partial(commit, group=self._options.group, offsets=own)
            try:
                self._seen().brokers.asked(address, asked)
            except SourceError as error:
                log.warning("the offsets of %s were not committed: %s", broker, error)
        self._committed = offsets

    def _routes(self) -> RoutedQueues:
        """The current routes; the last known ones if no NameServer answers or has the topic."""
        try:
            self._routed = self._seen().topics()
        except (ServerUnavailable, TopicUnknown) as error:
            log.warning("the known queues are kept: %s", error)
        return self._routed

    def _all_queues(self) -> TopicSnapshot:
        """All queues, once all brokers answer.  Raises ``ServerUnavailable``, ``TopicUnknown``."""
        view = self._seen()

        def look() -> TopicSnapshot:
            seen = view.look(view.topics())
            seen.require_all()
            return seen

        return retry_until_available(self._options.broker_unavailable_ms_max, look)

    def _resume_offset(self, queue: MessageQueue, at: int, bounds: Bounds) -> int:
        """*at*, or the nearest existing offset if it is gone.  Raises ``MessagesLost``."""
        if bounds.first <= at <= bounds.end:
            return at
        if at < bounds.first:
            what = f"{bounds.first - at} messages from {at} on are gone"
        else:
            what = f"the stream was at {at}: the broker lost the end, or the topic was made again"
        text = f"{queue} has the offsets {bounds.first} to {bounds.end} now: {what}"
        if self._options.fail_on_data_loss:
            raise MessagesLost(f"{text}. {DATA_LOSS_ADVICE}")
        log.warning("%s; the stream continues (failOnDataLoss=false)", text)
        return min(max(at, bounds.first), bounds.end)

    def _before_target(
        self, starts: dict[MessageQueue, int], ends: dict[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """*ends*, with Trigger.AvailableNow limited to the ends at the start of the run."""
        if self._target is None:
            return ends
        return {
            queue: max(starts.get(queue, 0), min(end, self._target.get(queue, 0)))
            if queue in starts
            else end
            for queue, end in ends.items()
            if queue in starts or queue in self._target
        }

"""Topics read by Spark, in a batch or as a stream: where a read ends, and what is read for it.

A batch read is planned once; messages that come later belong to the next one.  A stream's offsets
are kept by Spark's checkpoint, one for each queue; the brokers are never asked where a stream
stands.  A micro-batch is planned again with the same offsets, so a sink that writes each batch
once has each message once.  Three rules make that hold while a cluster changes.  A queue seen for
the first time enters a batch at its first offset, without messages, so its beginning is in the
checkpoint before anything of it is read.  A broker that is away keeps the old end of its queues; a
slave in its place moves them as far as it has come.  Messages that are gone end the stream, or are
counted in the offset (``lost``) and passed over.
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
from rocketmq_emulator.protocol.messages.subscription import build_subscription
from rocketmq_emulator.protocol.queues import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

# A batch ------------------------------------------------------------------------------


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
        view = SnapshotReader(self._options)
        try:
            view.topics()  # without a NameServer or the topic nothing is waited for
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
        """The Arrow batches of one of them."""
        return batches_of(partition, self._options, self._schema)


def batches_of(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
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


# A stream -----------------------------------------------------------------------------


log = logging.getLogger("rocketmq_emulator.spark")


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark calls it in one process of its own; its copies in tasks only ``read``."""

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
        """Of a query without a checkpoint.  Raises ``SourceError``."""
        where = self._options.start or PlaceInQueues(LATEST)
        view = self._seen()
        view.topics()  # without a NameServer or the topic nothing is waited for
        self._join()
        # From the earliest on, a broker that is away comes in later, at its first offset.
        is_early = where.name == EARLIEST
        seen = view.look(view.topics()) if is_early else self._all_queues()
        return Positions(view.places(where, "startingOffsets", seen)).as_json()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Behind what is stored now, or behind as much as *limit* allows."""
        self._join()
        before = positions_of(start)
        seen = self._seen().look(self._routes())
        self._commit(before.offsets)  # Spark asks when it is done with what lies before
        for broker, error in seen.away.items():
            log.warning("%s is away, its queues wait: %s", broker, error)
        starts, ends = dict(before.offsets), dict(before.offsets)
        lost = before.lost
        for queue, bounds in seen.bounds.items():
            at = before.offsets.get(queue)
            if at is None:
                ends[queue] = bounds.first
                continue
            if queue.broker_name in seen.by_slaves and not bounds.first <= at <= bounds.end:
                continue  # the master may have it: nothing is lost, the queue waits
            starts[queue] = self._resume_offset(queue, at, bounds)
            lost += max(0, starts[queue] - at)
            ends[queue] = max(starts[queue], bounds.end)
        self._newest = Positions(ends, lost)
        ends = self._before_target(starts, ends)
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return Positions(ends, lost).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """``maxOffsetsPerTrigger``, if it is set."""
        count_max = self._options.offsets_per_trigger_max
        return ReadMaxRows(count_max) if count_max else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802  # Spark's name
        """For the progress of the query: how far the queues had been filled when last seen."""
        return None if self._newest is None else self._newest.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Fixes the end of the run.  Every broker has to answer: a part is not all there is."""
        seen = self._all_queues()
        self._target = {queue: bounds.end for queue, bounds in seen.bounds.items()}

    # What is read ---------------------------------------------------------------------

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[QueueRange]:
        """The ranges of a batch, also of one that was planned by an earlier run."""
        before, until = positions_of(start).offsets, positions_of(end).offsets
        if before == until:
            return []
        addresses = self._routes().addresses
        return ranges(before, until, addresses, self._options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of one range, in a task."""
        return batches_of(partition, self._options, self._schema)

    def commit(self, end: dict[str, object]) -> None:
        """Spark is done with everything before *end*."""
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
        """Once, where offsets are to be committed.  Raises ``GroupInUse``."""
        if self._options.commits and self._membership is None:
            self._membership = StreamMembership(self._options)
            self._membership.join()

    def _commit(self, offsets: dict[MessageQueue, int]) -> None:
        """Tools that look at the group see how far the stream has come; nothing reads it back."""
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
        """As they are now; as they were, if no NameServer answers or knows the topic."""
        try:
            self._routed = self._seen().topics()
        except (ServerUnavailable, TopicUnknown) as error:
            log.warning("the queues known so far stay: %s", error)
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
        """*at*, or where the queue goes on if that is gone.  Raises ``MessagesLost``."""
        if bounds.first <= at <= bounds.end:
            return at
        if at < bounds.first:
            what = f"{bounds.first - at} messages from {at} on are gone"
        else:
            what = f"the stream had come to {at}: its broker has lost its end, or it was made anew"
        text = f"{queue} has the offsets {bounds.first} to {bounds.end} now: {what}"
        if self._options.fail_on_data_loss:
            raise MessagesLost(f"{text}. {DATA_LOSS_ADVICE}")
        log.warning("%s; the stream goes on (failOnDataLoss=false)", text)
        return min(max(at, bounds.first), bounds.end)

    def _before_target(
        self, starts: dict[MessageQueue, int], ends: dict[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """With Trigger.AvailableNow nothing behind what there was at its start."""
        if self._target is None:
            return ends
        return {
            queue: max(starts.get(queue, 0), min(end, self._target.get(queue, 0)))
            if queue in starts
            else end
            for queue, end in ends.items()
            if queue in starts or queue in self._target
        }

"""Offsets of many queues: the value in Spark's checkpoint, and the ranges between two values.

    {"version": 1, "queues": {"orders": {"broker-a": {"0": 17, "1": 20}}}, "lost": 0}

The queues are always in the same order, because Spark compares the texts to detect new messages.
``lost`` counts the messages that a stream had to skip since it began.  A task reads one range: a
queue from one offset to below another.  A queue is one range unless more partitions are wanted
than there are queues; then long queues are divided into even pieces, in proportion to their
length.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from pyspark.sql.datasource import InputPartition

from rocketmq_emulator.pipeline.source.options import ByQueue
from rocketmq_emulator.protocol.queues import MessageQueue, queue_order

# Positions ----------------------------------------------------------------------------


VERSION = 1
QueueOffsets: TypeAlias = Mapping[MessageQueue, int]


class Positions(msgspec.Struct, frozen=True):
    """A stream's next offset in each queue, and the number of messages that it lost."""

    offsets: dict[MessageQueue, int]
    lost: int = 0

    def as_json(self) -> dict[str, Any]:
        """The value for Spark's checkpoint."""
        queues: dict[str, dict[str, dict[str, int]]] = {}
        for queue in sorted(self.offsets, key=queue_order):
            broker = queues.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
            broker[str(queue.queue_id)] = self.offsets[queue]
        return {"version": VERSION, "queues": queues, "lost": self.lost}


def positions_of(given: Mapping[str, Any]) -> Positions:
    """Parse a value of ``as_json``.  Raises ``ValueError`` for one of a later release."""
    if given.get("version") != VERSION:
        raise ValueError(
            f"the checkpoint was written by another release of this source: version "
            f"{given.get('version')!r}, this one reads {VERSION}"
        )
    queues = msgspec.convert(given["queues"], ByQueue, strict=False)
    return Positions(flat(queues), int(given.get("lost", 0)))


def flat(queues: ByQueue) -> dict[MessageQueue, int]:
    """*queues* as one table, with topic, broker and queue id as one key."""
    return {
        MessageQueue(topic, broker, queue_id): offset
        for topic, brokers in queues.items()
        for broker, ids in brokers.items()
        for queue_id, offset in ids.items()
    }


# Ranges -------------------------------------------------------------------------------


class QueueRange(InputPartition):
    """The offsets from *start* to below *end* of one queue; *address* was its broker's."""

    def __init__(self, queue: MessageQueue, start: int, end: int, address: str) -> None:
        super().__init__(None)
        self.queue = queue
        self.start = start
        self.end = end
        self.address = address


def ranges(
    starts: QueueOffsets, ends: QueueOffsets, addresses: Mapping[str, str], count_min: int = 0
) -> list[QueueRange]:
    """The ranges of all queues with messages to read, at least about *count_min* ranges.

    A queue that has only an end is left out: the stream reads it from the next batch on.
    """
    whole = [
        QueueRange(queue, starts[queue], ends[queue], addresses.get(queue.broker_name, ""))
        for queue in sorted(ends, key=queue_order)
        if queue in starts and starts[queue] < ends[queue]
    ]
    total = sum(part.end - part.start for part in whole)
    if count_min <= len(whole):
        return whole
    piece = max(1, -(-total // count_min))
    return [part for one in whole for part in _pieces(one, piece)]


def _pieces(whole: QueueRange, size_wanted: int) -> Iterable[QueueRange]:
    size = whole.end - whole.start
    count = -(-size // size_wanted)
    cuts = [whole.start + size * number // count for number in range(count + 1)]
    for start, end in itertools.pairwise(cuts):
        yield QueueRange(whole.queue, start, end, whole.address)


def limited(starts: QueueOffsets, ends: QueueOffsets, count_max: int) -> dict[MessageQueue, int]:
    """*ends* reduced so that about *count_max* offsets are read, each queue in proportion.

    A queue with messages to read advances by at least one, so that none starves.
    """
    sizes = {queue: ends[queue] - starts.get(queue, ends[queue]) for queue in ends}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= count_max:
        return dict(ends)
    return {
        queue: starts[queue] + max(1, size * count_max // total) if size > 0 else ends[queue]
        for queue, size in sizes.items()
    }

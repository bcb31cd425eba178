"""Offsets of many queues: the value that a checkpoint keeps, and the ranges between two of them.

    {"version": 1, "queues": {"orders": {"broker-a": {"0": 17, "1": 20}}}, "lost": 0}

Written in one order, because Spark compares the texts to see whether there is anything new.
``lost`` counts the messages that a stream had to pass over since it began.  A task reads one
range: a queue from one offset to below another.  A queue is one range unless more partitions are
wanted than there are queues; then long queues are cut into as many even pieces as their share asks
for.
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
    """How far a stream has come in each queue, and how many messages it missed."""

    offsets: dict[MessageQueue, int]
    lost: int = 0

    def as_json(self) -> dict[str, Any]:
        """The value that Spark keeps."""
        queues: dict[str, dict[str, dict[str, int]]] = {}
        for queue in sorted(self.offsets, key=queue_order):
            broker = queues.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
            broker[str(queue.queue_id)] = self.offsets[queue]
        return {"version": VERSION, "queues": queues, "lost": self.lost}


def positions_of(given: Mapping[str, Any]) -> Positions:
    """The value back.  Raises ``ValueError`` for what a later release has written."""
    if given.get("version") != VERSION:
        raise ValueError(
            f"the checkpoint was written by another release of this source: version "
            f"{given.get('version')!r}, this one reads {VERSION}"
        )
    queues = msgspec.convert(given["queues"], ByQueue, strict=False)
    return Positions(flat(queues), int(given.get("lost", 0)))


def flat(queues: ByQueue) -> dict[MessageQueue, int]:
    """Topic, broker and queue id as one key."""
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
    """The ranges of all queues that have anything to read, at least about *count_min*.

    A queue that has only an end is left out: its stream does not begin before the next batch.
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
    """Ends nearer by, so that about *count_max* offsets lie between: each queue its share.

    A queue with anything to read goes on by one at least, so that none starves.
    """
    sizes = {queue: ends[queue] - starts.get(queue, ends[queue]) for queue in ends}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= count_max:
        return dict(ends)
    return {
        queue: starts[queue] + max(1, size * count_max // total) if size > 0 else ends[queue]
        for queue, size in sizes.items()
    }

"""What one task reads: a queue from one offset to below another.

A queue is one range unless more partitions are wanted than there are queues; then long queues
are cut into as many even pieces as their share asks for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from pipeline.source.positions import QueueOffsets
from protocol.queues import MessageQueue, queue_order


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

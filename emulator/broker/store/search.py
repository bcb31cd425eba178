"""Which offset belongs to a time: two rules, for two generations of brokers.

Store times never fall along a queue, so both rules are a binary search that reads the
time of a message from the log.

Upstream: ConsumeQueue.getOffsetInQueueByTime.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from emulator.releases import SEARCH_BY_TIME_EXACT, Release
from protocol.records import STORE_TIME_END, stored_at_ms

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.consume_queue import ConsumeQueue


def store_ms_at(log: CommitLog, position: int) -> int:
    """When the record at *position* was stored."""
    return stored_at_ms(log.read(position, STORE_TIME_END))


def offset_by_time(
    queue: ConsumeQueue, log: CommitLog, time_ms: int, release: Release, *, upper: bool = False
) -> int:
    """The queue offset for *time_ms*; *upper* asks for the last one not after it (5.1.4+)."""
    if not queue.positions:
        return queue.min_offset
    if release < SEARCH_BY_TIME_EXACT:
        return queue.min_offset + _nearest(queue, log, time_ms)
    side = bisect.bisect_right if upper else bisect.bisect_left
    index = side(queue.positions, time_ms, key=lambda position: store_ms_at(log, position))
    return queue.min_offset + (max(0, index - 1) if upper else index)


def _nearest(queue: ConsumeQueue, log: CommitLog, time_ms: int) -> int:
    """Of the two neighbours the one nearer in time, the earlier on a tie."""

    def store_ms(position: int) -> int:
        return store_ms_at(log, position)

    index = bisect.bisect_left(queue.positions, time_ms, key=store_ms)
    if index == len(queue.positions):
        return index - 1
    later_ms = store_ms(queue.positions[index])
    if index == 0 or later_ms == time_ms:
        return index
    earlier_ms = store_ms(queue.positions[index - 1])
    return index if later_ms - time_ms < time_ms - earlier_ms else index - 1

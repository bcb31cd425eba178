"""Which offset belongs to a time: two rules, for two generations of brokers.

Store times never fall along a queue, so both rules are a binary search that reads the
time of a message from the log.

Upstream: ConsumeQueue.getOffsetInQueueByTime.
"""

from __future__ import annotations

import bisect
import struct
from typing import TYPE_CHECKING

from emulator.releases import SEARCH_BY_TIME_EXACT, Release
from protocol.sysflag import BORN_HOST_V6

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.consume_queue import ConsumeQueue

_SYS_FLAG = struct.Struct(">36xi")
_STORE_MS = struct.Struct(">56xq")
_STORE_MS_V6 = struct.Struct(">68xq")


def store_ms_at(log: CommitLog, position: int) -> int:
    """When the record at *position* was stored."""
    head = log.read(position, _STORE_MS_V6.size)
    (sys_flag,) = _SYS_FLAG.unpack_from(head)
    shape = _STORE_MS_V6 if sys_flag & BORN_HOST_V6 else _STORE_MS
    store_ms: int = shape.unpack_from(head)[0]
    return store_ms


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

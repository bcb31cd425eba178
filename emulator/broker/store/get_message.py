"""One look into a queue: which stored bytes a pull gets, and where it goes on.

The order of the tests is upstream's, because a client sees it.  Messages that lie side
by side in the log leave as one slice.

Upstream: DefaultMessageStore.getMessage.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from emulator.releases import OVERFLOW_GOES_TO_MAX, Release

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.consume_queue import ConsumeQueue


INDEX_FILE_ENTRIES = 300_000  # ConsumeQueue's file: upstream never looks past the end of one


class GetStatus(enum.Enum):
    """How a look into a queue ended; the name is the reply's remark.

    Upstream: GetMessageStatus, less four that a store never says which drops entries
    together with their messages and makes queues when asked.
    """

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()


class GetLimits(msgspec.Struct, frozen=True):
    """How much one answer carries and one look examines.  Upstream: MessageStoreConfig."""

    messages_max: int  # maxTransferCountOnMessageInMemory
    bytes_max: int  # maxTransferBytesOnMessageInMemory
    entries_max: int  # maxFilterMessageCount, or what the pull asks for if that is more


class GetResult(msgspec.Struct):
    """``slices`` joined are the reply's body: ``count`` whole records in queue order."""

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    slices: list[memoryview] = []
    count: int = 0
    bytes: int = 0
    behind_bytes: int = 0  # from the last entry examined to the log's end


Matches = Callable[[int], bool]  # by an entry's tags code
MatchesRecord = Callable[[memoryview], bool]  # by the stored bytes, where the code cannot tell


def get_message(
    queue: ConsumeQueue,
    log: CommitLog,
    offset: int,
    count_max: int,
    limits: GetLimits,
    matches: Matches | None = None,
    matches_record: MatchesRecord | None = None,
) -> GetResult:
    """Up to *count_max* messages from *offset*; the first one whatever its size.

    ``next_begin_offset`` is one past the last entry examined, matched or not: so a
    filtered consumer advances.
    """
    result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, queue.min_offset, queue.max_offset)
    assert result.min_offset <= offset < result.max_offset, "out_of_range comes first"
    positions, sizes, codes = queue.positions, queue.sizes, queue.codes
    first = offset - queue.min_offset
    examined_max = min(max(limits.entries_max, count_max), INDEX_FILE_ENTRIES)
    last = min(len(positions), first + examined_max)
    room = min(count_max, limits.messages_max)
    taken: list[int] = []
    for index in range(first, last):
        size = sizes[index]
        if taken and (len(taken) >= room or result.bytes + size > limits.bytes_max):
            last = index
            break
        if matches is not None and not matches(codes[index]):
            continue
        if matches_record is not None and not matches_record(log.read(positions[index], size)):
            continue
        taken.append(index)
        result.bytes += size
    if taken:
        result.status = GetStatus.FOUND
        result.count = len(taken)
        result.slices = _slices(queue, log, taken)
    result.next_begin_offset = queue.min_offset + last
    result.behind_bytes = log.end_position - positions[last - 1]
    return result


def _slices(queue: ConsumeQueue, log: CommitLog, taken: list[int]) -> list[memoryview]:
    """The records of the *taken* entries, neighbours in the log as one slice."""
    slices: list[memoryview] = []
    start = end = queue.positions[taken[0]]
    for index in taken:
        position = queue.positions[index]
        if position != end:
            slices += _pieces(log, start, end)
            start = position
        end = position + queue.sizes[index]
    slices += _pieces(log, start, end)
    return slices


def _pieces(log: CommitLog, start: int, end: int) -> Iterator[memoryview]:
    """One, unless neighbours lie in two segments: a file that was cut short has no filler."""
    while start < end:
        piece = log.read(start, end - start)
        yield piece
        start += len(piece)


def out_of_range(
    queue: ConsumeQueue | None, offset: int, release: Release, *, corrects: bool
) -> GetResult | None:
    """The answer to an offset at which there is nothing, or None.

    *corrects* is false on a slave: it may lag, so it never moves a consumer.
    Upstream: DefaultMessageStore.nextOffsetCorrection.
    """
    low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    if high == 0:
        status, better = GetStatus.NO_MESSAGE_IN_QUEUE, 0
    elif offset < low:
        status, better = GetStatus.OFFSET_TOO_SMALL, low
    elif offset == high:
        status, better = GetStatus.OFFSET_OVERFLOW_ONE, offset
    elif offset > high:
        replays = low == 0 and release < OVERFLOW_GOES_TO_MAX
        status, better = GetStatus.OFFSET_OVERFLOW_BADLY, 0 if replays else high
    else:
        return None
    return GetResult(status, better if corrects else offset, low, high)

"""Reading messages: by offset for a pull, by time, and by key for tools.

By offset: the order of the checks is upstream's, because clients can observe it; messages that are
neighbours in the log are sent as one slice.  By time: two rules, for older and newer releases;
store times never decrease along a queue, so both are a binary search that reads times from the
log.  By key: only tools need it, so there is no index, which every send would have to update: a
search reads the topic's queues from the newest message back, in short steps, so that other
requests need not wait.  It keeps a position in the log and so continues after retention.  It
compares what upstream's index does: 32-bit hashes of topic and key, so it also finds messages of
other keys, and of other topics if they have the same length.

Upstream: DefaultMessageStore.getMessage, ConsumeQueue.getOffsetInQueueByTime,
IndexService.queryOffset, IndexFile.selectPhyOffset (whose times are whole seconds).
"""

from __future__ import annotations

import bisect
import enum
import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.protocol.messages.properties import (
    KEYS,
    UNIQ_KEY,
    decode_properties,
    split_keys,
)
from rocketmq_emulator.protocol.messages.records import (
    STORE_TIME_END,
    properties_block,
    stored_at_ms,
)
from rocketmq_emulator.protocol.messages.subscription import java_hash
from rocketmq_emulator.settings.releases import OVERFLOW_GOES_TO_MAX, SEARCH_BY_TIME_EXACT, Release

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.commit_log import CommitLog
    from rocketmq_emulator.broker.store.consume_queue import ConsumeQueue


INDEX_FILE_ENTRIES = 300_000  # of a ConsumeQueue file: one answer of upstream reads one file

Matches = Callable[[int], bool]  # by an entry's tags code
ByProperties = Callable[[Mapping[str, str]], bool]


class MessageFilter(NamedTuple):
    """Which messages a pull gets.

    *by_properties* is only used for messages whose tags code matches: their records are read.
    Upstream: MessageFilter.isMatchedByConsumeQueue, isMatchedByCommitLog.
    """

    by_code: Matches
    by_properties: ByProperties | None = None


class GetStatus(enum.Enum):
    """The result of reading a queue; the name is the reply's remark.

    Upstream: GetMessageStatus, without four statuses that cannot occur here: messages are not
    dropped before their entries, and no queue exists before its first message.
    """

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_RESET = enum.auto()  # 5.2: a tool has reset the offset; no pull has carried it yet


class GetLimits(msgspec.Struct, frozen=True):
    """How much one answer carries and one read examines.  Upstream: MessageStoreConfig."""

    messages_max: int  # maxTransferCountOnMessageInMemory
    bytes_max: int  # maxTransferBytesOnMessageInMemory
    entries_max: int  # maxFilterMessageCount, or the count of the pull if that is larger


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


def get_message(
    queue: ConsumeQueue,
    log: CommitLog,
    offset: int,
    count_max: int,
    limits: GetLimits,
    wanted: MessageFilter | None = None,
) -> GetResult:
    """Up to *count_max* messages from *offset*; the first one is returned whatever its size.

    ``next_begin_offset`` is one past the last examined entry, whether it matched or not, so
    that a consumer with a filter advances.
    """
    result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, queue.min_offset, queue.max_offset)
    assert result.min_offset <= offset < result.max_offset, "out_of_range handles other offsets"
    positions = queue.positions
    first = offset - queue.min_offset
    examined_max = min(max(limits.entries_max, count_max), INDEX_FILE_ENTRIES)
    last = min(len(positions), first + examined_max)
    room = min(count_max, limits.messages_max)
    taken: Sequence[int]
    if wanted is None:
        taken = _unfiltered(queue, first, min(last, first + max(room, 1)), limits)
        last = taken[-1] + 1
    else:
        matches = _by_entry(queue, log, wanted)
        taken, last = _filtered(queue, range(first, last), room, limits, matches)
    if taken:
        result.status = GetStatus.FOUND
        result.count = len(taken)
        result.slices = _slices(queue, log, taken)
        result.bytes = sum(map(len, result.slices))
    result.next_begin_offset = queue.min_offset + last
    result.behind_bytes = log.end_position - positions[last - 1]
    return result


def _unfiltered(queue: ConsumeQueue, first: int, end: int, limits: GetLimits) -> range:
    """As many entries before *end* as fit into the limits, but at least one."""
    lengths = list(itertools.accumulate(queue.sizes[first:end]))
    return range(first, first + max(1, bisect.bisect_right(lengths, limits.bytes_max)))


def _filtered(
    queue: ConsumeQueue,
    entries: range,
    room: int,
    limits: GetLimits,
    matches: Callable[[int], bool],
) -> tuple[list[int], int]:
    """The matching entries, as many as fit, and one past the last examined entry."""
    sizes = queue.sizes
    taken: list[int] = []
    taken_bytes = 0
    for index in entries:
        size = sizes[index]
        if taken and (len(taken) >= room or taken_bytes + size > limits.bytes_max):
            return taken, index
        if matches(index):
            taken.append(index)
            taken_bytes += size
    return taken, entries.stop


def _by_entry(queue: ConsumeQueue, log: CommitLog, wanted: MessageFilter) -> Callable[[int], bool]:
    """The filter by the index of an entry in *queue*."""
    codes, by_code, by_properties = queue.codes, wanted.by_code, wanted.by_properties
    if by_properties is None:
        return lambda index: by_code(codes[index])

    def matches(index: int) -> bool:
        return by_code(codes[index]) and by_properties(properties_at(queue, log, index))

    return matches


def properties_at(queue: ConsumeQueue, log: CommitLog, index: int) -> dict[str, str]:
    """The properties of the message of an entry of *queue*."""
    return decode_properties(
        properties_block(log.read(queue.positions[index], queue.sizes[index]))
    )


def _slices(queue: ConsumeQueue, log: CommitLog, taken: Sequence[int]) -> list[memoryview]:
    """The records of the *taken* entries, neighbours in the log as one slice."""
    positions, sizes = queue.positions, queue.sizes
    first, last = taken[0], taken[-1]
    start, end = positions[first], positions[last] + sizes[last]
    if last - first < len(taken) and sum(sizes[first : last + 1]) == end - start:
        return _pieces(log, start, end)  # no records of other queues lie between them
    slices: list[memoryview] = []
    end = start
    for index in taken:
        position = positions[index]
        if position != end:
            slices += _pieces(log, start, end)
            start = position
        end = position + sizes[index]
    return slices + _pieces(log, start, end)


def _pieces(log: CommitLog, start: int, end: int) -> list[memoryview]:
    """The bytes of the log between two positions, in few slices."""
    pieces = [log.read(start, end - start)]
    while (start := start + len(pieces[-1])) < end:
        pieces.append(log.read(start, end - start))  # a segment that was cut short has no filler
    return pieces


def out_of_range(queue: ConsumeQueue | None, offset: int, release: Release) -> GetResult | None:
    """The result for an offset without a message; None if there is a message.

    Upstream: DefaultMessageStore.nextOffsetCorrection.
    """
    low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
    if high == 0:
        status, better = GetStatus.NO_MESSAGE_IN_QUEUE, 0
    elif offset < low:
        # After a reset of this broker old offsets are too small, but no message was lost.
        is_old = queue is not None and queue.has_all_messages and low > 0
        status = GetStatus.NO_MATCHED_MESSAGE if is_old else GetStatus.OFFSET_TOO_SMALL
        better = low
    elif offset == high:
        status, better = GetStatus.OFFSET_OVERFLOW_ONE, offset
    elif offset > high:
        replays = low == 0 and release < OVERFLOW_GOES_TO_MAX
        status, better = GetStatus.OFFSET_OVERFLOW_BADLY, 0 if replays else high
    else:
        return None
    return GetResult(status, better, low, high)


# By time -------------------------------------------------------------------------------


def store_ms_at(log: CommitLog, position: int) -> int:
    """The store time of the record at *position*."""
    return stored_at_ms(log.read(position, STORE_TIME_END))


def offset_by_time(
    queue: ConsumeQueue, log: CommitLog, time_ms: int, release: Release, *, upper: bool = False
) -> int:
    """The queue offset for *time_ms*; with *upper* the last one not after it (5.1.4+)."""
    if not queue.positions:
        return queue.min_offset
    if release < SEARCH_BY_TIME_EXACT:
        return queue.min_offset + _nearest(queue, log, time_ms)
    side = bisect.bisect_right if upper else bisect.bisect_left
    index = side(queue.positions, time_ms, key=lambda position: store_ms_at(log, position))
    return queue.min_offset + (max(0, index - 1) if upper else index)


def _nearest(queue: ConsumeQueue, log: CommitLog, time_ms: int) -> int:
    """The index of the entry nearest to *time_ms*; on a tie the earlier one."""

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


# By key -------------------------------------------------------------------------------


JAVA_INT_MAX = 2**31 - 1
STEP_ENTRIES_MAX = 1_000  # ours: about ten milliseconds
SEARCH_ENTRIES_MAX = 1_000_000  # ours: upstream's index has no such limit


# Records whose keys are hashed even if none contains the key as text.  Unique keys that clients
# make are not among them: two of them have the same hash by chance only.
_HAS_OWN_KEYS = re.compile(
    rb"(?:^|\x02)(?:KEYS\x01|UNIQ_KEY\x01(?!(?:[0-9A-F]{32}|[0-9A-F]{56})(?:\x02|$)))"
)
_LENGTHS_MADE_BY_CLIENTS = (32, 56)


class KeySearch:
    """A search for the newest *count_max* records whose UNIQ_KEY or one of KEYS has the hash.

    *topic_and_key* are those of the hash.  The time span includes both ends, ``begin_ms`` and
    ``end_ms``.  ``found`` holds stored bytes, the newest first; a record that has the hash several
    times is in it as often.
    """

    def __init__(
        self,
        queues: Callable[[], Sequence[ConsumeQueue]],
        log: CommitLog,
        topic_and_key: tuple[str, str],
        count_max: int,
        *,
        begin_ms: int,
        end_ms: int,
    ) -> None:
        self.found: list[memoryview] = []
        self.examined = 0
        self._queues = queues
        self._log = log
        topic, self._key = topic_and_key
        self._key_bytes = self._key.encode()
        self._hash_of_topic = java_hash(f"{topic}#")
        self._hash = self._key_hash(self._key)
        self._count_max = count_max
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._below = log.end_position  # all records from here on have been examined

    @property
    def is_limit_reached(self) -> bool:
        """Whether the search has examined ``SEARCH_ENTRIES_MAX`` entries, its limit."""
        return self.examined >= SEARCH_ENTRIES_MAX

    def run_step(self, entries_max: int = STEP_ENTRIES_MAX) -> bool:
        """Examine the next *entries_max* entries; True when the search is over."""
        if len(self.found) >= self._count_max:
            return True
        steps = [_backwards(queue, self._below) for queue in self._queues()]
        left = entries_max
        for position, size in heapq.merge(*steps, reverse=True):
            if left == 0:
                return self.is_limit_reached
            left -= 1
            self.examined += 1
            self._below = position
            record = self._log.read(position, size)
            store_ms = stored_at_ms(record)
            if store_ms < self._begin_ms:
                return True  # all remaining records are older
            if store_ms <= self._end_ms:
                self._take_if_found(record)
                if len(self.found) >= self._count_max:
                    return True
        return True

    def _take_if_found(self, record: memoryview) -> None:
        block = properties_block(record)
        if self._key_bytes not in block and _HAS_OWN_KEYS.search(block) is None:
            return
        properties = decode_properties(block)
        keys = [key for key in split_keys(properties.get(KEYS)) if key]
        uniq_key = properties.get(UNIQ_KEY)
        is_made = uniq_key is not None and len(uniq_key) in _LENGTHS_MADE_BY_CLIENTS
        if uniq_key is not None and (uniq_key == self._key or not is_made):
            keys.append(uniq_key)
        count = sum(self._key_hash(key) == self._hash for key in keys)
        room = self._count_max - len(self.found)
        self.found += [record] * min(count, room)

    def _key_hash(self, key: str) -> int:
        """The hash by which a record is found.  Upstream: IndexFile.indexKeyHashMethod."""
        positive = abs(java_hash(key, self._hash_of_topic))
        return positive if positive <= JAVA_INT_MAX else 0


def _backwards(queue: ConsumeQueue, below: int) -> Iterator[tuple[int, int]]:
    """Position and size of the queue's messages below a position, the newest first."""
    positions, sizes = queue.positions, queue.sizes
    for index in range(bisect.bisect_left(positions, below) - 1, -1, -1):
        yield positions[index], sizes[index]

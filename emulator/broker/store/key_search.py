"""Finding messages by their keys, a part of the log at a time.

Only tools search by key, and seldom: so there is no index that every send would pay for, and a
search walks the topic's queues from the newest message back.  It walks in steps, each short
enough that others need not wait, and continues where it was even if retention has dropped
messages meanwhile: what it keeps is a position in the log, not places in the queues.

Upstream: IndexService.queryOffset, IndexFile.selectPhyOffset (whose 32-bit hashes find some
messages of other keys as well, and whose times are whole seconds).
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from protocol.properties import KEYS, UNIQ_KEY, split_keys
from protocol.records import decode_record, stored_at_ms

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.consume_queue import ConsumeQueue

STEP_ENTRIES_MAX = 4_000  # ours: some ten milliseconds
SEARCH_ENTRIES_MAX = 1_000_000  # ours: upstream's index has no such end


class KeySearch:
    """The newest *count_max* records whose UNIQ_KEY, or one of whose KEYS, is *key*.

    Both ends of the time span, ``begin_ms`` and ``end_ms``, count.  ``found`` holds stored
    bytes, the newest first; a record is there once for every time that it has the key.
    """

    def __init__(
        self,
        queues: Callable[[], Sequence[ConsumeQueue]],
        log: CommitLog,
        key: str,
        count_max: int,
        *,
        begin_ms: int,
        end_ms: int,
    ) -> None:
        self.found: list[memoryview] = []
        self.examined = 0
        self._queues = queues
        self._log = log
        self._key = key
        self._clue = key.encode()
        self._count_max = count_max
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._below = log.end_position  # everything from here on has been examined

    @property
    def gave_up(self) -> bool:
        """Whether it ended because it had examined too much."""
        return self.examined >= SEARCH_ENTRIES_MAX

    def run_step(self, entries_max: int = STEP_ENTRIES_MAX) -> bool:
        """Examine the next *entries_max* entries; True when the search is over."""
        if len(self.found) >= self._count_max:
            return True
        steps = [_backwards(queue, self._below) for queue in self._queues()]
        left = entries_max
        for position, size in heapq.merge(*steps, reverse=True):
            if left == 0:
                return self.gave_up
            left -= 1
            self.examined += 1
            self._below = position
            record = self._log.read(position, size)
            store_ms = stored_at_ms(record)
            if store_ms < self._begin_ms:
                return True  # older ones come now, and only older ones
            if store_ms <= self._end_ms and self._clue in bytes(record):
                self._take(record)
                if len(self.found) >= self._count_max:
                    return True
        return True

    def _take(self, record: memoryview) -> None:
        properties = decode_record(record).property_map()
        keys = [properties.get(UNIQ_KEY), *split_keys(properties.get(KEYS))]
        room = self._count_max - len(self.found)
        self.found += [record] * min(keys.count(self._key), room)


def _backwards(queue: ConsumeQueue, below: int) -> Iterator[tuple[int, int]]:
    """Position and size of its messages that lie below that position, the newest first."""
    positions, sizes = queue.positions, queue.sizes
    for index in range(bisect.bisect_left(positions, below) - 1, -1, -1):
        yield positions[index], sizes[index]

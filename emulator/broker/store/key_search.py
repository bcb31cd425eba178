"""Messages by their keys, without an index of keys.

Only tools ask for a key, and seldom: so nothing is kept for them, and a search walks the
topic's queues from the newest message back.

Upstream: IndexService.queryOffset, which keeps a file of hashes instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from emulator.broker.store.search import store_ms_at
from protocol.properties import KEYS, UNIQ_KEY, split_keys
from protocol.records import decode_record

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.consume_queue import ConsumeQueue

EXAMINED_MAX = 200_000  # ours: a search must not keep producers waiting


def find_by_key(
    queues: Sequence[ConsumeQueue],
    log: CommitLog,
    key: str,
    count_max: int,
    *,
    begin_ms: int,
    end_ms: int,
) -> list[memoryview]:
    """The newest records first whose UNIQ_KEY, or one of whose KEYS, is *key*.

    Both ends of the time span count.
    """
    found: list[memoryview] = []
    clue = key.encode()
    newest_first = heapq.merge(*(_backwards(queue) for queue in queues), reverse=True)
    for examined, (position, size) in enumerate(newest_first):
        if examined == EXAMINED_MAX or len(found) == count_max:
            break
        store_ms = store_ms_at(log, position)
        if store_ms < begin_ms:
            break  # older ones come now, and only older ones
        record = log.read(position, size)
        if store_ms <= end_ms and clue in bytes(record) and _has_key(record, key):
            found.append(record)
    return found


def _backwards(queue: ConsumeQueue) -> Iterator[tuple[int, int]]:
    return zip(reversed(queue.positions), reversed(queue.sizes), strict=True)


def _has_key(record: memoryview, key: str) -> bool:
    properties = decode_record(record).property_map()
    return key == properties.get(UNIQ_KEY) or key in split_keys(properties.get(KEYS))

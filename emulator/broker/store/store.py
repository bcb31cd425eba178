"""The broker's messages: one log of records, and an index of it for every queue.

Storing is synchronous: when ``put`` returns, the message is in the log and in its queue,
and whoever waits for it has been rung.  The store knows nothing of permissions, groups
or replies; it refuses only what the log cannot hold.

Upstream: DefaultMessageStore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from emulator.broker.store.appender import Appended, Appender
from emulator.broker.store.commit_log import CommitLog
from emulator.broker.store.get_message import (
    GetLimits,
    GetResult,
    GetStatus,
    Matches,
    MatchesRecord,
    get_message,
    out_of_range,
)
from emulator.broker.store.index_entry import index_code, is_indexed
from emulator.broker.store.key_search import find_by_key
from emulator.broker.store.put_status import PutRefused, PutStatus
from emulator.broker.store.queue_index import QueueIndex
from emulator.broker.store.retention import expired_count, surplus_count
from emulator.broker.store.search import offset_by_time, store_ms_at
from emulator.disk.port import NOT_WRITTEN
from emulator.facts import (
    LogRecovered,
    LogTailCut,
    MessageStored,
    OldestDropped,
    Queue,
    StoreRefused,
)
from protocol.delay_levels import parse_delay_levels
from protocol.properties import UNIQ_KEY
from protocol.property_text import property_of
from protocol.records import StoredMessage, check_record, decode_record

if TYPE_CHECKING:
    from emulator.broker.store.consume_queue import ConsumeQueue
    from emulator.broker.store.draft import Draft
    from emulator.config import BrokerConfig
    from emulator.disk.port import Disk, Segment
    from emulator.facts import Fact, Note
    from emulator.net.results import Ring

__all__ = ["GetResult", "GetStatus", "PutRefused", "PutResult", "PutStatus", "Store"]

_HOUR_MS = 3_600_000


class PutResult(msgspec.Struct):
    """Where a message lies now: in the log, and in its queue."""

    position: int
    queue_offset: int
    size: int


class Store:
    """The messages on *disk*, as they were left there, and those to come.

    *ring* hears of every message: ``ring((topic, queue id), (new max offset, code))``.
    """

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        store_host: bytes,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
        ring: Ring,
    ) -> None:
        self.levels = parse_delay_levels(config.delay_levels)
        self._config = config
        self.release = config.profile
        self._note = note
        self._wants = wants
        self._ring = ring
        self._limits = GetLimits(
            config.transfer_messages_max, config.transfer_bytes_max, config.scan_entries_max
        )
        self._newest: dict[int, int] = {}
        self._index = QueueIndex(disk, self.levels)
        self.log = CommitLog(disk, config.segment_bytes, self._make_room)
        self._appender = Appender(self.log, config, store_host, note, self._recover())

    @property
    def store_host(self) -> bytes:
        """The packed address that new records carry; it may be known only once we listen."""
        return self._appender.store_host

    @store_host.setter
    def store_host(self, host: bytes) -> None:
        self._appender.store_host = host

    # Writing --------------------------------------------------------------------------

    def put(self, topic: str, queue_id: int, draft: Draft, now_ms: int) -> PutResult:
        """Store one message; raises PutRefused, and then nothing was stored."""
        queue = self._index.of(topic, queue_id)
        return self._stored(queue, draft, self._appender.append(queue, draft, now_ms))

    def put_all(
        self, topic: str, queue_id: int, drafts: Sequence[Draft], now_ms: int
    ) -> list[PutResult]:
        """Store all, side by side in the log, or none; raises PutRefused."""
        queue = self._index.of(topic, queue_id)
        places = self._appender.append_all(queue, drafts, now_ms)
        return [
            self._stored(queue, draft, place) for draft, place in zip(drafts, places, strict=True)
        ]

    def check(self, topic: str, draft: Draft) -> None:
        """Could *draft* be stored under *topic*?  Raises PutRefused."""
        self._appender.check(topic.encode(), draft)

    def drop_topic(self, topic: str) -> None:
        """The topic is deleted: a successor of that name starts from offset 0.

        Raises what a disk without room raises, and then all is as it was.
        """
        self._index.drop_topic(topic, self.log.end_position)

    def drop_expired(self, now_ms: int) -> None:
        """Drop what has grown too old.  Upstream looks every 10 s."""
        older_than_ms = now_ms - self._config.retained_hours_max * _HOUR_MS
        try:
            self._drop_oldest(expired_count(self.log.segments, self._newest_ms, older_than_ms))
        except NOT_WRITTEN as error:  # what must outlive them has no room: they stay
            self._note(StoreRefused(str(error)))

    def close(self) -> None:
        self.log.close()

    # Reading --------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        matches: Matches | None = None,
        *,
        matches_record: MatchesRecord | None = None,
        corrects: bool = True,
    ) -> GetResult:
        """What a pull gets.  *corrects* is false on a slave: it never moves a consumer."""
        queue = self._index.find(topic, queue_id)
        nothing = out_of_range(queue, offset, self.release, corrects=corrects)
        if nothing is not None:
            return nothing
        assert queue is not None, "no queue has no offsets in range"
        return get_message(
            queue, self.log, offset, count_max, self._limits, matches, matches_record
        )

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._index.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self._index.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at *offset* was stored; -1 if it is not there."""
        queue = self._index.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return self._store_ms_at(queue.positions[offset - queue.min_offset])

    def earliest_ms(self, topic: str, queue_id: int) -> int:
        """When the oldest message of the queue was stored; -1 if there is none."""
        return self.store_ms(topic, queue_id, self.min_offset(topic, queue_id))

    def offset_by_time(
        self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False
    ) -> int:
        queue = self._index.find(topic, queue_id)
        if queue is None:
            return 0
        return offset_by_time(queue, self.log, time_ms, self.release, upper=upper)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._index.find(topic, queue_id)

    def record_at(self, position: int) -> memoryview | None:
        """The stored bytes of the message at *position*, if a record begins there."""
        if not self.log.min_position <= position < self.log.end_position:
            return None
        rest = self.log.read(position, self.log.end_position - position)
        size = check_record(rest, 0, len(rest))
        if isinstance(size, str) or size == 0 or decode_record(rest).position != position:
            return None
        return rest[:size]

    def message_at(self, position: int) -> StoredMessage | None:
        """The same, taken apart.  Positions come from clients, who may guess."""
        record = self.record_at(position)
        return decode_record(record) if record is not None else None

    def find_by_key(
        self, topic: str, key: str, count_max: int, *, begin_ms: int, end_ms: int
    ) -> list[memoryview]:
        """Stored bytes of messages with that key, the newest first."""
        queues = self._index.of_topic(topic)
        return find_by_key(queues, self.log, key, count_max, begin_ms=begin_ms, end_ms=end_ms)

    # How a put ends, retention, recovery ------------------------------------------------

    def _stored(self, queue: ConsumeQueue, draft: Draft, place: Appended) -> PutResult:
        """The record is in the log: index it, and say so."""
        position, size = place.position, place.size
        if not is_indexed(draft.sys_flag):
            return PutResult(position, 0, size)
        offset = queue.max_offset
        code = index_code(queue.topic, place.properties, place.store_ms, self.levels)
        queue.append(position, size, code)
        if self._wants(MessageStored):
            name = Queue(queue.topic, self._config.name, queue.queue_id)
            key = property_of(draft.properties, UNIQ_KEY) or ""
            self._note(MessageStored(name, offset, position, key, size))
        self._ring((queue.topic, queue.queue_id), (offset + 1, code))
        return PutResult(position, offset, size)

    def _make_room(self, coming_bytes: int) -> None:
        bytes_max = 0 if self._config.store else self._config.retained_bytes_max
        if bytes_max:
            self._drop_oldest(surplus_count(self.log.segments, bytes_max, coming_bytes))

    def _drop_oldest(self, count: int) -> None:
        if count == 0:
            return
        kept_from = self.log.segments[count].base
        self._index.keep_floors(kept_from)
        self._index.drop_before(kept_from)
        for segment in self.log.segments[:count]:
            self._newest.pop(segment.base, None)
        freed = sum(self.log.drop_oldest() for _ in range(count))
        self._note(OldestDropped(kept_from, freed))

    def _recover(self) -> int:
        """Read the log that was left here; the time of its last message."""
        if not self.log.segments:
            return 0
        found = self._index.rebuild(self.log)
        self.log.cut(found.end_position)
        if found.reason:
            self._note(LogTailCut(found.end_position, found.reason))
        self._note(LogRecovered(found.messages, self.log.min_position, found.end_position))
        return found.store_ms

    def _newest_ms(self, segment: Segment) -> int:
        """When the last message of a full segment was stored; worth remembering."""
        newest = self._newest.get(segment.base)
        if newest is None:
            newest = self._store_ms_at(self.log.last_record(segment))
            self._newest[segment.base] = newest
        return newest

    def _store_ms_at(self, position: int) -> int:
        return store_ms_at(self.log, position)

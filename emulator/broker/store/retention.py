"""Which of the oldest segments go: for their age, or to make room.

The last segment always stays; another's age is that of its newest message.  What must
outlive the records (the next offset of each queue) is on disk before they go.

Upstream: DefaultMessageStore.CleanCommitLogService (which also waits for an hour of the
day or a filling disk; here age alone decides).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.broker.store.reading import store_ms_at
from emulator.disk.port import NOT_WRITTEN
from emulator.disk.refusals import refusal
from emulator.facts import OldestDropped

if TYPE_CHECKING:
    from emulator.broker.store.commit_log import CommitLog
    from emulator.broker.store.queue_index import QueueIndex
    from emulator.config import BrokerConfig
    from emulator.disk.port import Segment
    from emulator.facts import Note

_HOUR_MS = 3_600_000


class Retention:
    """Drops the oldest segments of *log*, and their entries from *index*."""

    def __init__(
        self, log: CommitLog, index: QueueIndex, config: BrokerConfig, note: Note
    ) -> None:
        self._log = log
        self._index = index
        self.config = config
        self._note = note
        self._newest: dict[int, int] = {}

    def reset(self) -> None:
        """No segment is left."""
        self._newest = {}

    def drop_expired(self, now_ms: int) -> None:
        """Drop what has grown too old; if the disk has no room for what must stay, later."""
        older_than_ms = now_ms - self.config.retained_hours_max * _HOUR_MS
        expired = 0
        for segment in self._log.segments[:-1]:
            if self._newest_ms(segment) >= older_than_ms:
                break
            expired += 1
        try:
            self._drop_oldest(expired)
        except NOT_WRITTEN as error:
            self._note(refusal(error))

    def make_room(self, coming_bytes: int) -> None:
        """In memory only: drop so many that *coming_bytes* more stay within the limit."""
        bytes_max = 0 if self.config.store else self.config.retained_bytes_max
        if not bytes_max:
            return
        segments = self._log.segments
        total = coming_bytes + sum(segment.size for segment in segments)
        surplus = 0
        for segment in segments[:-1]:
            if total <= bytes_max:
                break
            total -= segment.size
            surplus += 1
        self._drop_oldest(surplus)

    def _drop_oldest(self, count: int) -> None:
        if count == 0:
            return
        segments = self._log.segments
        kept_from = segments[count].base
        self._index.keep_floors(kept_from)
        self._index.drop_before(kept_from)
        for segment in segments[:count]:
            self._newest.pop(segment.base, None)
        freed = sum(self._log.drop_oldest() for _ in range(count))
        self._note(OldestDropped(kept_from, freed))

    def _newest_ms(self, segment: Segment) -> int:
        """When the last message of a full segment was stored; looked up once."""
        newest = self._newest.get(segment.base)
        if newest is None:
            newest = store_ms_at(self._log, self._log.last_record(segment))
            self._newest[segment.base] = newest
        return newest

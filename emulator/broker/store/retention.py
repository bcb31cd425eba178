"""Dropping the oldest segments of a log, for their age or to make room.

The last segment always stays, and a segment is as old as its newest message.

Upstream: DefaultMessageStore.CleanCommitLogService, which also waits for an hour of the day or a
filling disk; here age alone decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.store.reading import store_ms_at
from rocketmq_emulator.disk.port import WRITE_ERRORS, refusal
from rocketmq_emulator.facts import OldestDropped

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.commit_log import CommitLog
    from rocketmq_emulator.broker.store.consume_queue import QueueIndex
    from rocketmq_emulator.disk.port import Segment
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.settings.config import BrokerConfig

_HOUR_MS = 3_600_000


def _nobody(_min_position: int) -> None:
    """The default of ``on_dropped``."""


class Retention:
    """Drops the oldest segments of *log*, and their entries from *index*.

    ``on_dropped`` is called with the position at which the log begins now.
    """

    def __init__(
        self, log: CommitLog, index: QueueIndex, config: BrokerConfig, note: Note
    ) -> None:
        self._log = log
        self._index = index
        self.config = config
        self._note = note
        self._newest: dict[int, int] = {}
        self.on_dropped: Callable[[int], object] = _nobody

    def reset(self) -> None:
        """Forget the ages of segments, which were all removed."""
        self._newest = {}

    def drop_expired(self, now_ms: int) -> None:
        """Drop expired segments; on one of ``WRITE_ERRORS`` none, the next call retries."""
        older_than_ms = now_ms - self.config.retained_hours_max * _HOUR_MS
        expired = 0
        for segment in self._log.segments[:-1]:
            if self._newest_ms(segment) >= older_than_ms:
                break
            expired += 1
        try:
            self._drop_oldest(expired)
        except WRITE_ERRORS as error:
            self._note(refusal(error))

    def make_room(self, coming_bytes: int) -> None:
        """Drop segments until *coming_bytes* more stay within the limit, if the store has one."""
        is_limited = not self.config.store or self.config.store_is_temporary
        bytes_max = self.config.retained_bytes_max if is_limited else 0
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
        self.on_dropped(kept_from)

    def _newest_ms(self, segment: Segment) -> int:
        """The store time of a full segment's last message, cached."""
        newest = self._newest.get(segment.base)
        if newest is None:
            newest = store_ms_at(self._log, self._log.last_record(segment))
            self._newest[segment.base] = newest
        return newest

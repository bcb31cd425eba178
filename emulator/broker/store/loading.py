"""The log that a store finds on its disk at a start, read step by step.

A log of gigabytes takes a minute.  So whoever starts the broker is told how far it is, by
facts, and everything else in the process has its turn between two steps: signals, the
end of the parent, the other nodes of an embedded cluster.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

from emulator.broker.store.commit_log import CommitLog, file_of
from emulator.broker.store.queue_index import QueueIndex
from emulator.broker.store.recovery import NO_NEXT_FILE, measure_tail, written_end
from emulator.facts import LogRecovered, LogRecovering, LogTailCut, OddFileFound
from protocol.delay_levels import parse_delay_levels

if TYPE_CHECKING:
    from emulator.config import BrokerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Note

T = TypeVar("T")

STEP_BYTES = 1024 * 1024  # some ten milliseconds
REPORT_BYTES = 16 * 1024 * 1024  # some tenths of a second, and much less than a starter waits


class StoreLoading:
    """The log on *disk* and the queues in it: as they were left, when all ``steps`` are done.

    ``last_store_ms`` is the time of the newest message.
    """

    def __init__(self, disk: Disk, config: BrokerConfig, note: Note) -> None:
        for file, reason in disk.oddities():
            note(OddFileFound(file, reason))
        self.levels = parse_delay_levels(config.delay_levels)
        self.index = QueueIndex(disk, self.levels)
        self.log = CommitLog(disk, config.segment_bytes)
        self.last_store_ms = 0
        self._note = note

    def steps(self) -> Iterator[None]:
        """Read all of it, with a pause after every ``STEP_BYTES`` or so."""
        if not self.log.segments:
            return
        begin = self.log.min_position
        progress = _Progress(begin, written_end(self.log), self._note)
        found = yield from progress.reported(self.index.rebuild(self.log, STEP_BYTES))
        end = found.end_position
        lost = yield from progress.reported(measure_tail(self.log, end))
        base = max(segment.base for segment in self.log.segments if segment.base <= end)
        if found.reason == NO_NEXT_FILE:
            self._note(OddFileFound(file_of(base), found.reason))
        elif found.reason or not lost.is_torn_write:
            reason = found.reason or "a size of 0, but more follows"
            counts = (lost.message_count, lost.written_bytes)
            self._note(LogTailCut(end, reason, *counts, file_of(base), end - base))
        self.log.cut(found.end_position)
        self._note(LogRecovered(found.messages, begin, found.end_position))
        self.last_store_ms = found.store_ms


class _Progress:
    """Facts about a log that is read, from *begin* to about *end*."""

    def __init__(self, begin: int, end: int, note: Note) -> None:
        self._begin = begin
        self._end = end
        self._note = note
        self._report_at = begin + REPORT_BYTES

    def reported(self, reading: Generator[int, None, T]) -> Generator[None, None, T]:
        """What *reading* gives at its end, with its pauses."""
        while True:
            try:
                position = next(reading)
            except StopIteration as ended:
                result: T = ended.value
                return result
            if position >= self._report_at:
                self._report_at = position + REPORT_BYTES
                total_bytes = max(self._end, position) - self._begin
                self._note(LogRecovering(position - self._begin, total_bytes))
            yield

"""When the commit log is flushed, and how far it is safe from a loss of power.

With SYNC_FLUSH every put asks for a flush at once, and its sender may wait for it.  With
ASYNC_FLUSH nobody waits: at upstream's interval, when enough pages were written, and
everything now and then.  Upstream looks twice a second; here the next flush is planned when
something was written, so that an idle broker does not wake up.

Upstream: CommitLog.GroupCommitService, CommitLog.FlushRealTimeService.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rocketmq_emulator.facts import FlushFailed, LogFlushed

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.settings.config import BrokerConfig

PAGE_BYTES = 4096  # MappedFile.OS_PAGE_SIZE


class Flushing:
    """Flushes of one log.  *began_ms* is when upstream's clock would have started.

    Outlets, set by whoever has a clock and calls that wait: ``on_planned`` (ask
    ``next_due_ms`` anew), ``on_flushed`` (everything below a position is safe),
    ``on_failed`` (what lies below a position could not be made safe now), ``run_at_turn_end``
    (call this when the turn ends, once: a turn that stores many messages asks for one flush).
    """

    def __init__(
        self,
        disk: Disk,
        config: BrokerConfig,
        *,
        note: Note,
        wants: Callable[[type[Fact]], bool],
        began_ms: int = 0,
    ) -> None:
        self.is_sync = config.is_sync_flush
        self.flushed_to = 0
        self.on_planned: Callable[[], object] = _ignored
        self.on_flushed: Callable[[int], object] = _ignored
        self.on_failed: Callable[[int], object] = _ignored
        self.run_at_turn_end: Callable[[Callable[[], object]], object] = _call
        self._disk = disk
        self._note = note
        self._wants = wants
        self._began_ms = began_ms
        self._interval_ms = config.flush_interval_ms
        self._thorough_interval_ms = config.flush_thorough_interval_ms
        self._least_pages = config.flush_least_pages
        self._end = 0
        # From this end of the log on ``wrote`` must do something: its one comparison.
        self._act_at: float = 0 if self.is_sync else 1
        if not disk.needs_flush:
            self._act_at = math.inf
        self._message_count = self._safe_count = 0
        self._asked: dict[int, int] = {}  # ends that flushes were asked for: messages below
        self._asked_to = 0  # by the flush that was asked for last
        self._is_flushing = False  # of those flushes that were planned
        self._is_failing = False

    # For the store ----------------------------------------------------------------------

    def recovered(self, start: int, end: int) -> None:
        """The log was found on the disk; nobody knows what of it is safe."""
        self.flushed_to, self._end = start, end
        if self._disk.needs_flush and end > start:
            self._flush()

    def begin_at(self, end: int) -> None:
        """The log is empty and goes on at *end*: whoever waits for a flush waits for nothing."""
        self.flushed_to = self._end = self._asked_to = end
        self._safe_count = self._message_count
        self._asked = {}
        self._is_failing = False
        if self._disk.needs_flush and not self.is_sync:
            self._act_at = end + 1
        self.on_flushed(end)

    def wrote(self, end: int, message_count: int = 1) -> None:
        """The log ends at *end* now, and has *message_count* messages more."""
        self._end = end
        self._message_count += message_count
        if end >= self._act_at:
            if self.is_sync:
                self.run_at_turn_end(self._flush_what_is_new)
            else:
                self._plan()

    @property
    def unflushed_bytes(self) -> int:
        """How much would be lost with the power; 0 where nothing outlives the process."""
        return max(0, self._end - self.flushed_to) if self._disk.needs_flush else 0

    def finish(self) -> None:
        """The store is about to be closed: flush what is left.  Nobody is told."""
        if self._disk.needs_flush and self._end > self.flushed_to:
            self.on_flushed = self.on_failed = _ignored
            self._flush()

    # For whoever has a clock ------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """When ``flush_due`` is to be called; None while nothing is to be flushed then."""
        is_needed = not self.is_sync or self._is_failing
        if not is_needed or self._is_flushing or self._end <= self.flushed_to:
            return None
        interval_ms = self._thorough_interval_ms
        if self._is_failing or self._end >= self._least_pages_end():
            interval_ms = self._interval_ms
        # Ticks after the start, the first one that is still to come.
        return now_ms + interval_ms - (now_ms - self._began_ms) % interval_ms

    def flush_due(self) -> None:
        """Flush everything that was written."""
        if self._end > self.flushed_to:
            self._is_flushing = True
            self._flush()

    # Inside ---------------------------------------------------------------------------

    def _least_pages_end(self) -> int:
        """The end of the log at which so many pages are unflushed that the interval counts.

        Upstream: MappedFile.isAbleToFlush.
        """
        return (self.flushed_to // PAGE_BYTES + self._least_pages) * PAGE_BYTES

    def _plan(self) -> None:
        """Called when there is something to flush, and once more when there is enough."""
        enough = self._least_pages_end()
        self._act_at = enough if self._end < enough else math.inf
        self.on_planned()

    def _flush_what_is_new(self) -> None:
        if self._end > self._asked_to:
            self._flush()

    def _flush(self) -> None:
        self._asked_to = self._end
        self._asked[self._end] = self._message_count
        self._disk.flush(self._end, partial(self._done, self._end))

    def _done(self, asked_to: int, result: int | OSError) -> None:
        self._is_flushing = False
        if isinstance(result, OSError):
            self._failed(asked_to, result)
        elif result > self.flushed_to:  # else it was part of a flush that was heard of already
            self._is_failing = False
            self._flushed(result)
        if not self.is_sync and self._end > self.flushed_to:
            self._plan()

    def _flushed(self, position: int) -> None:
        flushed_bytes, self.flushed_to = position - self.flushed_to, position
        before, self._safe_count = self._safe_count, self._asked[position]
        self._asked = {end: count for end, count in self._asked.items() if end > position}
        if self._wants(LogFlushed):
            self._note(LogFlushed(position, flushed_bytes, self._safe_count - before))
        if not self.is_sync:
            self._act_at = position + 1
        self.on_flushed(position)

    def _failed(self, asked_to: int, error: OSError) -> None:
        if not self._is_failing:  # once, not for every sender who asks
            self._note(FlushFailed(self.flushed_to, str(error)))
        self._is_failing = True
        self.on_failed(asked_to)
        if self.is_sync:
            self.on_planned()


def _call(action: Callable[[], object]) -> None:
    """Without turns at once."""
    action()


def _ignored(*_: object) -> None:
    """Nobody is interested yet."""

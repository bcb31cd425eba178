"""Flushing the commit log, and the position up to which it would survive a loss of power.

With SYNC_FLUSH every put requests a flush at once, and its sender may wait for it.  With
ASYNC_FLUSH no sender waits: the log is flushed at upstream's interval if enough pages were
written, and completely at a longer interval.  Upstream checks twice a second; here a write plans
the next flush, so that an idle broker does not wake up.

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
    """Flushes of one log.  Upstream's intervals are counted from *began_ms*.

    Outlets, set by the shell: ``on_planned`` (``next_due_ms`` has changed), ``on_flushed``
    (everything below a position is flushed), ``on_failed`` (the flush up to a position failed),
    ``run_at_turn_end`` (call a function once at the end of the turn: a turn that stores many
    messages requests one flush).
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
        # ``wrote`` does nothing while the log ends before this position.
        self._act_at: float = 0 if self.is_sync else 1
        if not disk.needs_flush:
            self._act_at = math.inf
        self._message_count = self._safe_count = 0
        self._asked: dict[int, int] = {}  # by the end of a requested flush: messages below it
        self._asked_to = 0  # the end of the last requested flush
        self._is_flushing = False  # a planned flush is running
        self._is_failing = False
        self._cut_count = 0

    # For the store ----------------------------------------------------------------------

    def recovered(self, start: int, end: int) -> None:
        """Flush a log that was found on the disk: it may not have been flushed before."""
        self.flushed_to, self._end = start, end
        if self._disk.needs_flush and end > start:
            self._flush()

    def begin_at(self, end: int) -> None:
        """Restart at *end* with an empty log; calls that wait for a flush are answered."""
        self.flushed_to = self._end = self._asked_to = end
        self._safe_count = self._message_count
        self._asked = {}
        self._is_failing = False
        if self._disk.needs_flush and not self.is_sync:
            self._act_at = end + 1
        self.on_flushed(end)

    def cut(self, end: int) -> None:
        """The log was cut back to *end*: flushes of what was behind it count no longer."""
        self._cut_count += 1
        self._end, self._asked_to = end, min(end, self._asked_to)
        self.flushed_to = min(end, self.flushed_to)
        self._message_count = self._safe_count  # of those that are left some are not counted
        self._asked = {}
        self._is_flushing = False
        self._disk.cut(end)
        if self._disk.needs_flush and not self.is_sync:
            self._act_at = end + 1

    def wrote(self, end: int, message_count: int = 1) -> None:
        """Record that *message_count* messages were written; the log ends at *end* now."""
        self._end = end
        self._message_count += message_count
        if end >= self._act_at:
            if self.is_sync:
                self.run_at_turn_end(self._flush_what_is_new)
            else:
                self._plan()

    @property
    def unflushed_bytes(self) -> int:
        """The bytes that a loss of power would lose; 0 for a store in memory."""
        return max(0, self._end - self.flushed_to) if self._disk.needs_flush else 0

    def finish(self) -> None:
        """Flush the rest before the store is closed, without calling the outlets."""
        if self._disk.needs_flush and self._end > self.flushed_to:
            self.on_flushed = self.on_failed = _ignored
            self._flush()

    # For the shell's timers -------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """When ``flush_due`` is to be called; None while no flush is to be planned."""
        is_needed = not self.is_sync or self._is_failing
        if not is_needed or self._is_flushing or self._end <= self.flushed_to:
            return None
        interval_ms = self._thorough_interval_ms
        if self._is_failing or self._end >= self._least_pages_end():
            interval_ms = self._interval_ms
        # The next tick, counted from the start.
        return now_ms + interval_ms - (now_ms - self._began_ms) % interval_ms

    def flush_due(self) -> None:
        """Flush all written bytes."""
        if self._end > self.flushed_to:
            self._is_flushing = True
            self._flush()

    # Inside ---------------------------------------------------------------------------

    def _least_pages_end(self) -> int:
        """The end of the log from which on enough pages are unflushed for the shorter interval.

        Upstream: MappedFile.isAbleToFlush.
        """
        return (self.flushed_to // PAGE_BYTES + self._least_pages) * PAGE_BYTES

    def _plan(self) -> None:
        """Plan the next flush, and set the end of the log at which it is planned again."""
        enough = self._least_pages_end()
        self._act_at = enough if self._end < enough else math.inf
        self.on_planned()

    def _flush_what_is_new(self) -> None:
        if self._end > self._asked_to:
            self._flush()

    def _flush(self) -> None:
        self._asked_to = self._end
        self._asked[self._end] = self._message_count
        self._disk.flush(self._end, partial(self._done, self._end, self._cut_count))

    def _done(self, asked_to: int, cut_count: int, result: int | OSError) -> None:
        if cut_count != self._cut_count:
            return  # it was asked for before the log was cut
        self._is_flushing = False
        if isinstance(result, OSError):
            self._failed(asked_to, result)
        elif result > self.flushed_to:  # else a flush of more bytes has been reported before
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
        if not self._is_failing:  # note the first failure only, not one for each flush
            self._note(FlushFailed(self.flushed_to, str(error)))
        self._is_failing = True
        self.on_failed(asked_to)
        if self.is_sync:
            self.on_planned()


def _call(action: Callable[[], object]) -> None:
    """The default of ``run_at_turn_end``: there are no turns, so call it at once."""
    action()


def _ignored(*_: object) -> None:
    """The default of the other outlets."""

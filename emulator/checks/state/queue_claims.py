"""One member's claim of one queue, and the offsets at which a claim may begin.

A member that claims a queue begins at the offset that the broker reports, and is given every
message from there on once, while it holds the queue; it must not be given any other.

Offsets are read some time after they were written, and a restarted process has the ones written
last.  So of the offsets that a broker, or a broadcasting member's file, may have reported in a
time, the lowest counts, not the newest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rocketmq_emulator.checks.state.offset_runs import OffsetRuns
from rocketmq_emulator.facts.journal import Entry, EntryKey


class QueueClaim:
    """One member's claim of one queue, until its release or its end."""

    __slots__ = (
        "began_us",
        "cached",
        "claimed",
        "committed",
        "earlier_in_flight",
        "ended_us",
        "given",
        "in_flight",
        "node",
        "raised_to",
        "seek_offset",
        "sought",
        "start",
        "to_redeliver",
        "why",
    )

    def __init__(
        self, node: str, start: int, claimed: EntryKey | None, why: str, began_us: int = 0
    ) -> None:
        self.node = node
        self.start = start  # the member may be given messages from here on, each once
        self.claimed = claimed  # None: it pulled the queue without a claim
        self.why = why  # the cause if messages come again
        self.began_us = began_us if claimed is None else claimed.mono_us
        self.given = OffsetRuns()
        self.to_redeliver: set[int] = set()  # of these: failed, to be delivered again
        self.in_flight: dict[int, Entry] = {}  # given, not finished
        self.earlier_in_flight: dict[
            int, Entry
        ] = {}  # the same, by the member's claim before this one
        self.committed: tuple[int, EntryKey] | None = None  # last
        self.seek_offset: int | None = (
            None  # a tool or seek moved it there: commits may go back to it, once
        )
        # From where to where a lite pull member had pulled, and not polled, when its offset was
        # corrected: these come once from its cache, and once again.
        self.cached = (0, 0)
        self.sought: tuple[int, int] | None = None  # its last seek: the offset, and when
        # A pull of an earlier claim of this member found nothing there: it commits that, once.
        self.raised_to: int | None = None
        self.ended_us: int | None = None

    def takes(self, offset: int) -> bool:
        """The member is given the message; whether that is the first time in this claim."""
        is_first = self.given.add(offset)
        if is_first and self.cached[0] <= offset < self.cached[1]:
            self.to_redeliver.add(offset)
        return is_first

    def cut(self, offset: int) -> None:
        """The queue ends at *offset*: later messages do not come again."""
        self.given.cut(offset)
        self.start = min(self.start, offset)

    def move_to(self, offset: int, why: str) -> None:
        """The member continues at *offset*: messages from there on come again."""
        self.start = min(self.start, offset)
        self.given.cut(offset)
        self.committed, self.why, self.cached = None, why, (0, 0)
        self.seek_offset = offset if self.seek_offset is None else min(offset, self.seek_offset)

    def cause_of_repeat(self, offset: int, holds: Iterable[QueueClaim]) -> str:
        """The cause for which this member may consume a message again.

        *holds* are all claims of the queue.
        """
        if self.why != "handed_over":
            return self.why
        is_shared = self.ended_us is None and any(
            each.ended_us is None and offset in each.given for each in holds if each is not self
        )
        return "two_owners" if is_shared else "handed_over"

    def finishes(self, offset: int) -> Entry | None:
        """Remove the message from those in flight; return the entry that gave it, or None."""
        found = self.in_flight.pop(offset, None)
        return self.earlier_in_flight.pop(offset, None) if found is None else found


# Offsets that were reported -----------------------------------------------------------


OFFSETS_MAX = 256  # kept for one reader in one queue
WRITTEN_EVERY_US = 1_000_000  # interval of offsets kept for a member with its own file


class ReportedOffsets:
    """The last ``OFFSETS_MAX`` offsets of one reader in one queue.  Times are ``mono_us``."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: deque[tuple[int, int]] = deque(maxlen=OFFSETS_MAX)  # when, offset

    def __bool__(self) -> bool:
        """Whether an offset is known."""
        return bool(self._known)

    @property
    def first_us(self) -> int | None:
        """When the oldest known offset was written."""
        return self._known[0][0] if self._known else None

    @property
    def is_full(self) -> bool:
        """Whether older offsets may have been dropped."""
        return len(self._known) == OFFSETS_MAX

    def add(self, offset: int, now_us: int) -> None:
        """Add *offset* as the newest."""
        self._known.append((now_us, offset))

    def is_due(self, now_us: int) -> bool:
        """Whether the newest offset is old enough to add the next."""
        return not self._known or now_us - self._known[-1][0] > WRITTEN_EVERY_US

    def lowest_since(self, since_us: int) -> int:
        """The lowest offset that may have been reported since then; 0 if not known."""
        lowest: int | None = None
        for at_us, offset in reversed(self._known):
            lowest = offset if lowest is None else min(lowest, offset)
            if at_us <= since_us:
                return lowest
        return lowest if lowest is not None and self.is_full else 0

    def clear(self) -> None:
        """Remove all offsets: the queue begins at offset 0 again."""
        self._known.clear()

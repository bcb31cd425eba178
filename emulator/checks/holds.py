"""One member's claim of one queue: what it may be given by it, and what it has in hand.

A member that claims a queue begins at the offset that the broker tells it, and gets every message
from there on once, as long as it holds the queue.  That is all it may get.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.checks.offset_runs import OffsetRuns
from emulator.journal import Entry, EntryKey


class Hold:
    """One member's claim of one queue, until its release or its end."""

    __slots__ = (
        "again",
        "began_us",
        "claimed",
        "committed",
        "ended_us",
        "given",
        "in_hand",
        "late",
        "node",
        "sought",
        "start",
        "why",
    )

    def __init__(
        self, node: str, start: int, claimed: EntryKey | None, why: str, began_us: int = 0
    ) -> None:
        self.node = node
        self.start = start  # the member may be given what stands from here on, each once
        self.claimed = claimed  # None: it pulled a queue that it had not claimed
        self.why = why  # messages may come again by it: a cause of duplicates
        self.began_us = began_us if claimed is None else claimed.mono_us
        self.given = OffsetRuns()
        self.again: set[int] = set()  # of these: failed, so they come again
        self.in_hand: dict[int, Entry] = {}  # given, and not finished
        self.late: dict[int, Entry] = {}  # the same, by the member's hold before this one
        self.committed: tuple[int, EntryKey] | None = None  # last
        self.sought: int | None = None  # somebody moved it there: commits may go back so far, once
        self.ended_us: int | None = None

    def cut(self, offset: int) -> None:
        """The queue ends at *offset*: what the member had beyond does not come again."""
        self.given.cut(offset)
        self.start = min(self.start, offset)

    def goes_to(self, offset: int, why: str) -> None:
        """It goes on from *offset*: what was given from there on comes again."""
        self.start = min(self.start, offset)
        self.given.cut(offset)
        self.committed, self.why = None, why
        self.sought = offset if self.sought is None else min(offset, self.sought)

    def why_again(self, offset: int, holds: Iterable[Hold]) -> str:
        """The cause for which this member may consume a message again; *holds* are all of it."""
        if self.why != "handed_over":
            return self.why
        is_shared = self.ended_us is None and any(
            each.ended_us is None and offset in each.given for each in holds if each is not self
        )
        return "two_owners" if is_shared else "handed_over"

    def finishes(self, offset: int) -> Entry | None:
        """The entry with which the message was given, if it was given and is not finished."""
        found = self.in_hand.pop(offset, None)
        return self.late.pop(offset, None) if found is None else found

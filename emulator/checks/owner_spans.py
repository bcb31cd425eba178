"""For how long a queue of a group had an owner, two, or none."""

from __future__ import annotations

from typing import Literal

from emulator.facts import Queue
from emulator.journal import EntryKey


class OwnerSpan:
    """One queue of one group: who owns it, and for how long it was too many or nobody."""

    __slots__ = (
        "dropped",
        "group",
        "has_members",
        "is_left",
        "is_wanted",
        "last_owner",
        "left",
        "overlap",
        "owners",
        "queue",
        "since_us",
        "unclaimed",
        "unowned",
        "was_named",
    )

    def __init__(self, group: str, queue: Queue, now_us: int) -> None:
        self.group, self.queue = group, queue
        self.owners: dict[str, EntryKey] = {}
        self.last_owner = ""  # node
        self.dropped: dict[str, EntryKey] = {}  # of these, those that were silent
        self.was_named = False  # in a violation
        # Nobody took it for 180 s: a violation named that, or it was let off.
        self.unclaimed: Literal["", "excused", "named"] = ""
        self.since_us = now_us
        self.has_members = True
        self.is_wanted = True
        self.is_left = False  # members count different queues: some of them nobody takes
        self.overlap = Times()
        self.unowned = Times()
        self.left = Times()  # unowned for that

    def moves(self, now_us: int) -> None:
        """Time has passed with these owners."""
        passed, self.since_us = now_us - self.since_us, now_us
        self.overlap.adds(passed, now_us, holds=len(self.owners) > 1)
        is_unowned = not self.owners and self.is_wanted and self.has_members
        self.unowned.adds(passed, now_us, holds=is_unowned and not self.is_left)
        self.left.adds(passed, now_us, holds=is_unowned and self.is_left)


class Times:
    """How long something lasted, in all and at the longest."""

    __slots__ = ("longest_until_us", "longest_us", "now_us", "sum_us")

    def __init__(self) -> None:
        self.sum_us = self.now_us = self.longest_us = 0
        self.longest_until_us = 0  # when the longest time ended, or was seen last

    def adds(self, passed_us: int, until_us: int, *, holds: bool) -> None:
        """It held for so long up to *until_us*, or was over."""
        self.now_us = self.now_us + passed_us if holds else 0
        self.sum_us += passed_us if holds else 0
        if self.now_us > self.longest_us:
            self.longest_us, self.longest_until_us = self.now_us, until_us

"""Which messages of the timer topic fall due when: their queue offsets, by slot.

A slot is a second (or what ``timer_precision_ms`` says) and is named by the time at which it
begins.  It also knows which of its messages are recalled: those named by a delete message of
the same slot.  Upstream's wheel has a fixed number of slots in a file; here there are only
those that hold something, in memory, found again by reading the timer topic's queue.

Upstream: TimerWheel, Slot.
"""

from __future__ import annotations

import heapq
from array import array


class Slot:
    """The messages of one slot, oldest first; those before ``next_index`` are done."""

    __slots__ = ("at_ms", "deleted_keys", "next_index", "num", "offsets")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.offsets = array("q")
        self.next_index = 0
        self.deleted_keys: set[str] = set()
        self.num = 0  # as upstream counts: a delete message takes one away

    @property
    def next_offset(self) -> int | None:
        """The offset of the first message that is not done; None if all are."""
        if self.next_index == len(self.offsets):
            return None
        return self.offsets[self.next_index]


class TimerWheel:
    """Slots by their time; an empty one does not exist."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._times: list[int] = []  # a heap

    def add(self, at_ms: int, offset: int, *, deleted_key: str | None = None) -> None:
        """Put the message at *offset* into a slot; *deleted_key* names the one it deletes."""
        slot = self._slot(at_ms)
        slot.offsets.append(offset)
        if deleted_key is None:
            slot.num += 1
        else:
            slot.num -= 1
            slot.deleted_keys.add(deleted_key)

    def remember_deleted(self, at_ms: int, deleted_key: str) -> None:
        """A delete message that was done before a restart still counts for its slot."""
        self._slot(at_ms).deleted_keys.add(deleted_key)

    def num(self, at_ms: int) -> int:
        """How full a slot is.  Upstream: TimerWheel.getNum."""
        slot = self._slots.get(at_ms)
        return 0 if slot is None else slot.num

    def total_num(self) -> int:
        """How many messages wait.  Upstream: TimerWheel.getAllNum."""
        return sum(slot.num for slot in self._slots.values())

    def first(self) -> Slot | None:
        """The slot that falls due first."""
        return self._slots[self._times[0]] if self._times else None

    def remove_first(self) -> None:
        """The first slot is done with."""
        del self._slots[heapq.heappop(self._times)]

    def move(self, ms: int) -> None:
        """Every slot begins, and so is over, *ms* earlier."""
        for slot in self._slots.values():
            slot.at_ms -= ms
        self._slots = {slot.at_ms: slot for slot in self._slots.values()}
        self._times = sorted(self._slots)

    def _slot(self, at_ms: int) -> Slot:
        slot = self._slots.get(at_ms)
        if slot is None:
            slot = self._slots[at_ms] = Slot(at_ms)
            heapq.heappush(self._times, at_ms)
        return slot

"""One queue in the progress: its records, and how far each reader has come in it."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Literal, TypeAlias

import msgspec

from emulator.checks.offset_runs import OffsetRuns
from emulator.facts import Queue
from protocol.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)

TIMES_MAX = 1 << 20  # of messages of one queue that somebody has not consumed
TRIMMED_EVERY = 1 << 12  # messages
AGAINS_MAX = 8  # ranges that may come again, of one reader in one queue
OLDER_US = 6_000_000  # clients and brokers write offsets every five seconds
SKIPPED_MAX = 1 << 12  # messages of one range whose coming after all is noticed
IN_FLIGHT_MAX = 64  # messages of pulls that are under way

Place: TypeAlias = Literal["", "topic", "waiting", "retry", "dead"]  # "": nowhere yet


class QueueRecords:
    """What was stored in a queue, and which of it somebody was promised."""

    __slots__ = (
        "acked",
        "behind",
        "broken",
        "cut_times",
        "early",
        "first",
        "place",
        "queue",
        "readings",
        "stored_count",
        "times",
        "times_from",
        "unflushed_lost",
        "unsafe",
    )

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.place = place_of(queue.topic)
        self.first: int | None = None  # the first offset that the journal has
        self.behind = 0  # the last one stored
        self.stored_count = 0
        self.acked = OffsetRuns()
        self.early = OffsetRuns()  # acknowledged, says the producer, before they were stored
        self.unsafe: set[int] = set()  # acknowledged, and not as safe as the broker should
        self.readings: list[QueueReading] = []
        self.broken: list[int] = []  # acknowledged as flushed, and lost with the power
        self.unflushed_lost = 0  # acknowledged, lost with the power, and never promised
        self.times = array("q")  # mono_us at which offsets from times_from on were stored
        self.times_from = 0
        self.cut_times: dict[int, int] = {}  # of lost messages whose places are not used again

    def store(self, offset: int, now_us: int) -> None:
        """A message was stored, at *offset* or behind a hole."""
        if self.first is None:
            self.first = self.times_from = offset
        self.behind = offset + 1
        self.stored_count += 1
        if self.cut_times:
            self.cut_times.pop(offset, None)
        times = self.times
        index = offset - self.times_from
        if index != len(times):
            self.times_from, index = offset, 0
            del times[:]
        times.append(now_us)
        if not (index + 1) % TRIMMED_EVERY:
            self._trim()
        if self.early.ends and offset in self.early:
            self.acked.add(offset)

    def stored_us(self, offset: int) -> int | None:
        """When it was stored; None if that is not known any more.

        A message that its broker has lost may still be on its way to a listener.
        """
        index = offset - self.times_from
        return self.times[index] if 0 <= index < len(self.times) else self.cut_times.get(offset)

    def cut(self, offset: int) -> None:
        """The queue ends at *offset*."""
        self.behind = min(self.behind, offset)
        self.acked.cut(offset)
        self.early.cut(offset)
        kept = max(0, offset - self.times_from)
        lost = enumerate(self.times[kept:], self.times_from + kept)
        self.cut_times.update(lost)
        del self.times[kept:]

    def _trim(self) -> None:
        """Forget the times of what all readers have consumed."""
        needed = min((each.done.behind(each.start) for each in self.readings), default=0)
        gone = max(needed - self.times_from, len(self.times) - TIMES_MAX)
        if gone > 0:
            self.times_from += gone
            del self.times[:gone]


class Again(msgspec.Struct, frozen=True):
    """A range of offsets that may come again, and why."""

    start: int
    end: int
    why: str


class QueueReading:
    """How far one reader has come in one queue."""

    __slots__ = (
        "agains",
        "committed",
        "done",
        "excused",
        "failed",
        "given",
        "older",
        "older_next",
        "older_us",
        "owner",
        "pulled_to",
        "queue",
        "reader",
        "records",
        "reused_to",
        "skipped",
        "start",
    )

    def __init__(self, reader: str, queue: Queue, start: int, records: QueueRecords) -> None:
        self.reader, self.queue, self.start, self.records = reader, queue, start, records
        self.given = OffsetRuns()  # to a listener, or by a poll
        self.done = OffsetRuns()  # consumed; skipped for a known cause
        self.failed: dict[int, str] = {}  # offset: uniq_key, of what a listener did not take
        self.committed: int | None = None
        self.pulled_to = start
        self.excused: dict[str, int] = {}  # cause: messages that were skipped by right
        self.skipped: set[int] = set()  # of what is done: excused, and nobody has had it yet
        self.reused_to = 0  # places below it were used before the broker lost them
        self.owner = ""  # node
        self.agains: deque[Again] = deque(maxlen=AGAINS_MAX)
        # What was committed at least OLDER_US ago, and what will be that next.
        self.older = self.older_next = start
        self.older_us = 0

    def commits(self, offset: int, now_us: int) -> None:
        """A member committed *offset*."""
        if now_us - self.older_us > OLDER_US:
            self.older, self.older_next, self.older_us = self.older_next, offset, now_us
        if self.committed is not None and offset < self.committed:
            self.comes_again(offset, "a lower offset was committed")
            self.older = min(self.older, offset)
        self.committed = offset

    def claimed(self, node: str) -> None:
        """*node* begins where the offset is: what others had not committed comes again."""
        came_from, self.owner = self.owner, node
        why = "another member had it" if came_from not in ("", node) else "it was claimed anew"
        self.comes_again(self.older, why)

    def comes_again(self, offset: int, why: str) -> None:
        """What was pulled from *offset* on up to now may come again."""
        end = max(self.pulled_to, *self.given.ends[-1:], offset)
        self.agains.append(Again(offset, end + IN_FLIGHT_MAX, why))

    def why_again(self, offset: int) -> str:
        """What explains that the message at *offset* comes again; empty: nothing."""
        return next((a.why for a in reversed(self.agains) if a.start <= offset < a.end), "")

    def takes(self, offset: int) -> bool:
        """It is consumed now; whether it was before."""
        if self.done.add(offset):
            return False
        if offset in self.skipped:  # it was seen as skipped, and comes after all
            self.skipped.remove(offset)
            return False
        return True

    def excuse(self, start: int, end: int, cause: str) -> None:
        """What is not done of these is not owed."""
        for first, behind in list(self.done.holes(start, end)):
            self.excused[cause] = self.excused.get(cause, 0) + behind - first
            self.skipped.update(range(first, min(behind, first + SKIPPED_MAX)))
        self.given.add_run(start, end)
        self.done.add_run(start, end)

    def cut(self, offset: int) -> None:
        """The queue ends at *offset*: new messages take the places of lost ones.

        A reader that was beyond skips them: nobody promised it otherwise.
        """
        beyond = max(self.committed or 0, self.pulled_to, *self.given.ends[-1:], 0)
        self.given.cut(offset)
        self.done.cut(offset)
        self.skipped = {each for each in self.skipped if each < offset}
        self.pulled_to = min(self.pulled_to, offset)
        self.start = min(self.start, offset)
        for lost in [each for each in self.failed if each >= offset]:
            del self.failed[lost]
        if beyond > offset:
            self.reused_to = max(self.reused_to, beyond)
        self.comes_again(min(self.older, offset), "the broker lost the end of its log")


def place_of(topic: str) -> Place:
    """What a message that is stored there waits for."""
    if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
        return "retry"
    if topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        return "dead"
    return "waiting" if topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else "topic"

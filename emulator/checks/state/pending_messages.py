"""Messages on their way between places: sends under way, delayed copies, retries, dead letters.

Most messages have one place, and the runs of offsets of their queue tell what became of them.
A message is followed here by its key while it has no place from which it will be consumed: a send
that is not answered yet, a copy that waits in the schedule or timer topic, a failed message until
it was sent back or consumed after all.  A copy keeps its message's key.

What is open has limits; the oldest is forgotten, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.offset_runs import OffsetRuns
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.facts import MessageStored, Queue
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.delay_levels import parse_delay_levels
from rocketmq_emulator.protocol.messages.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
)

OPEN_SENDS_MAX = 100_000
FAILED_MAX = 1_000_000
DUE_US_MAX = 1_000_000  # times are kept in seconds on the way

RetryState: TypeAlias = Literal["", "waiting", "retry", "dead"]  # "": nowhere


class WaitingCopy(msgspec.Struct):
    """A message that waits in the schedule or timer topic.  Times are ``mono_us``."""

    key: str
    records: QueueRecords
    offset: int
    stored: EntryKey
    due_us: int | None  # None: that is not known
    group: str = ""  # it was sent back by; "": it was sent so
    sent: EntryKey | None = None  # its producer noted the acknowledgement
    back: EntryKey | None = None  # its broker noted whose retry it is
    failure: Failure | None = None  # of which it is the retry

    @property
    def is_of_retry(self) -> bool:
        """A group gave it back."""
        return bool(self.group) or self.failure is not None

    @property
    def is_scheduled(self) -> bool:
        """In a queue of a delay level: these come in their order."""
        return self.records.queue.topic == SCHEDULE_TOPIC


class Failure(msgspec.Struct):
    """A message that a group's listener did not take, at one of its places."""

    queue: Queue
    offset: int
    position: int | None  # in its broker's log
    failed: EntryKey
    passed: RetryState = ""  # where it went
    sent_back: EntryKey | None = None
    tags: str | None = None  # its copies keep them; None: they are not known


class PendingMessages:
    """All that is on its way.  ``delays_ms`` are the brokers' levels; a plan may have its own."""

    def __init__(self) -> None:
        self.open_sends: dict[str, list[tuple[QueueRecords, int]]] = {}  # where they were stored
        self.shared_keys: dict[str, None] = {}  # keys of batches, and of what was stored twice
        self.forgotten_us = 0  # when the last one was stored that is forgotten
        self.waiting: dict[str, list[WaitingCopy]] = {}  # by key
        # By key and group; members of a batch may share one key, so there may be several.
        self.failures: dict[str, dict[str, list[Failure]]] = {}
        self.delays_ms = parse_delay_levels().delay_ms
        self._newest: dict[str, WaitingCopy] = {}  # by broker: the copy that it stored last
        self._failure_count = 0
        # By broker: its last record's number, the failure it was taken for, its state before, key.
        self._taken_for: dict[str, tuple[int, Failure, RetryState, str]] = {}
        self._closed: dict[QueueReading, OffsetRuns] = {}  # places that stay settled

    # Sends --------------------------------------------------------------------------------

    def stored(self, fact: MessageStored, records: QueueRecords) -> None:
        """A message has a place; perhaps its send is not answered yet."""
        places = self.open_sends.get(fact.uniq_key)
        if places is None:
            self.open_sends[fact.uniq_key] = [(records, fact.offset)]
            if len(self.open_sends) > OPEN_SENDS_MAX:
                for at, offset in self.open_sends.pop(next(iter(self.open_sends))):
                    self.forgotten_us = max(self.forgotten_us, at.stored_us(offset) or 0)
        else:
            places.append((records, fact.offset))
            self.shared_keys[fact.uniq_key] = None
            if len(self.shared_keys) > OPEN_SENDS_MAX:
                del self.shared_keys[next(iter(self.shared_keys))]

    # Copies that wait ---------------------------------------------------------------------

    def waits(self, fact: MessageStored, entry: Entry, records: QueueRecords) -> None:
        """A copy was stored where it waits for its time."""
        due_us = None
        if fact.queue.topic == SCHEDULE_TOPIC:
            delay_ms = self.delays_ms.get(fact.queue.queue_id + 1)
            due_us = None if delay_ms is None else entry.mono_us + delay_ms * 1_000
        stored = EntryKey(entry.mono_us, entry.node, entry.seq)
        copy = WaitingCopy(fact.uniq_key, records, fact.offset, stored, due_us)
        self.waiting.setdefault(fact.uniq_key, []).append(copy)
        self._newest[entry.node] = copy
        for failures in self.failures.get(fact.uniq_key, {}).values():
            if (failure := _likely(failures, fact)) is not None:
                self._takes_for(failure, "waiting", entry)
                failure.sent_back, copy.failure = stored, failure
                break

    def sent_back(self, group: str, origin_position: int, entry: Entry) -> None:
        """What the broker has stored just before *entry* is a retry, or a dead letter, of *group*.

        The message that was given back begins at *origin_position* of its log; a retry is promised
        to the group from here on.
        """
        copy = self._newest.get(entry.node)
        is_copy = copy is not None and copy.stored.seq + 1 == entry.seq
        failure = self._exactly(group, origin_position, entry)
        if copy is None or not is_copy:
            return
        copy.group, copy.failure = group, failure or copy.failure
        copy.back = EntryKey(entry.mono_us, entry.node, entry.seq)
        copy.records.acked.add(copy.offset)
        copy.records.unsafe.add(copy.offset)  # its broker does not wait for the flush
        if failure is not None:
            failure.sent_back = copy.stored
        self.is_no_send(copy.key, copy.records, copy.offset)

    def _takes_for(self, failure: Failure, passed: RetryState, entry: Entry) -> None:
        """The record that was stored with *entry* seems to be of *failure*."""
        assert isinstance(entry.fact, MessageStored)
        key = entry.fact.uniq_key
        self._taken_for[entry.node] = entry.seq, failure, failure.passed, key
        failure.passed = passed

    def _exactly(self, group: str, position: int, entry: Entry) -> Failure | None:
        """The failure of which the last record is, instead of the one it was taken for."""
        known = self._taken_for.get(entry.node)
        if known is None or known[0] + 1 != entry.seq:
            return None
        _, taken, before, key = known
        exact = next(
            (
                failure
                for failure in self.failures.get(key, {}).get(group, ())
                if failure.position == position and failure.queue.broker == entry.node
            ),
            None,
        )
        if exact is not None and exact is not taken:
            exact.passed, taken.passed = taken.passed, before
        return exact

    def is_no_send(self, key: str, records: QueueRecords, offset: int) -> None:
        """No producer sent what was stored there: its broker did it by itself."""
        places = self.open_sends.get(key, [])
        if (records, offset) in places:
            places.remove((records, offset))
            if not places:
                del self.open_sends[key]

    def put_aside(self, broker: str, key: str, offset: int, due_us: int) -> None:
        """The timer message at *offset* of *broker*'s timer topic is due then.

        A send that was retried may have stored others there, which are due at other times.
        """
        for copy in self.waiting.get(key, ()):
            is_here = copy.records.queue.broker == broker and copy.offset == offset
            if is_here and not copy.is_scheduled:
                copy.due_us = due_us

    def comes(
        self, key: str, queue: Queue, offset: int | None, target: Queue, entry: Entry
    ) -> WaitingCopy | None:
        """The copy of *key* in *queue* that comes to *target* now; None: none is known there.

        *offset* is its own where the journal says it; else the first one comes that may go there:
        a broker that was started again also delivers once more what it had delivered.
        """
        is_retry = bool(group_of(target.topic))
        here = [
            copy
            for copy in self.waiting.get(key, ())
            if copy.records.queue == queue
            and offset in (None, copy.offset)
            and (is_retry or not copy.is_of_retry)
        ]
        if not here:
            return None
        copy = min(here, key=lambda each: each.offset)
        self.drop(copy)
        copy.records.delivered_to = max(copy.records.delivered_to, copy.offset + 1)
        known = self._taken_for.get(entry.node)
        if known is not None and known[0] + 1 == entry.seq and copy.failure is not None:
            _, taken, before, _ = known
            if copy.failure is not taken:
                copy.failure.passed, taken.passed = taken.passed, before
        return copy

    def drop(self, copy: WaitingCopy) -> None:
        """It waits no more."""
        copies = self.waiting[copy.key]
        copies.remove(copy)
        if not copies:
            del self.waiting[copy.key]

    def cut(self, records: QueueRecords, offset: int) -> None:
        """The queue in which they waited ends at *offset*."""
        for copies in list(self.waiting.values()):
            for copy in [each for each in copies if each.records is records]:
                if copy.offset >= offset:
                    self.drop(copy)

    # What failed --------------------------------------------------------------------------

    def fails(
        self, key: str, group: str, records: QueueRecords, offset: int, entry: Entry
    ) -> None:
        """A listener of *group* did not take the message at that place."""
        queue = records.queue
        failures = self.failures.setdefault(key, {}).setdefault(group, [])
        failed = EntryKey(entry.mono_us, entry.node, entry.seq)
        found = Failure(queue, offset, records.position_of(offset), failed)
        found.tags = records.tags_at(offset)
        known = next((f for f in failures if (f.queue, f.offset) == (queue, offset)), None)
        if known is not None and known.passed:
            return  # it has another place already, and comes to a second owner of the queue
        if known is None and group_of(queue.topic):
            known = _first(failures, "retry")  # the retry of that one has failed as well
        if known is None:
            failures.append(found)
            self._failure_count += 1
        else:
            failures[failures.index(known)] = found
        if self._failure_count > FAILED_MAX:
            gone = self.failures.pop(next(iter(self.failures)))
            self._failure_count -= sum(map(len, gone.values()))

    def passes_on(self, fact: MessageStored, entry: Entry) -> None:
        """A retry has its place, or a dead letter."""
        groups = self.failures.get(fact.uniq_key)
        if groups is None:
            return
        mine = groups.get(group_of(fact.queue.topic), [])
        if fact.queue.topic.startswith(DLQ_GROUP_TOPIC_PREFIX):  # at once, unless it has waited
            failure = _likely(mine, fact) or _first(mine, "waiting")
            if failure is not None:
                self._takes_for(failure, "dead", entry)
            return
        failure = _first(mine, "waiting")
        if failure is None and (failure := _likely(mine, fact)) is not None:
            for failures in groups.values():  # the copy of another group was taken for this one's
                other = None if failures is mine else _first(failures, "waiting")
                if other is not None:
                    other.passed = ""
                    break
        if failure is not None:
            self._takes_for(failure, "retry", entry)

    def sent_on(self, copy: WaitingCopy, group: str) -> None:
        """A member of *group* sent the copy itself, says it: so it is of a failure of this group.

        Until then it was taken for that of any group that had failed as well.
        """
        copy.group = group
        mine = self.failures.get(copy.key, {}).get(group, [])
        failure = _first(mine, "")
        if not group or failure is None or copy.failure in mine:
            return
        if copy.failure is not None and copy.failure.passed == "waiting":
            copy.failure.passed, copy.failure.sent_back = "", None
        failure.passed, failure.sent_back, copy.failure = "waiting", copy.stored, failure

    def takes(self, key: str, group: str, queue: Queue, offset: int) -> None:
        """*group* has consumed the message at that place, after it had failed."""
        groups = self.failures.get(key)
        if groups is None or group not in groups:
            return
        failures = groups[group]
        found = next((f for f in failures if (f.queue, f.offset) == (queue, offset)), None)
        if found is None and group_of(queue.topic):
            found = _first(failures, "retry")
        if found is None:
            return
        failures.remove(found)
        self._failure_count -= 1
        if not failures:
            del groups[group]
            if not groups:
                del self.failures[key]

    def failure(self, key: str, group: str, queue: Queue, offset: int) -> Failure | None:
        """What became of the message that failed there; None: it came after all."""
        failures = self.failures.get(key, {}).get(group, [])
        return next((f for f in failures if (f.queue, f.offset) == (queue, offset)), None)

    # What is settled ----------------------------------------------------------------------

    def is_settled(self, reading: QueueReading, offset: int) -> bool:
        """The group has it, or it failed and has another place, or waits for one."""
        if offset in reading.done:
            return True
        return offset in reading.failed and self._passed(reading, offset) != ""

    def unsettled(self, reading: QueueReading, start: int, end: int) -> Iterator[int]:
        """The places between that are not settled.

        Asked for at each commit that passes a failed message: places that stay settled are
        looked at once.
        """
        closed = self._closed.get(reading)
        if closed is None:
            closed = self._closed[reading] = OffsetRuns()
        if closed.first_missing(start) >= end:
            return
        for first, behind in list(closed.holes(start, end)):
            if reading.done.first_missing(first) >= behind:  # all of it is consumed: nearly always
                closed.add_run(first, behind)
                continue
            for done in list(reading.done.runs(first, behind)):
                closed.add_run(*done)
            for hole in list(reading.done.holes(first, behind)):
                for offset in range(*hole):
                    passed = self._passed(reading, offset) if offset in reading.failed else ""
                    if passed == "":
                        yield offset
                    elif passed == "over":
                        closed.add(offset)

    def reopens(self, reading: QueueReading, offset: int) -> None:
        """The queue ends at *offset*: other messages will stand in the places behind it."""
        if reading in self._closed:
            self._closed[reading].cut(offset)

    def _passed(self, reading: QueueReading, offset: int) -> RetryState | Literal["over"]:
        """Where the message went that failed there; "over": that cannot change any more."""
        group = reading.reader.partition("@")[0]
        failure = self.failure(reading.failed[offset], group, reading.queue, offset)
        if failure is None:
            return "over"
        if failure.passed != "dead":
            return failure.passed
        is_sure = all(taken is not failure for _, taken, _, _ in self._taken_for.values())
        return "over" if is_sure else "dead"


def _first(failures: Iterable[Failure], passed: RetryState) -> Failure | None:
    return next((each for each in failures if each.passed == passed), None)


def _likely(failures: Iterable[Failure], copy: MessageStored) -> Failure | None:
    """Of which failure *copy* is, of those under its key that have no other place yet.

    Members of a batch share a key, so the tags tell them apart, and among equals it is the first
    in its queue: if it were another one's, no offset could be committed beyond the first.
    """
    open_ones = (each for each in failures if each.passed == "")
    return min(open_ones, key=lambda each: (each.tags != copy.tags, each.offset), default=None)


def group_of(topic: str) -> str:
    """Whose retry or dead-letter topic that is; "" for any other one."""
    for prefix in (RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""

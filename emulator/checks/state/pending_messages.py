"""Messages between places: unanswered sends, delayed copies, retries, dead letters.

Most messages have one place, and the ``OffsetRuns`` of their queue show whether they were
consumed.  A message is followed here by its key while it has no place from which it will be
consumed: a send without an answer yet, a copy that waits in the schedule or timer topic, a failed
message until it is sent back or consumed.  A copy keeps its message's key.

Tables have limits; the oldest messages are dropped.
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
DUE_US_MAX = 1_000_000  # times are stored in seconds in between

RetryState: TypeAlias = Literal["", "waiting", "retry", "dead"]  # "": no other place


class WaitingCopy(msgspec.Struct):
    """A message that waits in the schedule or timer topic.  Times are ``mono_us``."""

    key: str
    records: QueueRecords
    offset: int
    stored: EntryKey
    due_us: int | None  # None: not known
    group: str = ""  # the group that sent it back; "": a producer sent it
    sent: EntryKey | None = None  # its producer's MessageSent
    back: EntryKey | None = None  # its broker's MessageSentBack
    failure: Failure | None = None  # the failure that it retries
    given_up: EntryKey | None = None  # by a slave that acted as its master

    @property
    def is_of_retry(self) -> bool:
        """Whether a group sent it back."""
        return bool(self.group) or self.failure is not None

    @property
    def is_scheduled(self) -> bool:
        """Whether it is in a queue of a delay level, whose messages come in order."""
        return self.records.queue.topic == SCHEDULE_TOPIC


class Failure(msgspec.Struct):
    """A failed listener call of a group for a message, at one of its places."""

    queue: Queue
    offset: int
    position: int | None  # in its broker's log
    failed: EntryKey
    passed: RetryState = ""  # its next place
    sent_back: EntryKey | None = None
    tags: str | None = None  # its copies keep them; None: not known


class PendingMessages:
    """All pending messages.  ``delays_ms`` are the brokers' levels; a plan may set them."""

    def __init__(self) -> None:
        self.open_sends: dict[str, list[tuple[QueueRecords, int]]] = {}  # places by key
        self.shared_keys: dict[str, None] = {}  # of batches, and of messages stored twice
        self.forgotten_us = 0  # when the last dropped one was stored
        self.waiting: dict[str, list[WaitingCopy]] = {}  # by key
        # By key and group; members of a batch may share one key, so there may be several.
        self.failures: dict[str, dict[str, list[Failure]]] = {}
        self.delays_ms = parse_delay_levels().delay_ms
        self._newest: dict[str, WaitingCopy] = {}  # by broker: its last stored copy
        self._failure_count = 0
        # By broker: number of its last record, the assumed failure, its state before, key.
        self._taken_for: dict[str, tuple[int, Failure, RetryState, str]] = {}
        self._closed: dict[QueueReading, OffsetRuns] = {}  # offsets that stay settled

    # Sends --------------------------------------------------------------------------------

    def stored(self, fact: MessageStored, records: QueueRecords) -> None:
        """Note a place of a message whose send may not be answered yet."""
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
        """Note a copy stored in the schedule or timer topic."""
        due_us = None
        if fact.queue.topic == SCHEDULE_TOPIC:
            delay_ms = self.delays_ms.get(fact.queue.queue_id + 1)
            due_us = None if delay_ms is None else entry.mono_us + delay_ms * 1_000
        stored = EntryKey(entry.mono_us, entry.node, entry.seq)
        copy = WaitingCopy(fact.uniq_key, records, fact.offset, stored, due_us)
        self.waiting.setdefault(fact.uniq_key, []).append(copy)
        self._newest[entry.node] = copy
        # A producer's own topic: a copy of a failure waits for a retry topic, or the dead letters.
        is_of_producer = bool(fact.real_topic) and not group_of(fact.real_topic)
        groups = {} if is_of_producer else self.failures.get(fact.uniq_key, {})
        for failures in groups.values():
            if (failure := _likely(failures, fact)) is not None:
                self._takes_for(failure, "waiting", entry)
                failure.sent_back, copy.failure = stored, failure
                break

    def sent_back(self, group: str, origin_position: int, entry: Entry) -> None:
        """The record stored just before *entry* is a retry, or a dead letter, of *group*.

        The message that was sent back begins at *origin_position* of the broker's log; from now on
        the retry is promised to the group.
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
        """Assume that the record stored with *entry* is the next place of *failure*."""
        assert isinstance(entry.fact, MessageStored)
        key = entry.fact.uniq_key
        self._taken_for[entry.node] = entry.seq, failure, failure.passed, key
        failure.passed = passed

    def _exactly(self, group: str, position: int, entry: Entry) -> Failure | None:
        """The failure at *position*, which replaces the one assumed for the last record."""
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
        """No producer sent the message at *offset*: the broker stored it itself."""
        places = self.open_sends.get(key, [])
        if (records, offset) in places:
            places.remove((records, offset))
            if not places:
                del self.open_sends[key]

    def put_aside(self, broker: str, key: str, offset: int, due_us: int) -> None:
        """The timer message at *offset* of *broker*'s timer topic is due at *due_us*.

        A retried send may have stored others there, which are due at other times.
        """
        for copy in self.waiting.get(key, ()):
            is_here = copy.records.queue.broker == broker and copy.offset == offset
            if is_here and not copy.is_scheduled:
                copy.due_us = due_us

    def comes(
        self, key: str, queue: Queue, offset: int | None, target: Queue, entry: Entry
    ) -> WaitingCopy | None:
        """The copy of *key* in *queue* that is delivered to *target*; None: none is known.

        *offset* is the copy's if the journal has it; else the first copy that fits is taken: a
        restarted broker delivers some messages again.
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
        """Remove a copy that no longer waits."""
        copies = self.waiting[copy.key]
        copies.remove(copy)
        if not copies:
            del self.waiting[copy.key]

    def cut(self, records: QueueRecords, offset: int) -> None:
        """Remove copies from *offset* on: their queue ends there."""
        for copies in list(self.waiting.values()):
            for copy in [each for each in copies if each.records is records]:
                if copy.offset >= offset:
                    self.drop(copy)

    # Failures -----------------------------------------------------------------------------

    def fails(
        self, key: str, group: str, records: QueueRecords, offset: int, entry: Entry
    ) -> None:
        """Note that a listener call of *group* failed for the message at that place."""
        queue = records.queue
        failures = self.failures.setdefault(key, {}).setdefault(group, [])
        failed = EntryKey(entry.mono_us, entry.node, entry.seq)
        found = Failure(queue, offset, records.position_of(offset), failed)
        found.tags = records.tags_at(offset)
        known = next((f for f in failures if (f.queue, f.offset) == (queue, offset)), None)
        if known is not None and known.passed:
            return  # it has another place already: a second owner of the queue got it
        if known is None and group_of(queue.topic):
            known = _first(failures, "retry")  # its retry has failed as well
        if known is None:
            failures.append(found)
            self._failure_count += 1
        else:
            failures[failures.index(known)] = found
        if self._failure_count > FAILED_MAX:
            gone = self.failures.pop(next(iter(self.failures)))
            self._failure_count -= sum(map(len, gone.values()))

    def passes_on(self, fact: MessageStored, entry: Entry) -> None:
        """Note the place of a retry or a dead letter."""
        groups = self.failures.get(fact.uniq_key)
        if groups is None:
            return
        mine = groups.get(group_of(fact.queue.topic), [])
        if fact.queue.topic.startswith(DLQ_GROUP_TOPIC_PREFIX):  # stored at once, or after waiting
            failure = _likely(mine, fact) or _first(mine, "waiting")
            if failure is not None:
                self._takes_for(failure, "dead", entry)
            return
        failure = _first(mine, "waiting")
        if failure is None and (failure := _likely(mine, fact)) is not None:
            for failures in groups.values():  # the copy is this group's, not that group's
                other = None if failures is mine else _first(failures, "waiting")
                if other is not None:
                    other.passed = ""
                    break
        if failure is not None:
            self._takes_for(failure, "retry", entry)

    def goes_to_replaced(self, fact: MessageStored) -> None:
        """A replaced master stored the retry or dead letter: its group goes on without it."""
        group = group_of(fact.queue.topic) or group_of(fact.real_topic)
        failures = self.failures.get(fact.uniq_key, {}).get(group, [])
        if (failure := _likely(failures, fact)) is not None:
            failure.passed = "dead"

    def sent_on(self, copy: WaitingCopy, group: str) -> None:
        """A member of *group* sent the copy itself, so it belongs to a failure of this group.

        Until then it was assumed to belong to any group with a failure of the message.
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
        """Remove the failure: *group* has consumed the message at that place."""
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
        """The failure of the message at that place; None: it was consumed after it."""
        failures = self.failures.get(key, {}).get(group, [])
        return next((f for f in failures if (f.queue, f.offset) == (queue, offset)), None)

    # Settled messages ---------------------------------------------------------------------

    def is_settled(self, reading: QueueReading, offset: int) -> bool:
        """Whether the group consumed it, or it failed and has, or waits for, another place."""
        if offset in reading.done:
            return True
        return offset in reading.failed and self._passed(reading, offset) != ""

    def unsettled(self, reading: QueueReading, start: int, end: int) -> Iterator[int]:
        """The offsets from *start* to *end* that are not settled.

        Called at each commit that passes a failed message: offsets that stay settled are checked
        only once.
        """
        closed = self._closed.get(reading)
        if closed is None:
            closed = self._closed[reading] = OffsetRuns()
        if closed.first_missing(start) >= end:
            return
        for first, behind in list(closed.holes(start, end)):
            if reading.done.first_missing(first) >= behind:  # all consumed: nearly always
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
        """The queue ends at *offset*: other messages will get the places from there on."""
        if reading in self._closed:
            self._closed[reading].cut(offset)

    def _passed(self, reading: QueueReading, offset: int) -> RetryState | Literal["over"]:
        """The next place of the message that failed at *offset*; "over": it is final."""
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
    """The failure without another place that *copy* most likely belongs to.

    Members of a batch share a key, so tags distinguish them; among equal ones it is the first in
    its queue: otherwise no offset beyond the first could be committed.  If several queues have
    the message, it is the one in which it failed last: a copy is stored just after its failure.
    """
    open_ones = [each for each in failures if each.passed == ""]
    if not open_ones:
        return None
    last = max(open_ones, key=lambda each: each.failed.mono_us)
    return min(
        open_ones, key=lambda each: (each.tags != copy.tags, each.queue != last.queue, each.offset)
    )


def group_of(topic: str) -> str:
    """The group of a retry or dead-letter topic; "" for any other topic."""
    for prefix in (RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""

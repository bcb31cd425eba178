"""Messages that a group consumed more than once: counted, and each with its cause.

At-least-once allows them for causes that leave traces: a hand-over, where
the new owner begins at the committed offset; a death before offsets were written; a broker
that came back with older offsets; a tool; a send that was retried after it had been stored; a
message sent back whose first delivery succeeded after all.  A duplicate without any of these is a
violation.
"""

from __future__ import annotations

from collections import Counter

from emulator.checks.checker import Checker, Metric, Shared, place_of
from emulator.checks.folding import Table
from emulator.facts import (
    ConsumerStarted,
    MessageConsumed,
    MessagePolled,
    MessageSent,
    MessageStored,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SendAttempted,
    SendFailed,
)
from emulator.journal import Entry
from protocol.names import RETRY_GROUP_TOPIC_PREFIX

OPEN_KEYS_MAX = 100_000  # of sends under way, and of messages stored twice
CAUSES = {  # metric: what it counts
    "handed_over": "consumed again by the next owner of the queue, or after it was claimed anew",
    "two_owners": "consumed by two members that both held the queue",
    "older_offsets": "consumed again because an offset went back: a broker's, a tool's, late ones",
    "sent_twice": "stored twice by a send that was retried, and consumed twice",
    "sent_back_twice": "sent back, and consumed twice",
}
WHY = {  # of a range that may come again: the cause
    "another member had it": "handed_over",
    "it was claimed anew": "handed_over",
    "its consumer was started again": "handed_over",
}


class DuplicatesAreExplained(Checker):
    """At-least-once, and no more often than it must be."""

    name = "duplicates"
    rule = (
        "a message is consumed again only after a hand-over, a death before its offset was "
        "written, an offset that went back, a retried send or a retry"
    )
    metrics = (
        Metric("duplicates", "messages", "consumed again after they were consumed", "group"),
        Metric("unexplained_duplicates", "messages", "of these: without a cause", "group"),
        *(
            Metric(f"duplicates_{cause}", "messages", what, "group")
            for cause, what in CAUSES.items()
        ),
        Metric("stored_twice", "messages", "stored more than once by a send that was retried"),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._owners: dict[tuple[str, Queue], list[str]] = {}
        self._open: dict[str, int] = {}  # uniq_key of a send under way: how often it was stored
        self._copies: dict[str, Counter[str]] = {}  # of what was stored twice: consumed, by reader
        self._retried: dict[tuple[str, str], int] = {}  # (group, uniq_key) of retries: consumed

    def table(self) -> Table:
        """What it reads."""
        return {
            MessageStored: self._stored,
            MessageSent: self._closed,
            SendFailed: self._closed,
            SendAttempted: self._attempted,
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
        }

    def end(self) -> None:
        """A group without duplicates has none of any kind."""
        for group in self.scene.seats:
            for metric in self.metrics[:-1]:
                self.adds(metric.name, 0, group)
        self.adds("stored_twice", 0)

    # Stored twice -------------------------------------------------------------------------

    def _stored(self, fact: MessageStored, entry: Entry) -> None:
        key, stored = fact.uniq_key, self._open
        if key in stored:
            stored[key] += 1
        elif self.progress.place == "topic":
            stored[key] = 1
            if len(stored) > OPEN_KEYS_MAX:
                del stored[next(iter(stored))]

    def _closed(self, fact: MessageSent | SendFailed, entry: Entry) -> None:
        times = self._open.pop(fact.uniq_key, 1)
        if times > 1:
            self.adds("stored_twice", times - 1)
            self._is_doubled(fact.uniq_key)
        elif isinstance(fact, SendFailed) or fact.attempts > 1:
            self._is_doubled(fact.uniq_key)  # an attempt without an answer may be stored yet

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome == "ONE_WAY":
            self._open.pop(fact.uniq_key, None)

    def _is_doubled(self, key: str) -> None:
        self._copies.setdefault(key, Counter())
        if len(self._copies) > OPEN_KEYS_MAX:
            del self._copies[next(iter(self._copies))]

    # Consumed twice -----------------------------------------------------------------------

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if self.progress.is_repeat:
            self._repeated(fact.group, fact.queue, fact.offset, entry)
        elif fact.ok:
            if fact.uniq_key in self._copies:
                self._copy(fact, entry)
            if fact.reconsume_times or self._retried:
                self._retry(fact)
        elif self.progress.passed_on.get(fact.uniq_key) is not None:
            self._retried.setdefault((fact.group, fact.uniq_key), 0)

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        if not self.progress.is_repeat:
            return
        if self._is_allotted(fact.group, fact.queue, entry.node):
            self._adds("handed_over", fact.group)
        else:
            self._repeated(fact.group, fact.queue, fact.offset, entry)

    def _is_allotted(self, group: str, queue: Queue, node: str) -> bool:
        """A lite pull consumer reads its share at once, from the offset that it is told.

        It claims a queue later where it could not ask for the offset in time.
        """
        seat = self.scene.seat(group, node)
        is_subscribed = seat is not None and queue.topic in seat.topics
        return is_subscribed and node not in self._holders(group, queue)

    def _copy(self, fact: MessageConsumed, entry: Entry) -> None:
        """One of several records of one message was consumed."""
        counted, reader = self._copies[fact.uniq_key], self.progress.reader(fact.group, entry.node)
        counted[reader] += 1
        if counted[reader] > 1:
            self._adds("sent_twice", fact.group)

    def _retry(self, fact: MessageConsumed) -> None:
        """A record was consumed of a message that failed before."""
        known = (fact.group, fact.uniq_key)
        if known not in self._retried:
            return
        self._retried[known] += 1
        if self._retried[known] > 1:
            self._adds("sent_back_twice", fact.group)
        elif fact.queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            del self._retried[known]

    def _repeated(self, group: str, queue: Queue, offset: int, entry: Entry) -> None:
        why = self.progress.reading.why_again(offset)
        if why:
            self._adds(WHY.get(why, "older_offsets"), group)
        elif len(self._holders(group, queue)) > 1:
            self._adds("two_owners", group)
        else:
            self.adds("duplicates", 1, group)
            self.adds("unexplained_duplicates", 1, group)
            place = place_of(queue)
            self.objects(f"{group} consumed offset {offset} of {place} again, for no cause", entry)

    def _adds(self, cause: str, group: str) -> None:
        self.adds("duplicates", 1, group)
        self.adds(f"duplicates_{cause}", 1, group)

    # Owners -------------------------------------------------------------------------------

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        for queue in fact.queues:
            owners = self._owners.setdefault((fact.group, queue), [])
            if entry.node not in owners:
                owners.append(entry.node)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        for queue in fact.queues:
            owners = self._owners.get((fact.group, queue), [])
            if entry.node in owners:
                owners.remove(entry.node)

    def _holders(self, group: str, queue: Queue) -> list[str]:
        owners = self._owners.get((group, queue), [])
        seats = (self.scene.seat(group, node) for node in owners)
        return [seat.node for seat in seats if seat is not None and seat.lives]

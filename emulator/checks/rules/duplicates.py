"""Messages that a group consumed more than once: counted, each with its cause.

At-least-once allows them for causes that the journal shows: a move of the queue, where the new
owner begins at the committed offset; a kill before offsets were written; a broker that restarted
with older offsets; a tool; a send that was retried after it had been stored; a message that was
sent back although its first delivery succeeded.  A member may be given each message from the
start of its ``QueueClaim`` on, once.  A repeat beyond that is a violation.
"""

from __future__ import annotations

from collections import Counter

from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    key_of,
)
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MessageConsumed,
    MessagePolled,
    MessageSent,
    Queue,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

OPEN_KEYS_MAX = 100_000  # of sends in progress, and of messages stored twice
CAUSES = {  # metric: sentence
    "handed_over": "consumed again by the next owner of the queue, or after a new claim",
    "two_owners": "consumed by two members that both held the queue",
    "older_offsets": "consumed again because an offset went back: a broker's, a tool's, late ones",
    "sent_twice": "stored twice by a send that was retried, and consumed twice",
    "sent_back_twice": "sent back, and consumed twice",
}


class DuplicatesAreExplained(Checker):
    """Each repeated consumption has a cause that at-least-once allows."""

    name = "duplicates"
    rule = (
        "a message is consumed again only after its queue moved, a kill before its offset was "
        "written, an offset that went back, a retried send or a retry"
    )
    metrics = (
        Metric("duplicates", "messages", "consumed again after they were consumed", "group"),
        Metric("startup_duplicates", "messages", "of these: in the group's start-up", "group"),
        Metric("unexplained_duplicates", "messages", "of these: without a cause", "group"),
        *(
            Metric(f"duplicates_{cause}", "messages", what, "group")
            for cause, what in CAUSES.items()
        ),
        Metric("stored_twice", "messages", "stored more than once by a send that was retried"),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        # By uniq_key: ended sends that were stored in several places: attempts, when.
        self._left: dict[str, tuple[int, EntryKey]] = {}
        self._copies: dict[str, Counter[str]] = {}  # stored twice: times consumed, by reader
        self._retried: dict[tuple[str, str], int] = {}  # (group, uniq_key): times consumed

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            MessageSent: self._closed,
            SendFailed: self._closed,
            MessageConsumed: self._consumed,
            MessagePolled: self._polled,
        }

    def end(self) -> None:
        """Set every metric of every group, also without duplicates."""
        for group in self.cluster.consumers:
            for metric in self.metrics[:-1]:
                self.add_to_metric(metric.name, 0, group)
        self.add_to_metric("stored_twice", 0)
        self._stored_twice()

    # Stored twice -------------------------------------------------------------------------

    def _closed(self, fact: MessageSent | SendFailed, entry: Entry) -> None:
        """Count the places of an ended send.  Members of a batch may share one key."""
        if fact.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            return  # a consumer sent it back with the key of the message: its producer's counts
        left = self.progress.messages.pending.open_sends.get(fact.uniq_key)
        # A failed send has no acknowledged place: one of these is its own.
        of_sends = [place for place in left or () if place[0].topic_kind == "topic"]
        if left and (isinstance(fact, MessageSent) or len(of_sends) > 1):
            self._left[fact.uniq_key] = fact.attempts, key_of(entry)
            if len(self._left) > OPEN_KEYS_MAX:
                del self._left[next(iter(self._left))]
        if isinstance(fact, SendFailed) or fact.attempts > 1:
            self._is_doubled(fact.uniq_key)  # an unanswered attempt may still be stored

    def _stored_twice(self) -> None:
        """Count places of acknowledged sends that no acknowledgement names."""
        for key, (attempts, closed) in self._left.items():
            places = self.progress.messages.pending.open_sends.get(key, ())
            left = [place for place in places if place[0].topic_kind == "topic"]
            if not left:
                continue
            self.add_to_metric("stored_twice", len(left))
            if attempts == 1:
                records, offset = left[0]
                stored = records.entries_of_message(offset)[:1]
                self.report_violation(
                    f"{key} was sent once and stored twice, also in {place_of(records.queue)}",
                    *stored,
                    closed,
                    node=records.queue.broker,
                )

    def _is_doubled(self, key: str) -> None:
        self._copies.setdefault(key, Counter())
        if len(self._copies) > OPEN_KEYS_MAX:
            del self._copies[next(iter(self._copies))]

    # Consumed twice -----------------------------------------------------------------------

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        self.tried += 1
        if self.progress.is_repeat:
            self._repeated(fact.group, fact.queue, fact.offset, entry)
        elif fact.ok:
            if fact.uniq_key in self._copies:
                self._copy(fact, entry)
            if fact.reconsume_times or self._retried:
                self._retry(fact, entry)
        else:
            self._retried.setdefault((fact.group, fact.uniq_key), 0)

    def _polled(self, fact: MessagePolled, entry: Entry) -> None:
        self.tried += 1
        consumer = self.cluster.consumer(fact.group, entry.node)
        if self.progress.is_repeat and (
            consumer is None or consumer.started.consumer_kind != "pull"
        ):
            self._repeated(fact.group, fact.queue, fact.offset, entry)

    def _copy(self, fact: MessageConsumed, entry: Entry) -> None:
        """Count a consumption of a message that has several records."""
        counted, reader = self._copies[fact.uniq_key], self.progress.reader(fact.group, entry.node)
        counted[reader] += 1
        if counted[reader] > 1:
            self._adds("sent_twice", fact.group, entry)

    def _retry(self, fact: MessageConsumed, entry: Entry) -> None:
        """Count a consumption of a message that failed before."""
        known = (fact.group, fact.uniq_key)
        if known not in self._retried:
            return
        self._retried[known] += 1
        if self._retried[known] > 1:
            self._adds("sent_back_twice", fact.group, entry)
        elif fact.queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
            del self._retried[known]

    def _repeated(self, group: str, queue: Queue, offset: int, entry: Entry) -> None:
        reading = self.progress.reading
        if offset in reading.unwanted:
            return  # skipped as unwanted, so not consumed before
        if why := reading.cause_of_repeat(entry.node, offset):
            self._adds(why, group, entry)
            return
        self._add(group, entry)
        self.add_to_metric("unexplained_duplicates", 1, group)
        hold = reading.claims[entry.node]
        claimed = () if hold.claimed is None else (hold.claimed,)
        self.report_violation(
            f"{group} consumed offset {offset} of {place_of(queue)} again without a cause",
            *reading.records.entries_of_message(offset)[:1],
            *claimed,
            entry,
        )

    def _adds(self, cause: str, group: str, entry: Entry) -> None:
        self._add(group, entry)
        self.add_to_metric(f"duplicates_{cause}", 1, group)

    def _add(self, group: str, entry: Entry) -> None:
        self.add_to_metric("duplicates", 1, group)
        if self.start_ups.until_us(group, entry.mono_us) is None:
            self.add_to_metric("startup_duplicates", 1, group)

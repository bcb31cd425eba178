"""What a member is given: each message from a place of its own, with a wanted tag, and in order.

Offsets of a queue follow one another, an acknowledgement names the place in which the message was
stored, and a member is given the message that stands there.  After a broker lost the end of its
log its places are used again; that is no violation.  Brokers compare hashes of tags, clients the
tags themselves.  (What a group wants and does not get is lost: ``delivery``.)

In an orderly group a failed message comes again before any later one (client invariant 50); after
a hand-over or an offset that went back the order begins anew there.  Of two members that both hold
a queue each has an order of its own: that there are two is for ``locks`` and ``ownership``.
"""

from __future__ import annotations

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MessageConsumed,
    MessagePolled,
    MessageStored,
    Queue,
    QueuesClaimed,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

# Places -------------------------------------------------------------------------------


PLACE_RULES = {
    "gap": "offsets of a queue follow one another",
    "used twice": "no two messages have one place",
    "acked twice": "a place is acknowledged to one send",
    "acked elsewhere": "a send is acknowledged with the place of its own message",
    "came twice": "a delayed message is delivered once",
    "no queue": "messages are stored in queues that their topic has",
    "not stored": "what is delivered has been stored",
    "other message": "a member is given the message that stands in its place",
}


class OffsetsAreUnique(Checker):
    """A message has a place of its own: an offset of a queue that no other message has.

    Offsets of a queue follow one another, an acknowledgement names the place in which the
    message was stored, and a member is given the message that stands in the place it is told.
    After a broker lost the end of its log its places are used again; that is no violation.

    Server invariant 24, and what follows from it for clients.
    """

    name = "places"
    rule = "each message has a place of its own, and is acknowledged and given out with it"
    metrics = (
        Metric("odd_places", "messages", "whose place is not their own"),
        Metric(
            "excused_unnoted_places",
            "messages",
            "that a broker stored and was killed before it noted them",
        ),
        Metric(
            "excused_lost_places",
            "messages",
            "given out after their broker had lost them, and their places had others",
        ),
        Metric(
            "excused_forgotten_deliveries",
            "messages",
            "delivered twice, as their broker ended soon after the first time",
        ),
    )
    needs = (MessageStored,)

    def table(self) -> Table:
        """The progress finds what is odd while it follows places."""
        return {}

    def end(self) -> None:
        """Tell what was found."""
        self.add_to_metric("odd_places", len(self.progress.messages.anomalies))
        self.add_to_metric("excused_unnoted_places", self.progress.messages.excused_unnoted)
        self.add_to_metric("excused_lost_places", self.progress.messages.excused_lost_places)
        self.add_to_metric(
            "excused_forgotten_deliveries", self.progress.messages.excused_forgotten
        )
        self.count_tried(
            self.progress.messages.seen["acked"] + self.progress.messages.seen["given"]
        )
        for anomalies in self.progress.messages.anomalies:
            self.report_violation(
                anomalies.what,
                *anomalies.entries,
                rule=f"{self.rule}: {PLACE_RULES[anomalies.kind]}",
            )


# Tags ---------------------------------------------------------------------------------


class FiltersAreKept(Checker):
    """A group with a tag expression gets what it wants, and nothing else.

    Brokers compare hashes of tags, clients the tags themselves: what comes to a listener has
    one of the tags that its member subscribes.  (What it wants and does not get is lost:
    ``delivery``.)

    PullAPIWrapper.processPullResult; MessageFilter at the broker.
    """

    name = "filters"
    rule = "a member is given only messages with the tags that it subscribes"
    metrics = (Metric("unwanted", "messages", "whose tags the member does not take", "group"),)
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageConsumed: self._taken, MessagePolled: self._taken}

    def end(self) -> None:
        """Every group has a number."""
        for group in self.cluster.consumers:
            self.add_to_metric("unwanted", 0, group)

    def _taken(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        if not self.cluster.has_filters:
            return
        queue = fact.queue
        if self.cluster.takes_all(fact.group, queue.topic) or not self.cluster.knows_tags:
            return
        consumer = self.cluster.consumer(fact.group, entry.node)
        tags = self.progress.reading.records.tags_at(fact.offset)
        if consumer is None or tags is None or queue.topic not in consumer.topics:
            return
        self.count_tried()
        is_wanted = self.cluster.wants(fact.group, queue.topic, tags) == "all"
        if not is_wanted and not consumer.wants(queue.topic, tags):
            self.add_to_metric("unwanted", 1, fact.group)
            self.report_violation(
                f"{entry.node} was given offset {fact.offset} of {place_of(queue)} with the tags "
                f"{tags!r}, which it does not subscribe",
                *self.progress.reading.records.entries_of_message(fact.offset)[:1],
                entry,
            )


# Order --------------------------------------------------------------------------------


BATCH_US = 1_000  # facts of one call of a listener; a retry comes after 10 ms at least


class OrderIsKept(Checker):
    """An orderly group gets each queue's messages in their order, one after the other.

    A failed message comes again before any later one (client invariant 50); after a hand-over
    or an offset that went back the order begins anew there.  Of two members that both hold a queue
    each has an order of its own: that there are two is for ``locks`` and ``ownership`` to say.

    Client invariant 50.
    """

    name = "order"
    rule = (
        "an orderly listener gets a queue's messages one after the other; a failed one comes "
        "again before any later one (client invariant 50)"
    )
    metrics = (
        Metric("out_of_order", "messages", "consumed before an earlier one of the queue", "group"),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        # What is next, by group and queue, and by the member's node.
        self._next: dict[tuple[str, Queue], dict[str, tuple[int, EntryKey]]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageConsumed: self._consumed, QueuesClaimed: self._claimed}

    def end(self) -> None:
        """Every orderly group has a number."""
        for group in self.cluster.orderly:
            self.add_to_metric("out_of_order", 0, group)

    def _consumed(self, fact: MessageConsumed, entry: Entry) -> None:
        if fact.group not in self.cluster.orderly:
            return
        self.tried += 1
        members = self._next.setdefault((fact.group, fact.queue), {})
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        expected, before = members.get(entry.node, (fact.offset, key))
        if fact.offset != expected and not self._may_come(fact, expected, before, entry):
            self.add_to_metric("out_of_order", 1, fact.group)
            place = place_of(fact.queue)
            self.report_violation(
                f"{fact.group} consumed offset {fact.offset} of {place} where {expected} was next",
                before,
                entry,
            )
        members[entry.node] = (self._first_open(fact, entry.node), key)

    def _first_open(self, fact: MessageConsumed, node: str) -> int:
        """Where its member goes on: at the first message that failed there, or behind this one."""
        failed_here = self.progress.reading.claims[node].to_redeliver
        waiting = [
            offset
            for offset in self.progress.reading.failed
            if offset <= fact.offset
            and offset in failed_here
            # One that failed just now waits, also if an earlier copy of it was given up.
            and (not self._is_away(offset) or (offset == fact.offset and not fact.ok))
        ]
        return min(waiting, default=fact.offset + 1)

    def _may_come(
        self, fact: MessageConsumed, expected: int, before: EntryKey, entry: Entry
    ) -> bool:
        """A known cause put the reader elsewhere, or nothing that is due lies between."""
        if fact.offset < expected:
            reading = self.progress.reading
            hold = reading.claims[entry.node]
            comes_again = self.progress.is_repeat or hold.why == "older_offsets"
            return comes_again and fact.offset not in reading.misdelivered
        if entry.mono_us - before.mono_us < BATCH_US and entry.node == before.node:
            return True  # the rest of a batch that failed as a whole
        due = [
            each
            for start, end in self.progress.reading.done.holes(expected, fact.offset)
            for each in range(start, end)
            if not self._is_away(each) and self._is_wanted(fact, each, entry.mono_us)
        ]
        return not due

    def _is_wanted(self, fact: MessageConsumed, offset: int, now_us: int) -> bool:
        """All members that ran since it was stored take the message at *offset*."""
        records = self.progress.reading.records
        tags, since_us = records.tags_at(offset), records.stored_us(offset) or 0
        return self.cluster.is_wanted(fact.group, fact.queue.topic, tags, since_us, now_us)

    def _is_away(self, offset: int) -> bool:
        """It was given up, and waits in the retry topic or as a dead letter."""
        reading = self.progress.reading
        return offset in reading.failed and self.progress.messages.pending.is_settled(
            reading, offset
        )

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        """The new owner begins at the committed offset."""
        for queue in fact.queues:
            self._next.get((fact.group, queue), {}).pop(entry.node, None)

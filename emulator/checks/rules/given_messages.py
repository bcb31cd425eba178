"""Messages given to members: each from a unique place, with a wanted tag, and in order.

A place is an offset of a queue.  Offsets of a queue are consecutive, an acknowledgement names the
place of the stored message, and a member is given the message stored there.  After a broker lost
the end of its log its places are used again; that is no violation.  Brokers compare hashes of
tags, clients the tags themselves.  (Wanted messages that a group does not get: ``delivery``.)

In an orderly group a failed message comes again before any later one (client invariant 50); after
the queue moved, or its offset went back, the order restarts there.  If two members hold a queue,
each has its own order; ``locks`` and ``ownership`` report that there are two.
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
    "gap": "offsets of a queue are consecutive",
    "used twice": "no two messages have one place",
    "acked twice": "a place is acknowledged to one send only",
    "acked elsewhere": "a send is acknowledged with the place of its own message",
    "came twice": "a delayed message is delivered once",
    "no queue": "messages are stored in queues that their topic has",
    "not stored": "a delivered message has been stored",
    "other message": "a member is given the message that is stored at the place",
}


class OffsetsAreUnique(Checker):
    """A message has a unique place: an offset of a queue that no other message has.

    Server invariant 24, and its consequences for clients.
    """

    name = "places"
    rule = "each message has a unique place, and is acknowledged and delivered with it"
    metrics = (
        Metric("odd_places", "messages", "with a wrong place"),
        Metric(
            "excused_unnoted_places",
            "messages",
            "stored by a broker that was killed before it noted them",
        ),
        Metric(
            "excused_lost_places",
            "messages",
            "delivered after their broker had lost them and reused their places",
        ),
        Metric(
            "excused_forgotten_deliveries",
            "messages",
            "delivered twice, as their broker ended soon after the first delivery",
        ),
    )
    needs = (MessageStored,)

    def table(self) -> Table:
        """Empty: ``Progress`` finds wrong places while it follows messages."""
        return {}

    def end(self) -> None:
        """Report the wrong places that ``Progress`` found."""
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
    """A listener is given only messages that its member's tags or SQL92 expression match.

    PullAPIWrapper.processPullResult; MessageFilter at the broker.
    """

    name = "filters"
    rule = "a member is given only messages with the tags, or by the SQL92, that it subscribes"
    metrics = (
        Metric("unwanted", "messages", "with tags or properties that are not subscribed", "group"),
    )
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageConsumed: self._taken, MessagePolled: self._taken}

    def end(self) -> None:
        """Set the metric of every group."""
        for group in self.cluster.consumers:
            self.add_to_metric("unwanted", 0, group)

    def _taken(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        if not self.cluster.has_filters:
            return
        queue = fact.queue
        if self.cluster.takes_all(fact.group, queue.topic) or not self.cluster.knows_tags:
            return
        consumer = self.cluster.consumer(fact.group, entry.node)
        labels = self.progress.reading.records.labels_at(fact.offset)
        if consumer is None or labels is None or queue.topic not in consumer.topics:
            return
        if fact.offset in self.progress.reading.of_other_logs:
            return  # the labels are those of the master's message, and it got another one
        records = self.progress.reading.records
        if records.key_at(fact.offset) != fact.uniq_key and records.lost.was_left_behind(
            fact.offset, fact.uniq_key
        ):
            return  # it got the message of a replaced master, which the successor does not have
        self.count_tried()
        is_wanted = self.cluster.wants(fact.group, queue.topic, labels) == "all"
        if not is_wanted and consumer.wants(queue.topic, self.cluster.known(labels)) is False:
            self.add_to_metric("unwanted", 1, fact.group)
            self.report_violation(
                f"{entry.node} was given offset {fact.offset} of {place_of(queue)} with {labels}, "
                "which it does not subscribe",
                *self.progress.reading.records.entries_of_message(fact.offset)[:1],
                entry,
            )


# Order --------------------------------------------------------------------------------


BATCH_US = 1_000  # between facts of one listener call; a retry comes after 10 ms at least


class OrderIsKept(Checker):
    """An orderly group gets each queue's messages in order, one after the other.

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
        # By group and queue, then the member's node: the next offset, and the entry before it.
        self._next: dict[tuple[str, Queue], dict[str, tuple[int, EntryKey]]] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageConsumed: self._consumed, QueuesClaimed: self._claimed}

    def end(self) -> None:
        """Set the metric of every orderly group."""
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
        """The member's next offset: that of its first failed message, or the one after this."""
        failed_here = self.progress.reading.claims[node].to_redeliver
        waiting = [
            offset
            for offset in self.progress.reading.failed
            if offset <= fact.offset
            and offset in failed_here
            # A message that failed just now waits, also if an earlier copy of it was sent back.
            and (not self._is_away(offset) or (offset == fact.offset and not fact.ok))
        ]
        return min(waiting, default=fact.offset + 1)

    def _may_come(
        self, fact: MessageConsumed, expected: int, before: EntryKey, entry: Entry
    ) -> bool:
        """Whether a known cause moved the reader, or no due message lies in between."""
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
        """Whether all members that ran since its storing want the message at *offset*."""
        records = self.progress.reading.records
        labels, since_us = records.labels_at(offset), records.stored_us(offset) or 0
        return self.cluster.is_wanted(fact.group, fact.queue.topic, labels, since_us, now_us)

    def _is_away(self, offset: int) -> bool:
        """Whether the message was sent back, so it is in the retry topic or a dead letter."""
        reading = self.progress.reading
        return offset in reading.failed and self.progress.messages.pending.is_settled(
            reading, offset
        )

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        """The new owner begins at the committed offset."""
        for queue in fact.queues:
            self._next.get((fact.group, queue), {}).pop(entry.node, None)

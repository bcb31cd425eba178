"""Nothing that was acknowledged is lost: every group gets it, or has it as a dead letter.

What the promise is, and what it is not: an acknowledged message survives
its broker's death; a loss of power too with SYNC_FLUSH, else not.  A group gets all from where
it began; not what retention deleted, a tool or ``seek`` skipped, or its expression filters.  A
broadcasting group's failures are dropped, and a member of it that starts again begins at the
end, unless it keeps its offsets in a folder; so does one in a queue that it gave up before any
pull was answered and, until 4.9.8 and 5.2.0, in queues that it gave up for 5 s or longer.  A
message is lost once the group's committed offset has passed it and nobody has consumed it; before
that it is backlog.

A message is followed through the places of its copies: it waits for its time, comes again as a
retry, ends as a dead letter.  A copy that its broker passed over, or that is overdue for 30 s
although nothing happened to the broker, is lost; so is what was acknowledged and never stored.

A broker that lost the end of its log gives the same offsets again.  A consumer that was beyond
goes on from where it was, and never sees the new messages in those places: RocketMQ does not
promise otherwise, so they are counted as hidden, and are no violation.
"""

from __future__ import annotations

from rocketmq_emulator.checks.rules.split_shares import is_unassigned
from rocketmq_emulator.checks.state.checker import (
    Checker,
    Metric,
    entries_of_message,
    key_of,
)
from rocketmq_emulator.checks.state.pending_messages import WaitingCopy
from rocketmq_emulator.checks.state.queue_records import (
    LISTENER_US_MAX,
    QueueReading,
    QueueRecords,
)
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    DelayedMessageDropped,
    MessageSent,
    MessageStored,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

OFFSETS_NAMED_MAX = 8
OVERDUE_US_MAX = 30_000_000
EXCUSES = {  # metric: its cause in a reading, what it counts
    "excused_moved": ("moved", "skipped by a tool or a seek"),
    "excused_not_in_log": ("not in the log", "skipped, as the broker had deleted them"),
    "excused_began_anew": ("began anew", "before a broadcasting member's start, or its queue's"),
    "excused_began_at_end": (
        "began at the end",
        "stored while a new group asked where an empty queue ends (since 5.1.0)",
    ),
    "excused_lost_with_memory": ("lost with memory", "of a broker that keeps nothing on a disk"),
}


class NothingIsLost(Checker):
    """Client invariant 61."""

    name = "lost"
    rule = (
        "every acknowledged message of a surviving broker is delivered to each group, or is in "
        "its dead-letter queue (client invariant 61)"
    )
    metrics = (
        Metric("lost", "messages", "acknowledged, and no group member ever consumed it", "group"),
        Metric("lost_with_power", "messages", "acknowledged, never flushed, gone with the power"),
        Metric("excused", "messages", "not owed, for one of the causes below", "group"),
        *(
            Metric(name, "messages", f"not owed: {what}", "group")
            for name, (_, what) in EXCUSES.items()
        ),
        Metric(
            "excused_unfinished",
            "messages",
            "not owed: a broadcasting member ended with them in hand, and did not come back",
            "group",
        ),
        Metric(
            "excused_inconsistent",
            "messages",
            "not owed: wanted by some members of the group, and not by the one that got the queue",
            "group",
        ),
        Metric(
            "excused_overdue",
            "messages",
            "whose time has come, and something happened to their broker",
        ),
        Metric(
            "hidden",
            "messages",
            "stored in places that the group was beyond, after a power loss: skipped",
            "group",
        ),
        Metric("filtered", "messages", "passed over by a group with a tag expression", "group"),
        Metric("backlog", "messages", "stored, and not yet consumed at the end", "group"),
        Metric("waiting", "messages", "that wait for their time at the end, retries included"),
        Metric(
            "unrouted",
            "messages",
            "the same, of brokers that some NameServer knows one topic of, and of queues that "
            "nobody takes as shares differ for that (apache/rocketmq#4522)",
            "group",
        ),
    )
    needs = (MessageSent, MessageStored)

    def table(self) -> Table:
        """Delayed messages that a broker gave up are lost at once."""
        return {DelayedMessageDropped: self._dropped}

    def end(self) -> None:
        """Look at every queue of every group, and at every copy that still waits."""
        for group in self.cluster.consumers:
            for metric in ("lost", "excused", "hidden", "filtered", "backlog", "unrouted"):
                self.set_metric(metric, 0.0, group)
        self.set_metric("waiting", 0.0)
        self.set_metric("excused_overdue", 0.0)
        for records in self.progress.messages.queues.values():
            self._broken(records.queue, records.lost_after_ack)
            self._never_stored(records)
            self.add_to_metric("lost_with_power", records.unflushed_lost)
        for copies in self.progress.messages.pending.waiting.values():
            for copy in copies:
                self._judge_copy(copy)
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            if group not in self.cluster.consumers:
                continue
            self._count_excused(group, reading)
            self._judge(group, reader, reading)
        self._unread()

    def reason_not_judged(self) -> str:
        """Without the clients' facts nobody knows who should have consumed what."""
        if not self.cluster.consumers:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        blind = [g for g in self.cluster.consumers if self._is_blind(g)]
        if blind:
            return (
                f"the facts of what {', '.join(sorted(blind))} took are missing: journals of pull "
                "consumers have them where MessagePolled is asked for"
            )
        return ""

    # Inside -----------------------------------------------------------------------------

    def _count_excused(self, group: str, reading: QueueReading) -> None:
        for metric, (cause, _) in EXCUSES.items():
            if count := reading.excused.get(cause, 0):
                self.add_to_metric("excused", count, group)
                self.add_to_metric(metric, count, group)
        self.add_to_metric("filtered", reading.excused.get("filtered", 0), group)

    def _judge(self, group: str, reader: str, reading: QueueReading) -> None:
        queue, records = reading.queue, reading.records
        passed = self._passed_to(group, reading)
        self.count_tried(max(0, passed - reading.start))
        lost = [
            offset
            for offset in self.progress.messages.pending.unsettled(reading, reading.start, passed)
            if self._is_promised(records, offset)
        ]
        hidden = [offset for offset in lost if offset < reading.reused_to]
        self.add_to_metric("hidden", len(hidden), group)
        lost = [offset for offset in lost if offset >= reading.reused_to]
        unsure = [o for o in lost if not self._is_wanted(group, reading, o)]
        if unsure:
            self.add_to_metric("filtered", len(unsure), group)
            self.add_to_metric("excused_inconsistent", len(unsure), group)
            lost = sorted(set(lost).difference(unsure))
        if group in self.cluster.broadcast and not self.cluster.reads(reader):
            in_flight = [offset for offset in lost if self._was_at_work(group, reading, offset)]
            self.add_to_metric("excused", len(in_flight), group)
            self.add_to_metric("excused_unfinished", len(in_flight), group)
            lost = sorted(set(lost).difference(in_flight))
        if lost:
            self.add_to_metric("lost", len(lost), group)
            self._object_to(reader, reading, lost, passed)
        if group in self.cluster.broadcast and not self.cluster.reads(reader):
            return  # nobody else reads for a member that has left
        end = max(passed, records.end_offset)
        waiting = sum(1 for _ in self.progress.messages.pending.unsettled(reading, passed, end))
        self.add_to_metric(self._left_as(group, queue, reading), waiting, group)

    def _was_at_work(self, group: str, reading: QueueReading, offset: int) -> bool:
        """A broadcasting member had been given it not long before it ended."""
        given = reading.given_entries(offset)
        node = reading.reader.partition("@")[2]
        consumer = self.cluster.consumer(group, node)
        if not given or consumer is None or consumer.until_us is None:
            return bool(given)
        since_us = consumer.until_us - LISTENER_US_MAX
        is_new = max(entry.mono_us for entry in given) >= since_us
        return is_new or self.cluster.touched((node,), since_us, consumer.until_us - 1)

    def _is_promised(self, records: QueueRecords, offset: int) -> bool:
        """It was acknowledged; where producers note nothing, it was stored."""
        if self.progress.messages.has_sent:
            return offset in records.acked
        return records.key_at(offset) is not None

    def _is_wanted(self, group: str, reading: QueueReading, offset: int) -> bool:
        """By all members that ran between its storing and the commit that passed it."""
        records = reading.records
        passes = (key.mono_us for passed_to, key in reading.passes if passed_to > offset)
        return self.cluster.is_wanted(
            group,
            reading.queue.topic,
            records.tags_at(offset),
            records.stored_us(offset) or 0,
            next(passes, self.cluster.now_us),
        )

    def _object_to(self, reader: str, reading: QueueReading, lost: list[int], passed: int) -> None:
        place = place_of(reading.queue)
        key = reading.records.key_at(lost[0])
        named = f" ({key})" if key else ""
        self.report_violation(
            f"{reader} never consumed offset {_named(lost)} of {place}{named}, which were "
            f"acknowledged, and goes on from {passed}",
            *entries_of_message(self.progress, reading, lost[0]),
            *self._end(),
            node=reading.owner,
        )

    def _never_stored(self, records: QueueRecords) -> None:
        """Acknowledged, says a producer, and the broker never noted it."""
        if not records.acked_unstored or records.queue.broker not in self.cluster.stores:
            return
        self.add_to_metric("lost", len(records.acked_unstored))
        (key, sent), *more = records.acked_unstored.values()
        others = f" (and {len(more)} more)" if more else ""
        self.report_violation(
            f"{records.queue.broker} acknowledged {key} in {place_of(records.queue)} and never "
            f"stored it{others}",
            sent,
            *(each for _, each in more[:OFFSETS_NAMED_MAX]),
            node=records.queue.broker,
        )

    def _judge_copy(self, copy: WaitingCopy) -> None:
        """A copy that still waits: passed over, overdue, or with time left."""
        broker, now_us = copy.records.queue.broker, self.cluster.now_us
        self.count_tried()
        passed_over = copy.is_scheduled and copy.offset < copy.records.delivered_to
        is_overdue = copy.due_us is not None and now_us - copy.due_us > OVERDUE_US_MAX
        if is_overdue and not passed_over and self._is_held_up(copy):
            self.add_to_metric("excused_overdue", 1)
            is_overdue = False
        if not passed_over and not is_overdue:
            self.add_to_metric("waiting", 1)
            return
        self.add_to_metric("lost", 1, copy.group)
        what = "a retry" if copy.group else "a delayed message"
        why = "passed it over" if passed_over else "has not delivered it"
        self.report_violation(
            f"{what} ({copy.key}) waits at offset {copy.offset} of "
            f"{place_of(copy.records.queue)}, and {broker} {why}",
            *self._entries_of_copy(copy),
            *self._end(),
            node=broker,
        )

    def _entries_of_copy(self, copy: WaitingCopy) -> list[EntryKey]:
        """Where its message was stored and sent, failed, was sent back, and waits."""
        found = {key for key in (copy.stored, copy.sent, copy.back) if key is not None}
        messages = self.progress.messages
        for failure in messages.pending.failures.get(copy.key, {}).get(copy.group, []):
            found.add(failure.failed)
            if (records := messages.queues.get(failure.queue)) is not None:
                found.update(records.entries_of_message(failure.offset))
        return sorted(found)

    def _is_held_up(self, copy: WaitingCopy) -> bool:
        """Its broker never had time enough, since it was due, in which nothing happened to it."""
        broker, now_us = copy.records.queue.broker, self.cluster.now_us
        since_us = copy.stored.mono_us
        moved_us = self.cluster.clock_moved_us(broker, since_us, now_us)
        quiet_us = self.cluster.undisturbed_us((broker,), copy.due_us or since_us, now_us)
        return self.cluster.is_gone(broker) or quiet_us <= OVERDUE_US_MAX + moved_us

    def _end(self) -> tuple[EntryKey, ...]:
        return () if self.cluster.last is None else (key_of(self.cluster.last),)

    def _passed_to(self, group: str, reading: QueueReading) -> int:
        """Up to here nothing will be delivered any more."""
        if group in self.cluster.broadcast:
            beyond = min(reading.reused_to, reading.records.end_offset)
            return max(reading.given_to, reading.start, beyond)
        return reading.start if reading.committed is None else reading.committed

    def _unread(self) -> None:
        """Queues that a group subscribes and never pulled from are backlog as a whole."""
        for group in self.cluster.consumers:
            if group in self.cluster.broadcast:
                continue
            read = self.progress.readers.get(group, {})
            topics = {
                topic for consumer in self.cluster.consumers[group] for topic in consumer.topics
            }
            for queue, records in self.progress.messages.queues.items():
                if queue.topic in topics and queue not in read:
                    self.add_to_metric(self._left_as(group, queue), records.stored_count, group)

    def _left_as(self, group: str, queue: Queue, reading: QueueReading | None = None) -> str:
        """The metric that counts what is left in *queue*."""
        return "unrouted" if is_unassigned(self.cluster, group, queue, reading) else "backlog"

    def _is_blind(self, group: str) -> bool:
        kinds = self.cluster.kinds(group)
        has_taken = any(
            reading.consumed_us
            for reader, reading in self.progress.readings()
            if reader.partition("@")[0] == group
        )
        return "pull" in kinds or ("lite_pull" in kinds and not has_taken)

    def _broken(
        self, queue: Queue, lost_after_ack: list[tuple[int, tuple[EntryKey, ...]]]
    ) -> None:
        if not lost_after_ack:
            return
        lost_after_ack = sorted(lost_after_ack)
        offsets = [offset for offset, _ in lost_after_ack]
        self.add_to_metric("lost", len(offsets))
        self.report_violation(
            f"{queue.broker} acknowledged offset {_named(offsets)} of {place_of(queue)} "
            f"({len(offsets)} messages) and does not have them after a restart",
            *lost_after_ack[0][1],
            *self._end(),
            node=queue.broker,
            rule="an acknowledged message survives its broker's death, with SYNC_FLUSH a loss of "
            "power too",
        )

    def _dropped(self, fact: DelayedMessageDropped, entry: Entry) -> None:
        self.report_violation(
            f"a delayed message ({fact.uniq_key}) could not be stored in {fact.queue.topic}: "
            f"{fact.reason}",
            entry,
        )


def _named(offsets: list[int]) -> str:
    """The first of them, and how many more there are."""
    more = len(offsets) - OFFSETS_NAMED_MAX
    shown = ", ".join(map(str, offsets[:OFFSETS_NAMED_MAX]))
    return f"{shown} and {more} more" if more > 0 else shown

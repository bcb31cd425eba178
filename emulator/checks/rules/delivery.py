"""No acknowledged message is lost: every group gets it, or has it as a dead letter.

The promise has limits.  An acknowledged message survives the kill of its broker, a loss of power
only with SYNC_FLUSH.  A group gets all messages from its start offset, except those that retention
deleted, a tool or ``seek`` skipped, or its expression filters.  A broadcasting group's failures
are dropped, and a restarted member of it begins at the end, unless it keeps its offsets in a
folder; so does a member in a queue that it gave up before any pull was answered and, until 4.9.8
and 5.2.0, in queues that it gave up for 5 s or longer.  A message is lost once the group's
committed offset has passed it and no member has consumed it; before that it is backlog.

A message is followed through the places of its copies: delayed, as a retry, as a dead letter.  A
copy that its broker passed over, or that is overdue for 30 s without a fault of the broker, is
lost; so is a message that was acknowledged and never stored.

A broker that lost the end of its log assigns the same offsets again.  A consumer that was beyond
them continues there and never gets the new messages at these offsets.  RocketMQ does not promise
more, so they are counted as hidden and are no violation.
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
EXCUSES = {  # metric: (cause in a reading, sentence)
    "excused_moved": ("moved", "skipped by a tool or a seek"),
    "excused_not_in_log": ("not in the log", "skipped, as the broker had deleted them"),
    "excused_began_anew": ("began anew", "before a broadcasting member started, or claimed"),
    "excused_began_at_end": (
        "began at the end",
        "stored while a new group asked where an empty queue ends (since 5.1.0)",
    ),
    "excused_other_log": (
        "other log",
        "at offsets where the group read other messages from a slave, whose log differs",
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
        Metric("lost", "messages", "acknowledged, and never consumed by the group", "group"),
        Metric("lost_with_power", "messages", "acknowledged, never flushed, gone with the power"),
        Metric("excused", "messages", "not owed, for one of the causes below", "group"),
        *(
            Metric(name, "messages", f"not owed: {what}", "group")
            for name, (_, what) in EXCUSES.items()
        ),
        Metric(
            "excused_unfinished",
            "messages",
            "not owed: in flight at a broadcasting member that ended and did not restart",
            "group",
        ),
        Metric(
            "excused_inconsistent",
            "messages",
            "not owed: wanted by some members of the group, but not by the owner of the queue",
            "group",
        ),
        Metric(
            "excused_overdue",
            "messages",
            "that are due, and a fault touched their broker",
        ),
        Metric(
            "excused_given_up",
            "messages",
            "timer messages that a slave dropped after its tries while it acted as the master, or "
            "messages that the master passes over with the progress of a slave without them",
        ),
        Metric(
            "hidden",
            "messages",
            "skipped: stored after a power loss at offsets that the group had passed",
            "group",
        ),
        Metric("filtered", "messages", "passed over by a group with a tag expression", "group"),
        Metric("backlog", "messages", "stored, and not yet consumed at the end", "group"),
        Metric(
            "forgotten",
            "messages",
            "backlog that a lite pull member had and a seek removed: the pull after it failed, "
            "and the member goes on behind them",
            "group",
        ),
        Metric("waiting", "messages", "that wait for their time at the end, retries included"),
        Metric(
            "unrouted",
            "messages",
            "backlog of queues that some NameServer lacks, or that no member takes as members "
            "count different queues for that reason (apache/rocketmq#4522)",
            "group",
        ),
    )
    needs = (MessageSent, MessageStored)

    def table(self) -> Table:
        """Return the handler of dropped delayed messages, which are lost at once."""
        return {DelayedMessageDropped: self._dropped}

    def end(self) -> None:
        """Check every queue of every group, and every waiting copy."""
        for group in self.cluster.consumers:
            for metric in (
                "lost",
                "excused",
                "hidden",
                "filtered",
                "backlog",
                "forgotten",
                "unrouted",
            ):
                self.set_metric(metric, 0.0, group)
        self.set_metric("waiting", 0.0)
        self.set_metric("excused_overdue", 0.0)
        self.set_metric("excused_given_up", 0.0)
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
        """Which facts of clients are missing: without them no group is owed a message."""
        if not self.cluster.consumers:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        blind = [g for g in self.cluster.consumers if self._is_blind(g)]
        if blind:
            return (
                f"messages that {', '.join(sorted(blind))} polled are missing: journals of pull "
                "consumers have them if MessagePolled is enabled"
            )
        return ""

    # Helpers ----------------------------------------------------------------------------

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
            return  # no other member reads for one that has left
        end = max(passed, records.end_offset)
        left = [*self.progress.messages.pending.unsettled(reading, passed, end)]
        forgotten = sum(map(reading.was_forgotten, left))
        self.add_to_metric("forgotten", forgotten, group)
        self.add_to_metric(self._left_as(group, queue, reading), len(left) - forgotten, group)

    def _was_at_work(self, group: str, reading: QueueReading, offset: int) -> bool:
        """Whether a broadcasting member was given the message shortly before it ended."""
        given = reading.given_entries(offset)
        node = reading.reader.partition("@")[2]
        consumer = self.cluster.consumer(group, node)
        if not given or consumer is None or consumer.until_us is None:
            return bool(given)
        since_us = consumer.until_us - LISTENER_US_MAX
        is_new = max(entry.mono_us for entry in given) >= since_us
        return is_new or self.cluster.touched((node,), since_us, consumer.until_us - 1)

    def _is_promised(self, records: QueueRecords, offset: int) -> bool:
        """Whether it was acknowledged; if producers note nothing, whether it was stored."""
        if self.progress.messages.has_sent:
            return offset in records.acked
        return records.key_at(offset) is not None

    def _is_wanted(self, group: str, reading: QueueReading, offset: int) -> bool:
        """Whether all members want it that ran from its storing to the commit that passed it."""
        records = reading.records
        passes = (key.mono_us for passed_to, key in reading.passes if passed_to > offset)
        return self.cluster.is_wanted(
            group,
            reading.queue.topic,
            records.labels_at(offset),
            records.stored_us(offset) or 0,
            next(passes, self.cluster.now_us),
        )

    def _object_to(self, reader: str, reading: QueueReading, lost: list[int], passed: int) -> None:
        place = place_of(reading.queue)
        key = reading.records.key_at(lost[0])
        named = f" ({key})" if key else ""
        self.report_violation(
            f"{reader} never consumed offset {_named(lost)} of {place}{named}, which were "
            f"acknowledged, and continues at {passed}",
            *entries_of_message(self.progress, reading, lost[0]),
            *self._end(),
            node=reading.owner,
        )

    def _never_stored(self, records: QueueRecords) -> None:
        """Report messages that a producer notes as acknowledged and the broker never stored."""
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
        """Judge a waiting copy: passed over, overdue, or not due yet."""
        broker, now_us = copy.records.queue.broker, self.cluster.now_us
        self.count_tried()
        if copy.given_up is not None:
            self.add_to_metric("excused_given_up", 1)
            return
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
        """The entries where its message was stored, sent, failed and sent back, and now waits."""
        found = {key for key in (copy.stored, copy.sent, copy.back) if key is not None}
        messages = self.progress.messages
        for failure in messages.pending.failures.get(copy.key, {}).get(copy.group, []):
            found.add(failure.failed)
            if (records := messages.queues.get(failure.queue)) is not None:
                found.update(records.entries_of_message(failure.offset))
        return sorted(found)

    def _is_held_up(self, copy: WaitingCopy) -> bool:
        """Whether its broker was never undisturbed for long enough since the copy was due."""
        broker, now_us = copy.records.queue.broker, self.cluster.now_us
        since_us = copy.stored.mono_us
        moved_us = self.cluster.clock_moved_us(broker, since_us, now_us)
        quiet_us = self.cluster.undisturbed_us((broker,), copy.due_us or since_us, now_us)
        return self.cluster.is_gone(broker) or quiet_us <= OVERDUE_US_MAX + moved_us

    def _end(self) -> tuple[EntryKey, ...]:
        return () if self.cluster.last is None else (key_of(self.cluster.last),)

    def _passed_to(self, group: str, reading: QueueReading) -> int:
        """The offset before which the group gets no more messages."""
        if group in self.cluster.broadcast:
            beyond = min(reading.reused_to, reading.records.end_offset)
            return max(reading.given_to, reading.start, beyond)
        return reading.passed_to

    def _unread(self) -> None:
        """Count all messages of subscribed queues that the group never pulled as backlog."""
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
        """The metric that counts the messages left in *queue*."""
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
    """The first offsets as text, and the number of others."""
    more = len(offsets) - OFFSETS_NAMED_MAX
    shown = ", ".join(map(str, offsets[:OFFSETS_NAMED_MAX]))
    return f"{shown} and {more} more" if more > 0 else shown

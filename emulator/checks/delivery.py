"""Nothing that was acknowledged is lost: every group gets it, or has it as a dead letter.

What the promise is, and what it is not: an acknowledged message survives
its broker's death; a loss of power too with SYNC_FLUSH, else not.  A group gets all from where
it began; not what retention deleted, a tool or ``seek`` skipped, or its expression filters.  A
broadcasting group's failures are dropped, and a member of it that starts again begins at the
end, unless it keeps its offsets in a folder; until 4.9.8 and 5.2.0 also in queues that it gave up
for 5 s or longer.  A message is lost once the group's committed offset
has passed it and nobody has consumed it; before that it is backlog.

A broker that lost the end of its log gives the same offsets again.  A consumer that was beyond
goes on from where it was, and never sees the new messages in those places: RocketMQ does not
promise otherwise, so they are counted as hidden, and are no violation.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric
from emulator.checks.folding import Table
from emulator.checks.queue_records import QueueReading
from emulator.facts import (
    ConsumerStarted,
    DelayedMessageDropped,
    MessageSent,
    Queue,
)
from emulator.journal import Entry

OFFSETS_NAMED_MAX = 8


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
        Metric("excused", "messages", "not owed: a tool, retention or a lost log's end", "group"),
        Metric(
            "hidden",
            "messages",
            "stored in places that the group was beyond, after a power loss: skipped",
            "group",
        ),
        Metric("filtered", "messages", "passed over by a group with a tag expression", "group"),
        Metric("backlog", "messages", "stored, and not yet consumed at the end", "group"),
        Metric(
            "unrouted",
            "messages",
            "the same, of brokers that some NameServer knows one topic of (apache/rocketmq#4522)",
            "group",
        ),
    )
    needs = (MessageSent,)

    def table(self) -> Table:
        """Delayed messages that a broker gave up are lost at once."""
        return {DelayedMessageDropped: self._dropped}

    def end(self) -> None:
        """Look at every queue of every group."""
        for group in self.scene.seats:
            for metric in ("lost", "excused", "hidden", "filtered", "backlog", "unrouted"):
                self.measures(metric, 0.0, group)
        for records in self.progress.queues.values():
            self._broken(records.queue, records.broken)
            self.adds("lost_with_power", records.unflushed_lost)
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            if group not in self.scene.seats:
                continue
            self.adds("excused", sum(reading.excused.values()), group)
            self._judge(group, reader, reading)
        self._unread()

    def why_not(self) -> str:
        """Without the clients' facts nobody knows who should have consumed what."""
        if not self.scene.seats:
            return f"the journal has no {ConsumerStarted.__name__}: no group is known"
        blind = [g for g in self.scene.seats if self._is_blind(g)]
        if blind:
            return (
                f"the facts of what {', '.join(sorted(blind))} took are missing: journals of pull "
                "consumers have them where MessagePolled is asked for"
            )
        return ""

    # Inside -----------------------------------------------------------------------------

    def _judge(self, group: str, reader: str, reading: QueueReading) -> None:
        queue, records = reading.queue, reading.records
        is_filtered = not self.scene.takes_all(group, queue)
        passed = self._passed_to(group, reading)
        lost: list[int] = []
        for start, end in reading.done.holes(reading.start, passed):
            for first, behind in list(records.acked.runs(start, end)):
                lost += [o for o in range(first, behind) if not self._waits(reading, o)]
        hidden = [offset for offset in lost if offset < reading.reused_to]
        lost = lost[len(hidden) :]
        self.adds("hidden", len(hidden), group)
        if is_filtered:
            self.adds("filtered", len(lost), group)
        elif lost:
            self.adds("lost", len(lost), group)
            self._object_to(reader, reading, lost, passed)
        waiting = sum(b - a for a, b in reading.done.holes(passed, max(passed, records.behind)))
        waiting -= sum(1 for offset in reading.failed if offset >= passed)
        self.adds(self._left_as(queue), max(0, waiting), group)

    def _object_to(self, reader: str, reading: QueueReading, lost: list[int], passed: int) -> None:
        shown = ", ".join(map(str, lost[:OFFSETS_NAMED_MAX]))
        more = f" and {len(lost) - OFFSETS_NAMED_MAX} more" if len(lost) > 8 else ""
        queue = reading.queue
        assert self.scene.last is not None
        self.objects(
            f"{reader} never consumed offset {shown}{more} of {queue.topic}@{queue.broker}:"
            f"{queue.queue_id}, which were acknowledged, and goes on from {passed}",
            self.scene.last,
            node=reading.owner,
        )

    def _passed_to(self, group: str, reading: QueueReading) -> int:
        """Up to here nothing will be delivered any more."""
        if group in self.scene.broadcast:
            beyond = min(reading.reused_to, reading.records.behind)
            return max([*reading.given.ends[-1:], reading.start, beyond])
        return reading.start if reading.committed is None else reading.committed

    def _waits(self, reading: QueueReading, offset: int) -> bool:
        """It failed, and is stored for another try, or as a dead letter."""
        key = reading.failed.get(offset)
        return key is not None and self.progress.passed_on.get(key, "consumed") != ""

    def _unread(self) -> None:
        """Queues that a group subscribes and never pulled from are backlog as a whole."""
        for group in self.scene.seats:
            if group in self.scene.broadcast:
                continue
            read = self.progress.readers.get(group, {})
            topics = {topic for seat in self.scene.seats[group] for topic in seat.topics}
            for queue, records in self.progress.queues.items():
                if queue.topic in topics and queue not in read:
                    self.adds(self._left_as(queue), records.stored_count, group)

    def _left_as(self, queue: Queue) -> str:
        """The metric that counts what is left in *queue*."""
        return "unrouted" if queue.broker in self.scene.topics.partial else "backlog"

    def _is_blind(self, group: str) -> bool:
        kinds = self.scene.kinds(group)
        has_taken = any(
            reading.given.ends
            for reader, reading in self.progress.readings()
            if reader.partition("@")[0] == group
        )
        return "pull" in kinds or ("lite_pull" in kinds and not has_taken)

    def _broken(self, queue: Queue, offsets: list[int]) -> None:
        if not offsets:
            return
        assert self.scene.last is not None
        self.adds("lost", len(offsets))
        shown = ", ".join(map(str, offsets[:OFFSETS_NAMED_MAX]))
        self.objects(
            f"{queue.broker} acknowledged offset {shown} of {queue.topic}:{queue.queue_id} "
            f"({len(offsets)} messages) and does not have them after a restart",
            self.scene.last,
            node=queue.broker,
            rule="an acknowledged message survives its broker's death, with SYNC_FLUSH a loss of "
            "power too",
        )

    def _dropped(self, fact: DelayedMessageDropped, entry: Entry) -> None:
        self.objects(
            f"a delayed message ({fact.uniq_key}) could not be stored in {fact.queue.topic}: "
            f"{fact.reason}",
            entry,
        )

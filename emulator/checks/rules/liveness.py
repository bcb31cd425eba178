"""After all faults have ended everything is consumed, within a bound.

Safety says what must never happen; this says what must happen: once nothing is broken any more
and nobody sends, every group with members gets what is left, and every queue has an owner.
The bound is the slowest way back that upstream has: a member that vanished in silence (120 s
until brokers drop it, 10 s until they look, 20 s until the others rebalance), and 30 s for
routes.

A lite pull member pulls each queue by a thread of a pool, which waits as long as the broker holds
the pull.  With more queues than threads a queue with messages waits for those without any: 10
messages come in up to 20 s (DefaultLitePullConsumerImpl.PullTaskImpl).  So a member that still
comes nearer is slow, and not stuck.
"""

from __future__ import annotations

import math

from rocketmq_emulator.checks.rules.split_shares import is_unassigned
from rocketmq_emulator.checks.state.checker import (
    Checker,
    CheckerContext,
    Metric,
    entries_of_message,
    key_of,
)
from rocketmq_emulator.checks.state.queue_records import QueueReading, QueueRecords
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import ConsumerStarted
from rocketmq_emulator.facts.journal import EntryKey

BOUND_US = 180_000_000
PULL_THREADS = 20  # pullThreadNums
HELD_US = 20_000_000  # brokerSuspendMaxTimeMillis
LATE_US = 5_000_000


class LivenessReturns(Checker):
    """What must happen once nothing is broken any more."""

    name = "liveness"
    rule = (
        "within 180 s after the last fault and the last send every group has consumed everything"
    )
    metrics = (
        Metric("stuck", "messages", "not consumed although the bound has passed", "group"),
        Metric(
            "excused_stuck",
            "messages",
            "the same, where some NameServer lacks the topic at the broker, or at another one so "
            "that shares differ and nobody takes the queue (apache/rocketmq#4522)",
            "group",
        ),
        Metric(
            "excused_slow_polls",
            "messages",
            "the same, of a lite pull member that goes on, with more queues than pull threads",
            "group",
        ),
        Metric("unrest", "runs", "that waited in vain until nothing moved any more"),
        Metric(
            "excused_unrest",
            "runs",
            "the same, and a group's topic is lacking so in some route",
        ),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._left_count = 0

    def table(self) -> Table:
        """The progress has all that is looked at in the end."""
        return {}

    def end(self) -> None:
        """Look at what is left."""
        ended = self.cluster.run_ended
        is_restless = ended is not None and ended.reason == "finished" and ended.detail != ""
        is_excused = self._lacks_routes()  # what is left there is waited for in vain
        self.set_metric("unrest", float(is_restless and not is_excused))
        self.set_metric("excused_unrest", float(is_restless and is_excused))
        for group in self.cluster.consumers:
            self.add_to_metric("stuck", 0, group)
            self.add_to_metric("excused_stuck", 0, group)
            self.add_to_metric("excused_slow_polls", 0, group)
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            if self.cluster.reads(reader):
                self._check_reading(group, reading)

    def _lacks_routes(self) -> bool:
        """A topic that a group subscribes has queues of which some NameServer does not know."""
        return any(
            self.cluster.topics.is_lacking(topic)
            for group in self.cluster.consumers
            for consumer in self.cluster.running(group)
            for topic in consumer.topics
        )

    def _check_reading(self, group: str, reading: QueueReading) -> None:
        self.count_tried()
        records = reading.records
        owed_from = max(reading.start, records.first or 0, reading.reused_to)
        left = [
            offset
            for offset in self.progress.messages.pending.unsettled(
                reading, owed_from, records.end_offset
            )
            if self._is_owed(group, records, offset)
        ]
        if is_unassigned(self.cluster, group, reading.queue, reading):
            self.add_to_metric("excused_stuck", len(left), group)
            return
        if left and self._waits_for_threads(group, reading):
            self.add_to_metric("excused_slow_polls", len(left), group)
            return
        self._left_count += len(left)
        if not left or self._too_soon():
            return
        self.add_to_metric("stuck", len(left), group)
        queue = reading.queue
        self.report_violation(
            f"{group} has not consumed {len(left)} messages of {queue.topic}@"
            f"{queue.broker}:{queue.queue_id} from {left[0]} on, although nothing is "
            f"broken for {(self.cluster.now_us - self._quiet_from_us()) // 1_000_000} s",
            *entries_of_message(self.progress, reading, left[0]),
            *self._end(),
            node=reading.owner,
        )

    def _waits_for_threads(self, group: str, reading: QueueReading) -> bool:
        """It has consumed of the queue since all its other queues may have been pulled once."""
        consumer = self.cluster.consumer(group, reading.owner)
        if consumer is None or consumer.started.consumer_kind != "lite_pull":
            return False
        readings = self.progress.readers.get(group, {}).values()
        holds = [hold for each in readings if (hold := each.claims.get(consumer.node)) is not None]
        queues = sum(hold.ended_us is None for hold in holds)
        parts = [p for p in self.cluster.plan.get("consumers", ()) if p.get("group") == group]
        threads = [p.get("settings", {}).get("pull_threads_max", PULL_THREADS) for p in parts]
        rounds = math.ceil(queues / min(threads, default=PULL_THREADS))
        idle_us = self.cluster.now_us - reading.consumed_us
        return rounds > 1 and idle_us <= rounds * HELD_US + LATE_US

    def reason_not_judged(self) -> str:
        """What is left shows nothing before the bound; where nothing is left, all is well."""
        return self._too_soon() if self._left_count else ""

    def _too_soon(self) -> str:
        """The run must last long enough after the last disturbance."""
        if self.cluster.faults:
            return "a fault holds to the end"
        quiet_us = self.cluster.now_us - self._quiet_from_us()
        if quiet_us < BOUND_US:
            return (
                f"the run ends {quiet_us // 1_000_000} s after the last fault or message, and the "
                f"bound is {BOUND_US // 1_000_000} s"
            )
        return ""

    def _quiet_from_us(self) -> int:
        return max(self.progress.messages.stored_us, self.cluster.healed_us or 0)

    def _is_owed(self, group: str, records: QueueRecords, offset: int) -> bool:
        """All members want it that ran of late."""
        tags, now_us = records.tags_at(offset), self.cluster.now_us
        return self.cluster.is_wanted(group, records.queue.topic, tags, now_us, now_us)

    def _end(self) -> tuple[EntryKey, ...]:
        return () if self.cluster.last is None else (key_of(self.cluster.last),)

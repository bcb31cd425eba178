"""After all faults have ended every message is consumed, within a bound.

Safety rules forbid; liveness requires: after the last fault and the last send every group with
members consumes all messages left, and every queue has an owner.  The bound is the slowest
recovery of upstream: a member that ended silently (120 s until brokers drop it, 10 s until they
check, 20 s until the others rebalance), and 30 s for routes.

A lite pull member pulls each queue by a thread of a pool, which waits as long as the broker holds
the pull.  With more queues than threads a queue with messages waits for the empty ones: 10
messages come in up to 20 s (DefaultLitePullConsumerImpl.PullTaskImpl).  So a member that still
makes progress is slow, not stuck.
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
    """After the last fault and the last send every group consumes all messages in time."""

    name = "liveness"
    rule = (
        "within 180 s after the last fault and the last send every group has consumed everything"
    )
    metrics = (
        Metric("stuck", "messages", "not consumed although the bound has passed", "group"),
        Metric(
            "excused_stuck",
            "messages",
            "the same, where some NameServer lacks the topic at the broker, or at another one, so "
            "that shares differ and no member takes the queue (apache/rocketmq#4522); or an "
            "elected master has an older topic, without the queue; or the member sought an "
            "earlier offset, and the pull after the seek failed: it goes on behind what it had "
            "not polled",
            "group",
        ),
        Metric(
            "excused_slow_polls",
            "messages",
            "the same, of a lite pull member that still consumes, with fewer threads than queues",
            "group",
        ),
        Metric("unrest", "runs", "that did not become idle in the time they waited"),
        Metric(
            "excused_unrest",
            "runs",
            "the same, where some route lacks a group's topic at a broker, or a slave that may "
            "act has another log than its master, or an elected master an older topic, or a "
            "broker stores nothing as its slave can copy nothing: a master that starts again "
            "begins its epoch anew, or has less log than the slave after a loss of power; or the "
            "pull after a seek failed, and the member commits the offset of the seek",
        ),
    )
    needs = (ConsumerStarted,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._left_count = 0

    def table(self) -> Table:
        """Empty: ``end`` reads the progress."""
        return {}

    def end(self) -> None:
        """Check the messages left."""
        ended = self.cluster.run_ended
        is_restless = ended is not None and ended.reason == "finished" and ended.detail != ""
        # Such queues are never read to their end, or their brokers pass delayed messages over.
        is_excused = self._lacks_routes() or self._has_other_logs()
        is_excused = is_excused or self._stores_nothing() or self._has_lost_queues()
        is_excused = is_excused or any(each.has_lost_seek for _, each in self.progress.readings())
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
        """Whether some NameServer lacks queues of a topic that a group subscribes."""
        return any(
            self.cluster.topics.is_lacking(topic)
            for group in self.cluster.consumers
            for consumer in self.cluster.running(group)
            for topic in consumer.topics
        )

    def _has_other_logs(self) -> bool:
        """Whether a slave that may act has messages that its master lost, and others instead."""
        slaves = self.cluster.replicas.slaves.values()
        differ = any(slave.differs_from is not None for slave in slaves)
        return self.cluster.slaves_may_act and differ

    def _has_lost_queues(self) -> bool:
        """Whether messages are in a queue that the topic of an elected master does not have."""
        return any(
            records.stored_count and self.cluster.topics.has_lost(queue)
            for queue, records in self.progress.messages.queues.items()
        )

    def _stores_nothing(self) -> bool:
        """Whether a sync-state set stays too small, as a slave can copy nothing, for good.

        It has no epoch of its master, or more log: both lost their power, and the epochs of the
        master reach beyond the end of its log, so that the slave truncates nothing.
        Upstream: AutoSwitchHAService.changeToMaster replaces an epoch by one that begins at the
        end of the log; AutoSwitchHAClient.doTruncate finds no common one, or, with
        EpochFileCache.findConsistentPoint, one beyond the master's log.
        """
        now_us = self.cluster.now_us
        return any(
            self.cluster.stores_nothing(master.node, now_us)
            and (master.is_behind or any(slave.is_foreign for slave in master.slaves.values()))
            for master in self.cluster.replicas.masters.values()
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
        forgotten = [offset for offset in left if reading.was_forgotten(offset)]
        self.add_to_metric("excused_stuck", len(forgotten), group)
        left = [offset for offset in left if offset not in forgotten]
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
            f"{queue.broker}:{queue.queue_id} from {left[0]} on, although no fault or send came "
            f"for {(self.cluster.now_us - self._quiet_from_us()) // 1_000_000} s",
            *entries_of_message(self.progress, reading, left[0]),
            *self._end(),
            node=reading.owner,
        )

    def _waits_for_threads(self, group: str, reading: QueueReading) -> bool:
        """Whether it consumed from the queue within one round of pulls of its other queues."""
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
        """Messages left before the bound has passed prove nothing; none left is a pass."""
        return self._too_soon() if self._left_count else ""

    def _too_soon(self) -> str:
        """Why the run is too short after the last disturbance; "" if it is not."""
        if self.cluster.faults:
            return "a fault lasts to the end"
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
        """Whether all members that ran recently want it."""
        labels, now_us = records.labels_at(offset), self.cluster.now_us
        return self.cluster.is_wanted(group, records.queue.topic, labels, now_us, now_us)

    def _end(self) -> tuple[EntryKey, ...]:
        return () if self.cluster.last is None else (key_of(self.cluster.last),)

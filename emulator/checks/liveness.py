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

from emulator.checks.checker import Checker, Metric, Shared, key_of
from emulator.checks.folding import Table
from emulator.checks.lives import life_of
from emulator.checks.queue_records import QueueReading, QueueRecords
from emulator.checks.split_shares import is_left
from emulator.facts import ConsumerStarted
from emulator.journal import EntryKey

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

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._left_count = 0

    def table(self) -> Table:
        """The progress has all that is looked at in the end."""
        return {}

    def end(self) -> None:
        """Look at what is left."""
        ended = self.scene.run_ended
        is_restless = ended is not None and ended.reason == "finished" and ended.detail != ""
        is_excused = self._lacks_routes()  # what is left there is waited for in vain
        self.measures("unrest", float(is_restless and not is_excused))
        self.measures("excused_unrest", float(is_restless and is_excused))
        for group in self.scene.seats:
            self.adds("stuck", 0, group)
            self.adds("excused_stuck", 0, group)
            self.adds("excused_slow_polls", 0, group)
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            if self.scene.reads(reader):
                self._look_at(group, reading)

    def _lacks_routes(self) -> bool:
        """A topic that a group subscribes has queues of which some NameServer does not know."""
        return any(
            self.scene.topics.is_lacking(topic)
            for group in self.scene.seats
            for seat in self.scene.living(group)
            for topic in seat.topics
        )

    def _look_at(self, group: str, reading: QueueReading) -> None:
        self.tries()
        records = reading.records
        owed_from = max(reading.start, records.first or 0, reading.reused_to)
        left = [
            offset
            for offset in self.progress.messages.chains.unsettled(
                reading, owed_from, records.behind
            )
            if self._is_owed(group, records, offset)
        ]
        if is_left(self.scene, group, reading.queue, reading):
            self.adds("excused_stuck", len(left), group)
            return
        if left and self._waits_for_threads(group, reading):
            self.adds("excused_slow_polls", len(left), group)
            return
        self._left_count += len(left)
        if not left or self._too_soon():
            return
        self.adds("stuck", len(left), group)
        queue = reading.queue
        self.objects(
            f"{group} has not consumed {len(left)} messages of {queue.topic}@"
            f"{queue.broker}:{queue.queue_id} from {left[0]} on, although nothing is "
            f"broken for {(self.scene.now_us - self._quiet_from_us()) // 1_000_000} s",
            *life_of(self.progress, reading, left[0]),
            *self._end(),
            node=reading.owner,
        )

    def _waits_for_threads(self, group: str, reading: QueueReading) -> bool:
        """It has consumed of the queue since all its other queues may have been pulled once."""
        seat = self.scene.seat(group, reading.owner)
        if seat is None or seat.started.consumer_kind != "lite_pull":
            return False
        readings = self.progress.readers.get(group, {}).values()
        holds = [hold for each in readings if (hold := each.holds.get(seat.node)) is not None]
        queues = sum(hold.ended_us is None for hold in holds)
        parts = [p for p in self.scene.plan.get("consumers", ()) if p.get("group") == group]
        threads = [p.get("settings", {}).get("pull_threads_max", PULL_THREADS) for p in parts]
        rounds = math.ceil(queues / min(threads, default=PULL_THREADS))
        idle_us = self.scene.now_us - reading.consumed_us
        return rounds > 1 and idle_us <= rounds * HELD_US + LATE_US

    def why_not(self) -> str:
        """What is left shows nothing before the bound; where nothing is left, all is well."""
        return self._too_soon() if self._left_count else ""

    def _too_soon(self) -> str:
        """The run must last long enough after the last disturbance."""
        if self.scene.faults:
            return "a fault holds to the end"
        quiet_us = self.scene.now_us - self._quiet_from_us()
        if quiet_us < BOUND_US:
            return (
                f"the run ends {quiet_us // 1_000_000} s after the last fault or message, and the "
                f"bound is {BOUND_US // 1_000_000} s"
            )
        return ""

    def _quiet_from_us(self) -> int:
        return max(self.progress.messages.stored_us, self.scene.healed_us or 0)

    def _is_owed(self, group: str, records: QueueRecords, offset: int) -> bool:
        """All members want it that ran of late."""
        tags, now_us = records.tags_at(offset), self.scene.now_us
        return self.scene.is_wanted(group, records.queue.topic, tags, now_us, now_us)

    def _end(self) -> tuple[EntryKey, ...]:
        return () if self.scene.last is None else (key_of(self.scene.last),)

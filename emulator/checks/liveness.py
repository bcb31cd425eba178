"""After all faults have ended everything is consumed, within a bound.

Safety says what must never happen; this says what must happen: once nothing is broken any more
and nobody sends, every group with members gets what is left, and every queue has an owner.
The bound is the slowest way back that upstream has: a member that vanished in silence (120 s
until brokers drop it, 10 s until they look, 20 s until the others rebalance), and 30 s for
routes.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.checks.queue_records import QueueReading
from emulator.facts import ConsumerStarted

BOUND_US = 180_000_000


class LivenessReturns(Checker):
    """What must happen once nothing is broken any more."""

    name = "liveness"
    rule = (
        "within 180 s after the last fault and the last send every group has consumed everything"
    )
    metrics = (
        Metric("stuck", "messages", "not consumed although the bound has passed", "group"),
        Metric("unrest", "runs", "that waited in vain until nothing moved any more"),
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
        is_excused = bool(self.scene.topics.partial)  # what is left there is waited for in vain
        self.measures("unrest", float(is_restless and not is_excused))
        for group in self.scene.seats:
            self.adds("stuck", 0, group)
        for reader, reading in self.progress.readings():
            group = reader.partition("@")[0]
            if reading.queue.broker in self.scene.topics.partial:
                continue
            if self.scene.living(group) and self.scene.takes_all(group, reading.queue):
                self._look_at(group, reading)

    def _look_at(self, group: str, reading: QueueReading) -> None:
        records = reading.records
        owed_from = max(reading.start, records.first or 0, reading.reused_to)
        holes = reading.done.holes(owed_from, records.behind)
        left = [o for a, b in holes for o in range(a, b) if not self._waits(reading, o)]
        self._left_count += len(left)
        if not left or self._too_soon():
            return
        self.adds("stuck", len(left), group)
        assert self.scene.last is not None
        queue = reading.queue
        self.objects(
            f"{group} has not consumed {len(left)} messages of {queue.topic}@"
            f"{queue.broker}:{queue.queue_id} from {left[0]} on, although nothing is "
            f"broken for {(self.scene.now_us - self._quiet_from_us()) // 1_000_000} s",
            self.scene.last,
            node=reading.owner,
        )

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
        return max(self.progress.stored_us, self.scene.healed_us or 0)

    def _waits(self, reading: QueueReading, offset: int) -> bool:
        """It failed and waits for its retry, or is a dead letter."""
        key = reading.failed.get(offset)
        return key is not None and self.progress.passed_on.get(key, "consumed") != ""

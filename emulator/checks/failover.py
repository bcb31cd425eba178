"""How long producers felt a broker's fault.

From the beginning of the fault to the last attempt of a send that failed there; upstream's bound,
without the latency-aware choice, is the next poll of routes (client invariant 58).
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import FaultBegan, FaultEnded, SendAttempted
from emulator.journal import Entry

STORED = frozenset(  # outcomes of an attempt whose message the broker has
    {"SEND_OK", "ONE_WAY", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"}
)
FELT_US_MAX = 160_000_000  # a fault that nobody's connection shows is felt so long (9.1)


class ProducerFailover(Checker):
    """Client invariant 58."""

    name = "producer_failover"
    is_measure = True
    rule = "producers stop choosing a broker soon after its fault began (client invariant 58)"
    metrics = (
        Metric(
            "producer_failover_s",
            "s",
            "the longest from a broker's fault to the last attempt that failed there meanwhile",
            "node",
            "max",
        ),
        Metric("failed_attempts", "attempts", "of sends, at any broker", "topic"),
    )
    needs = (SendAttempted,)
    needs_whole = False

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._faults: dict[int, tuple[tuple[str, ...], int]] = {}
        self._until_us: dict[int, int] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            SendAttempted: self._attempted,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def end(self) -> None:
        """A run whose sends never failed felt nothing."""
        if not any(name.startswith("failed_attempts.") for name in self.measured):
            self.measures("failed_attempts", 0)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if fact.outcome in STORED:
            return
        self.adds("failed_attempts", 1, fact.topic)
        for fault_id, (nodes, began_us) in self._faults.items():
            broker = fact.queue.broker
            if broker in nodes and entry.mono_us <= self._until_us.get(fault_id, entry.mono_us):
                self._felt((entry.mono_us - began_us) / 1e6, broker)

    def _felt(self, seconds: float, broker: str) -> None:
        known = self.measured.get(f"producer_failover_s.{broker}", 0.0)
        self.measures("producer_failover_s", max(known, seconds), broker)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._faults[fact.fault_id] = fact.nodes, entry.mono_us

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        """What fails later is felt for another reason, but for attempts under way."""
        if fact.fault_id in self._faults:
            began_us = self._faults[fact.fault_id][1]
            self._until_us[fact.fault_id] = min(entry.mono_us, began_us + FELT_US_MAX)

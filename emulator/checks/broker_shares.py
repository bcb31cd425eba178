"""Which share of all sends a broker gets while a fault touches it, and while none does.

A producer that avoids slow brokers pays twice: for what it still sends to a broker that is ill,
and by leaving a broker without work that is well again.  These are the two numbers.  An
attempt belongs to the moment at which it began.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import FaultBegan, FaultEnded, SendAttempted
from emulator.journal import Entry

ILL, WELL = 0, 1


class BrokerShares(Checker):
    """Counts; brokers that no fault ever touched have only their attempts."""

    name = "broker_shares"
    is_measure = True
    rule = "brokers that are well get their share of the sends"
    metrics = (
        Metric("send_attempts", "attempts", "of sends, to this broker", "node"),
        Metric(
            "broker_share_ill",
            "share",
            "of all attempts those that went to this broker, while a fault touched it",
            "node",
            "max",
        ),
        Metric(
            "broker_share_well",
            "share",
            "of all attempts those that went to this broker, since its first fault, while none "
            "touched it",
            "node",
            "max",
        ),
    )
    needs = (SendAttempted,)
    needs_whole = False

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._attempts: dict[str, int] = {}
        self._touched: dict[int, tuple[str, ...]] = {}  # by fault: its nodes
        self._nodes: dict[str, _Touched] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            SendAttempted: self._attempted,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def end(self) -> None:
        """The shares of each broker that a fault touched."""
        for broker, count in self._attempts.items():
            self.measures("send_attempts", count, broker)
            if (node := self._nodes.get(broker)) is None:
                continue
            for metric, state in (("broker_share_ill", ILL), ("broker_share_well", WELL)):
                if node.all[state]:
                    self.measures(metric, node.here[state] / node.all[state], broker)

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        broker = fact.queue.broker
        self._attempts[broker] = self._attempts.get(broker, 0) + 1
        if self._nodes:
            began_us = entry.mono_us - fact.took_ms * 1_000
            here = self._nodes.get(broker)
            for node in self._nodes.values():
                if began_us >= node.first_us:
                    # One that began before the last change belongs to what was then.
                    state = node.state if began_us >= node.changed_us else node.before
                    node.all[state] += 1
                    if node is here:
                        node.here[state] += 1

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self._touched[fact.fault_id] = fact.nodes
        for name in fact.nodes:
            node = self._nodes.setdefault(name, _Touched(entry.mono_us))
            if not node.faults:
                node.changes(ILL, entry.mono_us)
            node.faults += 1

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        for name in self._touched.pop(fact.fault_id, ()):
            node = self._nodes[name]
            node.faults -= 1
            if not node.faults:
                node.changes(WELL, entry.mono_us)


class _Touched:
    """One node since its first fault: attempts of all, and those that came here."""

    __slots__ = ("all", "before", "changed_us", "faults", "first_us", "here", "state")

    def __init__(self, first_us: int) -> None:
        self.all, self.here = [0, 0], [0, 0]  # while ill, while well
        self.faults = 0  # that touch it now
        self.state = self.before = WELL  # now, and until it changed
        self.first_us = self.changed_us = first_us

    def changes(self, state: int, now_us: int) -> None:
        """From well to ill, or back."""
        self.before, self.state, self.changed_us = self.state, state, now_us

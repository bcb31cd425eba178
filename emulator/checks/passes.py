"""How long members go without a rebalance pass: 20 s, if nothing holds them up.

A pass goes through the topics one after the other and asks a broker each time, so brokers that do
not answer hold up all that is behind them.  Passes that got no answer write no fact.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import ConsumerStopped, RebalancePassed
from emulator.journal import Entry


class RebalanceGaps(Checker):
    """S24.  A number; late passes break no rule while brokers are silent."""

    name = "passes"
    rule = "a member passes over each of its topics every 20 s"
    metrics = (
        Metric(
            "rebalance_gap_s",
            "s",
            "the longest a member that ran took no pass over a topic",
            "group",
            "max",
        ),
    )
    needs = (RebalancePassed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._last_us: dict[tuple[str, str], dict[str, int]] = {}  # group, node: topic

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed, ConsumerStopped: self._stopped}

    def end(self) -> None:
        """Who still runs has taken none until now."""
        for group, seats in self.scene.seats.items():
            self._measure(group, 0)
            for seat in seats:
                if seat.lives:
                    for last_us in self._last_us.get((group, seat.node), {}).values():
                        self._measure(group, self.scene.now_us - max(last_us, seat.from_us))

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        seat = self.scene.seat(fact.group, entry.node)
        if seat is None:
            return
        topics = self._last_us.setdefault((fact.group, entry.node), {})
        last_us = topics.get(fact.topic, 0)
        topics[fact.topic] = entry.mono_us
        self._measure(fact.group, entry.mono_us - max(last_us, seat.from_us))

    def _stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._last_us.pop((fact.group, entry.node), None)

    def _measure(self, group: str, gap_us: int) -> None:
        known = self.measured.get(f"rebalance_gap_s.{group}", 0.0)
        self.measures("rebalance_gap_s", max(known, gap_us / 1e6), group)

"""How long members go without a rebalance pass: 20 s, if nothing holds them up.

A pass goes through the topics one after the other and asks a broker each time, so brokers that do
not answer hold up all that is behind them.  Passes that got no answer write no fact: so members
are held to the 20 s only while no fault touches them, a broker or a NameServer.
"""

from __future__ import annotations

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.checks.scene import Seat
from emulator.facts import ConsumerStopped, RebalancePassed
from emulator.journal import Entry, EntryKey

PASS_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
LATE_US = 5_000_000  # the pass before it took longer


class RebalanceGaps(Checker):
    """S24, client invariant 25: RebalanceService.run."""

    name = "passes"
    rule = (
        "a member passes over each of its topics every 20 s, while nothing happens to it, to "
        "brokers and NameServers (client invariant 25)"
    )
    metrics = (
        Metric(
            "excused_passes",
            "times",
            "a pass was late, and something happened to the member or to servers",
            "group",
        ),
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
                if seat.lives and self.scene.last is not None:
                    for topic, last_us in self._last_us.get((group, seat.node), {}).items():
                        since_us = max(last_us, seat.from_us)
                        self._measure(group, self.scene.now_us - since_us)
                        self._looks(seat, topic, since_us, self.scene.last)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        seat = self.scene.seat(fact.group, entry.node)
        if seat is None:
            return
        topics = self._last_us.setdefault((fact.group, entry.node), {})
        last_us = topics.get(fact.topic, 0)
        topics[fact.topic] = entry.mono_us
        since_us = max(last_us, seat.from_us)
        self._measure(fact.group, entry.mono_us - since_us)
        self._looks(seat, fact.topic, since_us, entry)

    def _looks(self, seat: Seat, topic: str, since_us: int, entry: Entry) -> None:
        """Was the member late, with no cause?"""
        self.tries()
        gap_us = entry.mono_us - since_us
        if gap_us <= PASS_US + LATE_US or self._is_set(seat.started.group):
            return
        table = self.scene.topics
        nodes = {seat.node, *table.brokers, *table.name_servers}
        if topic not in seat.topics:
            return
        quiet_us = self.scene.undisturbed_us(nodes, since_us - PASS_US, entry.mono_us)
        if quiet_us <= 2 * PASS_US + LATE_US:
            self.adds("excused_passes", 1, seat.started.group)
        else:
            self.objects(
                f"{seat.node} did not pass over {topic} for {gap_us / 1e6:.1f} s",
                EntryKey(entry.mono_us, entry.node, entry.seq),
                node=seat.node,
            )

    def _is_set(self, group: str) -> bool:
        """The plan gives members of *group* another interval."""
        return any(
            "rebalance_interval_ms" in settings
            for part in self.scene.plan.get("consumers", ())
            if part.get("group") == group
            for settings in (part.get("settings", {}), *part.get("settings_of", {}).values())
        )

    def _stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._last_us.pop((fact.group, entry.node), None)

    def _measure(self, group: str, gap_us: int) -> None:
        known = self.measured.get(f"rebalance_gap_s.{group}", 0.0)
        self.measures("rebalance_gap_s", max(known, gap_us / 1e6), group)

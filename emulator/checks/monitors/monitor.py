"""The base of monitors: checkers that judge each client by a client invariant.

A monitor reports only what a fact proves.  A node whose clock was moved meanwhile, or a group
whose plan sets the timer in question, is excused.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, numbers_of
from rocketmq_emulator.facts.journal import Entry, EntryKey

US_A_MS = 1_000
ONE_ENTRY_US = 120_000_000


class Monitor(Checker):
    """A checker of client invariants.

    ``servers_suffice``: facts of servers are enough, so clients in any language are judged.
    """

    invariants: ClassVar[tuple[int, ...]]
    servers_suffice: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Give each monitor a metric for what it excuses, named after the monitor."""
        super().__init_subclass__()
        if "name" in vars(cls):
            what = f"violations of `{cls.name}` that a fault or a moved clock explains"
            cls.metrics = (Metric(f"excused_{cls.name}", "times", what),)

    def count_excused(self) -> None:
        """Count a violation that is not reported, as a fault explains it."""
        self.add_to_metric(f"excused_{self.name}", 1)

    def report_violation(
        self, what: str, *entries: Entry | EntryKey, node: str | None = None, rule: str = ""
    ) -> None:
        """Report as ``Checker`` does, unless a clock was moved between the first and last entry.

        Only clocks of nodes that wrote the *entries* count; with a single entry those moved in the
        two minutes before it.
        """
        times = [entry.mono_us for entry in entries]
        since_us = min(times) if len(times) > 1 else times[0] - ONE_ENTRY_US
        nodes = {entry.node for entry in entries}
        if any(self.cluster.clock_moved(each, since_us, max(times)) for each in nodes):
            self.count_excused()
        else:
            super().report_violation(what, *entries, node=node, rule=rule)

    def plans_of(self, group: str) -> list[dict[str, Any]]:
        """The parts of the plan that create members of *group*."""
        return self.cluster.plans_of(group)

    def sets(self, group: str, *names: str) -> bool:
        """Whether the plan gives some member of *group* one of the settings *names*."""
        given: set[str] = set()
        for part in self.plans_of(group):
            given.update(part.get("settings", ()), *part.get("settings_of", {}).values())
        return not given.isdisjoint(names)

    def plan_release(self) -> tuple[int, ...]:
        """The release of the run's cluster and clients; () if the journal has none."""
        return () if self.cluster.run is None else numbers_of(self.cluster.run.release)

    def release_at(self, group: str, node: str) -> tuple[int, ...]:
        """The release of the member of *group* on *node*; () if the journal has none."""
        consumer = self.cluster.consumer(group, node)
        return () if consumer is None else numbers_of(consumer.started.release)


class LoadMonitor(Monitor):
    """A monitor that looks up each producer's load in the plan."""

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._loads: dict[str, dict[str, Any] | None] = {}

    def loads_of(self, producer: str) -> list[dict[str, Any]]:
        """The loads of *producer* in the plan; all loads if it has none of its own."""
        load = self.load_of(producer)
        return list(self.cluster.plan.get("load", ())) if load is None else [load]

    def load_of(self, producer: str) -> dict[str, Any] | None:
        """The load that *producer* sends; None if the plan has none for it."""
        try:
            return self._loads[producer]
        except KeyError:
            found = self._loads[producer] = self._found(producer)
            return found

    def _found(self, producer: str) -> dict[str, Any] | None:
        name, _, number = producer.rpartition("-")
        if name != "producer" or not number.isdecimal():
            return None
        at = int(number)
        for load in self.cluster.plan.get("load", ()):
            count = load.get("producers", 1)
            if at <= count:
                found: dict[str, Any] = load
                return found
            at -= count
        return None

"""What a monitor is: a checker that holds each client to a client invariant.

It objects where a fact proves that the invariant was broken, and only there: a node whose clock
is moved meanwhile, or a group whose plan sets the timer in question, is let off.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric, numbers_of
from rocketmq_emulator.facts.journal import Entry, EntryKey

US_A_MS = 1_000
ONE_ENTRY_US = 120_000_000


class Monitor(Checker):
    """A checker of client invariants.

    ``servers_suffice``: what servers note is enough, so clients in any language are judged.
    """

    invariants: ClassVar[tuple[int, ...]]
    servers_suffice: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Whatever a monitor lets off is counted under its name."""
        super().__init_subclass__()
        if "name" in vars(cls):
            what = (
                f"what `{cls.name}` would object to, but for a fault or a clock that explains it"
            )
            cls.metrics = (Metric(f"excused_{cls.name}", "times", what),)

    def count_excused(self) -> None:
        """It would have objected, but a fault of these nodes explains it."""
        self.add_to_metric(f"excused_{self.name}", 1)

    def report_violation(
        self, what: str, *entries: Entry | EntryKey, node: str | None = None, rule: str = ""
    ) -> None:
        """As a checker does, unless a clock was moved between the first and the last entry.

        It is the clock of a node that the evidence is from; where one entry is all the evidence,
        in the two minutes before it.
        """
        times = [entry.mono_us for entry in entries]
        since_us = min(times) if len(times) > 1 else times[0] - ONE_ENTRY_US
        nodes = {entry.node for entry in entries}
        if any(self.cluster.clock_moved(each, since_us, max(times)) for each in nodes):
            self.count_excused()
        else:
            super().report_violation(what, *entries, node=node, rule=rule)

    def plans_of(self, group: str) -> list[dict[str, Any]]:
        """The parts of the plan that make members of *group*."""
        return self.cluster.plans_of(group)

    def sets(self, group: str, *names: str) -> bool:
        """The plan gives some member of *group* one of the settings *names*."""
        given: set[str] = set()
        for part in self.plans_of(group):
            given.update(part.get("settings", ()), *part.get("settings_of", {}).values())
        return not given.isdisjoint(names)

    def plan_release(self) -> tuple[int, ...]:
        """What the run's cluster and clients behave as; () if the journal does not say."""
        return () if self.cluster.run is None else numbers_of(self.cluster.run.release)

    def release_at(self, group: str, node: str) -> tuple[int, ...]:
        """What the member of *group* on *node* behaves as; () if the journal does not say."""
        consumer = self.cluster.consumer(group, node)
        return () if consumer is None else numbers_of(consumer.started.release)


class LoadMonitor(Monitor):
    """Knows the load of each producer."""

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._loads: dict[str, dict[str, Any] | None] = {}

    def loads_of(self, producer: str) -> list[dict[str, Any]]:
        """Its own part of the plan; where it has none, all that the plan sends."""
        load = self.load_of(producer)
        return list(self.cluster.plan.get("load", ())) if load is None else [load]

    def load_of(self, producer: str) -> dict[str, Any] | None:
        """The part of the plan that *producer* sends; None: it is none of the plan's."""
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

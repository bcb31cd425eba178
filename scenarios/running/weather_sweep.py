"""Weather of many seeds: each seed has a plan of its own, which looks for what was not met yet.

Seeds go in batches.  The plans of a batch are made with the coverage of the batches before it,
so they are the same whenever the sweep of these seeds is run again, and on any number of
processors; what was finished before is taken from disk, coverage included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.sweep import Sweep
from scenarios.weather.coverage import Coverage

BATCH = 100  # seeds
PlanOf = Callable[[int, Coverage], Plan]


def sweep_of(base: Plan, seeds: Sequence[int]) -> Plan:
    """What rows on disk are kept under: the shape of the weather, and where its sweep begins."""
    parameters = {**base.parameters, "seed": 0, "from_seed": seeds[0], "batch": BATCH}
    return msgspec.structs.replace(base, name="weather", timeline=(), parameters=parameters)


class WeatherSweep(Sweep):
    """*plan_of(seed, coverage)* makes the plans; ``coverage`` is what all rows so far have met."""

    def __init__(self, plan_of: PlanOf, base: Plan, seeds: Sequence[int], **rest: Any) -> None:
        super().__init__(msgspec.structs.replace(base, name="weather"), seeds, **rest)
        self.coverage = Coverage()
        self._make = plan_of
        self._plans: dict[int, Plan] = {}
        self._counts_coverage = True

    def rows(self) -> Iterator[RunResult]:
        """One a seed, batch by batch."""
        for start in range(0, len(self._seeds), BATCH):
            batch = self._seeds[start : start + BATCH]
            self._plans = {seed: self._make(seed, self.coverage) for seed in batch}
            rows = []
            for row in self._rows_of(batch):
                rows.append(row)
                yield row
            for row in rows:
                self.coverage.add_metrics(row.metrics)

    def _plan_of(self, seed: int) -> Plan:
        return self._plans[seed]

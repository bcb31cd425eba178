"""Weather of many seeds: each seed has a plan of its own, and what all runs met is counted.

A seed's plan knows nothing of the others, so its row is the same alone and in any range; what was
finished before is taken from disk, with what it met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.sweep import Sweep
from scenarios.weather.coverage import Coverage


def sweep_of(base: Plan) -> Plan:
    """What rows on disk are kept under: the shape of the weather, whatever the seed."""
    parameters = {**base.parameters, "seed": 0}
    return Plan(name="weather", cluster=base.cluster, quirks=base.quirks, parameters=parameters)


class WeatherSweep(Sweep):
    """*plan_of(seed)* makes the plans; ``coverage`` is what all rows so far have met."""

    def __init__(
        self, plan_of: Callable[[int], Plan], base: Plan, seeds: Sequence[int], **rest: Any
    ) -> None:
        super().__init__(msgspec.structs.replace(base, name="weather"), seeds, **rest)
        self.coverage = Coverage()
        self._plan_of = plan_of
        self._counts_coverage = True

    def rows(self) -> Iterator[RunResult]:
        """One a seed, those that are on disk first."""
        for row in super().rows():
            self.coverage.add_metrics(row.metrics)
            yield row

"""Trials of smaller plans, some at once, with their rows in the order of the plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.fleet import Fleet
from scenarios.running.orders import RunOrder
from scenarios.validity import problems_of


class Trials:
    """Runs plans from one *seed* in *fleet*, *jobs* at once; what cannot be run is passed over."""

    def __init__(self, fleet: Fleet, seed: int, jobs: int, paths: Sequence[str] = ()) -> None:
        self._fleet = fleet
        self._seed = seed
        self._jobs = jobs
        self._paths = tuple(paths)

    def run(self, plans: Iterable[Plan]) -> Iterator[tuple[Plan, RunResult]]:
        """Each plan with its row; the first ones that are asked for are run first."""
        waiting = (plan for plan in plans if not problems_of(plan))
        while batch := [*itertools.islice(waiting, self._jobs)]:
            orders = [RunOrder(plan=plan, seed=self._seed, paths=self._paths) for plan in batch]
            rows = {id(order): row for order, row in self._fleet.finished(orders, self._jobs)}
            for order in orders:
                yield order.plan, rows[id(order)]

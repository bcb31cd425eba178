"""Several plans, each from one seed: those that were finished before are taken from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.finished import FinishedRuns
from scenarios.running.fleet import Fleet
from scenarios.running.orders import RunOrder


def rows_of(
    plans: Sequence[Plan],
    *,
    seed: int,
    jobs: int,
    cache: Path | None = None,
    look: Callable[[], object] = lambda: None,
) -> Iterator[tuple[int, RunResult]]:
    """The place in *plans* and the row of each, as they are finished; *look* as for a fleet."""
    wanted: dict[int, int] = {}  # by the order's id: the place
    orders: list[RunOrder] = []
    finished = {at: FinishedRuns(plan, cache) for at, plan in enumerate(plans) if cache}
    for at, plan in enumerate(plans):
        row = finished[at].row(seed) if at in finished else None
        if row is not None:
            yield at, row
            continue
        orders.append(RunOrder(plan=plan, seed=seed, paths=(str(Path.cwd()),)))
        wanted[id(orders[-1])] = at
    if not orders:
        return
    with Fleet(look) as fleet:
        for order, row in fleet.finished(orders, min(jobs, len(orders))):
            at = wanted[id(order)]
            if at in finished:
                finished[at].add(row)
            yield at, row

"""The rows of a grid that are to be made, in an order in which any part of them is like the whole.

Run times differ from cell to cell, so cells do not come one after the other: rows are mixed by a
hash, block by block of seeds.  Weather is an exception: the plans of a batch of a hundred seeds
look for what the batches before it have not met, so they wait for those; the cells of a sweep
of weather take turns.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice

import msgspec

from pipeline.sweep.grid import Cell, SweepGrid, of_release
from pipeline.sweep.rows import RowKey, SweptRow, swept
from scenarios.finding import weather_of
from scenarios.plan import Plan
from scenarios.result import RowWorld
from scenarios.running.verdicts import without_answer
from scenarios.running.weather_sweep import BATCH
from scenarios.weather.coverage import Coverage

BLOCK_ROWS = 4_096  # so many are mixed with each other

PlanOf = Callable[[Cell, int, Coverage], Plan]


class RowOrder(msgspec.Struct, frozen=True):
    """One row that is to be made; a question's has its name."""

    made_from: str
    seed: int
    plan: Plan
    question: str = ""
    counts_coverage: bool = False

    @property
    def key(self) -> RowKey:
        """What its row will be known by."""
        return self.made_from, self.seed

    def lost(self, reason: str) -> SweptRow:
        """The row of one that never came to an end of its own."""
        world: RowWorld = "function" if self.question else "virtual"
        row = without_answer(self.plan, self.seed, world, reason)
        return swept(row, self.made_from)


class Work(ABC):
    """What is left of a grid; ``left`` rows, of which some may have to wait for others."""

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def ready(self) -> int:
        """How many could be taken now."""
        return self.left

    @abstractmethod
    def take(self, count_max: int) -> list[RowOrder]:
        """The next ones that can be made now."""

    @abstractmethod
    def add(self, row: SweptRow) -> None:
        """A row that is finished."""


def work_of(grid: SweepGrid, known: Iterable[SweptRow]) -> Work:
    """All of *grid* but what is *known*."""
    if grid.kind == "weather":
        return WeatherWork(grid, {row.key: row for row in known})
    return FreeWork(grid, {row.key for row in known})


class FreeWork(Work):
    """Rows that wait for nothing."""

    def __init__(self, grid: SweepGrid, known: Container[RowKey]) -> None:
        digests = [cell.made_from for cell in grid.cells]
        count = sum((each, seed) not in known for each in digests for seed in grid.asked.seeds)
        super().__init__(count)
        self._orders = (order for order in _mixed(grid) if order.key not in known)

    def take(self, count_max: int) -> list[RowOrder]:
        """See ``Work``."""
        taken = [*islice(self._orders, count_max)]
        self.left -= len(taken)
        return taken

    def add(self, row: SweptRow) -> None:
        """Nothing waits for it."""


class WeatherWork(Work):
    """Batches of seeds for each cell, as ``WeatherSweep`` has them."""

    def __init__(
        self, grid: SweepGrid, known: dict[RowKey, SweptRow], plan_of: PlanOf | None = None
    ) -> None:
        super().__init__(grid.row_count)
        self._known = known
        self._ready: deque[RowOrder] = deque()
        plan_of = plan_of or _weather_plan
        self._batches = {
            cell.made_from: _Batches(cell, grid.asked.seeds, plan_of) for cell in grid.cells
        }
        for batches in self._batches.values():
            self._go_on(batches)
        mixed = sorted(self._ready, key=lambda order: _place(order.made_from, order.seed))
        self._ready = deque(mixed)

    @property
    def ready(self) -> int:
        """See ``Work``."""
        return len(self._ready)

    def take(self, count_max: int) -> list[RowOrder]:
        """See ``Work``."""
        count = min(count_max, len(self._ready))
        self.left -= count
        return [self._ready.popleft() for _ in range(count)]

    def add(self, row: SweptRow) -> None:
        """Its batch may be over with it."""
        batches = self._batches[row.made_from]
        if batches.add(row):
            self._go_on(batches)

    def _go_on(self, batches: _Batches) -> None:
        """Plans of the next batch that is not wholly known."""
        while orders := batches.begin():
            for order in orders:
                if (row := self._known.get(order.key)) is not None:
                    self.left -= 1
                    batches.add(row)
                else:
                    self._ready.append(order)
            if batches.is_waiting:
                return


class _Batches:
    """The batches of one cell, one at a time."""

    def __init__(self, cell: Cell, seeds: range, plan_of: PlanOf) -> None:
        self._cell = cell
        self._plan_of = plan_of
        self._batches = deque(seeds[at : at + BATCH] for at in range(0, len(seeds), BATCH))
        self._coverage = Coverage()
        self._awaited: set[int] = set()
        self._rows: list[SweptRow] = []

    @property
    def is_waiting(self) -> bool:
        """Are rows of the present batch missing?"""
        return bool(self._awaited)

    def begin(self) -> list[RowOrder]:
        """The orders of the next batch; none after the last."""
        if not self._batches:
            return []
        batch = self._batches.popleft()
        self._awaited = set(batch)
        return [
            RowOrder(
                self._cell.made_from,
                seed,
                self._plan_of(self._cell, seed, self._coverage),
                counts_coverage=True,
            )
            for seed in batch
        ]

    def add(self, row: SweptRow) -> bool:
        """One of the present batch; True for its last."""
        if row.seed not in self._awaited:
            return False
        self._awaited.discard(row.seed)
        self._rows.append(row)
        if self._awaited:
            return False
        for each in self._rows:
            self._coverage.add_metrics(each.metrics)
        self._rows = []
        return True


def _weather_plan(cell: Cell, seed: int, coverage: Coverage) -> Plan:
    return of_release(weather_of({**cell.given, "seed": seed}, coverage), cell.release)


def _mixed(grid: SweepGrid) -> Iterator[RowOrder]:
    seeds = grid.asked.seeds
    question = grid.asked.scenario if grid.kind == "question" else ""
    in_block = max(1, BLOCK_ROWS // len(grid.cells))
    for start in range(0, len(seeds), in_block):
        block = [(cell, seed) for seed in seeds[start : start + in_block] for cell in grid.cells]
        block.sort(key=lambda pair: _place(pair[0].made_from, pair[1]))
        for cell, seed in block:
            yield RowOrder(cell.made_from, seed, cell.plan, question)


def _place(made_from: str, seed: int) -> int:
    digest = hashlib.blake2b(f"{made_from} {seed}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")

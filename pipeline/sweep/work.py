"""The rows of a grid that have to be run, in an order in which any part is like the whole.

Run times differ between cells, so rows are not ordered by cell: they are mixed by a hash, in
blocks of seeds.  A row of weather has a plan of its own, made when the row is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from itertools import islice

import msgspec

from rocketmq_emulator.pipeline.sweep.grid import Cell, SweepGrid
from rocketmq_emulator.pipeline.sweep.rows import RowKey, SweptRow, swept
from rocketmq_emulator.scenarios.catalog.finding import WEATHER, load
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RowWorld, without_answer

BLOCK_ROWS = 4_096  # rows that are mixed with each other


class RowSpec(msgspec.Struct, frozen=True):
    """One row that has to be run; ``question`` is the name of a question, else empty."""

    made_from: str
    seed: int
    plan: Plan
    question: str = ""
    counts_coverage: bool = False

    @property
    def key(self) -> RowKey:
        """The key of the finished row."""
        return self.made_from, self.seed

    def lost(self, reason: str) -> SweptRow:
        """The row, with verdict ``error``, of a run that did not finish."""
        world: RowWorld = "function" if self.question else "virtual"
        row = without_answer(self.plan, self.seed, world, reason)
        return swept(row, self.made_from)


class PendingRows:
    """The rows of a grid that are not in *known*: ``left`` of them have not been taken yet."""

    def __init__(self, grid: SweepGrid, known: Container[RowKey] = ()) -> None:
        digests = [cell.made_from for cell in grid.cells]
        self.left = sum((each, seed) not in known for each in digests for seed in grid.asked.seeds)
        self._orders = (_order(grid, *row) for row in _mixed(grid) if _key(*row) not in known)

    def take(self, count_max: int) -> list[RowSpec]:
        """The next rows, at most *count_max*."""
        taken = [*islice(self._orders, count_max)]
        self.left -= len(taken)
        return taken


def _order(grid: SweepGrid, cell: Cell, seed: int) -> RowSpec:
    if grid.kind == "weather":
        plan = load(WEATHER.name, {**cell.given, "seed": seed}, cell.release)
        return RowSpec(cell.made_from, seed, plan, counts_coverage=True)
    question = grid.asked.scenario if grid.kind == "question" else ""
    return RowSpec(cell.made_from, seed, cell.plan, question)


def _key(cell: Cell, seed: int) -> RowKey:
    return cell.made_from, seed


def _mixed(grid: SweepGrid) -> Iterator[tuple[Cell, int]]:
    seeds = grid.asked.seeds
    in_block = max(1, BLOCK_ROWS // len(grid.cells))
    for start in range(0, len(seeds), in_block):
        block = [(cell, seed) for seed in seeds[start : start + in_block] for cell in grid.cells]
        block.sort(key=lambda pair: _place(pair[0].made_from, pair[1]))
        yield from block


def _place(made_from: str, seed: int) -> int:
    digest = hashlib.blake2b(f"{made_from} {seed}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")

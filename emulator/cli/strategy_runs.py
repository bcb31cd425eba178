"""Strategies at work, as tables: what their virtual runs found, one row a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from emulator.cli.columns import Column, Sheet
from emulator.cli.errors import fail
from emulator.cli.late_bar import LateBar
from emulator.cli.run import JOBS
from scenarios.running.finished import cache_folder
from scenarios.running.several import rows_of
from scenarios.strategy_runs import SEED, AtWork, IdleRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import ProgressColumn

    from scenarios.plan import Plan
    from scenarios.result import RunResult

AT_WORK_COLUMNS = (
    Column("at work", narrow=20),
    Column("twice s", is_number=True),
    Column("never s", is_number=True),
    Column("settles s", is_number=True),
    Column("moved", is_number=True),
    Column("had to", is_number=True),
    Column("skew", is_number=True),
)
IDLE_COLUMNS = (
    Column("strategy", narrow=20),
    Column("backlog"),
    Column("taken away"),
    Column("idle", is_number=True),
    Column("in all", is_number=True),
    Column("idle s", is_number=True),
    Column("moved", is_number=True),
    Column("had to", is_number=True),
)


class RunsProgress(LateBar):
    """So many of so many runs."""

    def columns(self) -> list[ProgressColumn]:
        """A bar and the numbers."""
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for what takes long

        return [BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)]


def finished_plans(plans: Sequence[Plan], *, is_shown: bool) -> list[RunResult]:
    """The row of each plan; raises ``Exit`` with the reason of one that could not be run."""
    rows: dict[int, RunResult] = {}
    with RunsProgress(is_shown=is_shown) as bar:

        def look() -> None:
            if bar.is_time():
                text = f"{len(rows)} of {len(plans)} virtual runs"
                bar.draw(text, len(rows), len(plans))

        for at, row in rows_of(
            plans, seed=SEED, jobs=JOBS["virtual"], cache=cache_folder(), look=look
        ):
            rows[at] = row
            look()
    for row in rows.values():
        if row.verdict == "error":
            raise fail(f"a virtual run of {row.scenario}: {row.reason}")
    return [rows[at] for at in range(len(plans))]


def at_work_table(found: Sequence[AtWork]) -> Sheet:
    """How strategies did while members came and went."""
    return Sheet(
        AT_WORK_COLUMNS,
        [
            (
                one.strategy,
                f"{one.overlap_queue_s:.3f}",
                f"{one.unowned_queue_s:.3f}",
                f"{one.settle_s:.3f}",
                f"{one.moved_queues}",
                f"{one.necessary_moves}",
                f"{one.skew_queues}",
            )
            for one in found
        ],
    )


def idle_table(found: Sequence[IdleRow]) -> Sheet:
    """Who had nothing to do while a broker was read-only."""
    return Sheet(
        IDLE_COLUMNS,
        [
            (
                one.strategy,
                "yes" if one.backlog else "no",
                "yes" if one.taken_away else "no",
                _wrong_above_0(f"{one.idle_at_once}"),
                _wrong_above_0(f"{one.idle_members}"),
                _wrong_above_0(f"{one.idle_s:.0f}"),
                f"{one.moved_queues}",
                f"{one.necessary_moves}",
            )
            for one in found
        ],
    )


def _wrong_above_0(number: str) -> Text:
    return Text(number, "" if number == "0" else "yellow")

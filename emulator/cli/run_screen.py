"""How a sweep is shown: a bar while it runs, then a table of verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from emulator.cli.columns import Column, Row, Sheet, clean
from emulator.cli.late_bar import LateBar
from scenarios.running.parts import ends_ms
from scenarios.weather.coverage import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.progress import ProgressColumn

    from scenarios.plan import Plan
    from scenarios.result import RunResult
    from scenarios.running.sweep import SweepTally
    from scenarios.weather.coverage import Coverage

ROWS_MAX = 15  # of seeds that did not pass, in a terminal
STYLES = {"passed": "green", "failed": "red", "error": "yellow"}
COLUMNS = (
    Column("seed", is_number=True),
    Column("verdict"),
    Column("virtual s", is_number=True, spare=True),
    Column("took s", is_number=True, spare=True),
    Column("facts", is_number=True, spare=True),
    Column("why", narrow=20),
)
REAL_COLUMNS = tuple(
    Column("run s", is_number=True, spare=True) if column.title == "virtual s" else column
    for column in COLUMNS
)


class SweepProgress(LateBar):
    """``with SweepProgress() as progress``; *look* draws it when it is time to."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self.tally: SweepTally | None = None

    def columns(self) -> list[ProgressColumn]:
        """A short bar, and a text that needs the room."""
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for what takes long

        return [BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)]

    def look(self) -> None:
        """Draw, if it is time to."""
        if self.tally is not None and self.is_time():
            text = progress_text(self.tally, self.passed_s())
            self.draw(text, self.tally.done, self.tally.total)


def progress_text(tally: SweepTally, passed_s: float) -> str:
    """``12 of 100, 3.1/s, 1 failed; worst so far: seed 7, …``."""
    if tally.world == "virtual":
        speed = f"{(tally.done - tally.cached_count) / passed_s:.1f}/s"
    else:  # time is real there
        speed = f"{passed_s:.0f} s; one takes at least {expected_s(tally.plan):.0f} s"
    text = f"{tally.done:,} of {tally.total:,}, {speed}"
    for verdict in ("failed", "error"):
        if count := tally.counts[verdict]:
            text += f", {count:,} {verdict}"
    if tally.worst_row is not None:
        return (
            f"{text}; worst so far: seed {tally.worst_row.seed}, {clean(tally.worst_row.reason)}"
        )
    if tally.worst:
        shown = (
            f"{name} {worst.value:g} (seed {worst.seed})" for name, worst in tally.worst.items()
        )
        text += f"; worst so far: {', '.join(shown)}"
    return text


def expected_s(plan: Plan) -> float:
    """How long a run in real time takes, as far as the plan says it."""
    if plan.lasts_ms is not None:
        return plan.lasts_ms / 1_000
    ends = [(step.at_ms or 0) + step.after_ms + (step.for_ms or 0) for step in plan.timeline]
    return max([ends_ms(plan), *ends]) / 1_000 + plan.settled_ms / 1_000


def sweep_screen(
    tally: SweepTally, rows: Sequence[RunResult], *, is_for_people: bool
) -> RenderableType:
    """The table, and what it comes to; people see those that did not pass, and how many more."""
    shown = list(rows)
    if is_for_people and len(rows) > 1:
        shown = [row for row in rows if row.verdict != "passed"][:ROWS_MAX]
    parts: list[RenderableType] = []
    if shown:
        columns = COLUMNS if tally.world == "virtual" else REAL_COLUMNS
        parts.append(Sheet(columns, [_row(row) for row in shown]))
    left = sum(row.verdict != "passed" for row in rows) - len(shown)
    if left > 0:
        parts.append(Text(f"… and {left:,} more that did not pass"))
    parts += [Text(line) for line in _summary(tally)]
    parts += [Text(f"journal of seed {row.seed}: {row.journal}") for row in shown if row.journal]
    return Group(*parts)


def _row(row: RunResult) -> Row:
    return (
        str(row.seed),
        Text(row.verdict, STYLES[row.verdict]),
        f"{row.run_s:.0f}",
        f"{row.took_s:.2f}",
        f"{row.fact_count:,}",
        clean(row.reason),
    )


def _summary(tally: SweepTally) -> list[str]:
    counts = ", ".join(
        f"{tally.counts[verdict]:,} {verdict}"
        for verdict in ("passed", "failed", "error")
        if tally.counts[verdict]
    )
    cached = f" ({tally.cached_count:,} of them known from before)" if tally.cached_count else ""
    seeds = "seed" if tally.done == 1 else "seeds"
    lines = [f"{tally.plan.name}: {tally.done:,} {seeds}, {counts or 'none finished'}{cached}"]
    for name, worst in tally.worst.items():
        one = worst.expectation
        lines.append(
            f"  {name} {one.operator} {one.bound:g}: worst {worst.value:g}, seed {worst.seed}"
        )
    return lines


def coverage_screen(coverage: Coverage) -> RenderableType:
    """How often each fault began in which state; states by short names, to fit."""
    columns = (Column("fault"), *(Column(SHORT.get(s, s), is_number=True) for s in STATES))
    rows = [tuple(row) for row in coverage.table()[1:]]
    pairs = [coverage.met(row[0], state) for row in rows for state in STATES]
    met = sum(number > 0 for number in pairs)
    head = f"began in which states ({met} of {len(pairs)} were met):"
    return Group(Text(head), Sheet(columns, rows))


SHORT = {
    "rebalance": "rebal.",
    "member_joined": "joined",
    "member_left": "left",
    "another_fault": "other",
    "node_down": "down",
    "just_healed": "healed",
}

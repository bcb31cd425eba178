"""The screen of a sweep: a bar or lines while it runs, then a table.

For seeds (``rmqemu run --seeds``) the table has a row for each seed; for a grid
(``rmqemu sweep``) a row for each combination, those with bad rows first, and the command that
repeats the worst row.
"""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

import msgspec
from rich.console import Group
from rich.text import Text

from rocketmq_emulator.cli.options.errors import print_note
from rocketmq_emulator.cli.screens.columns import Column, Row, Sheet, clean
from rocketmq_emulator.cli.screens.progress_bar import DelayedProgressBar
from rocketmq_emulator.scenarios.plan.client_starts import ends_ms
from rocketmq_emulator.scenarios.plan.result import long_start_ups
from rocketmq_emulator.scenarios.sweeps.sweep import reason_worst
from rocketmq_emulator.scenarios.weather.coverage import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType
    from rich.progress import ProgressColumn

    from rocketmq_emulator.pipeline.sweep.driving import SparkSweep
    from rocketmq_emulator.pipeline.sweep.grid import Cell
    from rocketmq_emulator.scenarios.plan.plan import Plan
    from rocketmq_emulator.scenarios.plan.result import RunResult, Verdict
    from rocketmq_emulator.scenarios.sweeps.sweep import Badness, SweepTally, Worst
    from rocketmq_emulator.scenarios.weather.coverage import Coverage


# A sweep over seeds -------------------------------------------------------------------


START_UPS_MAX = 3  # groups whose start-up lasted long
ROWS_MAX = 15  # of seeds that did not pass, in a terminal
JOURNALS_MAX = 3  # more are one line, if they are named alike
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


class SweepProgress(DelayedProgressBar):
    """``with SweepProgress(…) as progress``; ``look`` draws it, if a draw is due."""

    def __init__(self, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self.tally: SweepTally | None = None

    def columns(self) -> list[ProgressColumn]:
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for long work

        return [BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)]

    def look(self) -> None:
        """Draw the counts, if a draw is due."""
        if self.tally is not None and self.is_time():
            text = progress_text(self.tally, self.passed_s())
            self.draw(text, self.tally.done, self.tally.total)


def progress_text(tally: SweepTally, passed_s: float) -> str:
    """The counts as text: ``12 of 100, 3.1/s, 1 failed; worst so far: seed 7, …``."""
    if tally.world == "virtual":
        speed = f"{(tally.done - tally.cached_count) / passed_s:.1f}/s"
    else:  # in real time
        speed = f"{passed_s:.0f} s; a run takes at least {expected_s(tally.plan):.0f} s"
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
    """How many seconds a run in real time takes at least, by its plan."""
    if plan.lasts_ms is not None:
        return plan.lasts_ms / 1_000
    ends = [(step.at_ms or 0) + step.after_ms + (step.for_ms or 0) for step in plan.timeline]
    return max([ends_ms(plan), *ends]) / 1_000 + plan.settled_ms / 1_000


def sweep_screen(
    tally: SweepTally, rows: Sequence[RunResult], *, is_for_people: bool
) -> RenderableType:
    """The table and its summary; for people only the seeds that did not pass, if several ran."""
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
    lines = (*_summary(tally), *_transactions(rows), *_start_ups(rows))
    parts += [Text(line) for line in lines]
    parts += [Text(f"journal of seed {seed}: {path}") for seed, path in _journals(shown).items()]
    if len(rows) == 1 and rows[0].journal:
        parts.append(Text(_next(rows[0])))
    return Group(*parts)


def _journals(rows: Sequence[RunResult]) -> dict[str, str]:
    """The file of each seed; many files whose names differ in the seed alone are one line."""
    found = {str(row.seed): row.journal for row in rows if row.journal}
    names = {path.replace(f"-seed{seed}.", "-seedN.") for seed, path in found.items()}
    is_long = len(found) > JOURNALS_MAX and len(names) == 1
    return dict.fromkeys(("N",), names.pop()) if is_long else found


def _next(row: RunResult) -> str:
    """What to do with the journal of the only run."""
    first, others = (
        ("report", "inspect, replay") if row.verdict == "passed" else ("explain", "report, shrink")
    )
    return f"next: {shlex.join(['rmqemu', first, row.journal])}; or {others}"


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
        value = f"worst {worst.value:g}, seed {worst.seed}"
        if tally.done == 1:
            value = f"it is {worst.value:g}"
        lines.append(f"  {name} {one.operator} {one.bound:g}: {value}")
    return lines


TRANSACTIONS = {  # metric: its words, after its number
    "committed": "committed",
    "rolled_back": "rolled back",
    "given_up": "given up",
    "open_transactions": "open",
}
UNASKED = ("unasked_checks", "immune_checks")


def _transactions(rows: Sequence[RunResult]) -> list[str]:
    """How the transactions of all *rows* ended, and how often brokers checked them, if any."""

    def total(*names: str) -> int:
        return round(sum(row.metrics.get(name, 0) for row in rows for name in names))

    if not total("half_messages"):
        return []
    ends = ", ".join(f"{total(name):,} {words}" for name, words in TRANSACTIONS.items())
    lines = [f"  {total('half_messages'):,} half messages: {ends}"]
    if checks := total("transaction_checks", "immune_checks"):
        lines.append(f"  {checks:,} checks of half messages: {total(*UNASKED):,} asked nobody")
    return lines


def _start_ups(rows: Sequence[RunResult]) -> list[str]:
    """A line for each group whose start-up lasted long, of the first such seed."""
    found: dict[str, str] = {}
    for row in rows:
        for group, line in long_start_ups(row.metrics).items():
            found.setdefault(group, f"  seed {row.seed}: {line}")
    return list(found.values())[:START_UPS_MAX]


def coverage_screen(coverage: Coverage, *, run_count: int) -> RenderableType:
    """How often each fault began in each state; states have short names, to fit.

    Of one run only the faults that began are shown: of many, those that did not are news, too.
    """
    columns = (Column("fault"), *(Column(SHORT.get(s, s), is_number=True) for s in STATES))
    rows = [tuple(row) for row in coverage.table()[1:]]
    pairs = [coverage.met(row[0], state) for row in rows for state in STATES]
    met = sum(number > 0 for number in pairs)
    head = f"began in which states ({met} of {len(pairs)} were met):"
    if run_count == 1:
        rows = [row for row in rows if any(coverage.met(row[0], state) for state in STATES)]
    return Group(Text(head), Sheet(columns, rows))


SHORT = {
    "rebalance": "rebal.",
    "member_joined": "joined",
    "member_left": "left",
    "another_fault": "other",
    "node_down": "down",
    "just_healed": "healed",
}


# A sweep over a grid ------------------------------------------------------------------


CELLS_MAX = 15  # in a terminal
EXPECTED_MAX = 3  # columns of expectations
LINE_EVERY_S = 30.0  # where there is no terminal
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "error")


class GridProgress(DelayedProgressBar):
    """``with GridProgress(…) as progress``; ``look`` draws or writes a line, if one is due."""

    def __init__(self, *, is_silent: bool) -> None:
        is_terminal = sys.stderr.isatty()
        super().__init__(is_shown=is_terminal and not is_silent)
        self._writes_lines = not is_terminal and not is_silent
        self._line_s = time.monotonic() + LINE_EVERY_S
        self._made: SparkSweep | None = None
        self._first: tuple[int, float] | None = None  # number and time of the first rows

    def begin(self, made: SparkSweep) -> None:
        """Show the progress of *made* from now on."""
        self._made = made

    def columns(self) -> list[ProgressColumn]:
        from rich.progress import BarColumn, TextColumn  # noqa: PLC0415  # only for long work

        return [BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)]

    def look(self) -> None:
        """Draw or write the counts, if that is due."""
        if self._made is None:
            return
        total = self._made.grid.row_count
        if self.is_time():
            self.draw(self._text(self._made), self._made.done, total)
        elif self._writes_lines and time.monotonic() >= self._line_s:
            self._line_s = time.monotonic() + LINE_EVERY_S
            print_note(self._text(self._made))

    def _text(self, made: SparkSweep) -> str:
        """The rate counts from the first row on: before it Spark gets ready."""
        now_s = time.monotonic()
        if self._first is None and made.new_count:
            self._first = made.new_count, now_s
        count, since_s = self._first or (0, now_s)
        return grid_progress(made, made.new_count - count, now_s - since_s)


def grid_progress(made: SparkSweep, new: int, passed_s: float) -> str:
    """``120 of 4,000 rows, 3.1/s, 20 min left, 2 failed``; *new* rows in *passed_s*."""
    text = f"{made.done:,} of {made.grid.row_count:,} rows"
    left = made.grid.row_count - made.done
    if not made.new_count and left:
        return f"{text}; Spark is getting ready"
    if new > 0 and passed_s > 0:
        text += f", {new / passed_s:.1f}/s"
        if left:
            text += f", {duration(left * passed_s / new)} left"
    for verdict in VERDICTS[1:]:
        if count := sum(tally.counts[verdict] for tally in made.tallies.values()):
            text += f", {count:,} {verdict}"
    return text


def duration(seconds: float) -> str:
    """``50 s``, ``20 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3_600:.1f} h"


# The result of a sweep over a grid ----------------------------------------------------


class WorstCell(msgspec.Struct):
    """The worst value of an expectation, with its combination and seed."""

    expectation: str
    value: float
    seed: int
    varied: dict[str, bool | int | float | str]


class GridSummary(msgspec.Struct):
    """The result; ``worst_row`` has the reason of the worst row, ``replay`` the command for it."""

    scenario: str
    folder: str
    combinations: int
    total: int
    done: int
    known: int
    passed: int
    failed: int
    error: int
    worst: list[WorstCell]
    worst_row: str
    replay: str


def summary_of(made: SparkSweep, folder: Path) -> GridSummary:
    """Counts, the worst value of each expectation, and the command for the worst row."""
    counts = {
        verdict: sum(tally.counts[verdict] for tally in made.tallies.values())
        for verdict in VERDICTS
    }
    worst_row, replay = "", ""
    if (found := _worst_row(made)) is not None:
        cell, row = found
        by = reason_worst(row, made.tallies[cell.made_from].plan)
        worst_row = _named(cell.varied, row.seed)
        worst_row += f", by {by}: {row.reason}" if by else f": {row.reason}"
        replay = _replay(made, cell, row.seed, row.journal)
    return GridSummary(
        scenario=made.grid.name,
        folder=str(folder),
        combinations=len(made.grid.cells),
        total=made.grid.row_count,
        done=made.done,
        known=sum(tally.cached_count for tally in made.tallies.values()),
        **counts,
        worst=_worst(made),
        worst_row=worst_row,
        replay=replay,
    )


def sentence(summary: GridSummary) -> str:
    """The counts as text: ``60 of 120 rows, 58 passed, 2 failed``."""
    counts = ((verdict, getattr(summary, verdict)) for verdict in VERDICTS)
    parts = [f"{count:,} {verdict}" for verdict, count in counts if count]
    rows = f"{summary.total:,} rows"
    if summary.done < summary.total:
        rows = f"{summary.done:,} of {rows}"
    known = f" ({summary.known:,} of them known from before)" if summary.known else ""
    return f"{rows}, {', '.join(parts) or 'none finished'}{known}"


def grid_screen(made: SparkSweep, summary: GridSummary, *, is_for_people: bool) -> RenderableType:
    """The table of combinations, those with bad rows first, and its summary."""
    cells = sorted(made.grid.cells, key=lambda cell: -_bad_count(made.tallies[cell.made_from]))
    shown = cells[:CELLS_MAX] if is_for_people else list(made.grid.cells)
    parts: list[RenderableType] = []
    if made.grid.varied:
        parts.append(_cell_sheet(made, shown))
    if left := len(cells) - len(shown):
        parts.append(Text(f"… and {left:,} more combinations"))
    lines = [f"{summary.scenario}: {sentence(summary)}"]
    for one in summary.worst:
        where = _named(one.varied, one.seed)
        lines.append(f"  {one.expectation}: worst {one.value:g}, {where}")
    if summary.worst_row:
        lines.append(f"the worst: {clean(summary.worst_row)}")
    if summary.replay:
        lines.append(f"again: {summary.replay}")
    lines.append(f"rows are in {summary.folder}/runs")
    return Group(*parts, *(Text(line) for line in lines))


def _cell_sheet(made: SparkSweep, cells: Sequence[Cell]) -> Sheet:
    names = list(dict.fromkeys(n for t in made.tallies.values() for n in t.worst))[:EXPECTED_MAX]
    columns = (
        *(Column(name, narrow=8) for name in made.grid.varied),
        *(Column(verdict, is_number=True) for verdict in VERDICTS),
        *(Column(f"worst {name}", narrow=10, spare=True) for name in names),
    )
    return Sheet(columns, [_cell_row(made, cell, names) for cell in cells])


def _cell_row(made: SparkSweep, cell: Cell, names: Sequence[str]) -> Row:
    tally = made.tallies[cell.made_from]
    return (
        *(clean(_shown(cell.varied[name])) for name in made.grid.varied),
        *(_count(tally, verdict) for verdict in VERDICTS),
        *(_value(tally.worst.get(name)) for name in names),
    )


def _count(tally: SweepTally, verdict: Verdict) -> Text:
    count = tally.counts[verdict]
    return Text(f"{count:,}", STYLES[verdict] if count else "")


def _value(worst: Worst | None) -> str:
    return "" if worst is None else f"{worst.value:g} (seed {worst.seed})"


def _worst_row(made: SparkSweep) -> tuple[Cell, RunResult] | None:
    """The worst row of all cells, with its cell; of equal ones the first."""
    worst: tuple[Cell, RunResult] | None = None
    known: Badness | None = None
    for cell in made.grid.cells:
        tally = made.tallies[cell.made_from]
        row, found = tally.worst_row, tally.worst_badness
        if row is not None and found is not None and (known is None or found > known):
            worst, known = (cell, row), found
    return worst


def _worst(made: SparkSweep) -> list[WorstCell]:
    """The worst value of each expectation, over all cells."""
    found: dict[str, tuple[Cell, Worst]] = {}
    for cell in made.grid.cells:
        for name, worst in made.tallies[cell.made_from].worst.items():
            before = found.get(name)
            if before is None or worst.is_worse_than(before[1]):
                found[name] = cell, worst
    return [
        WorstCell(
            f"{name} {worst.expectation.operator} {worst.expectation.bound:g}",
            worst.value,
            worst.seed,
            cell.varied,
        )
        for name, (cell, worst) in found.items()
    ]


def _replay(made: SparkSweep, cell: Cell, seed: int, journal: str) -> str:
    if journal:
        return shlex.join(["rmqemu", "replay", journal])
    if made.grid.kind == "weather":
        return ""  # its plan depends on the seeds before it: see the docs
    verb = "run" if made.grid.kind == "question" else "replay"
    words = ["rmqemu", verb, made.grid.asked.scenario, "--seed", str(seed)]
    for name, value in cell.given.items():
        words += ["--set", f"{name}={_shown(value)}"]
    return shlex.join([*words, *(["--release", cell.release] if cell.release else [])])


def _named(varied: Mapping[str, bool | int | float | str], seed: int) -> str:
    return ", ".join([*(f"{name}={_shown(v)}" for name, v in varied.items()), f"seed {seed}"])


def _shown(value: bool | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad_count(tally: SweepTally) -> int:
    return tally.counts["failed"] + tally.counts["error"]

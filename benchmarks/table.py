"""The figures as tables: in the terminal, and in BENCHMARKS.md."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
from rich.table import Table

from benchmarks.goals import ALONE, BESIDE_REAL, REPLICATED, SCRIPTED, SLAVES_VIRTUAL, Goal
from benchmarks.side_by_side import Figures

BEGIN, END = "<!-- results: written by make bench -->", "<!-- end of results -->"
REPLICAS_BEGIN = "<!-- replicas: written by make bench -->"
REPLICAS_END = "<!-- end of replicas -->"
SCRIPTED_BEGIN = "<!-- scenarios: written by python -m benchmarks.run --only scenarios -->"
SCRIPTED_END = "<!-- end of scenarios -->"
VERDICT = {True: "yes", False: "NO", None: ""}
REPLICAS_HEADINGS = ("masters with slaves", "real", "ours", "ratio", "must", "reached")
BESIDE_HEADINGS = ("side by side", "real 4.9.7", "ours", "ratio", "must", "reached")
ALONE_HEADINGS = ("ours alone", "ours", "must", "reached")
SCRIPTED_HEADINGS = ("scenarios", "before", "now", "must", "reached")

Row = tuple[str, ...]


def beside_rows(real: Figures, ours: Figures, goals: Sequence[Goal] = BESIDE_REAL) -> list[Row]:
    """One row for each measured goal, as texts."""
    return [_beside(goal, real[goal.key], ours[goal.key]) for goal in goals if goal.key in ours]


def replica_rows(real: Figures, ours: Figures, virtual: float) -> list[Row]:
    """The rows beside the real one, and one of the emulator alone."""
    verdict = VERDICT[SLAVES_VIRTUAL.is_reached(virtual)]
    alone = (SLAVES_VIRTUAL.title, "", "", f"{virtual:.3g}", SLAVES_VIRTUAL.text, verdict)
    return [*beside_rows(real, ours, REPLICATED), alone]


def alone_rows(ours: Figures) -> list[Row]:
    return [
        (
            goal.title,
            shown(ours[goal.key], goal.unit),
            goal.text,
            VERDICT[goal.is_reached(ours[goal.key])],
        )
        for goal in ALONE
        if goal.key in ours
    ]


def scripted_rows(ours: Figures) -> list[Row]:
    """One row for each measured goal, with its value before work on it began, if known."""
    return [
        (
            goal.title,
            "" if goal.before is None else shown(goal.before, goal.unit),
            shown(ours[goal.key], goal.unit),
            goal.text,
            VERDICT[goal.is_reached(ours[goal.key])],
        )
        for goal in SCRIPTED
        if goal.key in ours
    ]


def _beside(goal: Goal, real: float, ours: float) -> Row:
    ratio = ours / real
    sides = (shown(real, goal.unit), shown(ours, goal.unit))
    return (goal.title, *sides, f"{ratio:.3g}", goal.text, VERDICT[goal.is_reached(ratio)])


def shown(value: float, unit: str) -> str:
    """*value* with its unit, rounded to three digits."""
    number = f"{float(f'{value:.3g}'):,.10g}"
    return f"{number}{unit}" if unit.startswith("/") else f"{number} {unit}".strip()


def terminal(headings: Row, rows: Sequence[Row]) -> Table:
    table = Table(*headings)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table


def markdown(headings: Row, rows: Sequence[Row]) -> str:
    rule = ("---", *["---:"] * (len(headings) - 1))
    lines = [headings, rule, *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def machine() -> str:
    """The machine and the versions of these figures, in one line."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"{_processor()}, {psutil.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB",
        f"load {psutil.getloadavg()[0]:.1f} before",
        f"Python {platform.python_version()}",
        f"trio {version('trio')}, msgspec {version('msgspec')}",
        java.stderr.splitlines()[0],
        f"{sys.platform} {platform.release()}",
    ]
    return "; ".join(parts)


def write_between(path: Path, begin: str, end: str, text: str) -> None:
    """Replace the text between two marks of *path*.  Raises ``ValueError`` without them."""
    whole = path.read_text(encoding="utf-8")
    before, first, rest = whole.partition(begin)
    _, second, after = rest.partition(end)
    if not first or not second:
        raise ValueError(f"{path.name} lacks {begin} … {end}")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def _processor() -> str:
    names = Path("/proc/cpuinfo")
    if names.exists():
        for line in names.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()

"""The lengths of files and functions: a report, which fails nothing.

    python -m tools.lengths [COUNT]      the COUNT longest of each (10)

The limits are in ``tests/test_style.py``; hardly any file comes near them.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
FOLDERS = ("protocol", "emulator", "scenarios", "pipeline", "pyspark_rocketmq")
SHORT_LINES = 60  # the table counts shorter files


class Length(NamedTuple):
    """The length of one file or function, in lines."""

    lines: int
    place: str


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    files, functions = sorted(_files(), reverse=True), sorted(_functions(), reverse=True)
    console = Console()
    table = Table("what", "number", "median", "p90", "longest", f"under {SHORT_LINES} lines")
    for what, found in (("files", files), ("functions", functions)):
        lines = [length.lines for length in found]
        p90 = statistics.quantiles(lines, n=10)[-1]
        short = sum(1 for each in lines if each < SHORT_LINES) if what == "files" else ""
        median = statistics.median(lines)
        table.add_row(what, *(f"{n:g}" for n in (len(lines), median, p90, lines[0])), str(short))
    console.print(table)
    for found in (files, functions):
        for length in found[:count]:
            console.print(f"{length.lines:5} {length.place}", highlight=False)


def paths() -> Iterator[Path]:
    """Every source file of the packages except ``__init__.py``."""
    for folder in FOLDERS:
        yield from (p for p in sorted((ROOT / folder).rglob("*.py")) if p.name != "__init__.py")


def _files() -> Iterator[Length]:
    for path in paths():
        yield Length(len(path.read_text().splitlines()), str(path.relative_to(ROOT)))


def _functions() -> Iterator[Length]:
    for path in paths():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield Length(lines, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")


if __name__ == "__main__":
    main()

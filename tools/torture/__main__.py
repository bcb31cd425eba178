"""Run the themes one after another, each in its own process, and print a table of their rows.

    python -m tools.torture [THEME …] [--json FILE] [--list]

Exit status 1 if a theme failed to run or missed an aim.  Only a run of all themes rewrites the
table in BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tools.torture
from benchmarks.clusters import ROOT
from benchmarks.table import VERDICT, machine, markdown, terminal, write_between
from tools.torture import Row

RESULTS = ROOT / "BENCHMARKS.md"
BEGIN, END = "<!-- limits: written by make torture -->", "<!-- end of limits -->"
HEADINGS = ("what is done", "must hold", "found", "reached")
THEME_S_MAX = 3_600  # 200 kills on a busy machine


def main() -> int:
    options = _options()
    if options.rows_of:  # the process of one theme
        print(json.dumps(rows_of(options.rows_of)), flush=True)
        return 0
    known = themes()
    if options.list:
        print("\n".join(f"{theme}: {_module(theme).NAME}" for theme in known))
        return 0
    wanted = options.themes or known
    found = dict(_run_all(wanted))
    rows = [row for theme in wanted for row in found[theme]]
    shown = [(r.what, r.aim, r.found, VERDICT[r.reached]) for r in rows]
    Console().print(terminal(HEADINGS, shown))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n")
    if wanted == known:
        write_between(RESULTS, BEGIN, END, f"{machine()}.\n\n{markdown(HEADINGS, shown)}")
    return int(any(row.reached is False for row in rows))


def themes() -> list[str]:
    """The names of the modules in this package that have a ``run``."""
    names = sorted(info.name for info in pkgutil.iter_modules(tools.torture.__path__))
    return [name for name in names if not name.startswith("_") and hasattr(_module(name), "run")]


def rows_of(theme: str) -> list[Row]:
    """Run one theme in this process."""
    return [Row(*row) for row in _module(theme).run()]


def _run_all(wanted: list[str]) -> list[tuple[str, list[Row]]]:
    found = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(wanted))
        for theme in wanted:
            progress.update(task, description=_module(theme).NAME)
            found.append((theme, _run_apart(theme)))
            progress.advance(task)
    return found


def _run_apart(theme: str) -> list[Row]:
    """The rows of a theme in its own process; one row with the failure if it fails or hangs."""
    command = [sys.executable, "-m", "tools.torture", "--rows-of", theme]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=THEME_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return [Row(_module(theme).NAME, f"ends in {THEME_S_MAX} s", "did not end", False)]
    if ended.returncode:
        return [Row(_module(theme).NAME, "runs", f"exit status {ended.returncode}", False)]
    return [Row(*row) for row in json.loads(ended.stdout.splitlines()[-1])]


def _module(theme: str) -> ModuleType:
    return importlib.import_module(f"tools.torture.{theme}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.torture",
        description="Run the themes one after another, each in its own process; print a table.",
    )
    parser.add_argument("themes", nargs="*", metavar="THEME", choices=[*themes(), []])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows")
    parser.add_argument("--list", action="store_true", help="only list the themes")
    parser.add_argument("--rows-of", metavar="THEME", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

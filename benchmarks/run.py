"""All figures in one run: real and ours side by side, in turns, then what ours does alone.

    python -m benchmarks.run [--quick] [--rounds N] [--json FILE] [--only beside|alone]

Prints the tables, and writes them into BENCHMARKS.md unless the run was quick or partial.
"""

from __future__ import annotations

import argparse
import compileall
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import alone, side_by_side, table
from benchmarks.clusters import ROOT
from benchmarks.load import classpath
from benchmarks.side_by_side import QUICK, SIDES, Figures, Plan, medians, one_round, turns

RESULTS = ROOT / "BENCHMARKS.md"

Step = Callable[[str], None]


def main() -> None:
    options = _options()
    for package in ("protocol", "emulator", "scenarios", "rocketmq_emulator"):
        compileall.compile_dir(ROOT / package, quiet=2)
    plan = QUICK if options.quick else Plan()
    if options.rounds:
        plan = msgspec.structs.replace(plan, rounds=options.rounds)
    machine = table.machine()
    figures = measured(plan, options.only)
    console = Console()
    console.print(machine, highlight=False)
    for headings, rows in tables(figures):
        console.print(table.terminal(headings, rows))
    if options.json:
        result = {"machine": machine, "plan": msgspec.to_builtins(plan), **figures}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if not options.quick and options.only is None:
        text = [f"{machine}; medians of {plan.rounds} rounds.\n"]
        text += [table.markdown(headings, rows) for headings, rows in tables(figures)]
        table.write_results(RESULTS, "\n".join(text))


def measured(plan: Plan, only: str | None) -> dict[str, Any]:
    """The medians of both sides, every round, and what was measured of ours alone."""
    found: dict[str, Any] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("fetching jars", total=_step_count(plan, only))

        def doing(title: str) -> None:
            progress.update(task, advance=1, description=title)

        if only != "alone":
            classpath()
            found["rounds"] = rounds = _beside(plan, doing)
            found |= {side: medians(rounds[side]) for side in SIDES}
        if only != "beside":
            found["alone"] = _alone(plan, doing)
    return found


def tables(figures: dict[str, Any]) -> list[tuple[table.Row, list[table.Row]]]:
    found: list[tuple[table.Row, list[table.Row]]] = []
    if "real" in figures:
        rows = table.beside_rows(figures["real"], figures["ours"])
        found.append((table.BESIDE_HEADINGS, rows))
    own = figures.get("ours", {}) | figures.get("alone", {})
    found.append((table.ALONE_HEADINGS, table.alone_rows(own)))
    return found


def _beside(plan: Plan, doing: Step) -> dict[str, list[Figures]]:
    rounds: dict[str, list[Figures]] = {side: [] for side in SIDES}
    for side in turns(plan):
        number = len(rounds[side]) + 1
        say = partial(_say, doing, f"{side}, round {number}")
        rounds[side].append(one_round(side, plan, say))
    return rounds


def _say(doing: Step, whose: str, title: str) -> None:
    doing(f"{whose}: {title}")


def _alone(plan: Plan, doing: Step) -> Figures:
    figures: Figures = {}
    for title, step in alone.steps(plan).items():
        figures |= step()
        doing(f"ours alone: {title}")
    return figures


def _step_count(plan: Plan, only: str | None) -> int:
    a_round = len(side_by_side.steps(plan)) + len(side_by_side.sync_steps(plan))
    beside = len(list(turns(plan))) * a_round if only != "alone" else 0
    return beside + (len(alone.steps(plan)) if only != "beside" else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round; writes no results")
    parser.add_argument("--rounds", type=int, help="how often each side has its turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures, round by round")
    parser.add_argument("--only", choices=["beside", "alone"], help="half of it")
    return parser.parse_args()


if __name__ == "__main__":
    main()

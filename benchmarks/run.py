"""All benchmarks in one run: a real RocketMQ and the emulator in turns, then the emulator alone.

    python -m benchmarks.run [--quick] [--rounds N] [--json FILE] [--only PART]

Parts are beside, alone, replicas, scenarios.

Prints the tables, and writes them into BENCHMARKS.md unless the run was quick or partial; the
tables of replicas and of scenarios are sections of their own, which ``--only`` writes too.
"""

from __future__ import annotations

import argparse
import compileall
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import alone, replicas, scripted, side_by_side, table
from benchmarks.clusters import ROOT
from benchmarks.load import classpath
from benchmarks.side_by_side import QUICK, SIDES, Figures, Plan, one_round, summarized, turns

RESULTS = ROOT / "BENCHMARKS.md"

Step = Callable[[str], None]
Round = Callable[[str, Plan, Step], Figures]


def main() -> None:
    options = _options()
    for package in ("emulator", "protocol", "scenarios", "pipeline"):
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
    if not options.quick:
        write(figures, machine, plan.rounds)


def write(figures: dict[str, Any], machine: str, rounds: int) -> None:
    """Write each section of BENCHMARKS.md whose parts were all measured."""
    if "real" in figures and "alone" in figures:
        text = [f"{machine}; medians of {rounds} rounds.\n"]
        text += [table.markdown(headings, rows) for headings, rows in tables(figures)[:2]]
        table.write_between(RESULTS, table.BEGIN, table.END, "\n".join(text))
    if "replicas" in figures:
        rows = table.replica_rows(*figures["replicas"])
        text = [f"{machine}; medians of {rounds} rounds.\n"]
        text += [table.markdown(table.REPLICAS_HEADINGS, rows)]
        table.write_between(RESULTS, table.REPLICAS_BEGIN, table.REPLICAS_END, "\n".join(text))
    if "scenarios" in figures:
        rows = table.scripted_rows(figures["scenarios"])
        text = [f"{machine}.\n", table.markdown(table.SCRIPTED_HEADINGS, rows)]
        table.write_between(RESULTS, table.SCRIPTED_BEGIN, table.SCRIPTED_END, "\n".join(text))


def measured(plan: Plan, only: str | None) -> dict[str, Any]:
    """The medians of both sides, every round, and the figures of the emulator alone."""
    found: dict[str, Any] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("fetching jars", total=_step_count(plan, only))

        def doing(title: str) -> None:
            progress.update(task, advance=1, description=title)

        if only in (None, "beside"):
            classpath()
            found["rounds"] = rounds = _of_rounds(plan, doing, one_round)
            found |= {side: summarized(rounds[side]) for side in SIDES}
        if only in (None, "alone"):
            found["alone"] = _of_steps(alone.steps(plan), "ours alone", doing)
        if only in (None, "replicas"):
            classpath()
            found["replica_rounds"] = rounds = _of_rounds(plan, doing, replicas.one_round)
            real, ours = (replicas.summarized(rounds[side]) for side in SIDES)
            found["replicas"] = real, ours, replicas.virtual_cost()
        if only in (None, "scenarios"):
            figures = _of_steps(scripted.steps(plan), "scenarios", doing)
            found["scenarios"] = figures | scripted.two_jobs_share(figures)
    return found


def tables(figures: dict[str, Any]) -> list[tuple[table.Row, list[table.Row]]]:
    found: list[tuple[table.Row, list[table.Row]]] = []
    if "real" in figures:
        rows = table.beside_rows(figures["real"], figures["ours"])
        found.append((table.BESIDE_HEADINGS, rows))
    if own := figures.get("ours", {}) | figures.get("alone", {}):
        found.append((table.ALONE_HEADINGS, table.alone_rows(own)))
    if "replicas" in figures:
        rows = table.replica_rows(*figures["replicas"])
        found.append((table.REPLICAS_HEADINGS, rows))
    if "scenarios" in figures:
        found.append((table.SCRIPTED_HEADINGS, table.scripted_rows(figures["scenarios"])))
    return found


def _of_rounds(plan: Plan, doing: Step, one_round: Round) -> dict[str, list[Figures]]:
    rounds: dict[str, list[Figures]] = {side: [] for side in SIDES}
    for side in turns(plan):
        number = len(rounds[side]) + 1
        say = partial(_say, doing, f"{side}, round {number}")
        rounds[side].append(one_round(side, plan, say))
    return rounds


def _say(doing: Step, whose: str, title: str) -> None:
    doing(f"{whose}: {title}")


def _of_steps(steps: Mapping[str, Callable[[], Figures]], what: str, doing: Step) -> Figures:
    figures: Figures = {}
    for title, step in steps.items():
        figures |= step()
        doing(f"{what}: {title}")
    return figures


def _step_count(plan: Plan, only: str | None) -> int:
    counts = {
        "beside": len(list(turns(plan))) * side_by_side.round_step_count(plan),
        "alone": len(alone.steps(plan)),
        "replicas": len(list(turns(plan))) * replicas.step_count(plan),
        "scenarios": len(scripted.steps(plan)),
    }
    return sum(counts.values()) if only is None else counts[only]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round; writes no results")
    parser.add_argument("--rounds", type=int, help="rounds of each side")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all figures, of each round"
    )
    parser.add_argument(
        "--only", choices=["beside", "alone", "replicas", "scenarios"], help="only this part"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Run weather without a planted bug, and write the objections into docs/healthy.md.

    python -m tools.healthy [BATCH …] [--jobs N] [--seeds N] [--page] [--list]

Rows are kept like those of ``rmqemu run``: runs that finished with the same code are not repeated.
Exit status 1 if a recorded run did not pass.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunResult, code_version
from rocketmq_emulator.scenarios.sweeps.row_files import FinishedRuns, cache_folder
from rocketmq_emulator.scenarios.sweeps.sweep import WeatherSweep, cache_plan_of
from tools.healthy import page
from tools.healthy.batches import BATCHES, Batch
from tools.healthy.records import Record, Records, record_of


def main() -> int:
    options = _options()
    if options.list:
        print("\n".join(f"{batch.name}: seeds 1..{batch.seeds}" for batch in BATCHES.values()))
        return 0
    records = Records()
    if not options.page:
        wanted = [BATCHES[name] for name in options.batches or BATCHES]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
            for batch in wanted:
                seeds = min(options.seeds or batch.seeds, batch.seeds)
                rows = _rows(batch, seeds, options.jobs, progress)
                records.keep(batch.name, record_of(rows, code_version()))
    page.write(records.all)
    return int(any(map(_has_objections, records.all.values())))


def _rows(batch: Batch, seeds: int, jobs: int, progress: Progress) -> list[RunResult]:
    def plan_of(seed: int) -> Plan:
        return load("weather", {**batch.parameters, "seed": seed})

    base, folder = plan_of(1), cache_folder()
    sweep = WeatherSweep(
        plan_of,
        base,
        range(1, seeds + 1),
        journals=folder.parent / "journals",
        jobs=jobs,
        finished=FinishedRuns(cache_plan_of(base), folder),
        paths=(str(Path.cwd()),),
    )
    task = progress.add_task(batch.name, total=seeds)
    rows = []
    for row in sweep.rows():
        rows.append(row)
        progress.update(task, advance=1)
        if row.verdict != "passed":
            progress.console.print(f"{batch.name}, seed {row.seed}: {row.reason}")
    return rows


def _has_objections(record: Record) -> bool:
    return bool(record.objections or record.unmet or record.errors)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.healthy", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("batches", nargs="*", metavar="BATCH", choices=[*BATCHES, []])
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at once (2)")
    parser.add_argument("--seeds", type=int, metavar="N", help="at most N seeds of each batch")
    parser.add_argument("--page", action="store_true", help="write the page again, run nothing")
    parser.add_argument("--list", action="store_true", help="list the batches, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

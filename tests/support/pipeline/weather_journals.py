"""Journals of runs, and the differences between the metrics of checkers and of Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.checks.judging.table import METRICS as CHECKED
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.pipeline.tables.folder import TableFolder

SMALL = ("seconds=30", "rate=4", "brokers=2")  # as in `make weather`
SECONDS_OFF_MAX = 1e-3
QUANTILE_OFF_MAX = 0.016  # relative; the width of buckets in emulator/checks/rules/timing.py


def written(folder: Path, scenario: str, *words: str) -> Path:
    """*folder*, with the journals of these runs, passed or failed."""
    command = [
        sys.executable,
        "-m",
        "rocketmq_emulator.cli",
        "run",
        scenario,
        *words,
        "--no-cache",
    ]
    ended = subprocess.run(
        [*command, "--journal", folder], capture_output=True, text=True, check=False
    )
    assert ended.returncode in (0, 1), ended.stderr
    return folder


def weather(folder: Path, seeds: str, release: str) -> Path:
    shape = [word for pair in SMALL for word in ("--set", pair)]
    return written(folder / release, "weather", "--seeds", seeds, "--release", release, *shape)


def has_fact(folder: Path, kind: type[Fact]) -> bool:
    """Whether a journal in *folder* has a fact of that kind."""
    return any(kind.__name__ in file.read_text() for file in folder.rglob("*.jsonl"))


def disagreements(folder: TableFolder) -> tuple[list[str], set[str]]:
    """A line for each difference, and the names of the compared metrics."""
    found: dict[str, dict[str, float]] = {}
    for row in folder.table("metrics").collect():
        name = f"{row.metric}.{row.of}" if row.of else row.metric
        found.setdefault(row.run, {})[name] = row.value
    ours = {name.partition(".")[0] for numbers in found.values() for name in numbers}
    columns = ("run", "group", "repeats", "startup_repeats")
    rows = folder.table("delivery").select(*columns).collect()
    repeats = {(row.run, row.group): row.repeats for row in rows}
    early = {(row.run, row.group): row.startup_repeats for row in rows}
    wrong: list[str] = []
    compared: set[str] = set()
    for run in folder.runs():
        numbers = found[run.run]
        judgement = judge(read_journals([Path(file) for file in run.files]))
        wanted = {n: v for n, v in judgement.metrics.items() if n.partition(".")[0] in ours}
        compared |= wanted.keys()
        for name, value in wanted.items():
            if not agrees(name, value, numbers.get(name, 0.0)):
                what = f"{run.scenario} {run.release}: {name}"
                wrong.append(f"{what} is {value}, Spark says {numbers.get(name, 0.0)}")
        for group in {group for of, group in repeats if of == run.run}:
            checked, seen = same_records(judgement.metrics, group), repeats[run.run, group]
            if checked != seen:
                what = f"{run.scenario} {run.release}: records consumed again by {group}"
                wrong.append(f"{what}: {checked:g}, Spark says {seen}")
            duplicates = judgement.metrics.get(f"duplicates.{group}", 0.0)
            checked = judgement.metrics.get(f"startup_duplicates.{group}", 0.0)
            seen = early[run.run, group]
            if duplicates == repeats[run.run, group] and checked != seen:
                what = f"{run.scenario} {run.release}: records consumed again in its start-up by"
                wrong.append(f"{what} {group}: {checked:g}, Spark says {seen}")
        if not judgement.not_judged:
            more = [name for name in numbers.keys() - wanted.keys() if numbers[name]]
            wrong += [f"{run.scenario} {run.release}: only Spark has {name}" for name in more]
    return wrong, {name.partition(".")[0] for name in compared}


def same_records(metrics: Mapping[str, float], group: str) -> float:
    """Duplicates of *group* that were one record consumed twice, not two records of a message."""
    two_records = ("duplicates_sent_twice", "duplicates_sent_back_twice")
    found = metrics.get(f"duplicates.{group}", 0.0)
    return found - sum(metrics.get(f"{name}.{group}", 0.0) for name in two_records)


def agrees(name: str, checkers: float, spark: float) -> bool:
    """Compare counts exactly, times to a millisecond, quantiles to a bucket of the checkers."""
    metric = name.partition(".")[0]
    unit = CHECKED[metric].unit
    if metric.endswith(("_p50", "_p99")):
        return abs(checkers - spark) <= QUANTILE_OFF_MAX * abs(spark)
    return abs(checkers - spark) <= (SECONDS_OFF_MAX if unit in ("s", "ms") else 0)


def folder_of(path: Path, spark: object, journals: Sequence[Path]) -> TableFolder:
    folder = TableFolder(path, spark)  # type: ignore[arg-type]
    folder.add(journals)
    return folder

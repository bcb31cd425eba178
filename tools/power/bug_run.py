"""Run weather or the library in a copy of the tree that has one planted bug.

    python -m tools.power.bug_run weather 4.9.7 small 1 200 [--shrink]
    python -m tools.power.bug_run library

Start it in the copy; it prints one line of JSON.  ``weather`` stops at the first seed to which a
rule objects; with ``--shrink`` the answer has the results of shrinking and explaining this run.
Earlier seeds at which only an expectation is not met are in the answer too.  ``library`` lists the
rules that object to each scenario.  In a tree without a bug, both find what proves nothing about
a bug.

A run that ends with an exception is no run with that bug: the planted text does not fit the code
around it any more.  The search ends there, and the answer has the ``error``.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import read_journals
from rocketmq_emulator.facts import RunEnded
from rocketmq_emulator.scenarios.after.explaining import explained
from rocketmq_emulator.scenarios.after.shrinking import Shrinking, ShrinkRuns
from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, weather_of
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool
from rocketmq_emulator.scenarios.weather.shape import SMALL

RUN_S_MAX = 120.0  # real time: with a bug a run may never end
SHRINKS_MAX = 60  # runs
LIBRARY_SEED = 1
SHAPES: dict[str, dict[str, Any]] = {
    "small": {
        name: getattr(SMALL, name) for name in ("seconds", "rate", "brokers", "members_max")
    },
    "default": {},
}


def main() -> None:
    what, *arguments = sys.argv[1:]
    with RunPool(run_s_max=RUN_S_MAX) as fleet:
        answer = _library(fleet) if what == "library" else _weather(fleet, *arguments)
    print(json.dumps(answer))


def _library(fleet: RunPool) -> dict[str, list[str]]:
    """The rules that object to each scenario, run unchanged at its own release."""
    found = {}
    for listed in in_folder(LIBRARY):
        row = _run(fleet, RunOrder(plan=listed.plan({}), seed=LIBRARY_SEED))
        found[listed.name] = sorted({each.checker for each in row.violations})
    return found


def _weather(
    fleet: RunPool, release: str, shape: str, first: str, last: str, *options: str
) -> dict[str, Any]:
    answer: dict[str, Any] = {"seed": None, "unmet": {}}
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        for plan, row in _search(fleet, release, shape, range(int(first), int(last) + 1), journal):
            if error := _crash_of(row):
                return answer | {"error": f"seed {row.seed}: {error}"}
            if row.violations:
                answer |= {
                    "seed": row.seed,
                    "rules": sorted({each.checker for each in row.violations}),
                    "reason": row.reason,
                }
                return answer | (_shrunk(fleet, plan, row, journal) if options else {})
            answer["unmet"][str(row.seed)] = [each.expected for each in row.unmet]
    return answer


def _search(
    fleet: RunPool, release: str, shape: str, seeds: range, journal: Path
) -> Iterator[tuple[Plan, RunResult]]:
    """Yield the runs with a violation, an unmet expectation, or an exception."""
    for seed in seeds:
        plan = weather_of({**SHAPES[shape], "release": release, "seed": seed})
        row = _run(fleet, RunOrder(plan=plan, seed=seed, journal=str(journal)))
        if row.violations or row.unmet or _crash_of(row):
            yield plan, row


def _crash_of(row: RunResult) -> str:
    """The exception that ended the run; empty: it finished, or reached a limit."""
    if row.verdict != "error" or not row.journal:
        return ""
    *_, last = read_journals([Path(row.journal)])
    ended = last.fact
    return ended.detail if isinstance(ended, RunEnded) and ended.reason == "error" else ""


def _run(fleet: RunPool, order: RunOrder) -> RunResult:
    (row,) = fleet.rows([order], jobs=1)
    return row


def _shrunk(fleet: RunPool, plan: Plan, row: RunResult, journal: Path) -> dict[str, Any]:
    """The number of steps left, and the result of ``explain`` for the smallest run."""
    shrinking = Shrinking(plan, row, ShrinkRuns(fleet, row.seed, jobs=1).run)
    attempts: Iterator[object] = itertools.islice(shrinking.attempts(), SHRINKS_MAX)
    runs = sum(1 for _ in attempts)
    _run(fleet, RunOrder(plan=shrinking.smallest, seed=row.seed, journal=str(journal)))
    return {
        "steps": len(shrinking.smallest.timeline),
        "shrink_runs": runs,
        "explained": _explained(journal),
    }


def _explained(journal: Path) -> dict[str, Any] | None:
    entries = list(read_journals([journal]))
    judgement = judge(entries)
    why = explained(entries, judgement)
    if why is None:
        return None
    first = why.violation
    return {
        "rule": first.checker,
        "what": first.what,
        "node": first.node,
        "others": sorted({each.checker for each in judgement.violations} - {first.checker}),
    }


if __name__ == "__main__":
    main()

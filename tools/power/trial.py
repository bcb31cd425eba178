"""One bug against weather, in a copy of the tree that has it: until a checker objects.

    python -m tools.power.trial 4.9.7 small 1 200 [--shrink] [--without 7,93]

Run in the copy; prints one line of JSON: the first seed that is found, by which rules, and what
shrinking and explaining make of it.  Seeds with which something objects to the code without a bug
as well show nothing: ``--all`` lists them in a tree without one, ``--without`` leaves them out.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator.checks.judging import judge
from emulator.checks.reading import read_journals
from scenarios.finding import weather_of
from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.explaining import explained
from scenarios.running.fleet import Fleet
from scenarios.running.orders import RunOrder
from scenarios.running.shrinking import Shrinking
from scenarios.running.trials import Trials
from scenarios.weather.shape import SMALL

RUN_S_MAX = 120.0  # of real time: a bug may keep a run busy for ever
SHRINKS_MAX = 60  # runs
SHAPES: dict[str, dict[str, Any]] = {
    "small": {
        name: getattr(SMALL, name) for name in ("seconds", "rate", "brokers", "members_max")
    },
    "default": {},
}


def main() -> None:
    release, shape, first, last, *options = sys.argv[1:]
    left_out = options[options.index("--without") + 1] if "--without" in options else ""
    seeds = [n for n in range(int(first), int(last) + 1) if str(n) not in left_out.split(",")]
    with Fleet(run_s_max=RUN_S_MAX) as fleet, tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        search = _search(fleet, release, shape, seeds, journal)
        if "--all" in options:
            print(json.dumps([row.seed for _, row in search]))
            return
        found = next(search, None)
        if found is None:
            print(json.dumps({"seed": None}))
            return
        plan, row = found
        answer: dict[str, Any] = {
            "seed": row.seed,
            "rules": sorted({each.checker for each in row.violations}),
            "unmet": [each.expected for each in row.unmet],
            "reason": row.reason,
        }
        if "--shrink" in options:
            answer |= _shrunk(fleet, plan, row, journal)
        print(json.dumps(answer))


def _search(
    fleet: Fleet, release: str, shape: str, seeds: list[int], journal: Path
) -> Iterator[tuple[Plan, RunResult]]:
    for seed in seeds:
        plan = weather_of({**SHAPES[shape], "release": release, "seed": seed})
        row = _run(fleet, plan, seed, journal)
        if row.violations or row.unmet:
            yield plan, row


def _run(fleet: Fleet, plan: Plan, seed: int, journal: Path) -> RunResult:
    (row,) = fleet.rows([RunOrder(plan=plan, seed=seed, journal=str(journal))], jobs=1)
    return row


def _shrunk(fleet: Fleet, plan: Plan, row: RunResult, journal: Path) -> dict[str, Any]:
    """Steps that are left, and what ``explain`` says of the smallest run."""
    shrinking = Shrinking(plan, row, Trials(fleet, row.seed, jobs=1).run)
    trials: Iterator[object] = itertools.islice(shrinking.trials(), SHRINKS_MAX)
    runs = sum(1 for _ in trials)
    _run(fleet, shrinking.smallest, row.seed, journal)
    entries = list(read_journals([journal]))
    why = explained(entries, judge(entries))
    return {
        "steps": len(shrinking.smallest.timeline),
        "shrink_runs": runs,
        "explained": None
        if why is None
        else {
            "rule": why.violation.checker,
            "what": why.violation.what,
            "node": why.violation.node,
        },
    }


if __name__ == "__main__":
    main()

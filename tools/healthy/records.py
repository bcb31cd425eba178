"""The record of each batch: its runs, the objections, and damage that breaks no rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocketmq_emulator.scenarios.plan.result import RunResult

FOUND = Path(__file__).with_name("found.json")
# Metrics of checkers that count damage which breaks no rule: a real RocketMQ causes it too.
LET_OFF = (
    *("excused_", "duplicates_", "hidden", "unrouted", "lost_with_power", "stored_twice"),
    *("forgotten_locks", "late_unlocks"),
)


class Record(msgspec.Struct, frozen=True):
    """The results of one batch, summed over its runs."""

    code_version: str
    runs: int
    facts: int
    errors: dict[str, list[int]]  # reason: seeds
    objections: dict[str, list[int]]  # checker: seeds
    unmet: dict[str, list[int]]  # expectation: seeds
    tried: dict[str, int]  # checker: how often it could object, in all runs
    let_off: dict[str, int]  # metric: its sum over all runs


def record_of(rows: Iterable[RunResult], version: str) -> Record:
    """The record of *rows*, in any order."""
    rows = sorted(rows, key=lambda row: row.seed)
    errors: dict[str, list[int]] = {}
    objections: dict[str, list[int]] = {}
    unmet: dict[str, list[int]] = {}
    tried: Counter[str] = Counter()
    let_off: Counter[str] = Counter()
    for row in rows:
        if row.verdict == "error":
            errors.setdefault(row.reason, []).append(row.seed)
        for checker in sorted({each.checker for each in row.violations}):
            objections.setdefault(checker, []).append(row.seed)
        for expected in sorted({each.expected for each in row.unmet}):
            unmet.setdefault(expected, []).append(row.seed)
        tried.update(row.tried)
        for name, value in row.metrics.items():
            if name.startswith(LET_OFF) and "." not in name and not name.endswith("_s"):
                let_off[name] += int(value)
    return Record(
        code_version=version,
        runs=len(rows),
        facts=sum(row.fact_count for row in rows),
        errors=errors,
        objections=objections,
        unmet=unmet,
        tried=dict(sorted(tried.items())),
        let_off={name: count for name, count in sorted(let_off.items()) if count},
    )


class Records:
    """The records of all batches, in a file that is written after each batch."""

    def __init__(self, path: Path = FOUND) -> None:
        self._path = path
        self.all: dict[str, Record] = {}
        if path.is_file():
            self.all = msgspec.json.decode(path.read_bytes(), type=dict[str, Record])

    def keep(self, name: str, record: Record) -> None:
        """Replace the record of batch *name* and write the file."""
        self.all[name] = record
        text = msgspec.json.format(msgspec.json.encode(self.all, order="sorted"), indent=1)
        self._path.write_bytes(text + b"\n")

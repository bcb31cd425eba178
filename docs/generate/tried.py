"""The table of docs/checkers.md of how often each rule was tried, from rows of weather.

    rmqemu run weather --seeds 1..100 --release 4.9.7 --json (and the shape SMALL) > small-4.json
    rmqemu run weather --seeds 1..20 --release 4.9.7 --json > default-4.json
    …                                                            and the same of 5.3.3
    python -m docs.generate.tried *-[45].json     counts them, and writes the table
    python -m docs.generate.tried                 the table, from the last counts

These are the runs of tests/scenarios/weather/test_weather_finds_bugs.py, which checks the counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.judging.table import CHECKERS
from rocketmq_emulator.scenarios.plan.result import RunResult

PAGE = DOCS / "checkers.md"
DATA = DOCS / "rules-tried.json"


class Tried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For each rule: the number of *runs* that tried it, and how often all runs tried it."""

    runs: int
    rules: Mapping[str, tuple[int, int]]


def tried_in(rows: Iterable[RunResult]) -> Tried:
    """The counts of all runs of *rows*."""
    counted = [row.tried for row in rows]
    rules = {
        name: (
            sum(tried.get(name, 0) > 0 for tried in counted),
            sum(tried.get(name, 0) for tried in counted),
        )
        for name in CHECKERS
    }
    return Tried(runs=len(counted), rules=rules)


def tried_text(tried: Tried) -> str:
    """The Markdown table; rules that are tried least come first."""
    ordered = sorted(tried.rules.items(), key=lambda rule: rule[1])
    lines = [f"| rule | of {tried.runs} runs, those that tried it | times |", "|---|---:|---:|"]
    lines += [f"| `{name}` | {runs:,} | {times:,} |" for name, (runs, times) in ordered]
    return "\n".join(lines)


def read_tried(path: Path = DATA) -> Tried:
    """The last counts.  Raises ``msgspec.ValidationError``."""
    return msgspec.json.decode(path.read_bytes(), type=Tried)


def main(files: Sequence[str], page: Path = PAGE, data: Path = DATA) -> None:
    """Count the rows of *files* if there are any, then write the table."""
    if files:
        read = [
            msgspec.json.decode(Path(file).read_bytes(), type=list[RunResult]) for file in files
        ]
        tried = tried_in(row for rows in read for row in rows)
        data.write_bytes(msgspec.json.format(msgspec.json.encode(tried), indent=1) + b"\n")
    write_section(page, "tried", tried_text(read_tried(data)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The table of docs/scenarios.md of faults by state of the cluster, from rows of weather runs.

    rmqemu run weather --seeds 1..1500 --release 4.9.7 --json > rows-4.json
    rmqemu run weather --seeds 1..1500 --release 5.3.3 --json > rows-5.json
    python -m docs.generate.coverage rows-4.json rows-5.json    counts them, and writes the table
    python -m docs.generate.coverage                            the table, from the last counts

The counts are stored beside the page, so that the table can be rewritten without the long runs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.scenarios.plan.result import RunResult
from rocketmq_emulator.scenarios.weather.coverage import COVERED, STATES, Coverage

PAGE = DOCS / "scenarios.md"
DATA = DOCS / "weather-coverage.json"


class Met(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many runs of each release there were, and how often each fault began in each state."""

    runs: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]

    def coverage(self) -> Coverage:
        """These counts as a ``Coverage``."""
        return Coverage(
            {(word, s): n for word, row in self.counts.items() for s, n in row.items()}
        )


def met_by(rows: Iterable[RunResult]) -> Met:
    """The counts of all runs of *rows*.  Raises ``ValueError`` for another scenario."""
    coverage, runs = Coverage(), Counter[str]()
    for row in rows:
        if not re.fullmatch(r"weather_\d+", row.scenario):
            raise ValueError(f"a row of {row.scenario}: only rows of weather have these counts")
        coverage.add_metrics(row.metrics)
        runs[row.release] += 1
    counts = {word: {state: coverage.met(word, state) for state in STATES} for word in COVERED}
    return Met(runs=dict(sorted(runs.items())), counts=counts)


def coverage_text(met: Met) -> str:
    """The number of pairs that occurred, the number of runs, and the table."""
    coverage = met.coverage()
    head, *rows = coverage.table()
    pairs = len(rows) * len(STATES)
    found = pairs - len(coverage.missing())
    runs = " and ".join(f"{count:,} runs of {release}" for release, count in met.runs.items())
    return "\n".join(
        [
            f"In {runs}, {found} of the {pairs} pairs of a fault and a state occurred.",
            "",
            f"| {' | '.join(head)} |",
            f"| --- |{' ---: |' * len(STATES)}",
            *(f"| `{word}` | {' | '.join(numbers)} |" for word, *numbers in rows),
        ]
    )


def read_met(path: Path = DATA) -> Met:
    """The last counts.  Raises ``msgspec.ValidationError``."""
    return msgspec.json.decode(path.read_bytes(), type=Met)


def main(files: Sequence[str], page: Path = PAGE, data: Path = DATA) -> None:
    """Count the rows of *files* if there are any, then write the table."""
    if files:
        read = (
            msgspec.json.decode(Path(file).read_bytes(), type=list[RunResult]) for file in files
        )
        met = met_by(row for rows in read for row in rows)
        data.write_bytes(msgspec.json.format(msgspec.json.encode(met), indent=1) + b"\n")
    write_section(page, "coverage", coverage_text(read_met(data)))


if __name__ == "__main__":
    main(sys.argv[1:])

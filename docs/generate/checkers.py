"""The tables of docs/checkers.md: every checker, its rule, what it reads, and its metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from docs.generate.sections import DOCS, write_section
from emulator.checks.checker import Checker, Shared
from emulator.checks.progress import Progress
from emulator.checks.scene import Scene
from emulator.checks.stored_messages import StoredMessages
from emulator.checks.table import CHECKERS, MEASURES
from emulator.docstrings import docstring_of

MEASURES_TEXT = "These count and never object; an expectation gives them a bound."
PAGE = DOCS / "checkers.md"


def checkers_text() -> str:
    """A section for each checker and each measure, in the order of the table."""
    sections = [line for kind in CHECKERS.values() for line in _checker(kind)]
    measures = [line for kind in MEASURES.values() for line in _checker(kind)]
    return "\n".join([*sections, "## Measures", "", MEASURES_TEXT, "", *measures])


def _checker(kind: type[Checker]) -> Iterator[str]:
    scene = Scene()
    table = kind(Shared(scene, Progress(scene, StoredMessages(scene)))).table()
    yield f"### {kind.name}"
    yield ""
    yield f"{'Counts how far' if kind.is_measure else 'Rule:'} {kind.rule}."
    yield ""
    yield docstring_of(sys.modules[kind.__module__]).replace("``", "`")
    yield ""
    reads = ", ".join(sorted(f"`{fact.__name__}`" for fact in table))
    yield f"Reads {reads}, and what all checkers share."
    yield ""
    if not kind.metrics:
        return
    yield "| metric | of a | unit | |"
    yield "|---|---|---|---|"
    for metric in kind.metrics:
        total = "" if metric.total == "sum" else "; the run's is the largest"
        of = metric.of or "run"
        yield f"| `{metric.name}` | {of} | {metric.unit} | {metric.sentence}{total} |"
    yield ""


if __name__ == "__main__":
    write_section(PAGE, "checkers", checkers_text())

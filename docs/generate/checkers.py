"""The tables of docs/checkers.md: every checker, its rule, what it reads, and its metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.judging.table import CHECKERS, MEASURES
from rocketmq_emulator.checks.state.checker import Checker, CheckerContext
from rocketmq_emulator.checks.state.cluster_state import ClusterState
from rocketmq_emulator.checks.state.progress import Progress
from rocketmq_emulator.checks.state.start_ups import StartUps
from rocketmq_emulator.checks.state.stored_messages import StoredMessages
from rocketmq_emulator.text.docstrings import docstring_of

MEASURES_TEXT = "These count and never object; an expectation can limit their metrics."
PAGE = DOCS / "checkers.md"


def checkers_text() -> str:
    """A section for each checker and each measure, in the order of the table."""
    sections = [line for kind in CHECKERS.values() for line in _checker(kind)]
    measures = [line for kind in MEASURES.values() for line in _checker(kind)]
    return "\n".join([*sections, "## Measures", "", MEASURES_TEXT, "", *measures])


def _checker(kind: type[Checker]) -> Iterator[str]:
    cluster = ClusterState()
    progress = Progress(cluster, StoredMessages(cluster))
    table = kind(CheckerContext(cluster, progress, StartUps(cluster))).table()
    yield f"### {kind.name}"
    yield ""
    yield f"{'Counts how far' if kind.is_measure else 'Rule:'} {kind.rule}."
    yield ""
    yield _docstring(kind).replace("``", "`")
    yield ""
    reads = ", ".join(sorted(f"`{fact.__name__}`" for fact in table))
    yield f"Reads {reads}, and the state that all checkers share."
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


def _docstring(kind: type[Checker]) -> str:
    """The docstring of the class if its file has several checkers, else of the file."""
    known = [other.__module__ for other in (*CHECKERS.values(), *MEASURES.values())]
    is_alone = known.count(kind.__module__) == 1
    return docstring_of(sys.modules[kind.__module__] if is_alone else kind)


if __name__ == "__main__":
    write_section(PAGE, "checkers", checkers_text())

"""``rmqemu diff``: compares two journals.

Two runs of different seeds or plans differ in nearly every fact: they are compared by verdicts,
metrics, events and owners of queues.  Journals that should be the same are compared fact by fact.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import typer

from rocketmq_emulator.checks.judging.reading import BadJournal, read_journals
from rocketmq_emulator.cli.options.errors import (
    FAILED,
    BadUse,
    errors_as_exit_codes,
    folded_line,
)
from rocketmq_emulator.cli.options.shared import make_console
from rocketmq_emulator.cli.screens.columns import clean
from rocketmq_emulator.facts import RunStarted
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.comparing import (
    ComparedRun,
    compared_run,
    differences_of_starts,
    first_event,
    metric_pairs,
    owner_pairs,
)
from rocketmq_emulator.scenarios.descriptions.sentences import in_words

COMMON_SHOWN = 3
METRICS_MAX = 16
OWNERS_MAX = 6  # queues
WIDTH_MAX = 160
NamedEntries: TypeAlias = tuple[str, list[Entry]]  # with the name of their journal


def diff(
    one: Annotated[str, typer.Argument(metavar="JOURNAL", help="A journal, or a folder of them.")],
    other: Annotated[str, typer.Argument(metavar="JOURNAL", help="The other one.")],
) -> None:
    """Compare two journals.  Exit code 1: they differ.

    Of two runs: plans, verdicts, metrics, the first event that differs, and the owners of queues.
    Of journals without runs, or of one plan and seed: the first fact that differs.
    """
    with errors_as_exit_codes():
        left, right = (one, _read(one)), (other, _read(other))
        if left[1] == right[1]:
            _print([f"the same {len(left[1]):,} facts"])
            return
        if _are_of_two_runs(left[1], right[1]):
            _print(_comparison(left, right))
        else:
            _print(_first_difference(left, right))
    raise typer.Exit(FAILED)


def _read(journal: str) -> list[Entry]:
    try:
        return [*read_journals([Path(journal)])]
    except BadJournal as error:
        raise BadUse(str(error)) from None


def _are_of_two_runs(one: list[Entry], other: list[Entry]) -> bool:
    starts = [entries[0].fact for entries in (one, other) if entries]
    return (
        len(starts) == 2
        and all(isinstance(start, RunStarted) for start in starts)
        and starts[0] != starts[1]
    )


def _print(lines: list[str]) -> None:
    """Print *lines*; a terminal that is narrower gets them folded below their beginning."""
    console = make_console()
    for line in lines:
        for part in folded_line(clean(line), console.width):
            console.print(part, markup=False, highlight=False, no_wrap=True)


# The first fact that differs ----------------------------------------------------------


def _first_difference(one: NamedEntries, other: NamedEntries) -> list[str]:
    pairs = zip_longest(one[1], other[1])
    count, (left, right) = next(each for each in enumerate(pairs) if each[1][0] != each[1][1])
    lines = [f"the first {count:,} facts are the same; the last of them:"]
    lines += [f"    {_line(entry)}" for entry in one[1][max(0, count - COMMON_SHOWN) : count]]
    lines.append(f"fact {count + 1:,}:")
    for name, entry in ((one[0], left), (other[0], right)):
        lines += [f"  {name}", f"    {_line(entry) if entry else '(the journal has ended)'}"]
    return [*lines, *_fields_that_differ(left, right)]


def _line(entry: Entry) -> str:
    return f"{entry.mono_us / 1_000_000:.6f} s  {entry.node}  {in_words(entry)}"


def _fields_that_differ(left: Entry | None, right: Entry | None) -> list[str]:
    if left is None or right is None or type(left.fact) is not type(right.fact):
        return []
    one, other = msgspec.to_builtins(left), msgspec.to_builtins(right)
    names = [name for name in ("node", "seq", "mono_us", "at_ms") if one[name] != other[name]]
    names += [name for name in one["fact"] if one["fact"][name] != other["fact"].get(name)]
    return [f"they differ in {', '.join(names)}"]


# Two runs beside each other -----------------------------------------------------------


def _comparison(one: NamedEntries, other: NamedEntries) -> list[str]:
    try:
        left, right = compared_run(one[1], one[0]), compared_run(other[1], other[0])
    except BadJournal as error:
        raise BadUse(str(error)) from None
    names = differences_of_starts(left, right)
    plan = "other plans" if any(name.startswith("plan.") for name in names) else "the same plan"
    return [
        _run_line("one:  ", left, one[0]),
        _run_line("other:", right, other[0]),
        f"{plan}; the runs differ in {', '.join(names)}",
        *_metric_lines(left, right),
        *_event_lines(left, right),
        *_owner_lines(left, right),
    ]


def _run_line(name: str, run: ComparedRun, journal: str) -> str:
    row = run.row
    why = f" ({row.reason})" if row.reason else ""
    verdict = f"{row.verdict}{why}, {row.fact_count:,} facts"
    return _cut(f"{name} {row.scenario}, seed {row.seed}, {verdict}: {journal}")


def _metric_lines(one: ComparedRun, other: ComparedRun) -> list[str]:
    pairs = metric_pairs(one, other)
    if not pairs:
        return ["every metric is the same"]
    shown = pairs[:METRICS_MAX]
    width = max(len(pair.name) for pair in shown)
    lines = [f"{'metric':<{width}}  {'one':>12}  {'other':>12}"]
    for pair in shown:
        values = f"{_value(pair.one):>12}  {_value(pair.other):>12}"
        lines.append(f"{pair.name:<{width}}  {values}{'  expected' * pair.is_expected}")
    if more := len(pairs) - len(shown):
        lines.append(f"and {more} more metrics differ")
    return lines


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _event_lines(one: ComparedRun, other: ComparedRun) -> list[str]:
    found = first_event(one, other)
    if found is None:
        return ["each node has the same starts, faults, claims, releases and failed sends"]
    lines = [f"the first event that differs, apart from its time, at {found.node}:"]
    for name, run, entry in (("one:  ", one, found.one), ("other:", other, found.other)):
        if entry is None:
            lines.append(f"  {name} no more events of {found.node}")
        else:
            at_s = (entry.mono_us - run.entries[0].mono_us) / 1_000_000
            lines.append(_cut(f"  {name} {at_s:.3f} s, {in_words(entry)}"))
    return lines


def _owner_lines(one: ComparedRun, other: ComparedRun) -> list[str]:
    pairs, count = owner_pairs(one, other)
    if not count:
        return []
    if not pairs:
        return [f"all {count} queues had the same owners, in the same order"]
    lines = [f"{len(pairs)} of {count} queues had other owners, or in another order:"]
    for pair in pairs[:OWNERS_MAX]:
        left, right = (", ".join(each) or "nobody" for each in (pair.one, pair.other))
        lines.append(_cut(f"  {pair.group} {pair.queue}: {left}; other: {right}"))
    if len(pairs) > OWNERS_MAX:
        lines.append(f"  and {len(pairs) - OWNERS_MAX} more")
    return lines


def _cut(line: str) -> str:
    line = clean(line)
    return line if len(line) <= WIDTH_MAX else f"{line[: WIDTH_MAX - 1]}…"

"""``rmqemu explain``, ``rmqemu diff``: journals in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from emulator.checks.judging import judge
from emulator.checks.reading import BadJournal, read_journals
from emulator.checks.violation import Judgement
from emulator.cli.columns import clean
from emulator.cli.errors import FAILED, BadUse, plain_errors
from emulator.cli.shared import AsJson, make_console, show_json
from emulator.facts import RunStarted
from emulator.journal import Entry
from scenarios.running.explaining import Explanation, Told, explained, in_words
from scenarios.running.replay import start_of
from scenarios.running.turning import TurningPoint, turn_of
from scenarios.running.verdicts import NoMetric, unmet_of

COMMON_SHOWN = 3

Journals = Annotated[
    list[str], typer.Argument(metavar="JOURNAL…", help="Files of one run, or their folder.")
]


def explain(journals: Journals, as_json: AsJson = False) -> None:
    """Say what went wrong first, and which facts show it.

    Exit code 1: something is wrong.
    """
    with plain_errors():
        entries = _read(journals)
        judgement = judge(entries)
        found = explained(entries, judgement)
        unmet, turns = _unmet(entries, judgement, journals[0])
        if as_json:
            show_json({"explanation": found, "unmet": unmet, "turns": turns})
        else:
            lines = [*(_lines(found) if found else []), *unmet]
            for turn in turns:
                lines += _lines_of_turn(turn)
            _print(lines or ["nothing is wrong"])
    if found is not None or unmet:
        raise typer.Exit(FAILED)


def _unmet(
    entries: list[Entry], judgement: Judgement, journal: str
) -> tuple[list[str], list[TurningPoint]]:
    """What a plan expected and did not get, and where that became so."""
    if not entries or not isinstance(entries[0].fact, RunStarted):
        return [], []
    unmet: list[str] = []
    turns: list[TurningPoint] = []
    for expectation in start_of(entries[0], journal).plan.expect:
        try:
            found = unmet_of((expectation,), judgement)
        except NoMetric as error:
            unmet.append(str(error))
            continue
        if not found:
            continue
        unmet.append(f"{found[0].expected} was expected, it is {found[0].actual:g}")
        if (turn := turn_of(entries, expectation)) is not None:
            turns.append(turn)
    return unmet, turns


def diff(
    one: Annotated[str, typer.Argument(metavar="JOURNAL", help="A journal, or a folder of them.")],
    other: Annotated[str, typer.Argument(metavar="JOURNAL", help="The other one.")],
) -> None:
    """Show where two journals first part.  Exit code 1: they do."""
    with plain_errors():
        common: deque[Entry] = deque(maxlen=COMMON_SHOWN)
        count = 0
        for left, right in zip_longest(_read([one]), _read([other])):
            if left != right:
                if not count and _are_starts(left, right):
                    _print(["two runs:", *_fields_that_differ(left, right)])
                else:
                    break
            common.append(left)
            count += 1
        else:
            _print([f"the same {count:,} facts"])
            return
        lines = [f"the first {count:,} facts are the same; the last of them:"]
        lines += [f"    {_line(entry)}" for entry in common]
        lines.append(f"fact {count + 1:,}:")
        for name, entry in ((one, left), (other, right)):
            lines += [f"  {name}", f"    {_line(entry) if entry else '(the journal has ended)'}"]
        lines += _fields_that_differ(left, right)
        _print(lines)
    raise typer.Exit(FAILED)


def _are_starts(left: Entry | None, right: Entry | None) -> bool:
    """The plans and seeds of two runs may differ: where they part is what comes after."""
    return all(entry is not None and isinstance(entry.fact, RunStarted) for entry in (left, right))


def _read(journals: list[str]) -> list[Entry]:
    try:
        return [*read_journals([Path(name) for name in journals])]
    except BadJournal as error:
        raise BadUse(str(error)) from None


def _lines(found: Explanation) -> list[str]:
    violation = found.violation
    at = f"{violation.mono_us / 1_000_000:.3f} s"
    who = f", {violation.node}" if violation.node else ""
    lines = [f"{violation.checker} at {at}{who}: {violation.what}"]
    lines.append(f"what should have happened: {violation.rule}")
    lines += [f"a fault that held: {fault}" for fault in found.faults]
    lines += _told_lines(found.facts)
    if found.left_out:
        lines.append(f"  and {found.left_out} more facts that have to do with it")
    if found.count > 1:
        lines.append(f"after it come {found.count - 1} more violations")
    return lines


def _lines_of_turn(turn: TurningPoint) -> list[str]:
    return [
        f"{turn.expected} was met until {turn.at_s:.3f} s",
        *(f"a fault that held: {fault}" for fault in turn.faults),
        *_told_lines(turn.facts),
    ]


def _told_lines(facts: Iterable[Told]) -> list[str]:
    return [
        "the facts (> those that show it):",
        *(
            f"{'>' if told.is_evidence else ' '} {told.at_s:10.3f} s  {told.node:<12}  {told.text}"
            for told in facts
        ),
    ]


def _line(entry: Entry) -> str:
    return f"{entry.mono_us / 1_000_000:.6f} s  {entry.node}  {in_words(entry)}"


def _fields_that_differ(left: Entry | None, right: Entry | None) -> list[str]:
    if left is None or right is None or type(left.fact) is not type(right.fact):
        return []
    one, other = msgspec.to_builtins(left), msgspec.to_builtins(right)
    names = [name for name in ("node", "seq", "mono_us", "at_ms") if one[name] != other[name]]
    names += [name for name in one["fact"] if one["fact"][name] != other["fact"].get(name)]
    return [f"they differ in {', '.join(names)}"]


def _print(lines: list[str]) -> None:
    console = make_console()
    for line in lines:
        console.print(clean(line), markup=False, highlight=False)

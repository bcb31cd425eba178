"""``rmqemu explain``, ``rmqemu diff``: journals in words."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from emulator.checks.judging import judge
from emulator.checks.reading import BadJournal, Skipped, as_far_as_read, read_journals
from emulator.cli.columns import clean
from emulator.cli.errors import FAILED, BadUse, plain_errors
from emulator.cli.explain_screen import LINES_MAX, explanation_lines, let_off_lines
from emulator.cli.shared import AsJson, make_console, show_json
from emulator.facts import RunStarted
from emulator.journal import Entry
from scenarios.running.expected import broken_checkers, unmet_expectations, without_end
from scenarios.running.explaining import explained, let_off
from scenarios.running.verdicts import unproven
from scenarios.telling.sentences import in_words

COMMON_SHOWN = 3

Journals = Annotated[
    list[str], typer.Argument(metavar="JOURNAL…", help="Files of one run, or their folder.")
]


def explain(journals: Journals, as_json: AsJson = False) -> None:
    """Say what went wrong first, and which facts show it.

    Exit code 1: something is wrong, or the journal does not show that nothing is.
    """
    with plain_errors():
        skipped = Skipped()
        entries = _read(journals, skipped)
        judgement = judge(entries, skipped=skipped)
        found = explained(entries, judgement)
        expected = unmet_expectations(entries, judgement, journals[0])
        unknown = [*without_end(entries), *unproven(judgement), *broken_checkers(judgement)]
        if as_json:
            told = {"explanation": found, **msgspec.structs.asdict(expected), "unproven": unknown}
            excuses = let_off(judgement)
            show_json({**told, "not_judged": judgement.not_judged, "let_off": excuses})
        else:
            excused = let_off_lines(let_off(judgement))
            lines = explanation_lines(found, expected, unknown, room=LINES_MAX - len(excused))
            _print([*(lines or ["nothing is wrong"]), *excused])
    if found is not None or expected.unmet or unknown:
        raise typer.Exit(FAILED)


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


def _read(journals: list[str], skipped: Skipped | None = None) -> list[Entry]:
    paths = [Path(name) for name in journals]
    try:
        return [*(as_far_as_read(paths, skipped) if skipped else read_journals(paths))]
    except BadJournal as error:
        raise BadUse(str(error)) from None


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

"""``rmqemu explain``: explains a journal.

An explanation has at most 48 lines, none wider than 160 columns: first the cause in a few
sentences, if a rule draws it from the facts, then the facts that show the violation, then the
owners of the queues in it, then related facts, then other violations and expectations that were
not met.  If there are too many lines, related facts are left out first, then the reasons why
expectations were not met.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated, NamedTuple

import msgspec
import typer
from rich.console import Console

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.reading import (
    BadJournal,
    Skipped,
    read_journals,
    readable_entries,
    runs_at,
)
from rocketmq_emulator.checks.state.violation import Judgement
from rocketmq_emulator.cli.options.errors import (
    FAILED,
    BadUse,
    errors_as_exit_codes,
    folded_line,
    print_note,
)
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show_json
from rocketmq_emulator.cli.screens.columns import clean
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.explaining import Explanation, explained, let_off
from rocketmq_emulator.scenarios.after.unmet_expectations import (
    BoundCrossing,
    Shortfall,
    UnmetExpectations,
    unmet_expectations,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many
from rocketmq_emulator.scenarios.descriptions.summaries import FactLine
from rocketmq_emulator.scenarios.plan.result import long_start_ups, no_pass

Journals = Annotated[
    list[str],
    typer.Argument(metavar="JOURNAL…", help="Files of one run, or a folder of one or more runs."),
]


class Explained(NamedTuple):
    """One run: its first violation, its unmet expectations, and why it is no pass without them."""

    journal: str
    found: Explanation | None
    expected: UnmetExpectations
    unproven: list[str]
    judgement: Judgement

    @property
    def is_wrong(self) -> bool:
        """Whether the run has not passed."""
        return bool(self.found is not None or self.expected.unmet or self.unproven)


def explain(journals: Journals, as_json: AsJson = False) -> None:
    """Explain the first violation by the facts that show it.

    Of several runs in a folder, the first that did not pass is explained.  Exit code 1: something
    is wrong, or the journal cannot show that nothing is wrong.
    """
    with errors_as_exit_codes():
        told = _first_wrong(journals)
        excuses = let_off(told.judgement)
        if as_json:
            fields = {"explanation": told.found, **msgspec.structs.asdict(told.expected)}
            fields |= {"unproven": told.unproven, "journal": told.journal}
            not_judged = told.judgement.not_judged
            show_json({**fields, "not_judged": not_judged, "let_off": excuses})
        else:
            excused = [*long_start_ups(told.judgement.metrics).values()][:START_UPS_MAX]
            excused += excuse_lines(excuses)
            room = LINES_MAX - len(excused)
            console = make_console()
            width = min(console.width, WIDTH_MAX)
            lines = explanation_lines(
                told.found, told.expected, told.unproven, room=room, width=width
            )
            _print(console, [*(lines or ["nothing is wrong"]), *excused])
    if told.is_wrong:
        raise typer.Exit(FAILED)


def _first_wrong(journals: list[str]) -> Explained:
    """The first run that has not passed; the last one if all have.  Notes which it is."""
    try:
        runs = runs_at([Path(name) for name in journals])
    except BadJournal as error:
        raise BadUse(str(error)) from None
    if len(runs) < 2:
        return _explained(journals)
    for number, files in enumerate(runs, 1):
        told = _explained([str(file) for file in files])
        if told.is_wrong:
            passed = f"{number - 1} before it passed" if number > 1 else "the first"
            print_note(
                f"{told.journal}: of {len(runs)} runs the first that did not pass ({passed}); "
                "name another file to explain that one"
            )
            return told
    print_note(f"all {len(runs)} runs passed")
    return told


def _explained(journals: list[str]) -> Explained:
    skipped = Skipped()
    entries = _read(journals, skipped)
    judgement = judge(entries, skipped=skipped)
    return Explained(
        journal=journals[0],
        found=explained(entries, judgement),
        expected=unmet_expectations(entries, judgement, journals[0]),
        unproven=no_pass(entries[-1].fact if entries else None, judgement),
        judgement=judgement,
    )


def _read(journals: list[str], skipped: Skipped | None = None) -> list[Entry]:
    paths = [Path(name) for name in journals]
    try:
        return [*(readable_entries(paths, skipped) if skipped else read_journals(paths))]
    except BadJournal as error:
        raise BadUse(str(error)) from None


def _print(console: Console, lines: list[str]) -> None:
    """Print *lines*; a terminal that is narrower gets them folded below their beginning."""
    for line in lines:
        for part in folded_line(clean(line), console.width):
            console.print(part, markup=False, highlight=False, no_wrap=True)


# The lines of an explanation ----------------------------------------------------------


LINES_MAX, WIDTH_MAX = 48, 160
OWNER_LINES_MAX = 12  # lines
HEAD_MAX = 3  # lines of the violation, and of the rule
CONTEXT_FACTS_MIN = 6  # related facts that are always shown
UNMET_MAX = 8  # expectations
EACH_MAX = 14  # lines about one expectation
CAUSE_LINES_MAX = 6  # of one cause
START_UPS_MAX = 3  # groups whose start-up lasted long
EXCUSE_LINES_MAX = 3  # lines of causes


def explanation_lines(
    found: Explanation | None,
    expected: UnmetExpectations,
    unknown: Sequence[str],
    *,
    room: int = LINES_MAX,
    width: int = WIDTH_MAX,
) -> list[str]:
    """The explanation in at most *room* lines of ``WIDTH_MAX``; empty if nothing went wrong.

    A cause is a paragraph of lines no wider than *width*: if that is less, it has more lines.
    """
    lines_max = room
    first = [] if found is None else _violation(found, width)
    last = [
        line for why in unknown for line in wrap(f"this is no pass: {why}", WIDTH_MAX)[:HEAD_MAX]
    ]
    room = lines_max - len(first) - len(last)
    if found is not None:
        room -= 2 + min(CONTEXT_FACTS_MIN, sum(not told.is_evidence for told in found.facts))
    said = set() if found is None else {line.strip() for line in found.whose}
    room = max(room, len(expected.unmet[:UNMET_MAX]))
    after = _expectations(expected, said, room, width)
    room = lines_max - len(first) - len(after) - len(last)
    around = [] if found is None else _context_facts(found, max(room, 0))
    return [*first, *around, *after, *last]


def excuse_lines(excuses: Mapping[str, float]) -> list[str]:
    """The number of violations that were let off, by cause; an expectation may bound each."""
    if not excuses:
        return []
    causes = [f"{name} {count:g}" for name, count in excuses.items()]
    lines = wrap(f"let off: {', '.join(causes)}", WIDTH_MAX)
    if len(lines) > EXCUSE_LINES_MAX:
        lines[EXCUSE_LINES_MAX - 1] = f"{lines[EXCUSE_LINES_MAX - 1][: WIDTH_MAX - 2]} …"
    return lines[:EXCUSE_LINES_MAX]


def _violation(found: Explanation, width: int) -> list[str]:
    violation = found.violation
    who = f", {violation.node}" if violation.node else ""
    at = f"{violation.mono_us / 1_000_000:.3f} s"
    lines = wrap(f"{violation.checker} at {at}{who}: {violation.what}", WIDTH_MAX)[:HEAD_MAX]
    lines += wrap(f"the rule: {violation.rule}", WIDTH_MAX)[:HEAD_MAX]
    lines += _cause("the cause:", found.cause, CAUSE_LINES_MAX, width)
    lines += [f"a fault that held: {fault}" for fault in found.faults]
    lines.append("the facts that show it:")
    lines += [fact_line(told) for told in found.facts if told.is_evidence]
    if found.whose:
        lines += ["the owners:", *(f"  {line}" for line in found.whose[:OWNER_LINES_MAX])]
    lines += [f"also: {line}" for line in found.others]
    return [_cut(line) for line in lines]


def _cause(head: str, sentences: Sequence[str], room: int, width: int) -> list[str]:
    """The sentences of a cause as one paragraph, which has *room* lines of ``WIDTH_MAX``.

    The last sentences are left out if there is less room than they need, and "…" says so.
    """
    whole = [*sentences]
    while whole and _height(text := _sentences(whole, sentences)) > room:
        whole.pop()
    if not whole:
        return []
    return [head, *(f"  {line}" for line in wrap(text, width - 2, break_on_hyphens=False))]


def _sentences(whole: Sequence[str], of_all: Sequence[str]) -> str:
    return " ".join([*whole, *(["…"] if len(whole) < len(of_all) else [])])


def _height(text: str) -> int:
    """How many lines of ``WIDTH_MAX`` the paragraph *text* has."""
    return len(wrap(text, WIDTH_MAX - 2, break_on_hyphens=False))


def _context_facts(found: Explanation, room: int) -> list[str]:
    """The facts most related to the violation, in at most *room* lines."""
    around = [told for told in found.facts if not told.is_evidence]
    if not around or room < 3:
        return []
    shown = sorted(_nearest(around, room - 2, found), key=lambda told: told.at_s)
    left_out = found.left_out + sum(told.count for told in around) - sum(t.count for t in shown)
    lines = ["related facts:", *map(fact_line, shown)]
    if left_out:
        lines.append(f"  and {left_out:,} more facts")
    return [_cut(line) for line in lines]


def _nearest(around: Sequence[FactLine], count: int, found: Explanation) -> Iterable[FactLine]:
    moments = [told.at_s for told in found.facts if told.is_evidence] or [0.0]
    return sorted(
        around, key=lambda told: (told.rank, min(abs(told.at_s - at_s) for at_s in moments))
    )[:count]


def _expectations(expected: UnmetExpectations, said: set[str], room: int, width: int) -> list[str]:
    """The unmet expectations and their reasons, in *room* lines of ``WIDTH_MAX``."""
    unmet = expected.unmet[:UNMET_MAX]
    lines = list(unmet)
    if (more := len(expected.unmet) - UNMET_MAX) > 0:
        lines.append(f"and {more} more expectations")
    used, untold = len(lines), 0
    for number, each in enumerate(expected.causes, 1):
        is_last = number == len(expected.causes) and not untold
        left = min(room - used - (1 if is_last else 2), CAUSE_LINES_MAX)
        part = _cause(f"the cause of {', '.join(each.expected)}:", each.cause, left, width)
        untold += not part
        used += (1 + _height(" ".join(line.strip() for line in part[1:]))) if part else 0
        lines += part
    if untold:
        lines.append(f"no room for {many(untold, 'more cause')}: --json has all of them")
        used += 1
    parts = [_shortfall(short, said) for short in expected.shortfalls]
    parts = [part for part in parts if len(part) > 1] + [
        _last_met_lines(turn) for turn in expected.turns
    ]
    for part in parts:
        left = min(room - used, EACH_MAX if len(parts) > 1 else room)
        if left < 2:
            break
        shown = part if len(part) <= left else [*part[: left - 1], "  …"]
        lines += shown
        used += len(shown)
    return [_cut(line) for line in lines]


def _shortfall(short: Shortfall, said: set[str]) -> list[str]:
    """The reasons of *short* that are not in *said*; adds them to *said*."""
    new = [line for line in short.why if line.strip() not in said]
    said.update(line.strip() for line in new)
    return [f"why not {short.expected}:", *(f"  {line}" for line in new)]


def _last_met_lines(turn: BoundCrossing) -> list[str]:
    head = f"{turn.expected} was met until {turn.at_s:.3f} s"
    mark = "the first with which it was not met"
    if turn.is_longest:
        head, mark = f"{turn.expected}: the longest time ended at {turn.at_s:.3f} s", "its end"
    return [
        head,
        *(f"a fault that held: {fault}" for fault in turn.faults),
        f"the facts (> marks {mark}):",
        *map(fact_line, sorted(turn.facts, key=lambda told: (told.at_s, told.is_evidence))),
    ]


def fact_line(told: FactLine) -> str:
    """*told* as a line; ``>`` marks the evidence."""
    mark = ">" if told.is_evidence else " "
    return f"{mark} {told.at_s:10.3f} s  {told.node:<12}  {told.text}"


def _cut(line: str) -> str:
    line = clean(line)
    return line if len(line) <= WIDTH_MAX else f"{line[: WIDTH_MAX - 1]}…"

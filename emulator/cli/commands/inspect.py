"""``inspect``: shows each node's tables at a moment of a journal, and steps from there.

It shows the last fact, its changes, and each node's tables, line by line.  With ``--step`` keys
move to other moments; if standard input is a pipe, its characters are the keys.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from rocketmq_emulator.checks.judging.reading import BadJournal, Skipped, read_journals
from rocketmq_emulator.cli.options.errors import BadUse, Missing, errors_as_exit_codes, print_error
from rocketmq_emulator.cli.options.shared import AsJson, make_console, show_json
from rocketmq_emulator.cli.screens.columns import clean
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.node_tables import (
    InspectedMoment,
    ItemChange,
    JournalCursor,
    NodeTables,
    Row,
)
from rocketmq_emulator.scenarios.descriptions.sentences import in_words
from rocketmq_emulator.text.suggestions import did_you_mean
from rocketmq_emulator.text.values import parse_duration_ms

MANY = 100  # facts that a long step takes
STEPS = {"n": 1, " ": 1, "p": -1, "N": MANY, "P": -MANY}
ENDS = {"g": 0, "G": sys.maxsize}
ARROWS = {b"\x1b[C": "n", b"\x1b[B": "n", b"\x1b[D": "p", b"\x1b[A": "p", b"\t": "\t"}
KEYS = "n p: a fact on, back · N P: 100 · g G: begin, end · Tab: next node · q: quit"

InspectedJournals = Annotated[
    list[Path],
    typer.Argument(metavar="JOURNAL…", help="Files of one cluster, or folders of them."),
]
At = Annotated[
    str,
    typer.Option(
        metavar="TIME|#N",
        show_default="the end",
        help="When: 30s after the first fact, or #120, after 120 facts.",
    ),
]
Nodes = Annotated[
    list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node; repeatable.")
]
Step = Annotated[bool, typer.Option("--step", help=f"Step by keys.  {KEYS}.")]
SkipDamaged = Annotated[
    bool, typer.Option("--skip-damaged", help="Leave out lines that cannot be read.")
]


def inspect(
    journals: InspectedJournals,
    at: At = "",
    node: Nodes = None,
    step: Step = False,
    as_json: AsJson = False,
    skip_damaged: SkipDamaged = False,
) -> None:
    """Show each node's tables at a moment.

    Members, owners, locks, offsets, routes, avoided brokers and faults, from the facts.
    """
    with errors_as_exit_codes():
        if step and as_json:
            raise BadUse("--step is for people: --json shows one moment")
        entries = _read(journals, skip_damaged=skip_damaged)
        walk = JournalCursor(entries)
        names = _checked(node or [], entries)
        moment = _moment(walk, at)
        if as_json:
            nodes = {k: v for k, v in moment.nodes.items() if not names or k in names}
            show_json({**_plain(moment), "nodes": nodes})
        elif step:
            _StepViewer(walk, names).run(moment)
        else:
            _print(moment_lines(moment, names, make_console().width))


def _read(journals: list[Path], *, skip_damaged: bool) -> list[Entry]:
    skipped = Skipped() if skip_damaged else None
    try:
        entries = list(read_journals(journals, skipped))
    except BadJournal as error:
        raise BadUse(str(error)) from None
    if not entries:
        raise BadUse(f"{journals[0]} has no fact that can be read")
    if skipped and skipped.count:
        print_error(f"{skipped.count} lines left out, the first: {skipped.places[0]}")
    return entries


def _checked(names: list[str], entries: list[Entry]) -> list[str]:
    known = sorted({entry.node for entry in entries})
    for name in names:
        if name not in known:
            raise Missing(f"the journal has no node {name!r}; {did_you_mean(name, known)}")
    return names


def _moment(walk: JournalCursor, at: str) -> InspectedMoment:
    if not at:
        return walk.go(walk.fact_count)
    if at.startswith("#"):
        number = at.removeprefix("#").replace(",", "")
        if not number.isdecimal():
            raise BadUse(f"the number of a fact is written as #120, not {at!r}")
        return walk.go(int(number))
    try:
        seconds = parse_duration_ms(at) / 1_000
    except ValueError as error:
        raise BadUse(f"--at: {error}; or #120 for a fact by its number") from None
    return walk.go(walk.number_at(seconds), seconds)


def _plain(moment: InspectedMoment) -> dict[str, object]:
    return {name: getattr(moment, name) for name in moment.__struct_fields__}


class _StepViewer:
    """Moves through the journal by keys, and draws each moment."""

    def __init__(self, walk: JournalCursor, names: list[str]) -> None:
        self._walk = walk
        self._names = names

    def run(self, moment: InspectedMoment) -> None:
        """Draw *moment*, then a moment per key, until ``q`` or the end of the keys."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            self._run_plain(moment)
            return
        console = make_console()
        with console.screen(hide_cursor=True), _keys() as keys:
            while True:
                lines = moment_lines(moment, self._names, console.width)
                room = console.height - 2
                if len(lines) > room:
                    more = len(lines) - room + 1
                    lines = [*lines[: room - 1], f"… {more} more lines: Tab shows one node alone"]
                console.clear()
                _print([*lines, *[""] * (room - len(lines)), KEYS[: console.width]])
                moved = self._after(next(keys), moment)
                if moved is None:
                    return
                moment = moved

    def _run_plain(self, moment: InspectedMoment) -> None:
        shown: InspectedMoment | None = moment
        _print(moment_lines(moment, self._names, make_console().width))
        for key in sys.stdin.read():
            if key in "\r\n":
                continue
            shown = self._after(key, moment)
            if shown is None:
                return
            moment = shown
            _print(["", *moment_lines(moment, self._names, make_console().width)])

    def _after(self, key: str, moment: InspectedMoment) -> InspectedMoment | None:
        """The moment to which *key* moves; None ends the viewer."""
        if key == "q":
            return None
        if key == "\t":
            self._names = _next(self._names, list(moment.nodes))
        if key in ENDS:
            return self._walk.go(ENDS[key])
        return self._walk.go(moment.number + STEPS[key]) if key in STEPS else moment


def _next(names: list[str], nodes: list[str]) -> list[str]:
    """The nodes after Tab: all, the first alone, … the last alone, all."""
    at = nodes.index(names[0]) + 1 if names and names[0] in nodes else 0
    return [nodes[at]] if at < len(nodes) and (names or nodes) else []


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Keys as they are pressed; the end of the block restores the terminal."""
    import termios  # noqa: PLC0415  # not on every system, and only needed here
    import tty  # noqa: PLC0415

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield _pressed(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _pressed(number: int) -> Iterator[str]:
    while data := os.read(number, 16):
        if data in ARROWS:
            yield ARROWS[data]
        else:
            yield from data.decode("utf-8", "replace")
    yield "q"


def _print(lines: list[str]) -> None:
    console = make_console()
    for line in lines:
        console.print(line, markup=False, highlight=False, no_wrap=True)


# The lines of a moment ----------------------------------------------------------------


WIDTH_MIN, WIDTH_MAX = 40, 120
CHANGES_SHOWN = 3
INDENT = 19  # of the text of a table's row


def moment_lines(moment: InspectedMoment, names: Sequence[str], width: int) -> list[str]:
    """The lines for the nodes *names* (none: all), no line wider than *width*."""
    width = max(WIDTH_MIN, min(width, WIDTH_MAX))
    lines = head_lines(moment, width)
    for name, node in moment.nodes.items():
        if not names or name in names:
            lines += ["", *node_lines(name, node, width)]
    return lines


def head_lines(moment: InspectedMoment, width: int) -> list[str]:
    """The time, the last fact, and its changes."""
    lines = [f"{moment.at_s:.6f} s, after fact {moment.number:,} of {moment.fact_count:,}"]
    if moment.last is None:
        return [*lines, "nothing has happened yet"]
    lines += wrap(clean(f"{moment.last.node}: {in_words(moment.last)}"), width)[:3]
    for change in moment.changes[:CHANGES_SHOWN]:
        lines.append(_cut(f"  → {_change(change)}", width))
    if (more := len(moment.changes) - CHANGES_SHOWN) > 0:
        lines.append(f"  → and {more} more changes")
    return lines


def node_lines(name: str, node: NodeTables, width: int) -> Iterator[str]:
    """The node, and a line or a few for each row of its tables."""
    yield _cut(f"{name} ({', '.join(part for part in (node.role, node.state) if part)})", width)
    for table in sorted(node.tables):
        title = table
        for row in sorted(node.tables[table]):
            text = f"{row}: {_row(node.tables[table][row])}"
            first, *more = wrap(clean(text), width - INDENT) or [""]
            yield f"  {title:<{INDENT - 2}}{first}"
            yield from (f"{'':<{INDENT}}{line}" for line in more)
            title = ""


def _row(items: Row) -> str:
    """Numbers in their order, others by name; an item without a value is its name."""
    names = sorted(items, key=lambda name: (len(name), name) if name.isdecimal() else (0, name))
    return "  ".join(f"{name}={items[name]}" if items[name] != "" else name for name in names)


def _change(change: ItemChange) -> str:
    place = " ".join(part for part in (change.node, change.table, change.row, change.item) if part)
    if change.before is None:
        return f"{place}: {change.now}" if change.now != "" else f"{place}: new"
    return f"{place}: gone" if change.now is None else f"{place}: {change.before} → {change.now}"


def _cut(text: str, width: int) -> str:
    text = clean(text)
    return text if len(text) <= width else text[: width - 1] + "…"

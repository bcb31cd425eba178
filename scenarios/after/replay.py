"""A run again from its journal: the same bytes, or the first line that differs.

A journal names its plan, seed, world and code version; with the same code a virtual run gives the
same journal, wherever and whenever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from rocketmq_emulator.checks.judging.reading import BadJournal, read_journals
from rocketmq_emulator.facts import RunStarted
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.plan.plan import Plan


class JournalDifference(msgspec.Struct, frozen=True):
    """Where two journals first differ: the number of the line, from 1, and both lines.

    An empty line: that journal has ended.
    """

    line: int
    one: bytes
    other: bytes


class StartOfRun(msgspec.Struct, frozen=True):
    """What a journal says of its run."""

    fact: RunStarted
    plan: Plan


def started_in(journal: Path) -> StartOfRun:
    """The run that wrote *journal*.  Raises ``BadJournal``."""
    for entry in read_journals([journal]):
        return start_of(entry, str(journal))
    raise BadJournal(str(journal), 0, "it is empty")


def start_of(entry: Entry, name: str) -> StartOfRun:
    """The run that *entry*, the first of a journal, began.  Raises ``BadJournal``."""
    if not isinstance(entry.fact, RunStarted):
        kind = type(entry.fact).__name__
        what = f"it begins with {kind}: only a run of a scenario can be repeated"
        raise BadJournal(name, 1, what)
    try:
        plan = msgspec.json.decode(entry.fact.plan, type=Plan)
    except msgspec.MsgspecError as error:
        raise BadJournal(name, 1, f"its plan is of another version: {error}") from None
    return StartOfRun(entry.fact, plan)


def first_difference(one: Iterable[bytes], other: Iterable[bytes]) -> JournalDifference | None:
    """Where two journals first differ, line by line; None if they do not."""
    pairs: Iterator[tuple[bytes, bytes]] = zip_longest(one, other, fillvalue=b"")
    for number, (left, right) in enumerate(pairs, 1):
        if left != right:
            return JournalDifference(number, left, right)
    return None

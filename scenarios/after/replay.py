"""Repeats a run from its journal and compares: the same bytes, or the first line that differs.

A journal names its plan, seed, world and code version.  With the same code a virtual run writes
the same journal on any machine and at any time.
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

    An empty line means that this journal ended before the other.
    """

    line: int
    one: bytes
    other: bytes


class StartOfRun(msgspec.Struct, frozen=True):
    """The first fact of a journal, and the plan that it holds."""

    fact: RunStarted
    plan: Plan


def started_in(journal: Path) -> StartOfRun:
    """The run that wrote *journal*.  Raises ``BadJournal``."""
    for entry in read_journals([journal]):
        return start_of(entry, str(journal))
    raise BadJournal(str(journal), 0, "it is empty")


def start_of(entry: Entry, name: str) -> StartOfRun:
    """The run of a journal whose first entry is *entry*.  Raises ``BadJournal``."""
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
    """The first line at which two journals differ; None if they are equal."""
    pairs: Iterator[tuple[bytes, bytes]] = zip_longest(one, other, fillvalue=b"")
    for number, (left, right) in enumerate(pairs, 1):
        if left != right:
            return JournalDifference(number, left, right)
    return None

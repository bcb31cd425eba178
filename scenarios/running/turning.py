"""Where an expectation stopped being met: the fact with which its number went beyond the bound.

Pure.  A number is what a checker makes of a whole journal; what it makes of the first half says
whether the turn came before or after.  Only numbers that stay where they went have such a fact: a
backlog that grows and is worked off again and again has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from emulator.checks.judging import judge
from emulator.checks.table import ALL
from emulator.journal import Entry
from scenarios.plan import Expectation
from scenarios.running.around import concern_of, facts_around
from scenarios.running.explaining import faults_at
from scenarios.running.verdicts import NoMetric, expected_text, unmet_of
from scenarios.telling.names import NamesOfRun
from scenarios.telling.runs import Told

LOOKS = 8  # at beginnings of the journal, to see whether the number turned once
ENTRIES_MAX = 300_000  # of a journal that is read so often


class TurningPoint(msgspec.Struct, frozen=True):
    """The moment, the faults that held, and the facts that have to do with the one that did it."""

    expected: str
    at_s: float
    faults: tuple[str, ...]
    facts: tuple[Told, ...]


def turn_of(entries: Sequence[Entry], expectation: Expectation) -> TurningPoint | None:
    """Where *expectation* was met for the last time; None if there is no such place.

    What is to be reached and was not (``>=``) has none.
    """
    if len(entries) > ENTRIES_MAX:
        return None
    checkers = [
        kind for kind in ALL.values() if expectation.metric in (m.name for m in kind.metrics)
    ]

    def is_beyond(count: int) -> bool:
        """Is the number of the first *count* entries above what it may be?"""
        try:
            unmet = unmet_of((expectation,), judge(entries[:count], checkers))
        except NoMetric:  # nothing to count yet
            return False
        return any(one.actual > expectation.bound for one in unmet)

    looks = [len(entries) * part // LOOKS for part in range(LOOKS + 1)]
    seen = [is_beyond(count) for count in looks]
    if seen != sorted(seen) or seen[0] or not seen[-1]:
        return None
    met, beyond = looks[seen.index(True) - 1], looks[seen.index(True)]
    while beyond - met > 1:
        middle = (met + beyond) // 2
        met, beyond = (met, middle) if is_beyond(middle) else (middle, beyond)
    entry = entries[beyond - 1]
    concern = concern_of([entry], entry.mono_us, NamesOfRun(entries))
    facts, _ = facts_around(entries, [entry], concern)
    return TurningPoint(
        expected=expected_text(expectation),
        at_s=entry.mono_us / 1_000_000,
        faults=tuple(faults_at(entries, entry.mono_us, concern.nodes)),
        facts=facts,
    )

"""What a run's plan expected and its journal does not show: unmet, and why; and how it ended.

Pure: entries and a judgement go in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from emulator.checks.liveness import LivenessReturns
from emulator.checks.reading import BadJournal
from emulator.checks.table import ALL
from emulator.checks.violation import Judgement
from emulator.facts import RunEnded, RunStarted
from emulator.journal import Entry
from scenarios.plan import Expectation
from scenarios.running.replay import start_of
from scenarios.running.shortfalls import Shortfall, shortfall_of
from scenarios.running.turning import TurningPoint, turn_of
from scenarios.running.verdicts import NoMetric, unmet_of

LEFT = ("backlog", "stuck", "unrest")  # what liveness objects to, if it is judged
LIVENESS = LivenessReturns.name


class UnmetExpectations(msgspec.Struct, frozen=True):
    """Sentences about each; where a number turned; what was left where one has no such place."""

    unmet: tuple[str, ...] = ()
    turns: tuple[TurningPoint, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()


def unmet_expectations(
    entries: Sequence[Entry], judgement: Judgement, journal: str
) -> UnmetExpectations:
    """What the plan in *entries* expected and did not get.

    What a violation explains already is not explained again.
    """
    if not entries or not isinstance(entries[0].fact, RunStarted):
        return UnmetExpectations()
    try:
        plan = start_of(entries[0], journal).plan
    except BadJournal as error:
        return UnmetExpectations((f"what was expected is not known: {error}",))
    unmet: list[str] = []
    turns: list[TurningPoint] = []
    short: list[Shortfall] = []
    for expectation in plan.expect:
        try:
            found = unmet_of((expectation,), judgement)
        except NoMetric as error:
            unmet.append(str(error))
            continue
        if not found:
            continue
        unmet.append(f"{found[0].expected} was expected, it is {found[0].actual:g}")
        if _is_explained(expectation, judgement):
            continue
        if (lacked := shortfall_of(entries, expectation)) is not None:
            short.append(lacked)
        elif (turn := turn_of(entries, expectation)) is not None:
            turns.append(turn)
    return UnmetExpectations(tuple(unmet), tuple(turns), tuple(short))


def without_end(entries: Sequence[Entry]) -> list[str]:
    """Why a run that has ended has no answer; empty: it finished, or the journal has no end."""
    ended = entries[-1].fact if entries else None
    if not isinstance(ended, RunEnded) or ended.reason == "finished":
        return []
    return [f"the run did not finish ({ended.reason}): {ended.detail}"]


def broken_checkers(judgement: Judgement) -> list[str]:
    """Checkers that raised: what they would have found is not known."""
    return [
        f"the checker {name} broke, which is a defect of ours: {error}"
        for name, error in judgement.raised.items()
    ]


def _is_explained(expectation: Expectation, judgement: Judgement) -> bool:
    """A violation says what this number counts, or the first one tells whose it is."""
    checkers = {violation.checker for violation in judgement.violations}
    if expectation.metric in LEFT:
        return judgement.violations[:1] != () and judgement.violations[0].checker == LIVENESS
    return any(
        expectation.metric in (metric.name for metric in ALL[checker].metrics)
        for checker in checkers
    )

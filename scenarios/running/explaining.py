"""Why a journal is bad, in words: the first violation, the facts that show it, and those around.

Pure: entries and a judgement go in, lines for people come out.  Of the facts around only those are
told that have to do with it: of the same message, or of the same queue a moment before and after.
Faults that held then are told first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from emulator.checks.violation import Judgement, Violation
from emulator.facts import (
    FaultBegan,
    FaultEnded,
    LogFlushed,
    PullAnswered,
    PullHeld,
    Queue,
    RebalancePassed,
    RunStarted,
)
from emulator.journal import Entry, EntryKey

BEFORE_US, AFTER_US = 5_000_000, 1_000_000
FACTS_MAX = 40  # around a violation
ROUTINE = (LogFlushed, PullAnswered, PullHeld, RunStarted)  # they say little about others


class Told(msgspec.Struct, frozen=True):
    """One fact in words; *is_evidence*: the violation rests on it."""

    at_s: float
    node: str
    text: str
    is_evidence: bool


class Explanation(msgspec.Struct, frozen=True):
    """*left_out*: how many more facts have to do with it."""

    violation: Violation
    count: int  # of all violations
    faults: tuple[str, ...]  # that held when it happened
    facts: tuple[Told, ...]
    left_out: int


def explained(entries: Sequence[Entry], judgement: Judgement) -> Explanation | None:
    """The first violation; None if there is none."""
    if not judgement.violations:
        return None
    violation = judgement.violations[0]
    evidence = [entry for entry in entries if _key(entry) in violation.entries]
    facts, left_out = facts_around(entries, evidence, violation.mono_us)
    return Explanation(
        violation=violation,
        count=len(judgement.violations) + judgement.more_violations,
        faults=tuple(faults_at(entries, violation.mono_us)),
        facts=facts,
        left_out=left_out,
    )


def facts_around(
    entries: Sequence[Entry], evidence: Sequence[Entry], at_us: int
) -> tuple[tuple[Told, ...], int]:
    """The *evidence* and what has to do with it; and how many more there are than are told."""
    around = [entry for entry in entries if _has_to_do(entry, evidence, at_us)]
    keys = {_key(entry) for entry in evidence}
    shown = _nearest(around, at_us, keys)
    return tuple(_told(entry, _key(entry) in keys) for entry in shown), len(around) - len(shown)


def faults_at(entries: Iterable[Entry], at_us: int) -> Iterator[str]:
    """The faults that held then, each with the time since it began."""
    began: dict[int, Entry] = {}
    for entry in entries:
        if entry.mono_us > at_us:
            break
        if isinstance(entry.fact, FaultBegan):
            began[entry.fact.fault_id] = entry
        elif isinstance(entry.fact, FaultEnded):
            began.pop(entry.fact.fault_id, None)
    for entry in began.values():
        assert isinstance(entry.fact, FaultBegan)
        since_s = (at_us - entry.mono_us) / 1_000_000
        yield f"{entry.fact.fault} ({', '.join(entry.fact.nodes)}), for {since_s:.1f} s"


def in_words(entry: Entry) -> str:
    """A fact as one line without its time and node."""
    if sentence := entry.fact.sentence():
        return sentence
    fields = ((name, getattr(entry.fact, name)) for name in entry.fact.__struct_fields__)
    shown = ", ".join(f"{name} {_shown(value)}" for name, value in fields if value != "")
    kind = type(entry.fact).__name__
    return f"{kind}: {shown}" if shown else kind


def _nearest(around: list[Entry], at_us: int, evidence: set[EntryKey]) -> list[Entry]:
    """At most so many, the evidence first, then those nearest in time; in the order of time."""
    ordered = sorted(
        around,
        key=lambda entry: (_key(entry) not in evidence, abs(entry.mono_us - at_us)),
    )
    return sorted(ordered[:FACTS_MAX], key=_key)


def _has_to_do(entry: Entry, evidence: Sequence[Entry], at_us: int) -> bool:
    """The same message whenever it was; near in time: faults, the same queue, the same member."""
    fact = entry.fact
    if entry in evidence:
        return True
    if isinstance(fact, ROUTINE):
        return False
    if uniq_key := getattr(fact, "uniq_key", ""):
        return uniq_key in {getattr(one.fact, "uniq_key", "") for one in evidence}
    from_us = min([at_us, *(one.mono_us for one in evidence)]) - BEFORE_US
    is_near = from_us <= entry.mono_us <= at_us + AFTER_US
    return is_near and (
        isinstance(fact, FaultBegan | FaultEnded)
        or (isinstance(fact, RebalancePassed) and entry.node in {one.node for one in evidence})
        or not {queue for one in evidence for queue in _queues_of(one.fact)}.isdisjoint(
            _queues_of(fact)
        )
    )


def _queues_of(fact: Any) -> tuple[Queue, ...]:
    found = (getattr(fact, "queue", None), *getattr(fact, "queues", ()))
    return tuple(queue for queue in found if isinstance(queue, Queue))


def _told(entry: Entry, is_evidence: bool) -> Told:
    return Told(entry.mono_us / 1_000_000, entry.node, in_words(entry), is_evidence)


def _shown(value: Any) -> str:
    if isinstance(value, Queue):
        return f"{value.topic}@{value.broker}:{value.queue_id}"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _key(entry: Entry) -> EntryKey:
    return EntryKey(entry.mono_us, entry.node, entry.seq)

"""The interface of folds over a journal: a table of facts in, violations and gaps out.

A fold has a table kind of fact → method; the method is given the fact, typed as in the table, and
its entry.  A ``Violation`` is one rule broken once, with the entries that show it; a ``Gap`` is
a missing part of a journal; a ``Judgement`` is the result of all checkers: with gaps it proves no
pass.  This module imports no checker, so readers of results need only this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.facts import Fact, Queue
from rocketmq_emulator.facts.journal import Entry, EntryKey

FactHandler: TypeAlias = Callable[
    [Any, Entry], object
]  # the fact, typed as in the table, its entry
Table: TypeAlias = Mapping[type[Fact], FactHandler]


def place_of(queue: Queue) -> str:
    """The queue's name in texts of violations."""
    return f"{queue.topic}@{queue.broker}:{queue.queue_id}"


# Results ------------------------------------------------------------------------------


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One rule broken once, with the evidence.

    ``checker`` is the checker's name, ``rule`` its requirement, with the number of the invariant
    or upstream's class if there is one; ``what`` is what happened instead, as one sentence.
    ``entries`` are the keys of the facts that show it, the earliest first.
    """

    checker: str
    rule: str
    what: str
    mono_us: int  # when
    node: str  # the node that seems to be at fault; empty: no single node
    entries: tuple[EntryKey, ...] = ()


AffectedRules = Literal["all", "clients", "none"]  # rules that need the missing facts


class Gap(msgspec.Struct, frozen=True):
    """A missing part of a journal, as a sentence; before *since_us* the journal is whole.

    *affects*: the rules that need the missing part: all, or those that read facts of clients.
    """

    text: str
    since_us: int
    affects: AffectedRules = "all"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all checkers for one journal: violations in the order of time, and metrics.

    Metrics are numbers by name; that of a group or topic is called ``name.group``.  A checker in
    ``not_judged`` has no metrics.  A journal that is ``incomplete`` proves no pass: violations
    found after the first gap are ``doubtful``, and do not count as violations.
    """

    violations: tuple[Violation, ...]
    metrics: dict[str, float]
    fact_count: int
    not_judged: dict[str, str] = {}  # checker: why evidence is missing or incomplete
    raised: dict[str, str] = {}  # checker: the error that ended it, a bug of the emulator
    more_violations: int = 0  # beyond each checker's maximum
    tried: dict[str, int] = {}  # checker: how often its rule applied; not for measures
    incomplete: tuple[str, ...] = ()  # the journal's gaps, as sentences
    doubtful: tuple[Violation, ...] = ()  # violations that may come from gaps

"""What every fold over a journal takes and gives: a table of facts in, violations and gaps out.

A fold has a table kind of fact → method; the method is given the fact, typed as in the table, and
its entry.  A ``Violation`` is one rule broken once, with the entries that show it; a ``Gap`` is
what a journal lacks; a ``Judgement`` is what all checkers found: with gaps it proves no pass.
Nothing of the checkers is imported here: readers of results need no more than this.
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
    """The queue's name in sentences."""
    return f"{queue.topic}@{queue.broker}:{queue.queue_id}"


# What comes out -----------------------------------------------------------------------


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One rule broken once, with the evidence.

    ``checker`` is the checker's name, ``rule`` what it demands, with the number of the invariant
    or upstream's class where there is one; ``what`` happened instead, as one sentence.
    ``entries`` are the keys of the facts that show it, the earliest first.
    """

    checker: str
    rule: str
    what: str
    mono_us: int  # when
    node: str  # whose fault it is, or seems; empty: nobody's alone
    entries: tuple[EntryKey, ...] = ()


AffectedRules = Literal["all", "clients", "none"]  # rules of which facts cannot be judged


class Gap(msgspec.Struct, frozen=True):
    """What a journal lacks, in words; *since_us*: what was noted before that moment is whole.

    *affects*: which rules cannot do without: all, or those that read what clients tell.
    """

    text: str
    since_us: int
    affects: AffectedRules = "all"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What all checkers found in one journal: violations in the order of time, and metrics.

    Metrics are numbers by name; one of a group or topic is called ``name.group``.  A metric of
    a checker that is ``not_judged`` is missing.  A journal that is ``incomplete`` proves no pass:
    what rules objected to after something was missing is ``doubtful``, and is no violation.
    """

    violations: tuple[Violation, ...]
    metrics: dict[str, float]
    fact_count: int
    not_judged: dict[str, str] = {}  # checker: why there is no evidence, or no whole one
    raised: dict[str, str] = {}  # checker: the error that ended it, a defect of ours
    more_violations: int = 0  # beyond what each checker may name
    tried: dict[str, int] = {}  # checker: how often it could have objected; measures have none
    incomplete: tuple[str, ...] = ()  # what the journal lacks, as sentences
    doubtful: tuple[Violation, ...] = ()  # objections that may come from what is missing

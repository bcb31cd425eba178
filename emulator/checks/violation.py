"""What a checker says when a journal breaks a rule."""

from __future__ import annotations

from typing import Literal

import msgspec

from emulator.journal import EntryKey


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


Whose = Literal["all", "clients", "none"]  # rules of which facts cannot be judged


class Gap(msgspec.Struct, frozen=True):
    """What a journal lacks, in words; *since_us*: what was noted before that moment is whole.

    *whose*: which rules cannot do without: all, or those that read what clients tell.
    """

    text: str
    since_us: int
    whose: Whose = "all"


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

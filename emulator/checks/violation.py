"""What a checker says when a journal breaks a rule."""

from __future__ import annotations

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


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What all checkers found in one journal: violations in the order of time, and metrics.

    Metrics are numbers by name; one of a group or topic is called ``name.group``.  A metric of
    a checker that is ``not_judged`` is missing.
    """

    violations: tuple[Violation, ...]
    metrics: dict[str, float]
    fact_count: int
    not_judged: dict[str, str] = {}  # checker: why there is no evidence, or no whole one
    raised: dict[str, str] = {}  # checker: the error that ended it, a defect of ours
    more_violations: int = 0  # beyond what each checker may name

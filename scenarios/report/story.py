"""A journal, folded once into what its page shows: the story of a run.

One pass over the entries, in the order of time: each collector takes the facts it needs, and
the columns take all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from emulator.checks.judging import Judging
from emulator.checks.reading import Skipped
from emulator.checks.violation import Judgement, Violation
from emulator.facts import (
    ConsumerStarted,
    Fact,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
    RunStarted,
    SendFailed,
)
from emulator.journal import Entry
from scenarios.report.columns import Columns, FactTable
from scenarios.report.expected import Expected, expected_of, plan_of
from scenarios.report.flow import Flow, Points
from scenarios.report.lives import Lives, NodeLife
from scenarios.report.ownership import Lane, Owners
from scenarios.running.verdicts import unproven

Taker = Callable[[int, Entry, Any], None]  # is told the number of the fact
ENTRIES_AT_ONCE = 4_096  # that the checkers are given
WORLD = "world"  # the node that notes runs and faults: no lane of its own


class FaultSpan(msgspec.Struct):
    """A fault while it held; *end* is the number of the fact that ended it, -1: none did."""

    fault_id: int
    word: str
    text: str  # the word and what it was told: "slow_link around=broker-a ms=200"
    nodes: tuple[str, ...]
    from_us: int
    until_us: int
    begin: int
    end: int = -1
    reason: str = ""
    acted_count: int = 0


class ShownViolation(msgspec.Struct):
    """A violation and the numbers of the facts that show it."""

    violation: Violation
    at_us: int
    facts: list[int]


class Story(msgspec.Struct):
    """All that a page needs; times are the machine's, in µs (``Entry.mono_us``)."""

    start_ms: int  # wall time of the first fact
    start_us: int  # its time; those of *facts* begin there
    end_us: int
    run: RunStarted | None
    ended: RunEnded | None
    node_names: list[str]  # by their numbers in *facts*
    nodes: list[NodeLife]
    faults: list[FaultSpan]
    lanes: list[Lane]
    series: list[Points]
    places: list[ShownViolation]
    judgement: Judgement | None  # without its violations, which are *places*; None: nobody judged
    expected: list[Expected]  # by the run's plan
    unproven: list[str]  # why it is no pass though nothing was objected to
    plan_title: str  # empty: there is no plan, or it has none
    facts: FactTable


class EmptyJournal(Exception):
    """There is no fact to show."""


def read_and_judge(entries: Iterable[Entry], skipped: Skipped | None = None) -> Story:
    """``read_story`` with all checkers, who are given the entries in the same pass.

    *skipped* counts what the reader of *entries* leaves out.
    """
    judging = Judging(skipped=skipped)

    def judged() -> Iterator[Entry]:
        rest = iter(entries)
        while some := list(islice(rest, ENTRIES_AT_ONCE)):
            judging.take(some)
            yield from some

    return read_story(judged(), judging.end)


def read_story(
    entries: Iterable[Entry], judgement: Callable[[], Judgement] | None = None
) -> Story:
    """The story that *entries* tell, which are in the order of time (``journal.merged``).

    *judgement* is asked at the end what the checkers say of the same entries.  Raises
    ``EmptyJournal``, and what *entries* raise.
    """
    fold = _Fold()
    takers, columns, see = fold.takers, fold.columns, fold.lives.see
    first = entry = None
    for number, entry in enumerate(entries):
        first = first or entry
        ended_us = see(entry)
        if ended_us is not None:
            fold.owners.died(entry.node, ended_us)
        columns.add(entry)
        for take in takers.get(type(entry.fact), ()):
            take(number, entry, entry.fact)
    if first is None or entry is None:
        raise EmptyJournal("the journal has no fact")
    return fold.story(first, entry.mono_us, judgement() if judgement else None)


class _Fold:
    """The collectors; ``takers`` says who takes which fact, besides the columns."""

    def __init__(self) -> None:
        self.columns, self.lives, self.owners, self.flow = Columns(), Lives(), Owners(), Flow()
        self.faults: dict[int, FaultSpan] = {}
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.takers: Mapping[type[Fact], tuple[Taker, ...]] = {
            FaultBegan: (self._began,),
            FaultEnded: (self._healed,),
            RunStarted: (self._started,),
            RunEnded: (self._finished,),
            QueuesClaimed: (self.owners.claimed, self.flow.claimed),
            QueuesReleased: (self.owners.released,),
            OffsetCommitted: (self.owners.committed, self.flow.committed),
            ConsumerStarted: (self.owners.started,),
            MemberJoined: (self.owners.joined,),
            MemberLeft: (self.owners.left,),
            MessageSent: (self.flow.sent,),
            SendFailed: (self.flow.failed,),
            MessageStored: (self.flow.stored,),
            MessageConsumed: (self.flow.consumed,),
        }

    def story(self, first: Entry, end_us: int, judgement: Judgement | None) -> Story:
        """Everything that was taken."""
        for life in self.lives.ended(end_us):
            self.owners.died(life.name, life.last_us)
        lanes = self.owners.lanes(end_us)
        plan = plan_of(self.run) if self.run else None
        return Story(
            start_ms=first.at_ms,
            start_us=first.mono_us,
            end_us=end_us,
            run=self.run,
            ended=self.ended,
            node_names=self.columns.node_names(),
            nodes=sorted(
                (life for life in self.lives.nodes.values() if life.name != WORLD),
                key=NodeLife.place,
            ),
            faults=[_until(span, end_us) for span in self.faults.values()],
            lanes=lanes,
            series=self.flow.series(),
            places=[self._place(it) for it in judgement.violations] if judgement else [],
            judgement=judgement and msgspec.structs.replace(judgement, violations=()),
            expected=expected_of(plan, judgement),
            unproven=unproven(judgement) if judgement else [],
            plan_title=plan.title if plan else "",
            facts=self.columns.table(),
        )

    def _place(self, violation: Violation) -> ShownViolation:
        found = [self.columns.number_of(key) for key in violation.entries]
        return ShownViolation(violation, violation.mono_us, [it for it in found if it is not None])

    def _began(self, number: int, entry: Entry, fact: FaultBegan) -> None:
        word, text = fault_text(fact.fault)
        span = FaultSpan(fact.fault_id, word, text, fact.nodes, entry.mono_us, -1, number)
        self.faults[fact.fault_id] = span
        for node in fact.nodes:
            self.lives.hit(node, word, entry.mono_us)

    def _healed(self, number: int, entry: Entry, fact: FaultEnded) -> None:
        span = self.faults.get(fact.fault_id)
        if span is not None:
            span.until_us, span.end = entry.mono_us, number
            span.reason, span.acted_count = fact.reason, fact.acted_count

    def _started(self, _number: int, _entry: Entry, fact: RunStarted) -> None:
        self.run = fact

    def _finished(self, _number: int, _entry: Entry, fact: RunEnded) -> None:
        self.ended = fact


def fault_text(fault: str) -> tuple[str, str]:
    """The word of a fault that is written as JSON, and a line that says all of it."""
    try:
        fields = msgspec.json.decode(fault, type=dict[str, Any])
    except msgspec.DecodeError:
        return fault, fault
    word = str(fields.pop("fault", "fault"))
    return word, " ".join([word, *(f"{name}={_short(value)}" for name, value in fields.items())])


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _until(span: FaultSpan, end_us: int) -> FaultSpan:
    if span.until_us < 0:
        span.until_us, span.reason = end_us, "held at the end of the journal"
    return span

"""A journal, folded once into what its page and its trace show.

One pass over the entries, in the order of time: each collector takes the facts it needs, and
the columns take all.  The plan stands in the first fact; one that another version wrote, with
parts that are unknown here, is shown as it is and compared with nothing.

A node that was killed notes nothing about it.  Its next process begins with number 1 again, so it
was down from its last fact until then; a fault of the journal says it more exactly.  A node that
notes nothing for ``SILENT_MS_MIN`` is silent: brokers register and consumers rebalance more often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.judging.reading import Skipped
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import (
    ConsumerStarted,
    Fact,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSent,
    MessageStored,
    NodeStarted,
    OffsetCommitted,
    PowerLost,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
    RunStarted,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import NoMetric, unmet_of, unproven
from rocketmq_emulator.scenarios.report.columns import Columns, FactTable
from rocketmq_emulator.scenarios.report.message_flow import MessageFlow, Points
from rocketmq_emulator.scenarios.report.ownership import Lane, Owners

FactHandler = Callable[[int, Entry, Any], None]  # is told the number of the fact
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


class ReportData(msgspec.Struct):
    """All that a page needs; times are the machine's, in µs (``Entry.mono_us``)."""

    start_ms: int  # wall time of the first fact
    start_us: int  # its time; those of *facts* begin there
    end_us: int
    run: RunStarted | None
    ended: RunEnded | None
    node_names: list[str]  # by their numbers in *facts*
    nodes: list[NodeLifetime]
    faults: list[FaultSpan]
    lanes: list[Lane]
    series: list[Points]
    places: list[ShownViolation]
    judgement: Judgement | None  # without its violations, which are *places*; None: nobody judged
    expected: list[ShownExpectation]  # by the run's plan
    unproven: list[str]  # why it is no pass though nothing was objected to
    plan_title: str  # empty: there is no plan, or it has none
    facts: FactTable


class EmptyJournal(DamagedData):
    """There is no fact to show."""


def read_and_judge(entries: Iterable[Entry], skipped: Skipped | None = None) -> ReportData:
    """``read_report_data`` with all checkers, who are given the entries in the same pass.

    *skipped* counts what the reader of *entries* leaves out.
    """
    judging = Judging(skipped=skipped)

    def judged() -> Iterator[Entry]:
        rest = iter(entries)
        while some := list(islice(rest, ENTRIES_AT_ONCE)):
            judging.take(some)
            yield from some

    return read_report_data(judged(), judging.end)


def read_report_data(
    entries: Iterable[Entry], judgement: Callable[[], Judgement] | None = None
) -> ReportData:
    """The story that *entries* tell, which are in the order of time (``journal.merged``).

    *judgement* is asked at the end what the checkers say of the same entries.  Raises
    ``EmptyJournal``, and what *entries* raise.
    """
    fold = _Fold()
    handlers, columns, see = fold.handlers, fold.columns, fold.lives.see
    first = entry = None
    for number, entry in enumerate(entries):
        first = first or entry
        ended_us = see(entry)
        if ended_us is not None:
            fold.owners.died(entry.node, ended_us)
        columns.add(entry)
        for take in handlers.get(type(entry.fact), ()):
            take(number, entry, entry.fact)
    if first is None or entry is None:
        raise EmptyJournal("the journal has no fact")
    return fold.data(first, entry.mono_us, judgement() if judgement else None)


class _Fold:
    """The collectors; ``handlers`` says who takes which fact, besides the columns."""

    def __init__(self) -> None:
        self.columns, self.lives, self.owners, self.flow = (
            Columns(),
            NodeLifetimes(),
            Owners(),
            MessageFlow(),
        )
        self.faults: dict[int, FaultSpan] = {}
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.handlers: Mapping[type[Fact], tuple[FactHandler, ...]] = {
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

    def data(self, first: Entry, end_us: int, judgement: Judgement | None) -> ReportData:
        """Everything that was taken."""
        for life in self.lives.ended(end_us):
            self.owners.died(life.name, life.last_us)
        lanes = self.owners.lanes(end_us)
        plan = plan_of(self.run) if self.run else None
        return ReportData(
            start_ms=first.at_ms,
            start_us=first.mono_us,
            end_us=end_us,
            run=self.run,
            ended=self.ended,
            node_names=self.columns.node_names(),
            nodes=sorted(
                (life for life in self.lives.nodes.values() if life.name != WORLD),
                key=NodeLifetime.place,
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


def _short(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _until(span: FaultSpan, end_us: int) -> FaultSpan:
    if span.until_us < 0:
        span.until_us, span.reason = end_us, "held at the end of the journal"
    return span


# What the plan expected, beside what was measured -------------------------------------


class ShownExpectation(msgspec.Struct, frozen=True):
    """One expectation: "lost == 0", what was measured, and whether it was met."""

    text: str
    metric: str  # with its scope: "idle_members.billing"
    met: bool | None  # None: nothing was measured
    why: str = ""  # there is no measurement


def plan_of(run: RunStarted) -> Plan | None:
    """The plan of *run*, if this version can read it."""
    try:
        return msgspec.json.decode(run.plan, type=Plan)
    except msgspec.MsgspecError:
        return None


def expected_of(plan: Plan | None, judgement: Judgement | None) -> list[ShownExpectation]:
    """The expectations of *plan*; none without a plan or a judgement."""
    if plan is None or judgement is None:
        return []
    return [_expected(one, judgement) for one in plan.expect]


def _expected(one: Expectation, judgement: Judgement) -> ShownExpectation:
    metric = f"{one.metric}.{one.scope}" if one.scope else one.metric
    text = f"{metric} {one.operator} {one.bound:g}"
    try:
        return ShownExpectation(text, metric, not unmet_of((one,), judgement))
    except NoMetric as error:
        return ShownExpectation(text, metric, None, str(error))


# When each node ran: down, paused, silent, gone ---------------------------------------


SILENT_MS_MIN = 45_000  # brokers register every 30 s, consumers rebalance every 20 s
SERVERS = ("nameserver", "broker")
ENDING_FAULTS = frozenset({"kill", "stop", "power_off", "leave"})


class Absence(msgspec.Struct, frozen=True):
    """A node noted nothing from *from_us* until *until_us*, because it was *how*."""

    from_us: int
    until_us: int
    how: str  # "down", "silent", "paused", "gone": nothing more until the end of the journal


class NodeLifetime(msgspec.Struct):
    """A node, its role where a fact names it, and when it was not there."""

    name: str
    role: str = ""  # empty: a client, which notes no start
    first_us: int = 0
    last_us: int = 0
    last_seq: int = 0
    fault_word: str = ""  # the word of the fault that ended or paused it, until its next fact
    absences: list[Absence] = []

    def place(self) -> tuple[int, list[str | int]]:
        """Where it stands in a list: servers first, ``consumer-2`` before ``consumer-10``."""
        parts = re.split(r"(\d+)", self.name)
        order = SERVERS.index(self.role) if self.role in SERVERS else len(SERVERS)
        return order, [int(part) if part.isdigit() else part for part in parts]


class NodeLifetimes:
    """Takes every entry, says who died."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLifetime] = {}

    def see(self, entry: Entry) -> int | None:
        """*entry* was noted; when its node ended, if this shows that it did."""
        life = self.nodes.get(entry.node)
        at_us, seq = entry.mono_us, entry.seq
        if life is None:
            role = entry.fact.role if isinstance(entry.fact, NodeStarted) else ""
            self.nodes[entry.node] = NodeLifetime(entry.node, role, at_us, at_us, seq)
            return None
        ended_us, silent_us = life.last_us, at_us - life.last_us
        is_new = seq <= life.last_seq or life.fault_word == "power_off"
        life.last_us, life.last_seq = at_us, seq
        if type(entry.fact) is PowerLost:  # noted by the world, in the name of the machine
            life.fault_word = "power_off"
            return at_us
        if is_new or silent_us > SILENT_MS_MIN * 1_000 or life.fault_word == "pause":
            how = "down" if is_new else "paused" if life.fault_word == "pause" else "silent"
            life.absences.append(Absence(ended_us, at_us, how))
            life.fault_word = ""
        return ended_us if is_new else None

    def hit(self, node: str, word: str, at_us: int) -> None:
        """A fault of this *word* began at *node*: what it noted before is not the last moment."""
        life = self.nodes.get(node)
        if life is not None and (word in ENDING_FAULTS or word == "pause"):
            life.last_us, life.fault_word = at_us, word

    def ended(self, end_us: int) -> Iterator[NodeLifetime]:
        """Those of which nothing more is heard until *end_us*, and their last absence is noted."""
        for life in self.nodes.values():
            if end_us - life.last_us > SILENT_MS_MIN * 1_000 or life.fault_word in ENDING_FAULTS:
                life.absences.append(Absence(life.last_us, end_us, "gone"))
                yield life

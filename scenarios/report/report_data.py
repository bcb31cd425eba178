"""A journal, folded once into the data of its page and its trace.

One pass over the entries, in the order of time: each collector takes the facts it needs, and
the columns take all.  The plan is in the first fact, ``RunStarted``.  If another version wrote it
and this version cannot decode it, the plan is shown as text and its expectations are left out.

A killed node records no fact about that.  Its next process begins with number 1 again, so the
node was down from its last fact until then; a ``FaultBegan`` gives the time more exactly.  A node
without a fact for ``SILENT_MS_MIN`` is silent: brokers register and consumers rebalance more
often.  A controller may have nothing to record for hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from rocketmq_emulator.checks.judging.judging import Judging
from rocketmq_emulator.checks.judging.reading import Skipped
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.state.start_ups import FIRST_US
from rocketmq_emulator.checks.state.violation import Judgement, Violation
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    ActionBegan,
    BrokerRegistered,
    BrokerRoleChanged,
    ConsumerStarted,
    ElectionFailed,
    Fact,
    FaultBegan,
    FaultEnded,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    MasterElected,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageSent,
    MessageSentBack,
    MessageStored,
    NodePaused,
    NodeStarted,
    OffsetCommitted,
    PowerLost,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
    RunStarted,
    SendFailed,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.error_families import DamagedData
from rocketmq_emulator.scenarios.plan.plan import Expectation, Plan
from rocketmq_emulator.scenarios.plan.result import NoMetric, Verdict, no_pass, unmet_of
from rocketmq_emulator.scenarios.report.columns import Columns, FactTable
from rocketmq_emulator.scenarios.report.message_flow import MessageFlow, Points
from rocketmq_emulator.scenarios.report.ownership import Lane, Owners
from rocketmq_emulator.scenarios.report.roles import RoleHistory, RoleSpan
from rocketmq_emulator.text.values import natural

FactHandler = Callable[[int, Entry, Any], None]  # the first argument: the number of the fact
ENTRIES_AT_ONCE = 4_096  # passed to the checkers together
WORLD = "world"  # the node name in facts of runs and faults; it is not listed among the nodes


class FaultSpan(msgspec.Struct):
    """The period of a fault; *begin* and *end* are numbers of facts, *end* -1: it did not end."""

    fault_id: int
    word: str
    text: str  # the word and its fields: "slow_link around=broker-a ms=200"
    nodes: tuple[str, ...]
    from_us: int
    until_us: int
    begin: int
    end: int = -1
    reason: str = ""
    acted_count: int = 0


class ShownAction(msgspec.Struct, frozen=True):
    """An action of the timeline, or a mark; *fact* is the number of its ``ActionBegan``."""

    fact: int
    at_us: int
    action: str
    text: str  # the action with its fields; of a mark: its text


class ShownViolation(msgspec.Struct):
    """A violation and the numbers of the facts that are its evidence."""

    violation: Violation
    at_us: int
    facts: list[int]


class ReportData(msgspec.Struct):
    """All data of a page; times are those of the machine's clock, in µs (``Entry.mono_us``)."""

    start_ms: int  # wall time of the first fact
    start_us: int  # its time; those of *facts* begin there
    end_us: int
    run: RunStarted | None
    ended: RunEnded | None
    node_names: list[str]  # by their numbers in *facts*
    nodes: list[NodeLifetime]
    faults: list[FaultSpan]
    actions: list[ShownAction]
    roles: list[RoleSpan]  # of brokers; empty if each is a master all the time
    elections: list[int]  # numbers of facts
    lanes: list[Lane]
    series: list[Points]
    places: list[ShownViolation]
    judgement: Judgement | None  # without violations, which are in *places*; None: not judged
    expected: list[ShownExpectation]  # by the run's plan
    metrics: list[ShownMetric]  # each once, those of unmet expectations first
    unproven: list[str]  # reasons why the run does not count as passed without a violation
    plan_title: str  # empty: there is no plan, or it has none
    facts: FactTable

    @property
    def violation_count(self) -> int:
        """The number of violations, also of those that are not listed."""
        return len(self.places) + (self.judgement.more_violations if self.judgement else 0)

    @property
    def verdict(self) -> Verdict:
        """The verdict of the run's row; for a cluster's journals by the same rules."""
        has_ended = self.ended is None or self.ended.reason == "finished"
        if not has_ended or (self.judgement and self.judgement.raised):
            return "error"
        if self.places or any(one.met is False for one in self.expected):
            return "failed"
        is_unknown = self.unproven or any(one.met is None for one in self.expected)
        return "error" if is_unknown else "passed"

    @property
    def why(self) -> str:
        """One line: why it is not passed; empty if it is."""
        if self.verdict == "error":
            unknown = (one.why for one in self.expected if one.met is None)
            return next(iter([*self.unproven, *unknown]), "")
        if self.places:
            first, more = self.places[0].violation, self.violation_count - 1
            return f"{first.checker}: {first.what}" + (f" (and {more} more)" if more else "")
        return ""


class EmptyJournal(DamagedData):
    """The journal has no fact to show."""


def read_and_judge(entries: Iterable[Entry], skipped: Skipped | None = None) -> ReportData:
    """``read_report_data`` with the judgement of all checkers, computed in the same pass.

    *skipped* counts the lines that the reader of *entries* leaves out.
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
    """The report data of *entries*, which are in the order of time (``journal.merged``).

    *judgement* is called at the end; it returns the checkers' judgement of the same entries.
    Raises ``EmptyJournal``, and the errors of the iterator *entries*.
    """
    fold = _Fold()
    handlers, columns, see = fold.handlers, fold.columns, fold.lives.see
    first = entry = None
    for number, entry in enumerate(entries):
        first = first or entry
        ended_us = see(entry)
        if ended_us is not None:
            fold.owners.died(entry.node, ended_us)
            fold.roles.ended(entry.node, ended_us)
        columns.add(entry)
        for take in handlers.get(type(entry.fact), ()):
            take(number, entry, entry.fact)
    if first is None or entry is None:
        raise EmptyJournal("the journal has no fact")
    return fold.data(first, entry.mono_us, judgement() if judgement else None)


class _Fold:
    """The collectors; ``handlers`` maps each kind of fact to them; the columns take all facts."""

    def __init__(self) -> None:
        self.columns, self.lives, self.owners, self.flow = (
            Columns(),
            NodeLifetimes(),
            Owners(),
            MessageFlow(),
        )
        self.roles = RoleHistory()
        self.faults: dict[int, FaultSpan] = {}
        self.actions: list[ShownAction] = []
        self.members: dict[str, set[str]] = {}  # by group: nodes that were members
        self.groups_from_us: dict[str, int] = {}
        self.run: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.handlers: Mapping[type[Fact], tuple[FactHandler, ...]] = {
            FaultBegan: (self._began,),
            FaultEnded: (self._healed,),
            NodePaused: (self._paused,),
            ActionBegan: (self._acted,),
            NodeStarted: (self.roles.started,),
            BrokerRegistered: (self.roles.registered,),
            BrokerRoleChanged: (self.roles.changed,),
            ActingMasterBegan: (self.roles.acting_began,),
            ActingMasterEnded: (self.roles.acting_ended,),
            MasterElected: (self.roles.elected,),
            ElectionFailed: (self.roles.elected,),
            RunStarted: (self._started,),
            RunEnded: (self._finished,),
            QueuesClaimed: (self.owners.claimed, self.flow.claimed),
            QueuesReleased: (self.owners.released,),
            OffsetCommitted: (self.owners.committed, self.flow.committed),
            ConsumerStarted: (self.owners.started, self.flow.started, self._joined),
            MemberJoined: (self.owners.joined,),
            MemberLeft: (self.owners.left,),
            MessageSent: (self.flow.sent,),
            SendFailed: (self.flow.failed,),
            MessageStored: (self.flow.stored,),
            MessageConsumed: (self.flow.consumed,),
            MessageSentBack: (self.flow.sent_back,),
            HalfMessageStored: (self.flow.half_stored,),
            TransactionEnded: (self.flow.transaction_over,),
            TransactionGivenUp: (self.flow.transaction_over,),
            TransactionChecked: (self.flow.checked,),
            ImmuneHalfStoredAgain: (self.flow.checked,),
        }

    def data(self, first: Entry, end_us: int, judgement: Judgement | None) -> ReportData:
        """The report data of all entries so far."""
        for life in self.lives.ended(end_us):
            self.owners.died(life.name, life.last_us)
            self.roles.ended(life.name, life.last_us)
        lanes = self.owners.lanes(end_us)
        plan = plan_of(self.run) if self.run else None
        expected = expected_of(plan, judgement)
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
            actions=self.actions,
            roles=sorted(self.roles.spans(end_us), key=lambda span: natural(span.node)),
            elections=self.roles.elections,
            lanes=lanes,
            series=self.flow.series(),
            places=[self._place(it) for it in judgement.violations] if judgement else [],
            judgement=judgement and msgspec.structs.replace(judgement, violations=()),
            expected=sorted(expected, key=lambda one: one.met is not False),
            metrics=metrics_of(expected, judgement),
            unproven=no_pass(self.ended, judgement) if judgement else [],
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

    def _paused(self, _number: int, entry: Entry, fact: NodePaused) -> None:
        self.lives.hit(fact.node, "pause", entry.mono_us)

    def _acted(self, number: int, entry: Entry, fact: ActionBegan) -> None:
        self.actions.append(ShownAction(number, entry.mono_us, fact.action, fact.what()))

    def _joined(self, number: int, entry: Entry, fact: ConsumerStarted) -> None:
        """A new member of a group that runs: an action, unless the timeline has noted it."""
        from_us = self.groups_from_us.setdefault(fact.group, entry.mono_us)
        members = self.members.setdefault(fact.group, set())
        is_new = entry.node not in members
        members.add(entry.node)
        if not is_new or entry.mono_us <= from_us + FIRST_US:
            return
        joins = [each.at_us for each in self.actions[-1:] if each.action == "join"]
        if joins and entry.mono_us <= joins[0] + FIRST_US:
            return  # it is one of those that the timeline lets join
        text = f"join {fact.group}: {entry.node}"
        self.actions.append(ShownAction(number, entry.mono_us, "join", text))

    def _started(self, _number: int, _entry: Entry, fact: RunStarted) -> None:
        self.run = fact

    def _finished(self, _number: int, _entry: Entry, fact: RunEnded) -> None:
        self.ended = fact


def fault_text(fault: str) -> tuple[str, str]:
    """The word of a fault that is written as JSON, and one line with the word and all fields."""
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


# Expectations of the plan, with the measured values -----------------------------------


class ShownExpectation(msgspec.Struct, frozen=True):
    """One expectation: "lost == 0", what was measured, and whether it was met."""

    text: str
    metric: str  # with its scope: "idle_members.billing"
    met: bool | None  # None: nothing was measured
    why: str = ""  # why nothing was measured


def plan_of(run: RunStarted) -> Plan | None:
    """The plan of *run*; None if this version cannot decode it."""
    try:
        return msgspec.json.decode(run.plan, type=Plan)
    except msgspec.MsgspecError:
        return None


def expected_of(plan: Plan | None, judgement: Judgement | None) -> list[ShownExpectation]:
    """The expectations of *plan* and whether they were met; empty without plan or judgement."""
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


# Metrics, each once -------------------------------------------------------------------


class ShownMetric(msgspec.Struct, frozen=True):
    """A metric of a checker: the run's value, what it is computed over, and its parts."""

    name: str
    checker: str
    unit: str
    sentence: str
    value: float
    over: str  # how the run's value follows from the parts: "sum over groups"; empty: no parts
    parts: dict[str, float]  # by group, topic or node
    unmet: bool  # an expectation of it, or of a part, was not met


def metrics_of(expected: list[ShownExpectation], judgement: Judgement | None) -> list[ShownMetric]:
    """Each metric of *judgement* once, with its parts; first those that were not met."""
    if judgement is None:
        return []
    unmet = {one.metric.partition(".")[0] for one in expected if one.met is False}
    found = []
    for checker in ALL.values():
        for metric in checker.metrics:
            if (value := judgement.metrics.get(metric.name)) is None:
                continue
            prefix = f"{metric.name}."
            parts = {
                name.removeprefix(prefix): part
                for name, part in judgement.metrics.items()
                if name.startswith(prefix)
            }
            how = {"sum": "sum over", "max": "largest of"}[metric.total]
            found.append(
                ShownMetric(
                    name=metric.name,
                    checker=checker.name,
                    unit=metric.unit,
                    sentence=metric.sentence,
                    value=value,
                    over=f"{how} {len(parts)} {metric.of}s" if len(parts) > 1 else "",
                    parts=parts,
                    unmet=metric.name in unmet,
                )
            )
    return sorted(found, key=lambda each: not each.unmet)


# Absences of nodes: down, paused, silent, gone ----------------------------------------


SILENT_MS_MIN = 45_000  # brokers register every 30 s, consumers rebalance every 20 s
OFTEN_SILENT = "controller"  # a role: it records elections and changes of sets only
SERVERS = ("nameserver", "controller", "broker")
ENDING_FAULTS = frozenset({"kill", "stop", "power_off", "leave"})


class Absence(msgspec.Struct, frozen=True):
    """A period in which a node recorded no fact; *how* is the cause."""

    from_us: int
    until_us: int
    how: str  # "down", "silent", "paused", or "gone": no more facts until the journal's end


class NodeLifetime(msgspec.Struct):
    """A node, its role if a ``NodeStarted`` names it, and its absences."""

    name: str
    role: str = ""  # empty: a client, which records no ``NodeStarted``
    first_us: int = 0
    last_us: int = 0
    last_seq: int = 0
    fault_word: str = ""  # of the fault that ended or paused it; empty from its next fact on
    absences: list[Absence] = []

    def place(self) -> tuple[int, tuple[tuple[str | int, ...], str]]:
        """The sort key: servers first, ``consumer-2`` before ``consumer-10``."""
        order = SERVERS.index(self.role) if self.role in SERVERS else len(SERVERS)
        return order, natural(self.name)


class NodeLifetimes:
    """Takes every entry and finds the absences of nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLifetime] = {}

    def see(self, entry: Entry) -> int | None:
        """Take *entry*; returns when its node's process ended, if *entry* shows that it did."""
        life = self.nodes.get(entry.node)
        at_us, seq = entry.mono_us, entry.seq
        if life is None:
            role = entry.fact.role if isinstance(entry.fact, NodeStarted) else ""
            self.nodes[entry.node] = NodeLifetime(entry.node, role, at_us, at_us, seq)
            return None
        ended_us, silent_us = life.last_us, at_us - life.last_us
        is_new = seq <= life.last_seq or life.fault_word == "power_off"
        life.last_us, life.last_seq = at_us, seq
        if type(entry.fact) is PowerLost:  # recorded by the world under the machine's name
            life.fault_word = "power_off"
            return at_us
        is_silent = silent_us > SILENT_MS_MIN * 1_000 and life.role != OFTEN_SILENT
        if is_new or is_silent or life.fault_word == "pause":
            how = "down" if is_new else "paused" if life.fault_word == "pause" else "silent"
            life.absences.append(Absence(ended_us, at_us, how))
            life.fault_word = ""
        return ended_us if is_new else None

    def hit(self, node: str, word: str, at_us: int) -> None:
        """A fault began at *node*: if it ends or pauses the node, its absence begins now."""
        life = self.nodes.get(node)
        if life is not None and (word in ENDING_FAULTS or word == "pause"):
            life.last_us, life.fault_word = at_us, word

    def ended(self, end_us: int) -> Iterator[NodeLifetime]:
        """Nodes without facts up to *end_us*; adds a last absence "gone" to each."""
        for life in self.nodes.values():
            is_silent = end_us - life.last_us > SILENT_MS_MIN * 1_000
            if (is_silent and life.role != OFTEN_SILENT) or life.fault_word in ENDING_FAULTS:
                life.absences.append(Absence(life.last_us, end_us, "gone"))
                yield life

"""Expectations of a plan that its run did not meet: which, since when, and why.

Pure: entries and a judgement go in, values and lines come out.  An expectation that a violation
already explains is not explained again.

A metric that passes its bound once and stays beyond it has a fact at which it passed the bound.  A
binary search finds it: judging the first half of the journal shows whether the fact is before or
after.  A metric that rises and falls again and again (a backlog) has no such fact.

Nor has a metric of something that did not happen (``backlog``, ``stuck``, ``unrest``,
``unowned_s``).  For these the lines name the remaining messages by group, queue and first
offset, the queue's owner, and the last actions there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from rocketmq_emulator.checks.judging.judging import Judging, judge
from rocketmq_emulator.checks.judging.reading import BadJournal
from rocketmq_emulator.checks.judging.table import ALL
from rocketmq_emulator.checks.rules.liveness import LivenessReturns
from rocketmq_emulator.checks.rules.ownership import OneOwner
from rocketmq_emulator.checks.state.violation import Judgement, place_of
from rocketmq_emulator.facts import (
    DelayedDelivered,
    MessageStored,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
    RunStarted,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.cause_journal import CauseJournal
from rocketmq_emulator.scenarios.after.causes import WORST, MetricCause, causes_of_unmet
from rocketmq_emulator.scenarios.after.explaining import faults_at
from rocketmq_emulator.scenarios.after.related_facts import facts_around, subject_of
from rocketmq_emulator.scenarios.after.remaining_messages import (
    RemainingMessages,
    remaining_at_end,
)
from rocketmq_emulator.scenarios.after.replay import start_of
from rocketmq_emulator.scenarios.descriptions.names import NodeNames, queues_of
from rocketmq_emulator.scenarios.descriptions.queue_history import (
    GroupQueueHistory,
    history_lines,
    queue_histories_of,
    whose,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many
from rocketmq_emulator.scenarios.descriptions.summaries import FactLine, line_of_run, runs_of
from rocketmq_emulator.scenarios.plan.plan import Expectation
from rocketmq_emulator.scenarios.plan.result import NoMetric, expected_text, unmet_of

REMAINDER_METRICS = ("backlog", "stuck", "unrest")  # the liveness checker explains these itself
LIVENESS = LivenessReturns.name


class UnmetExpectations(msgspec.Struct, frozen=True):
    """Unmet expectations as sentences; for each its cause, if a rule draws it.

    And a ``BoundCrossing`` or a ``Shortfall``, if known.  One that a violation explains has none.
    """

    unmet: tuple[str, ...] = ()
    turns: tuple[BoundCrossing, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    causes: tuple[MetricCause, ...] = ()


def unmet_expectations(
    entries: Sequence[Entry], judgement: Judgement, journal: str
) -> UnmetExpectations:
    """The expectations of the plan in *entries* that *judgement* does not meet.

    Empty if *entries* do not begin with ``RunStarted``.
    """
    if not entries or not isinstance(entries[0].fact, RunStarted):
        return UnmetExpectations()
    try:
        plan = start_of(entries[0], journal).plan
    except BadJournal as error:
        return UnmetExpectations((f"the expectations are unknown: {error}",))
    unmet: list[str] = []
    turns: list[BoundCrossing] = []
    short: list[Shortfall] = []
    unexplained: list[Expectation] = []
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
        unexplained.append(expectation)
        if (lacked := shortfall_of(entries, expectation)) is not None:
            short.append(lacked)
        elif (turn := crossing_of(entries, expectation)) is not None:
            turns.append(turn)
    causes = causes_of_unmet(CauseJournal(entries), unexplained, judgement)
    return UnmetExpectations(tuple(unmet), tuple(turns), tuple(short), causes)


def _is_explained(expectation: Expectation, judgement: Judgement) -> bool:
    """Does a violation already explain this metric?

    For ``REMAINDER_METRICS`` it must be the first violation, and of the liveness checker.
    """
    checkers = {violation.checker for violation in judgement.violations}
    if expectation.metric in REMAINDER_METRICS:
        return judgement.violations[:1] != () and judgement.violations[0].checker == LIVENESS
    return any(
        expectation.metric in (metric.name for metric in ALL[checker].metrics)
        for checker in checkers
    )


# The fact at which a metric passed its bound ------------------------------------------


SAMPLES = 8  # prefixes judged first, to see whether the metric passed its bound only once
ENTRIES_MAX = 300_000  # a longer journal is not searched: each step judges it again


class BoundCrossing(msgspec.Struct, frozen=True):
    """The fact at which a metric passed its bound: its time, the active faults, related facts.

    *is_longest*: it is the end of the longest time, which the cause is about.
    """

    expected: str
    at_s: float
    faults: tuple[str, ...]
    facts: tuple[FactLine, ...]
    is_longest: bool = False


def crossing_of(entries: Sequence[Entry], expectation: Expectation) -> BoundCrossing | None:
    """The fact with which the metric of *expectation* exceeded its bound for good.

    None if there is no single such fact, or the journal has more than ``ENTRIES_MAX`` entries.  A
    metric that stays too low (``>=``) has no such fact.
    """
    if (longest := _end_of_longest(entries, expectation)) is not None:
        return _crossing_at(entries, longest, expectation, is_longest=True)
    if len(entries) > ENTRIES_MAX:
        return None
    checkers = [
        kind for kind in ALL.values() if expectation.metric in (m.name for m in kind.metrics)
    ]

    def is_beyond(count: int) -> bool:
        """Is the metric of the first *count* entries above the bound?"""
        try:
            unmet = unmet_of((expectation,), judge(entries[:count], checkers))
        except NoMetric:  # nothing to count yet
            return False
        return any(one.actual > expectation.bound for one in unmet)

    looks = [len(entries) * part // SAMPLES for part in range(SAMPLES + 1)]
    seen = [is_beyond(count) for count in looks]
    if seen != sorted(seen) or seen[0] or not seen[-1]:
        return None
    met, beyond = looks[seen.index(True) - 1], looks[seen.index(True)]
    while beyond - met > 1:
        middle = (met + beyond) // 2
        met, beyond = (met, middle) if is_beyond(middle) else (middle, beyond)
    return _crossing_at(entries, entries[beyond - 1], expectation)


def _crossing_at(
    entries: Sequence[Entry], entry: Entry, expectation: Expectation, *, is_longest: bool = False
) -> BoundCrossing:
    subject = subject_of([entry], entry.mono_us, NodeNames(entries))
    facts, _ = facts_around(entries, [entry], subject)
    return BoundCrossing(
        expected=expected_text(expectation),
        at_s=entry.mono_us / 1_000_000,
        faults=tuple(faults_at(entries, entry.mono_us, subject.nodes)),
        facts=facts,
        is_longest=is_longest,
    )


def _end_of_longest(entries: Sequence[Entry], expectation: Expectation) -> Entry | None:
    """The last fact of the longest time that the metric measures, if ``WORST`` knows it."""
    worst_of = WORST.get(expectation.metric)
    if worst_of is None:
        return None
    worst = worst_of(CauseJournal(entries), expectation.metric, expectation.scope)
    if worst is None:
        return None
    return next(
        (
            entry
            for entry in entries
            if entry.mono_us == worst.until_us and worst.queue in queues_of(entry.fact)
        ),
        None,
    )


# Remaining work, if there is no such fact ---------------------------------------------


QUEUES_SHOWN_MAX = 2  # of each group, with their last actions
QUEUES_NAMED_MAX = 4  # further queues with messages left, one line each
GROUPS_MAX = 3
GAPS_MAX = 2  # queues without an owner
LATELY_US = 60_000_000  # before the end: changes of owners in it are shown
LATELY_MAX = 6  # lines of them


class Shortfall(msgspec.Struct, frozen=True):
    """An expectation that was not met and the remaining work, one sentence per line."""

    expected: str
    why: tuple[str, ...]


def shortfall_of(entries: Sequence[Entry], expectation: Expectation) -> Shortfall | None:
    """The remaining work of *expectation*; None for a metric that ``EXPLAINED`` lacks."""
    explain = EXPLAINED.get(expectation.metric)
    if explain is None or not entries:
        return None
    lines = tuple(explain(entries, expectation.scope))
    return Shortfall(expected_text(expectation), lines) if lines else None


# By metric ----------------------------------------------------------------------------------


def _backlog(entries: Sequence[Entry], scope: str) -> Iterator[str]:
    """The unfinished messages by group and queue, and the owners of the queues."""
    left = [each for each in remaining_at_end(entries) if scope in ("", each.group)]
    groups = list(dict.fromkeys(each.group for each in left))
    names = NodeNames(entries)
    for group in groups[:GROUPS_MAX]:
        yield from _backlog_of(entries, names, group, [e for e in left if e.group == group])
    if (more := len(groups) - GROUPS_MAX) > 0:
        yield f"and {more} more groups have messages left"


def _backlog_of(
    entries: Sequence[Entry], names: NodeNames, group: str, left: list[RemainingMessages]
) -> Iterator[str]:
    count, until_us = sum(each.count for each in left), entries[-1].mono_us
    yield f"{group} has not finished {many(count, 'message')}, in {many(len(left), 'queue')}"
    histories = queue_histories_of(
        entries, names, [(group, each.queue) for each in left], until_us
    )
    for each in left[:QUEUES_SHOWN_MAX]:
        history = histories[group, each.queue]
        history = history.of_node(each.node) if each.node else history
        yield _left(each)
        since_us = max((e.mono_us for e in _progress(history)), default=0)
        yield from (f"  {line}" for line in history_lines(history, names, since_us))
    for each in left[QUEUES_SHOWN_MAX : QUEUES_SHOWN_MAX + QUEUES_NAMED_MAX]:
        yield f"{_left(each)}; {whose(histories[group, each.queue])}"
    if (more := len(left) - QUEUES_SHOWN_MAX - QUEUES_NAMED_MAX) > 0:
        yield f"and {more} more queues of {group}"


def _progress(history: GroupQueueHistory) -> list[Entry]:
    """The last actions of members except pulls: refusals before them did no harm."""
    return [
        entry for acts in history.acts.values() for name, entry in acts.items() if name != "pull"
    ]


def _left(left: RemainingMessages) -> str:
    who = f"{left.group} on {left.node}" if left.node else left.group
    count = many(left.count, "message")
    text = f"{place_of(left.queue)}: {count} from {left.first} on not finished by {who}"
    if not left.is_read:
        return f"{text}, which never pulled there"
    committed = "nothing" if left.committed is None else left.committed
    return text if left.node else f"{text}, which has committed {committed}"


def _unrest(entries: Sequence[Entry], *_: object) -> Iterator[str]:
    """Why the cluster was not quiet: messages left, delayed messages, queues that moved last."""
    ended = entries[-1].fact
    if isinstance(ended, RunEnded) and ended.detail:
        yield ended.detail
    left = list(_backlog(entries, ""))
    yield from left
    waits = list(_waits(entries))
    yield from waits
    lately = _recent_moves(entries)
    if lately and not left:
        yield f"queues that changed their owner in the last {LATELY_US // 1_000_000} s:"
        yield from lately
    if not left and not waits and not lately:
        yield from _lags(entries)


def _waits(entries: Sequence[Entry]) -> Iterator[str]:
    """Delay levels of brokers with more messages stored than delivered."""
    came: dict[tuple[str, int], list[Entry]] = {}
    went: dict[tuple[str, int], int] = {}
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, MessageStored) and fact.queue.topic == SCHEDULE_TOPIC:
            came.setdefault((entry.node, fact.queue.queue_id + 1), []).append(entry)
        elif isinstance(fact, DelayedDelivered):
            at = (entry.node, fact.delay_level)
            went[at] = went.get(at, 0) + 1
    for (broker, level), stored in came.items():
        if (count := len(stored) - went.get((broker, level), 0)) > 0:
            came_in_all = many(len(stored), "message")
            yield f"{broker} has not delivered {count} of {came_in_all} of delay level {level}"


def _recent_moves(entries: Sequence[Entry]) -> list[str]:
    names, from_us = NodeNames(entries), entries[-1].mono_us - LATELY_US
    moved = [
        entry
        for entry in entries
        if entry.mono_us >= from_us and isinstance(entry.fact, QueuesClaimed | QueuesReleased)
    ]
    lines = [line_of_run(run, names) for run in runs_of(moved, names)]
    return [f"  {line.at_s:.3f} s, {line.node} {line.text}" for line in lines[-LATELY_MAX:]]


def _lags(entries: Sequence[Entry]) -> Iterator[str]:
    """Queues of which a group has consumed everything and not committed everything."""
    judging = Judging(())
    judging.take(entries)
    groups = judging.cluster.consumers.keys() - judging.cluster.broadcast
    behind = [
        reading
        for reader, reading in judging.progress.readings()
        if reader in groups and (reading.committed or 0) < reading.records.end_offset
    ]
    names, until_us = NodeNames(entries), entries[-1].mono_us
    pairs = [(reading.reader, reading.queue) for reading in behind[:QUEUES_SHOWN_MAX]]
    histories = queue_histories_of(entries, names, pairs, until_us)
    for reading in behind[:QUEUES_SHOWN_MAX]:
        committed = "nothing" if reading.committed is None else reading.committed
        yield (
            f"{place_of(reading.queue)}: {reading.reader} has consumed everything, and committed "
            f"{committed} where the queue ends at {reading.records.end_offset}"
        )
        history = histories[reading.reader, reading.queue]
        yield from (f"  {line}" for line in history_lines(history, names, until_us))
    if (more := len(behind) - QUEUES_SHOWN_MAX) > 0:
        yield f"and the same in {many(more, 'queue')} more"


def _unowned(entries: Sequence[Entry], scope: str) -> Iterator[str]:
    """The queues without an owner for the longest time: earlier owners and the last rebalances."""
    judging = Judging((OneOwner,))
    judging.take(entries)
    judging.end()
    (checker,) = judging.checkers
    assert isinstance(checker, OneOwner)
    names = NodeNames(entries)
    gaps = [each for each in checker.unowned() if scope in ("", each.group)]
    for gap in gaps[:GAPS_MAX]:
        seconds = (gap.until_us - gap.from_us) / 1_000_000
        yield (
            f"{place_of(gap.queue)} had no owner in {gap.group} for {seconds:.1f} s, from "
            f"{gap.from_us / 1_000_000:.3f} s to {gap.until_us / 1_000_000:.3f} s"
        )
        pair = (gap.group, gap.queue)
        history = queue_histories_of(entries, names, [pair], gap.until_us - 1)[pair]
        yield from (f"  {line}" for line in history_lines(history, names, gap.from_us))


Explain: TypeAlias = Callable[[Sequence[Entry], str], Iterator[str]]
EXPLAINED: Mapping[str, Explain] = {
    "backlog": _backlog,
    "stuck": _backlog,
    "unrest": _unrest,
    "unowned_s": _unowned,
    "unowned_queue_s": _unowned,
    "starved_queues": _unowned,
    "waiting": lambda entries, *_: _waits(entries),
}

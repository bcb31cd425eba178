"""Why a journal failed, in words: the first violation, its cause, its evidence, and owners.

Pure: entries and a judgement go in, lines for people come out.  The cause comes first, if there is
a rule that draws it (``causes.py``).  Then the evidence, as sentences in the order of time.  Then
the owners of the violation's queues and their last actions, where a reader sees what is missing.
Then the related facts (``related_facts.facts_around``), many of a kind as one line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from rocketmq_emulator.checks.judging.table import EXCUSES
from rocketmq_emulator.checks.state.violation import Judgement, Violation, place_of
from rocketmq_emulator.facts import (
    ConsumerStarted,
    DelayedDelivered,
    FaultBegan,
    FaultEnded,
    MessageConsumed,
    MessageStored,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.messages.names import SCHEDULE_TOPIC
from rocketmq_emulator.scenarios.after.cause_journal import CauseJournal
from rocketmq_emulator.scenarios.after.causes import cause_of_violation
from rocketmq_emulator.scenarios.after.related_facts import (
    BEFORE_US,
    facts_around,
    queues_about,
    subject_of,
)
from rocketmq_emulator.scenarios.descriptions.names import (
    NodeNames,
    fault_in_words,
    queues_of,
    words_of,
)
from rocketmq_emulator.scenarios.descriptions.queue_history import (
    Pair,
    history_lines,
    queue_histories_of,
)
from rocketmq_emulator.scenarios.descriptions.sentences import many
from rocketmq_emulator.scenarios.descriptions.summaries import FactLine, key_of

FAULTS_MAX = 5
QUEUES_SHOWN_MAX = 2  # with their owners
OTHERS_MAX = 5  # other broken rules
SAME_RULE_MAX = 2  # more violations of the first rule


class Explanation(msgspec.Struct, frozen=True):
    """*facts*: the evidence, then the related facts; *left_out*: related facts that are not shown.

    *cause*: three to six sentences, empty if no rule draws one: then evidence that repeats is
    one line.  *whose*: the owners of the violation's queues, and their last actions there.
    *others*: a line for each other broken rule.
    """

    violation: Violation
    count: int  # of all violations
    faults: tuple[str, ...]  # active at the violation
    facts: tuple[FactLine, ...]
    left_out: int
    whose: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()


def explained(entries: Sequence[Entry], judgement: Judgement) -> Explanation | None:
    """Explains the first violation; None if there is none."""
    if not judgement.violations:
        return None
    violation = judgement.violations[0]
    cited = set(violation.entries)
    evidence = [entry for entry in entries if key_of(entry) in cited]
    names = NodeNames(entries)
    subject = subject_of(evidence, violation.mono_us, names, violation.node, violation.what)
    pairs = _pairs(entries, evidence, violation.what)
    pair = pairs[0] if pairs else _queue_alone(evidence, violation.what)
    cause = cause_of_violation(CauseJournal(entries), violation, evidence, pair)
    facts, left_out = facts_around(entries, evidence, subject, collapses=not cause)
    return Explanation(
        violation=violation,
        count=len(judgement.violations) + judgement.more_violations,
        faults=tuple(faults_at(entries, violation.mono_us, subject.nodes)),
        facts=facts,
        left_out=left_out,
        whose=tuple(_whose(entries, evidence, violation, names)),
        others=tuple(_others(judgement)),
        cause=cause,
    )


def let_off(judgement: Judgement) -> dict[str, float]:
    """What rules counted and excused, by the metric of the excuse (``EXCUSES``); most first."""
    found = {name: judgement.metrics.get(name, 0.0) for name in EXCUSES}
    most_first = sorted(found.items(), key=lambda pair: -pair[1])
    return {name: count for name, count in most_first if count}


def faults_at(entries: Iterable[Entry], at_us: int, nodes: Collection[str] = ()) -> Iterator[str]:
    """The faults active at *at_us*, each with the time since it began; first those of *nodes*."""
    began: dict[int, Entry] = {}
    for entry in entries:
        if entry.mono_us > at_us:
            break
        if isinstance(entry.fact, FaultBegan):
            began[entry.fact.fault_id] = entry
        elif isinstance(entry.fact, FaultEnded):
            began.pop(entry.fact.fault_id, None)
    held = [(entry, entry.fact) for entry in began.values() if isinstance(entry.fact, FaultBegan)]
    held.sort(key=lambda pair: set(nodes).isdisjoint(pair[1].nodes))
    for entry, fact in held[:FAULTS_MAX]:
        since_s, text = (at_us - entry.mono_us) / 1_000_000, fault_in_words(fact.fault)
        if unnamed := [node for node in fact.nodes if node not in text]:
            text += f" ({', '.join(unnamed)})"
        yield f"{text}, for {since_s:.1f} s"
    if (more := len(held) - FAULTS_MAX) > 0:
        yield f"and {more} more"


# Owners of the queues -------------------------------------------------------------------------


def _whose(
    entries: Sequence[Entry], evidence: Sequence[Entry], violation: Violation, names: NodeNames
) -> Iterator[str]:
    pairs = _pairs(entries, evidence, violation.what)
    since_us = min((entry.mono_us for entry in evidence), default=0) - BEFORE_US
    found = queue_histories_of(entries, names, pairs[:QUEUES_SHOWN_MAX], violation.mono_us)
    for history in found.values():
        if history.holds or history.acts or history.passes:
            yield from history_lines(history, names, since_us)
    for queue in sorted({q for entry in evidence for q in queues_of(entry.fact)}):
        if queue.topic == SCHEDULE_TOPIC:
            yield _delivered(entries, queue, violation.mono_us)
    keys = {getattr(entry.fact, "uniq_key", "") for entry in evidence} - {""}
    if not pairs:
        yield from _failures(entries, keys)


def _failures(entries: Iterable[Entry], keys: Collection[str]) -> Iterator[str]:
    """For messages that are retries: the group and the failed consumption they come from."""
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, MessageConsumed) and fact.uniq_key in keys and not fact.ok:
            at_s, place = entry.mono_us / 1_000_000, place_of(fact.queue)
            yield (
                f"it is a retry of {fact.group}: {entry.node} failed to consume {fact.offset} of "
                f"{place} at {at_s:.3f} s"
            )


def _pairs(entries: Iterable[Entry], evidence: Sequence[Entry], what: str) -> list[Pair]:
    """The groups and queues of a violation: those that its sentence names, else its evidence's."""
    words = words_of(what)
    groups = {fact.group for e in entries if isinstance(fact := e.fact, ConsumerStarted)}
    said = sorted(group for group in groups if group in words or f"{group}:" in words)
    queues = queues_about(evidence, what)
    if said:
        return [(group, queue) for group in said for queue in queues]
    both = [
        (group, queue)
        for entry in evidence
        if (group := getattr(entry.fact, "group", ""))
        for queue in queues_of(entry.fact)
        if queue in queues
    ]
    return list(dict.fromkeys(both))


def _queue_alone(evidence: Iterable[Entry], what: str) -> Pair | None:
    """The first queue of a violation that no group is named for."""
    queues = queues_about(evidence, what)
    return ("", queues[0]) if queues else None


def _delivered(entries: Iterable[Entry], queue: Queue, until_us: int) -> str:
    """A sentence: how many messages of a delay level the broker has delivered until *until_us*."""
    level, went, stored = queue.queue_id + 1, [], set[tuple[Queue, int]]()
    for entry in entries:
        fact = entry.fact
        if entry.node != queue.broker or entry.mono_us > until_us:
            continue
        if isinstance(fact, MessageStored):
            stored.add((fact.queue, entry.mono_us))
        elif isinstance(fact, DelayedDelivered) and fact.delay_level == level:
            went.append((fact.queue, entry.mono_us))
    if not went:
        return f"{queue.broker} has delivered no message of delay level {level}"
    at_s = went[-1][1] / 1_000_000
    text = f"{queue.broker} reports that it delivered {many(len(went), 'message')} of delay level "
    text += f"{level}, the last at {at_s:.3f} s"
    if lacking := [each for each in went if each not in stored]:
        text += f"; for {len(lacking)} of them it stored no message at that moment"
    return text


def _others(judgement: Judgement) -> Iterator[str]:
    """Other violations of the first rule, then the first violation of each other rule."""
    by_rule: dict[str, list[Violation]] = {}
    for violation in judgement.violations:
        by_rule.setdefault(violation.checker, []).append(violation)
    first, *others = by_rule
    _, *again = by_rule[first]
    for violation in again[:SAME_RULE_MAX]:
        yield f"{first} at {violation.mono_us / 1_000_000:.3f} s: {violation.what}"
    if len(again) > SAME_RULE_MAX:
        yield f"{first} is broken {len(again) + 1} times in all"
    for name in others[:OTHERS_MAX]:
        one, *more = by_rule[name]
        many = f" (and {len(more)} more)" if more else ""
        yield f"{name} at {one.mono_us / 1_000_000:.3f} s: {one.what}{many}"
    if (more_rules := len(others) - OTHERS_MAX) > 0:
        yield f"and {more_rules} more rules"

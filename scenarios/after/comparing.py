"""Compares two runs by what a reader of both asks: plan, verdict, metrics, events and owners.

Runs from different seeds differ in nearly every fact, because latencies do.  So facts are not
compared as they are: ``first_event`` compares, node by node, what happened and in which order,
without times.  For runs that should be the same, ``replay`` compares every byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.judging.table import METRICS
from rocketmq_emulator.checks.state.violation import place_of
from rocketmq_emulator.facts import (
    ActionBegan,
    BrokerExpired,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RunEnded,
    SendFailed,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.after.replay import StartOfRun, start_of
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunResult, result_of, without_answer
from rocketmq_emulator.scenarios.sweeps.sweep import metric_name

STARTED_FIELDS = ("seed", "release", "world", "code_version")


class ComparedRun(msgspec.Struct, frozen=True):
    """One of the two runs: how it started, its row and its entries."""

    start: StartOfRun
    row: RunResult
    entries: Sequence[Entry]


class MetricPair(msgspec.Struct, frozen=True):
    """The values of a metric in both runs; None: this run has no value.

    ``is_expected``: an expectation of a plan names it.
    """

    name: str
    one: float | None
    other: float | None
    is_expected: bool


class OwnerPair(msgspec.Struct, frozen=True):
    """The owners of a queue of a group in the order of their claims, in both runs."""

    group: str
    queue: str
    one: tuple[str, ...]
    other: tuple[str, ...]


class EventPair(msgspec.Struct, frozen=True):
    """The first event of a node that the other run lacks; None: that run has no more events."""

    node: str
    one: Entry | None
    other: Entry | None


def compared_run(entries: Sequence[Entry], name: str) -> ComparedRun:
    """The run of *entries*, judged; *name* is its journal, for errors.  Raises ``BadJournal``."""
    start = start_of(entries[0], name)
    judgement = judge(entries)
    last = entries[-1].fact
    if isinstance(last, RunEnded):
        run_s = (entries[-1].mono_us - entries[0].mono_us) / 1_000_000
        row = result_of(start.plan, start.fact, last, judgement, run_s=run_s, took_s=0.0)
    else:
        row = without_answer(start.plan, start.fact.seed, start.fact.world, "it has no end")
        row = msgspec.structs.replace(
            row, metrics=judgement.metrics, fact_count=judgement.fact_count
        )
    return ComparedRun(start, row, entries)


def differences_of_starts(one: ComparedRun, other: ComparedRun) -> list[str]:
    """What the runs were started with and differ in: ``seed``, ``plan.consumers``."""
    left, right = one.start, other.start
    names = [
        f"plan.{name}"
        for name in Plan.__struct_fields__
        if getattr(left.plan, name) != getattr(right.plan, name)
    ]
    return names + [
        name for name in STARTED_FIELDS if getattr(left.fact, name) != getattr(right.fact, name)
    ]


def metric_pairs(one: ComparedRun, other: ComparedRun) -> list[MetricPair]:
    """Metrics of expectations, then those of the whole run that differ."""
    wanted = [metric_name(each) for run in (one, other) for each in run.start.plan.expect]
    expected = dict.fromkeys(wanted, True)
    names = expected | {name: False for name in METRICS if name not in expected}
    pairs = [
        MetricPair(name, one.row.metrics.get(name), other.row.metrics.get(name), is_expected)
        for name, is_expected in names.items()
    ]
    return [pair for pair in pairs if pair.is_expected or pair.one != pair.other]


def owner_pairs(one: ComparedRun, other: ComparedRun) -> tuple[list[OwnerPair], int]:
    """Queues whose owners differ, or followed in another order; and the number of all queues."""
    left, right = _owners(one.entries), _owners(other.entries)
    both = sorted({*left, *right}, key=_place)
    pairs = [
        OwnerPair(
            group, place_of(queue), left.get((group, queue), ()), right.get((group, queue), ())
        )
        for group, queue in both
    ]
    return [pair for pair in pairs if pair.one != pair.other], len(both)


def _place(key: tuple[str, Queue]) -> tuple[str, bool, Queue]:
    group, queue = key
    return group, queue.topic.startswith("%"), queue  # topics of retries come last


def _owners(entries: Sequence[Entry]) -> dict[tuple[str, Queue], tuple[str, ...]]:
    found: dict[tuple[str, Queue], tuple[str, ...]] = {}
    for entry in entries:
        if isinstance(entry.fact, QueuesClaimed):
            for queue in entry.fact.queues:
                before = found.get((entry.fact.group, queue), ())
                found[entry.fact.group, queue] = (*before, entry.node)
    return found


# Events without their times -----------------------------------------------------------


def first_event(one: ComparedRun, other: ComparedRun) -> EventPair | None:
    """The earliest event at which the events of a node differ; None if all are the same."""
    left, right = _events(one.entries), _events(other.entries)
    pairs = [
        EventPair(node, *found)
        for node in {**left, **right}
        if (found := _parting(left.get(node, []), right.get(node, []))) is not None
    ]
    return min(pairs, key=_at_us, default=None)


def _parting(
    one: list[tuple[object, Entry]], other: list[tuple[object, Entry]]
) -> tuple[Entry | None, Entry | None] | None:
    for left, right in zip_longest(one, other):
        if left is None or right is None or left[0] != right[0]:
            return left and left[1], right and right[1]
    return None


def _at_us(pair: EventPair) -> int:
    return min(entry.mono_us for entry in (pair.one, pair.other) if entry is not None)


def _events(entries: Sequence[Entry]) -> dict[str, list[tuple[object, Entry]]]:
    found: dict[str, list[tuple[object, Entry]]] = {}
    for entry in entries:
        for what in _what(entry):
            found.setdefault(entry.node, []).append((what, entry))
    return found


def _what(entry: Entry) -> Iterator[object]:
    content = EVENTS.get(type(entry.fact))
    if content is not None:
        yield type(entry.fact).__name__, content(entry.fact)


EVENTS: Mapping[type, Callable[[Any], object]] = {  # what of a fact is compared
    ActionBegan: lambda fact: fact.what(),
    FaultBegan: lambda fact: fact.fault,
    FaultEnded: lambda fact: fact.fault_id,
    NodeStarted: lambda _: None,
    NodeStopped: lambda _: None,
    NodeKilled: lambda _: None,
    BrokerExpired: lambda fact: fact.broker,
    ConsumerStarted: lambda fact: fact.group,
    ConsumerStopped: lambda fact: fact.group,
    QueuesClaimed: lambda fact: (fact.group, sorted(fact.queues)),
    QueuesReleased: lambda fact: (fact.group, sorted(fact.queues)),
    SendFailed: lambda fact: fact.topic,
}

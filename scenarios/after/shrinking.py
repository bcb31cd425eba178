"""Reduces a failing plan to the smallest one that still fails in the same way.

Reductions are tried in rounds.  The first smaller plan that fails like the original replaces it;
when no plan fails in a whole round, the current plan is the smallest.  Every attempt is a run;
several run at once, and their rows come in the order of the plans.

A reduction is a name and a function from a plan to smaller plans, the largest reduction first.
It yields only plans that are smaller, so shrinking ends.

A plan fails like the original if it breaks at least the same rules and misses the same
expectations, durations of about the same length: 20 s with two owners have another cause than
the 5 ms that are left without the fault.  Counts may differ, as a smaller plan has fewer messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from rocketmq_emulator.checks.judging.table import METRICS
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.plan.client_starts import named_clients
from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan, ListenerPlan, LoadPlan, Plan, Step
from rocketmq_emulator.scenarios.plan.result import RunOrder, RunResult
from rocketmq_emulator.scenarios.plan.validity import PlanNames, problems_of
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

RunPlans: TypeAlias = Callable[[Iterable[Plan]], Iterator[tuple[Plan, RunResult]]]

ATTEMPTS_MAX = 500
SAME_FACTOR_MAX = 4.0  # between two durations of one failure
SIZELESS_UNITS = ("s", "ms", "share")  # of metrics that do not depend on the number of messages


class ShrinkAttempt(msgspec.Struct, frozen=True):
    """One smaller plan, and whether it failed in the same way."""

    reduction: str
    plan: Plan
    result: RunResult
    is_same: bool


class NothingToShrink(Misuse):
    """The run passed, so its plan cannot be shrunk."""


class RunFailure(msgspec.Struct, frozen=True):
    """How a run failed, in terms that do not depend on the plan's size; falsy: it passed.

    *names*: broken rules, unmet expectations, or an error.  *values*: those of unmet expectations
    of durations and shares, by name.
    """

    names: frozenset[str]
    values: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self.names)

    def is_kept_by(self, other: RunFailure) -> bool:
        """Whether *other* has all these names, with values within ``SAME_FACTOR_MAX``."""
        return self.names <= other.names and all(
            value / SAME_FACTOR_MAX <= other.values.get(name, 0.0) <= value * SAME_FACTOR_MAX
            for name, value in self.values.items()
            if value > 0
        )


def failure_of(row: RunResult) -> RunFailure:
    """The broken rules and the unmet expectations of *row*."""
    if row.verdict == "error":
        return RunFailure(frozenset({f"error: {row.reason.split(' at ')[0][:60]}"}))
    rules = {f"{one.checker}: {one.rule}" if one.rule else one.checker for one in row.violations}
    unmet = {one.expected.rsplit(" ", 1)[0]: one.actual for one in row.unmet}
    values = {name: actual for name, actual in unmet.items() if _unit_of(name) in SIZELESS_UNITS}
    return RunFailure(frozenset(rules | unmet.keys()), values)


def _unit_of(expected: str) -> str:
    """The unit of the metric in ``overlap_s.billing ==``; empty if it is not known."""
    metric = METRICS.get(expected.partition(" ")[0].partition(".")[0])
    return "" if metric is None else metric.unit


class Shrinking:
    """Shrinks *plan*, which failed with *result*.

    Raises ``NothingToShrink`` if *result* did not fail.
    """

    def __init__(self, plan: Plan, result: RunResult, run_plans: RunPlans) -> None:
        self.failure = failure_of(result)
        if not self.failure:
            raise NothingToShrink(f"seed {result.seed} passed: there is nothing to shrink")
        self.smallest = plan
        self.result = result
        self.attempt_count = 0
        self._run_plans = run_plans
        self._tried: set[bytes] = {_key(plan)}

    def attempts(self) -> Iterator[ShrinkAttempt]:
        """Yields each attempt until no reduction fails the same way; then see ``smallest``."""
        progress = True
        while progress:
            progress = False
            for name in REDUCTIONS:
                for trial in self._reduced(name):
                    yield trial
                    progress = progress or trial.is_same
                    if self.attempt_count >= ATTEMPTS_MAX:
                        return

    def _reduced(self, name: str) -> Iterator[ShrinkAttempt]:
        """Attempts with one reduction, repeated after each success."""
        found = True
        while found:
            found = False
            runs = self._run_plans(self._new_ones(name))
            for plan, result in runs:
                self.attempt_count += 1
                is_same = self.failure.is_kept_by(failure_of(result))
                if is_same:
                    self.smallest, self.result, found = plan, result, True
                yield ShrinkAttempt(name, plan, result, is_same)
                if is_same or self.attempt_count >= ATTEMPTS_MAX:
                    break
            if self.attempt_count >= ATTEMPTS_MAX:
                return

    def _new_ones(self, name: str) -> Iterator[Plan]:
        for plan in REDUCTIONS[name](self.smallest):
            if (key := _key(plan)) not in self._tried:
                self._tried.add(key)
                yield plan


def _key(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)


# Runs of smaller plans ----------------------------------------------------------------


class ShrinkRuns:
    """Runs plans from one *seed* in the pool *fleet*, *jobs* at once; skips invalid plans."""

    def __init__(self, fleet: RunPool, seed: int, jobs: int, paths: Sequence[str] = ()) -> None:
        self._fleet = fleet
        self._seed = seed
        self._jobs = jobs
        self._paths = tuple(paths)

    def run(self, plans: Iterable[Plan]) -> Iterator[tuple[Plan, RunResult]]:
        """Yields each valid plan with its row, in the order of *plans*."""
        waiting = (plan for plan in plans if not problems_of(plan))
        while batch := [*itertools.islice(waiting, self._jobs)]:
            orders = [RunOrder(plan=plan, seed=self._seed, paths=self._paths) for plan in batch]
            rows = {id(order): row for order, row in self._fleet.finished(orders, self._jobs)}
            for order in orders:
                yield order.plan, rows[id(order)]


# Reductions ---------------------------------------------------------------------------


T = TypeVar("T")
Smaller: TypeAlias = Callable[[Plan], Iterator[Plan]]

LAST_MS_MIN = 1_000
RATE_MIN = 1.0


def fewer_steps(plan: Plan) -> Iterator[Plan]:
    """Without a half of the timeline, then a quarter, and at last without a single step."""
    for rest in _without_parts(plan.timeline):
        if _heals_what_began(rest):
            yield replace(plan, timeline=rest)


def fewer_loads(plan: Plan) -> Iterator[Plan]:
    """Without whole loads; one load is always kept."""
    for rest in _without_parts(plan.load):
        if rest:
            yield replace(plan, load=rest)


def fewer_groups(plan: Plan) -> Iterator[Plan]:
    """Without whole groups, then without programs."""
    for groups in _without_parts(plan.consumers):
        yield replace(plan, consumers=groups)
    for programs in _without_parts(plan.programs):
        yield replace(plan, programs=programs)


def a_shorter_run(plan: Plan) -> Iterator[Plan]:
    """An earlier end of the run and of its loads."""
    if plan.lasts_ms is not None:
        for lasts_ms in _smaller_numbers(plan.lasts_ms, LAST_MS_MIN):
            yield replace(plan, lasts_ms=lasts_ms)
    for at, load in enumerate(plan.load):
        if load.until_ms is not None:
            for until_ms in _smaller_numbers(load.until_ms, load.from_ms + LAST_MS_MIN):
                yield replace(plan, load=_with(plan.load, at, replace(load, until_ms=until_ms)))


def shorter_steps(plan: Plan) -> Iterator[Plan]:
    """Faults that end earlier, and steps nearer to the step before."""
    for at, step in enumerate(plan.timeline):
        if step.for_ms is not None:
            for for_ms in _smaller_numbers(step.for_ms, 0):
                shorter = replace(step, for_ms=for_ms)
                yield replace(plan, timeline=_with(plan.timeline, at, shorter))
    for at, step in enumerate(plan.timeline):
        if step.at_ms is not None:
            for at_ms in _smaller_numbers(step.at_ms, _earliest_ms(plan, at)):
                yield replace(plan, timeline=_earlier(plan.timeline, at, step.at_ms - at_ms))


def fewer_members(plan: Plan) -> Iterator[Plan]:
    """Fewer consumers in a group, fewer producers of a load."""
    for at, group in enumerate(plan.consumers):
        for members in _smaller_numbers(group.members, 1):
            smaller: ConsumersPlan = replace(group, members=members)
            yield _known_members(replace(plan, consumers=_with(plan.consumers, at, smaller)))
    for at, load in enumerate(plan.load):
        for producers in _smaller_numbers(load.producers, 1):
            fewer: LoadPlan = replace(load, producers=producers)
            yield replace(plan, load=_with(plan.load, at, fewer))


def fewer_messages(plan: Plan) -> Iterator[Plan]:
    """A lower rate, then a load with default options."""
    for at, load in enumerate(plan.load):
        for rate in (load.rate / 10, load.rate / 4, load.rate / 2):
            if rate >= RATE_MIN:
                yield replace(plan, load=_with(plan.load, at, replace(load, rate=rate)))
        plainer = LoadPlan(
            topic=load.topic,
            rate=load.rate,
            producers=load.producers,
            mode=load.mode,
            rollbacks=load.rollbacks,
            unknowns=load.unknowns,
            crashes=load.crashes,
            raises=load.raises,
            undecided=load.undecided,
            decides_ms=load.decides_ms,
            from_ms=load.from_ms,
            until_ms=load.until_ms,
            count_max=load.count_max,
            settings=load.settings,
        )
        for smaller in (replace(plainer, settings={}), plainer):
            if smaller != load:
                yield replace(plan, load=_with(plan.load, at, smaller))


def plainer_listeners(plan: Plan) -> Iterator[Plan]:
    """Listeners without random failures and delays, at last with the default listener."""
    for at, group in enumerate(plan.consumers):
        plain = ListenerPlan(takes_ms=group.listener.takes_ms)
        for listener in (ListenerPlan(), plain):
            if listener != group.listener and group.listener != ListenerPlan():
                smaller = replace(group, listener=listener)
                yield replace(plan, consumers=_with(plan.consumers, at, smaller))


def plainer_members(plan: Plan) -> Iterator[Plan]:
    """Members with the same settings, that read one whole topic and never seek."""
    for at, group in enumerate(plan.consumers):
        first_topic = next(iter(group.topics))
        changed: tuple[dict[str, Any], ...] = (
            {"settings": {}, "settings_of": {}, "seeks_ms": (), "topics": {first_topic: "*"}},
            {"settings": {}, "settings_of": {}},
            {"settings_of": {}},
            {"seeks_ms": ()},
            {"topics": {first_topic: group.topics[first_topic]}},
            {"topics": dict.fromkeys(group.topics, "*")},
        )
        for changes in changed:
            plainer: ConsumersPlan = replace(group, **changes)
            if plainer != group:
                yield replace(plan, consumers=_with(plan.consumers, at, plainer))


def fewer_queues_and_nodes(plan: Plan) -> Iterator[Plan]:
    """Fewer controllers, slaves, brokers, NameServers and queues."""
    for controllers in _smaller_numbers(min(plan.cluster.controllers, 1), 0):
        yield replace(plan, cluster=replace(plan.cluster, controllers=controllers))
    if plan.cluster.controllers > 1:
        yield replace(plan, cluster=replace(plan.cluster, controllers=1))
    for slaves in _smaller_numbers(plan.cluster.slaves, 0):
        yield replace(plan, cluster=replace(plan.cluster, slaves=slaves))
    for brokers in _smaller_numbers(plan.cluster.brokers, 1):
        yield replace(plan, cluster=replace(plan.cluster, brokers=brokers))
    for name_servers in _smaller_numbers(plan.cluster.name_servers, 1):
        yield replace(plan, cluster=replace(plan.cluster, name_servers=name_servers))
    for name, topic in plan.topics.items():
        for queues in _smaller_numbers(topic.queues, 1):
            topics = {**plan.topics, name: replace(topic, queues=queues)}
            yield replace(plan, topics=topics)


REDUCTIONS: Mapping[str, Smaller] = {
    "fewer faults and actions": fewer_steps,
    "fewer loads": fewer_loads,
    "fewer groups and programs": fewer_groups,
    "a shorter run": a_shorter_run,
    "shorter steps": shorter_steps,
    "fewer members and producers": fewer_members,
    "fewer messages": fewer_messages,
    "plainer listeners": plainer_listeners,
    "plainer members": plainer_members,
    "fewer queues and nodes": fewer_queues_and_nodes,
}


def _without_parts(parts: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Delta debugging: without halves, quarters, … and at last without each single part."""
    size = len(parts)
    while size:
        for at in range(0, len(parts), size):
            yield parts[:at] + parts[at + size :]
        size //= 2


def _smaller_numbers(number: int, least: int) -> Iterator[int]:
    tried = {number}
    for candidate in (least, least + (number - least) // 4, least + (number - least) // 2):
        if candidate < number and candidate not in tried:
            tried.add(candidate)
            yield candidate


def _with(parts: tuple[T, ...], at: int, part: T) -> tuple[T, ...]:
    return (*parts[:at], part, *parts[at + 1 :])


def _known_members(plan: Plan) -> Plan:
    """*plan* without settings of members that do not exist."""
    known = PlanNames(plan).members
    return replace(
        plan,
        consumers=tuple(
            replace(
                group,
                settings_of={
                    name: settings for name, settings in group.settings_of.items() if name in known
                },
            )
            for group in plan.consumers
        ),
    )


def _earliest_ms(plan: Plan, at: int) -> int:
    """The earliest time of the step at *at*, if all after it move with it.

    It stays behind the step before it, and each behind the starts of the clients that it names.
    """
    moved_ms = plan.timeline[at].at_ms or 0
    before_ms = max((one.at_ms or 0 for one in plan.timeline[:at]), default=0)
    room_ms = [moved_ms - before_ms]
    for each in named_clients(plan):
        at_ms = plan.timeline[each.step].at_ms
        if each.step >= at and at_ms is not None and each.started_ms is not None:
            room_ms.append(at_ms - each.started_ms)
    return moved_ms - max(0, min(room_ms))


def _earlier(steps: tuple[Step, ...], at: int, by_ms: int) -> tuple[Step, ...]:
    """*steps* with the step at *at*, and all after it, moved earlier by *by_ms*."""
    moved = (
        step if step.at_ms is None else replace(step, at_ms=step.at_ms - by_ms)
        for step in steps[at:]
    )
    return (*steps[:at], *moved)


def _heals_what_began(steps: tuple[Step, ...]) -> bool:
    """Does every ``heal`` by name follow the step that began the fault?"""
    names: set[str] = set()
    for step in steps:
        healed = getattr(step.does, "step", None)
        if healed is not None and healed not in names:
            return False
        names.add(step.name)
    return True

"""Judges an allocation strategy: by its function alone, and by runs in the virtual world.

Every member computes its share by itself, so the first check is that the shares fit together:
each queue is in one share.  The others are the effects on a group: how even the shares are, which
members are idle, how many queues move when a member leaves or joins, and which queues have two
owners or none while members have different lists of the group.  This needs no cluster and no time.

Two kinds of runs measure the rest.  While members join and are killed: how long queues have two
owners or none, and how long rebalances take.  While a broker is read-only (apache/rocketmq#3465):
which members are idle, with a backlog and without, and after an idle member is taken away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from rocketmq_emulator.client.consumer.group.allocation import Allocate
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.protocol.queues import MessageQueue, java_order, sorted_queues
from rocketmq_emulator.scenarios.catalog.finding import load
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    Join,
    Leave,
    LoadPlan,
    Plan,
    Step,
    TopicPlan,
)
from rocketmq_emulator.scenarios.plan.result import RunResult

Shares: TypeAlias = Mapping[str, Sequence[MessageQueue]]


class GroupShape(msgspec.Struct, frozen=True):
    """A topic with *queues* on each of *brokers*, and a group of *members*."""

    brokers: int
    queues: int
    members: int

    def __str__(self) -> str:
        return f"{self.brokers}x{self.queues}/{self.members}"

    @property
    def queue_count(self) -> int:
        """The number of queues of the topic."""
        return self.brokers * self.queues


SHAPES = (  # few and many queues for few and many members, even and uneven
    *(
        GroupShape(1, 8, 3),
        GroupShape(2, 12, 5),
        GroupShape(2, 12, 7),
        GroupShape(4, 16, 10),
        GroupShape(1, 8, 12),
    ),
    *(
        GroupShape(4, 4, 3),
        GroupShape(4, 4, 4),
        GroupShape(4, 4, 8),
        GroupShape(4, 4, 16),
        GroupShape(3, 8, 6),
    ),
)


class Finding(msgspec.Struct, frozen=True):
    """The result of a strategy for one shape; the fields are numbers of queues or members.

    ``doubled`` and ``unowned`` queues have two owners and none.  ``least`` and ``most`` are the
    smallest and largest share; ``idle_members`` have no queue.  ``moved_leave`` queues change
    their owner when the last member leaves, ``left_leave`` of them because they were its queues;
    ``moved_join`` and ``got_join`` are the same when a member joins.  While half of the members
    do not know the new member yet, ``doubled_meanwhile`` queues have two owners and
    ``unowned_meanwhile`` none.  ``idle_read_only`` members have queues of the last broker only,
    so they are idle if that broker is read-only.
    """

    shape: GroupShape
    doubled: int
    unowned: int
    least: int
    most: int
    idle_members: int
    moved_leave: int
    left_leave: int
    moved_join: int
    got_join: int
    doubled_meanwhile: int
    unowned_meanwhile: int
    idle_read_only: int

    @property
    def is_partition(self) -> bool:
        """Whether each queue has exactly one owner."""
        return not self.doubled and not self.unowned


class StrategyFailed(Misuse):
    """A strategy raised, or returned a value that is no queue of the topic; the text has both."""


def findings(allocate: Allocate, shapes: Iterable[GroupShape] = SHAPES) -> list[Finding]:
    """A ``Finding`` for each shape.  Raises ``StrategyFailed``."""
    return [finding(allocate, shape) for shape in shapes]


def finding(allocate: Allocate, shape: GroupShape) -> Finding:
    """The ``Finding`` of *allocate* for *shape*.  Raises ``StrategyFailed``."""
    queues = sorted_queues(
        MessageQueue("orders", f"broker-{broker}", number)
        for broker in range(shape.brokers)
        for number in range(shape.queues)
    )
    everybody = [f"10.0.0.{number}@1" for number in range(1, shape.members + 2)]
    members = sorted(everybody[:-1], key=java_order)
    joined = sorted(everybody, key=java_order)
    newcomer, leaver = everybody[-1], members[-1]

    before = shares(allocate, queues, members)
    owners = Counter(queue for share in before.values() for queue in share)
    sizes = [len(share) for share in before.values()]
    smaller = shares(allocate, queues, members[:-1]) if len(members) > 1 else {}
    larger = shares(allocate, queues, joined)
    late = members[::2]  # members that do not know the new member yet
    mixed = {me: before[me] if me in late else larger[me] for me in joined}
    mixed_owners = Counter(queue for share in mixed.values() for queue in share)
    last = queues[-1].broker_name
    return Finding(
        shape=shape,
        doubled=sum(count > 1 for count in owners.values()),
        unowned=len(queues) - len(owners),
        least=min(sizes),
        most=max(sizes),
        idle_members=sizes.count(0),
        moved_leave=moved(before, smaller),
        left_leave=len(before[leaver]),
        moved_join=moved(before, larger),
        got_join=len(larger[newcomer]),
        doubled_meanwhile=sum(count > 1 for count in mixed_owners.values()),
        unowned_meanwhile=len(queues) - len(mixed_owners),
        idle_read_only=sum(
            bool(share) and all(queue.broker_name == last for queue in share)
            for share in before.values()
        ),
    )


def shares(
    allocate: Allocate, queues: Sequence[MessageQueue], members: Sequence[str]
) -> dict[str, list[MessageQueue]]:
    """The share that each member computes for itself.  Raises ``StrategyFailed``."""
    known = frozenset(queues)
    found = {}
    for me in members:
        what = f"{me} of {len(members)} members, {len(queues)} queues"
        try:
            share = list(allocate(queues, members, me))
            strange = [queue for queue in share if queue not in known]
        except Exception as error:
            raise StrategyFailed(f"{type(error).__name__}: {error} (for {what})") from error
        if strange:
            raise StrategyFailed(f"{strange[0]!r} is no queue of the topic (for {what})")
        found[me] = share
    return found


def moved(before: Shares, after: Shares) -> int:
    """The number of queues with another owner in *after*."""
    owner = {queue: me for me, share in before.items() for queue in share}
    return sum(owner.get(queue) != me for me, share in after.items() for queue in share)


# Runs in the virtual world ------------------------------------------------------------


SEED = 1
READ_ONLY = "read_only"  # a scenario of the library
COMPARED = ("averagely", "by_circle", "averagely_auto(4.9.7)", "averagely_auto(4.9.6)")
CASES = ((False, False), (False, True), (True, False), (True, True))  # backlog, taken away
AT_WORK = GroupShape(2, 4, 3)
BROKERS_MAX, MEMBERS_MAX = 26, 99


class AtWork(msgspec.Struct, frozen=True):
    """The run with three members: one joins, one is killed.  Queue times are sums over queues.

    ``settle_s`` is the longest time from the first change of a rebalance to its last.
    """

    strategy: str
    overlap_queue_s: float
    unowned_queue_s: float
    settle_s: float
    moved_queues: int
    necessary_moves: int
    starved_queues: int
    skew_queues: int


class IdleRow(msgspec.Struct, frozen=True):
    """A run of one strategy while a broker is read-only.

    ``idle_members`` got no message for 10 s or more; ``idle_at_once`` is the number of members
    that had only queues declared idle at one moment, ``idle_s`` their time, summed over members.
    """

    strategy: str
    backlog: bool
    taken_away: bool
    idle_at_once: int
    idle_members: int
    idle_s: float
    moved_queues: int
    necessary_moves: int
    starved_queues: int
    no_load_ratio: float


def plan_at_work(strategy: str) -> Plan:
    """The plan of the run of ``AtWork``."""
    return Plan(
        name="a_strategy_at_work",
        topics={"orders": TopicPlan(queues=AT_WORK.queues)},
        consumers=(
            ConsumersPlan(
                group="billing",
                topics={"orders": "*"},
                members=AT_WORK.members,
                strategy=named_for_runs(strategy),
            ),
        ),
        load=(LoadPlan(topic="orders", rate=2),),
        timeline=(
            Step(at_ms=30_000, does=Join(group="billing")),
            Step(at_ms=60_000, does=Leave(node="billing-2", kill=True)),
        ),
        lasts_ms=90_000,
    )


def plans_of_idleness(strategy: str, shape: GroupShape) -> list[Plan]:
    """The plans of the runs of ``IdleRow``, one for each of ``CASES``."""
    common = msgspec.to_builtins(shape) | {"strategy": named_for_runs(strategy)}
    return [
        load(READ_ONLY, {**common, "backlog": backlog, "leaves": leaves})
        for backlog, leaves in CASES
    ]


def at_work(strategy: str, row: RunResult) -> AtWork:
    """The metrics of *row*, the result of ``plan_at_work``."""
    names = [name for name in AtWork.__struct_fields__ if name != "strategy"]
    found = {"strategy": strategy, **_found(row.metrics, names)}
    return msgspec.convert(found, AtWork, strict=False)


def idle_row(strategy: str, row: RunResult) -> IdleRow:
    """The metrics of *row*, the result of a plan of ``plans_of_idleness``."""
    found = _found(row.metrics, ["moved_queues", "necessary_moves", "starved_queues"])
    return IdleRow(
        strategy=strategy,
        backlog=bool(row.parameters["backlog"]),
        taken_away=bool(row.parameters["leaves"]),
        idle_at_once=int(row.metrics["no_load_members"]),
        idle_members=int(row.metrics["idle_members"]),
        idle_s=row.metrics["no_load_s"],
        moved_queues=int(found["moved_queues"]),
        necessary_moves=int(found["necessary_moves"]),
        starved_queues=int(found["starved_queues"]),
        no_load_ratio=row.metrics["no_load_ratio"],
    )


def named_for_runs(strategy: str) -> str:
    """*strategy* with an absolute path, if it has a path, so that any folder can load it."""
    module, colon, function = strategy.rpartition(":")
    return f"{Path(module).resolve()}:{function}" if colon and module.endswith(".py") else strategy


def _found(metrics: Mapping[str, float], names: list[str]) -> dict[str, float]:
    return {name: metrics[name] for name in names}

"""Strategies at work in the virtual world: what a cluster shows that a function alone cannot.

Two questions, one run each.  While members join and die: how long have queues two owners or
none, and when is it over?  While a broker is read-only (apache/rocketmq#3465): who has nothing
to do, with a backlog and without, and when one that has nothing to do is taken away?
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from scenarios.finding import load
from scenarios.plan import ConsumersPlan, Join, Leave, LoadPlan, Plan, Step, TopicPlan
from scenarios.result import RunResult
from scenarios.strategy_judge import Shape

SEED = 1
READ_ONLY = "read_only"  # of the library
COMPARED = ("averagely", "by_circle", "averagely_auto(4.9.7)", "averagely_auto(4.9.6)")
CASES = ((False, False), (False, True), (True, False), (True, True))  # backlog, taken away
AT_WORK = Shape(2, 4, 3)
BROKERS_MAX, MEMBERS_MAX = 26, 99


class AtWork(msgspec.Struct, frozen=True):
    """Three members; one joins, one is killed.  Times of queues are sums over all of them.

    ``settle_s`` is the longest from the first change of a rebalance to its last.
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
    """One strategy while a broker is read-only.

    ``idle_members`` got nothing for 10 s or more; ``idle_at_once`` had only queues declared
    idle at one moment, ``idle_s`` is for how long, summed over members.
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
    """The first question."""
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


def plans_of_idleness(strategy: str, shape: Shape) -> list[Plan]:
    """The second question, a plan for each of ``CASES``."""
    common = msgspec.to_builtins(shape) | {"strategy": named_for_runs(strategy)}
    return [
        load(READ_ONLY, {**common, "backlog": backlog, "leaves": leaves})
        for backlog, leaves in CASES
    ]


def at_work(strategy: str, row: RunResult) -> AtWork:
    """What the run found."""
    names = [name for name in AtWork.__struct_fields__ if name != "strategy"]
    found = {"strategy": strategy, **_found(row.metrics, names)}
    return msgspec.convert(found, AtWork, strict=False)


def idle_row(strategy: str, row: RunResult) -> IdleRow:
    """What the run found."""
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
    """A name that leads to the same file from any folder."""
    module, colon, function = strategy.rpartition(":")
    return f"{Path(module).resolve()}:{function}" if colon and module.endswith(".py") else strategy


def _found(metrics: Mapping[str, float], names: list[str]) -> dict[str, float]:
    return {name: metrics[name] for name in names}

"""When the clients of a plan start, and the steps that name a client before it has started.

Names follow from the plan alone: ``billing-1``, ``billing-2`` …, ``producer-1`` ….  A seed decides
when a member starts within its group's spread, so a step must wait for the latest time.  Of a
start and a step at the same time the start comes first.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rocketmq_emulator.cluster.faults.effects import SELECTORS
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    FaultOrAction,
    Join,
    LoadPlan,
    Plan,
    ProgramPlan,
)
from rocketmq_emulator.scenarios.plan.problems import Path

PRODUCERS, CLIENTS = "producer", "clients"  # the names of all producers, and of all clients


class ClientStart(msgspec.Struct, frozen=True):
    """The start of one client; *at_ms* counts from the beginning of the load."""

    at_ms: int
    name: str
    plan: ConsumersPlan | LoadPlan | ProgramPlan
    index: int = 0


def ends_ms(plan: Plan) -> float:
    """When all clients have started, all seeks are done and all loads with an end have ended.

    In ms since the load began.
    """
    entered = [start.at_ms for start in client_starts(plan)]
    ends: list[float] = [load.until_ms for load in plan.load if load.until_ms is not None]
    ends += [
        load.from_ms + load.count_max * 1_000 / load.rate
        for load in plan.load
        if load.until_ms is None and load.count_max is not None
    ]
    ends += [seek_ms for group in plan.consumers for seek_ms in group.seeks_ms]
    return max([*entered, *ends], default=0)


def client_starts(plan: Plan, seed: int | None = None) -> list[ClientStart]:
    """All clients of the plan without those of its timeline, in the order of their starts.

    *seed* draws the starts of groups with ``start_spread_ms``; without it they are the latest.
    """
    numbers: Counter[str] = Counter()
    found = []
    for group in plan.consumers:
        for index in range(group.members):
            numbers[group.group] += 1
            name = f"{group.group}-{numbers[group.group]}"
            at_ms = group.starts_ms + index * group.every_ms
            if group.start_spread_ms:
                at_ms += _later_ms(group, name, seed)
            found.append(ClientStart(at_ms, name, group, index))
    producers = [(load, index) for load in plan.load for index in range(load.producers)]
    found += [
        ClientStart(load.from_ms, f"producer-{number}", load, index)
        for number, (load, index) in enumerate(producers, 1)
    ]
    found += [ClientStart(program.starts_ms, program.name, program) for program in plan.programs]
    return sorted(found, key=lambda start: start.at_ms)  # stable: ties keep their order


def _later_ms(group: ConsumersPlan, name: str, seed: int | None) -> int:
    """How much later the member *name* starts, by *seed* and by its name alone."""
    if seed is None:
        return group.start_spread_ms
    return random.Random(f"start of {name}, seed {seed}").randint(0, group.start_spread_ms)


# Steps that need a started client -------------------------------------------------------------


class NamedClient(NamedTuple):
    """A client, or a set of clients, that a step names; times are in ms since the load began.

    ``started_ms``: from this time on it, or one of the set, has started with every seed; None:
    none starts before the step.  ``path`` is that of the name in the step.
    """

    step: int
    path: Path
    name: str
    started_ms: int | None


def named_clients(plan: Plan) -> Iterator[NamedClient]:
    """Each client that a step of the timeline names, in the order of the steps."""
    started = {start.name: start.at_ms for start in client_starts(plan)}
    numbers = Counter(name.rpartition("-")[0] for name in started)
    groups = {each.group for each in plan.consumers}
    joined = {step.does.group for step in plan.timeline if isinstance(step.does, Join)}
    for at, step in enumerate(plan.timeline):
        if isinstance(step.does, Join):
            group = step.does.group
            for _ in range(step.does.members):
                numbers[group] += 1
                started[f"{group}-{numbers[group]}"] = 0  # it runs when the next step begins
            continue
        for path, name in _names_in(step.does):
            if name in SELECTORS:  # a set that may be empty
                continue
            mine = [ms for client, ms in started.items() if _is_named(name, client)]
            is_client = name in {*groups, PRODUCERS} or name.rpartition("-")[0] in joined
            if mine or is_client:
                yield NamedClient(at, path, name, min(mine, default=None))


def names_client(does: FaultOrAction, client: str) -> bool:
    """Whether *does* names *client*, or a set of clients that has it."""
    return any(name == CLIENTS or _is_named(name, client) for _, name in _names_in(does))


def _names_in(does: FaultOrAction) -> Iterator[tuple[Path, str]]:
    """The nodes and sets of nodes that *does* names, each with its path in it."""
    for field in ("node", "nodes", "around", "between"):
        yield from _texts((field,), getattr(does, field, None))


def _texts(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, tuple):
        for at, part in enumerate(value):
            yield from _texts((*path, at), part)


def _is_named(name: str, client: str) -> bool:
    return name == client or re.fullmatch(rf"{re.escape(name)}-\d+", client) is not None

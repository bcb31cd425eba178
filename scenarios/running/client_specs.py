"""The clients of a plan by name, each with a spec: all data that it needs to run.

A spec is plain data, so that a client may run in another process than the one that reads the plan.
Names follow from the plan alone: ``billing-1``, ``billing-2`` …, ``producer-1`` ….
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.scenarios.plan.plan import ConsumersPlan, LoadPlan, Plan, ProgramPlan


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="part"):
    """One client process.  *began_us*: when the load began, in monotonic microseconds."""

    name: str
    namesrv: str
    release: str
    seed: int
    began_us: int
    quirks: tuple[str, ...] = ()


class MemberSpec(ClientSpec, frozen=True, kw_only=True, tag="member"):
    """A member of a group."""

    consumers: ConsumersPlan


class ProducerSpec(ClientSpec, frozen=True, kw_only=True, tag="producer"):
    """The *index*-th producer of a load, from 0."""

    load: LoadPlan
    index: int


class ProgramSpec(ClientSpec, frozen=True, kw_only=True, tag="program"):
    """A program of the user's own."""

    program: ProgramPlan


AnyClientSpec: TypeAlias = MemberSpec | ProducerSpec | ProgramSpec


class ClientStart(msgspec.Struct, frozen=True):
    """The start of one client; *at_ms* counts from the beginning of the load."""

    at_ms: int
    name: str
    plan: ConsumersPlan | LoadPlan | ProgramPlan
    index: int = 0


def client_spec_of(
    start: ClientStart, plan: Plan, *, namesrv: str, seed: int, began_us: int
) -> AnyClientSpec:
    """The spec of the client of *start*."""
    common: dict[str, Any] = {
        "name": start.name,
        "namesrv": namesrv,
        "release": plan.cluster.release,
        "seed": seed,
        "began_us": began_us,
        "quirks": plan.quirks,
    }
    match start.plan:
        case ConsumersPlan():
            return MemberSpec(**common, consumers=start.plan)
        case LoadPlan():
            return ProducerSpec(**common, load=start.plan, index=start.index)
        case ProgramPlan():
            return ProgramSpec(**common, program=start.plan)


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


def group_named(plan: Plan, name: str) -> ConsumersPlan:
    """The last plan of that group; raises ``LookupError`` if there is none."""
    for group in reversed(plan.consumers):
        if group.group == name:
            return group
    groups = ", ".join(group.group for group in plan.consumers)
    raise LookupError(f"there is no group {name!r}, only {groups or 'none'}")

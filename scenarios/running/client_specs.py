"""The clients of a plan by name, each with a spec: all data that it needs to run.

A spec is plain data, so that a client may run in another process than the one that reads the plan.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.scenarios.plan.client_starts import ClientStart
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


def group_named(plan: Plan, name: str) -> ConsumersPlan:
    """The last plan of that group; raises ``LookupError`` if there is none."""
    for group in reversed(plan.consumers):
        if group.group == name:
            return group
    groups = ", ".join(group.group for group in plan.consumers)
    raise LookupError(f"there is no group {name!r}, only {groups or 'none'}")

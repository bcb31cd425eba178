"""Plans for tests of the runner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)

F = TypeVar("F", bound=Fact)


def a_plan(*steps: Step, **fields: Any) -> Plan:
    """A plan of two brokers, a topic, a group of two and a load; without steps it lasts 20 s."""
    given: dict[str, Any] = {
        "name": "a plan of a test",
        "topics": {"orders": TopicPlan()},
        "consumers": (ConsumersPlan(group="billing", topics={"orders": "*"}, members=2),),
        "load": (LoadPlan(topic="orders", rate=10),),
        "timeline": steps or (Step(does=Mark(text="the end"), at_ms=20_000),),
    }
    return Plan(**{**given, **fields})


def facts_of(
    entries: Iterable[Entry], kind: type[F] | tuple[type[F], ...], node: str | None = None
) -> list[F]:
    """The facts of *kind*, of one node or of all."""
    return [
        entry.fact
        for entry in entries
        if isinstance(entry.fact, kind) and node in (None, entry.node)
    ]

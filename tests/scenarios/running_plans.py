"""Plans for tests of the runner."""

from __future__ import annotations

from rocketmq_emulator.scenarios.plan.plan import (
    ConsumersPlan,
    LoadPlan,
    Mark,
    Plan,
    Step,
    TopicPlan,
)


def a_plan(*steps: Step, **fields) -> Plan:
    """Two brokers, a topic, a group of two and a load; without steps it lasts 20 s."""
    given = {
        "name": "a plan of a test",
        "topics": {"orders": TopicPlan()},
        "consumers": (ConsumersPlan(group="billing", topics={"orders": "*"}, members=2),),
        "load": (LoadPlan(topic="orders", rate=10),),
        "timeline": steps or (Step(does=Mark(text="the end"), at_ms=20_000),),
    }
    return Plan(**{**given, **fields})


def facts_of(entries, kind, node: str | None = None) -> list:
    """The facts of *kind*, of one node or of all."""
    return [
        entry.fact
        for entry in entries
        if isinstance(entry.fact, kind) and node in (None, entry.node)
    ]

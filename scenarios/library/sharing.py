"""Questions to a strategy's function alone: no cluster is needed to answer them."""

from __future__ import annotations

import msgspec

from rocketmq_emulator.scenarios import question
from scenarios.strategies import strategy_named
from scenarios.strategy_judge import Shape, finding


@question
def sharing(
    seed: int, strategy: str = "averagely", brokers: int = 4, queues: int = 4, members: int = 3
) -> dict[str, float]:
    """How evenly a strategy shares queues, and what moves when a member leaves or joins.

    As ``rmqemu strategy judge`` finds it for one shape; nothing is left to chance, so one seed
    is enough.
    """
    del seed
    found = finding(strategy_named(strategy).allocate, Shape(brokers, queues, members))
    numbers = msgspec.structs.asdict(found)
    del numbers["shape"]
    return {name: float(count) for name, count in numbers.items()}

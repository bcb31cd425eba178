"""What ours must reach beside a real RocketMQ: ratios, ours to real."""

from __future__ import annotations

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """One row: a figure of both sides, and the ratio it must keep.  ``None``: only reported."""

    key: str
    title: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    aim: float | None = None

    def is_reached(self, ratio: float) -> bool | None:
        if self.at_most is not None:
            return ratio <= self.at_most
        if self.at_least is not None:
            return ratio >= self.at_least
        return None

    @property
    def text(self) -> str:
        if self.at_most is not None:
            words = f"≤ {self.at_most:.3g}"
        elif self.at_least is not None:
            words = f"≥ {self.at_least:.3g}"
        else:
            return "–"
        return words if self.aim is None else f"{words}, aim {self.aim:.3g}"


GOALS = (
    Goal("start_s", "start → brokers in the route, accepting", "s", at_most=0.1),
    Goal("first_s", "… → first message of a Java client", "s", at_most=1.0),
    Goal("idle_mb", "memory of the servers, idle", "MB", at_most=1 / 6, aim=0.1),
    Goal("loaded_mb", "memory of the servers, after the load", "MB", at_most=1 / 6, aim=0.1),
    Goal("send_1", "Java producer, 1 thread, sync", "/s", at_least=1.6, aim=2.4),
    Goal("send_32", "Java producer, 32 threads, sync", "/s", at_least=1.6, aim=2.2),
    Goal("async_1000", "Java producer, async, 1,000 in flight", "/s", at_least=1.0, aim=1.3),
    Goal("consume", "Java push consumer, backlog", "/s", at_least=1.0, aim=1.6),
)

"""When what happens, and with which timers.

The default keeps every timer of RocketMQ's: a consumer's death is noticed at once, since
its connection closes; a restarted broker knows its consumers again with their next
heartbeat, half a minute after they started.  The quick plan divides all of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

TOPIC, GROUP, PRODUCER_GROUP = "demo", "demo-readers", "demo-writers"
QUEUES_A_BROKER = 4


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one run, since the consumers share the queues and sending begins."""

    kill_consumer_s: float = 6.0
    kill_broker_s: float = 12.0
    restart_broker_s: float = 17.0
    send_until_s: float = 25.0
    bar_ms: int = 1_000  # of a queue's strip
    patience_s: float = 60.0  # for the last messages, after the last line was sent
    timers: dict[str, Any] = {}


def a_quick_plan() -> DemoPlan:
    """Everything five times as fast, and impatient clients."""
    return DemoPlan(
        kill_consumer_s=1.2,
        kill_broker_s=2.4,
        restart_broker_s=3.4,
        send_until_s=5.0,
        bar_ms=200,
        patience_s=30.0,
        timers={
            "heartbeat_first_ms": 200,
            "heartbeat_interval_ms": 1_000,
            "route_poll_interval_ms": 1_000,
            "offset_persist_first_ms": 500,
            "offset_persist_interval_ms": 500,
        },
    )

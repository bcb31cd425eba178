"""RocketMQ's allocation strategies of a group's queues, for the parameter ``strategy``.

from rocketmq_emulator.allocation import AVG_BY_CIRCLE, consistent_hash, nearby
"""

from __future__ import annotations

from rocketmq_emulator.client.consumer.group.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    Allocate,
    Strategy,
    averagely_auto,
    by_machine_room,
    configured,
    consistent_hash,
    md5_hash,
    nearby,
    pinned,
    refusing,
)
from rocketmq_emulator.protocol.allocation import CannotAllocate
from rocketmq_emulator.protocol.bodies.routes import starved

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "Allocate",
    "CannotAllocate",
    "Strategy",
    "averagely_auto",
    "by_machine_room",
    "configured",
    "consistent_hash",
    "md5_hash",
    "nearby",
    "pinned",
    "refusing",
    "starved",
]

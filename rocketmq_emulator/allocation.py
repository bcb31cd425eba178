"""How a group shares its queues: RocketMQ's strategies, to be given as ``strategy=``.

from rocketmq_emulator.allocation import AVG_BY_CIRCLE, consistent_hash, nearby
"""

from __future__ import annotations

from emulator.client.consumer.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    Allocate,
    Strategy,
    by_machine_room,
    configured,
    consistent_hash,
    md5_hash,
    nearby,
)
from emulator.client.consumer.averagely_auto import averagely_auto
from emulator.client.consumer.pinned import pinned, refusing
from protocol.allocation import CannotAllocate
from protocol.idle_queues import starved

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

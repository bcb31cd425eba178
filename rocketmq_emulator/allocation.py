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
from protocol.allocation import CannotAllocate

__all__ = [
    "AVG",
    "AVG_BY_CIRCLE",
    "Allocate",
    "CannotAllocate",
    "Strategy",
    "by_machine_room",
    "configured",
    "consistent_hash",
    "md5_hash",
    "nearby",
]

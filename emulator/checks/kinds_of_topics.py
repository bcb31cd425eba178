"""What a message that is stored waits for, as the name of its topic tells."""

from __future__ import annotations

from typing import Literal, TypeAlias

from protocol.names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)

Place: TypeAlias = Literal["topic", "waiting", "retry", "dead"]


def place_of(topic: str) -> Place:
    """What a message that is stored there waits for."""
    if topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
        return "retry"
    if topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        return "dead"
    return "waiting" if topic in (SCHEDULE_TOPIC, TIMER_TOPIC) else "topic"

"""Where a group starts in a queue it has just been given.

A stored offset always wins.  Only where the group surely has none does its policy
speak; where the answer is an error the queue is not taken at all, for a guess could
skip messages.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from protocol.names import is_retry_topic

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from protocol.bodies.groups import ConsumeFromWhere
    from protocol.queues import MessageQueue

HALF_AN_HOUR_MS = 30 * 60_000  # DefaultMQPushConsumer.consumeTimestamp

LAST_OFFSET: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
FIRST_OFFSET: ConsumeFromWhere = "CONSUME_FROM_FIRST_OFFSET"
TIMESTAMP: ConsumeFromWhere = "CONSUME_FROM_TIMESTAMP"


class Start(Enum):
    """What to ask the broker for, when the group has no offset."""

    ZERO = "zero"
    MAX = "max"
    BY_TIME = "by time"


# ConsumeFromWhere: what it means for a normal topic, and for the group's retry topic.
POLICIES: dict[ConsumeFromWhere, tuple[Start, Start]] = {
    LAST_OFFSET: (Start.MAX, Start.ZERO),
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST": (Start.MAX, Start.ZERO),
    "CONSUME_FROM_MIN_OFFSET": (Start.MAX, Start.ZERO),
    "CONSUME_FROM_MAX_OFFSET": (Start.MAX, Start.ZERO),
    FIRST_OFFSET: (Start.ZERO, Start.ZERO),
    TIMESTAMP: (Start.BY_TIME, Start.MAX),
}


def start_of_new_group(policy: ConsumeFromWhere, topic: str) -> Start:
    """Upstream: RebalancePushImpl.computePullFromWhereWithException."""
    normal, retry = POLICIES[policy]
    return retry if is_retry_topic(topic) else normal


async def find_start(member: Member, queue: MessageQueue) -> int:
    """Raises what the calls raise, and then the queue cannot be taken.

    Upstream: RebalancePushImpl.computePullFromWhereWithException.
    """
    if (stored := await member.offsets.read(queue)) is not None:
        return stored
    config = member.config
    match start_of_new_group(config.consume_from, queue.topic):
        case Start.MAX:
            return await member.calls.max_offset(queue)
        case Start.BY_TIME:
            at_ms = config.consume_from_time_ms
            return await member.calls.offset_at(
                queue, member.born_ms - HALF_AN_HOUR_MS if at_ms is None else at_ms
            )
        case Start.ZERO:
            return 0

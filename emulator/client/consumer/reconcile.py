"""From the queues a consumer holds to the queues it should hold: what goes, what comes.

Only the decision.  Carrying it out takes time (a broker lock, a listener that will not
let go), so the queues to claim are asked for after the releases: one that could not be
released still stands in the table and is not claimed again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.client.consumer.process_queue import ProcessQueue
    from protocol.queues import MessageQueue

Held = Mapping["MessageQueue", "ProcessQueue"]


def to_release(
    held: Held, topic: str, wanted: Collection[MessageQueue], now_ms: int
) -> list[MessageQueue]:
    """Queues of *topic* that are no longer mine, and those nobody has pulled for two minutes.

    The second kind has lost its pull request; it comes back in the same pass, fresh.
    Upstream: RebalanceImpl.updateProcessQueueTableInRebalance.
    """
    return [
        queue
        for queue in sorted(held)
        if queue.topic == topic and (queue not in wanted or held[queue].is_pull_expired(now_ms))
    ]


def to_claim(held: Held, wanted: Collection[MessageQueue]) -> list[MessageQueue]:
    """Queues that should be mine and stand in no table yet."""
    return [queue for queue in sorted(wanted) if queue not in held]


def to_forget(held: Held, subscribed: Collection[str]) -> list[MessageQueue]:
    """Queues of topics nobody subscribes to any more.

    Upstream: RebalanceImpl.truncateMessageQueueNotMyTopic.
    """
    return [queue for queue in sorted(held) if queue.topic not in subscribed]


def is_balanced(held: Held, topic: str, allocated: Collection[MessageQueue]) -> bool:
    """Is exactly what was allocated held, and not dropped?  Upstream: RebalanceImpl (5.2.0)."""
    working = {queue for queue, pq in held.items() if queue.topic == topic and not pq.dropped}
    return working == set(allocated)

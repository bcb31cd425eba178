"""When a queue holds so much unfinished work that it is better not to pull.

Looked at before a pull, so one more batch than the limit can be cached.  Limits given
for a whole topic are shared out evenly, whenever the set of held queues changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.push_config import PushConsumerConfig

MIB = 1024 * 1024


class FlowControl:
    """One consumer's limits.  Upstream: DefaultMQPushConsumerImpl.pullMessage."""

    def __init__(self, config: PushConsumerConfig) -> None:
        self._config = config
        self.messages_max = config.queue_messages_max
        self.mib_max = config.queue_mib_max

    def share_out(self, queues: int) -> None:
        """The consumer now holds *queues* queues, of all its topics together.

        Upstream divides a topic's limit by all of them, not by that topic's.
        Upstream: RebalancePushImpl.messageQueueChanged.
        """
        if queues == 0:
            return
        if self._config.topic_messages_max is not None:
            self.messages_max = max(1, self._config.topic_messages_max // queues)
        if self._config.topic_mib_max is not None:
            self.mib_max = max(1, self._config.topic_mib_max // queues)

    def is_full(self, queue: ProcessQueue) -> bool:
        """Concurrent listeners stop at a wide span too: a stuck message holds the offset."""
        return (
            queue.count > self.messages_max
            or queue.bytes_cached // MIB > self.mib_max
            or (not self._config.orderly and queue.span > self._config.queue_span_max)
        )

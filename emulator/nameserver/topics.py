"""Topic, broker, queues: at most one entry for a topic at a broker *name*, replicas share it.

Upstream: RouteInfoManager.topicQueueTable, topicQueueMappingInfoTable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from emulator.net.results import Refusal
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from protocol.bodies.routes import QueueData
    from protocol.bodies.topics import TopicQueueMappingInfo


class Topics:
    """``topic_queue_table``, and where 5.x's static topics have their queues."""

    def __init__(self, topics_max: int) -> None:
        self.topic_queue_table: dict[str, dict[str, QueueData]] = {}
        self.topic_queue_mapping_table: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._topics_max = topics_max

    def check_room(self, topics: Iterable[str], mapped: Iterable[str] = ()) -> None:
        """Raises ``Refusal`` when these would not all fit."""
        for table, wanted in (
            (self.topic_queue_table, topics),
            (self.topic_queue_mapping_table, mapped),
        ):
            new = sum(topic not in table for topic in wanted)
            if new and len(table) + new > self._topics_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for {new} more topics")

    def put(self, topic: str, queue: QueueData) -> None:
        self.topic_queue_table.setdefault(topic, {})[queue.broker_name] = queue

    def put_mappings(self, broker: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        for topic, mapping in mappings.items():
            self.topic_queue_mapping_table.setdefault(topic, {})[broker] = mapping

    def knows(self, topic: str, broker: str) -> bool:
        return broker in self.topic_queue_table.get(topic, ())

    def at(self, broker: str) -> list[str]:
        return [topic for topic, queues in self.topic_queue_table.items() if broker in queues]

    def having(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics whose flag, at the broker that comes first, is wanted."""
        return [
            topic
            for topic, queues in self.topic_queue_table.items()
            if wanted(next(iter(queues.values())).topic_sys_flag)
        ]

    def change_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """In every topic of that broker; returns how many there are."""
        topics = self.at(broker)
        for topic in topics:
            queue = self.topic_queue_table[topic][broker]
            self.put(topic, msgspec.structs.replace(queue, perm=change(queue.perm)))
        return len(topics)

    def forget(self, topic: str) -> None:
        self.topic_queue_table.pop(topic, None)

    def remove(self, topics: Iterable[str], brokers: Collection[str]) -> None:
        """Those brokers serve those topics no longer; a topic nobody serves is gone."""
        for topic in topics:
            queues = self.topic_queue_table.get(topic)
            if queues is None:
                continue
            for broker in brokers:
                queues.pop(broker, None)
            if not queues:
                del self.topic_queue_table[topic]

"""Figures for tools: where queues begin and end, and how far behind a group is.

Answers GET_TOPIC_STATS_INFO and GET_CONSUME_STATS in every release.

Upstream: AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator.broker.broker import Broker
from emulator.net.results import Call, Result
from emulator.net.slices import in_pieces, in_slices, long_body, reply_of
from emulator.releases import TOPIC_STATS_OF_ALL_QUEUES
from protocol.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable
from protocol.bodies.topics import TopicConfig
from protocol.queues import MessageQueue
from protocol.requests.admin import GetTopicStatsInfoRequest
from protocol.requests.groups import GetConsumeStatsRequest

SLICE_ROWS = 500  # of some 10 µs each


class StatisticsProcessor:
    """Offsets and backlog."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def topic_stats(self, call: Call[GetTopicStatsInfoRequest]) -> Result:
        """Per queue: where it begins and ends, and when its last message was stored."""
        broker, name = self._broker, call.request.topic
        topic = broker.topics.require(name)
        rows = (
            (
                MessageQueue(name, broker.config.name, queue_id),
                TopicOffset(
                    min_offset=broker.store.min_offset(name, queue_id),
                    max_offset=broker.store.max_offset(name, queue_id),
                    last_update_timestamp=self._last_store_ms(name, queue_id),
                ),
            )
            for queue_id in range(self._shown_queues(topic))
        )
        return self._table(TopicStatsTable(), rows, call.now_ms)

    def _shown_queues(self, topic: TopicConfig) -> int:
        if self._broker.release >= TOPIC_STATS_OF_ALL_QUEUES:
            return max(topic.read_queue_nums, topic.write_queue_nums)
        return topic.write_queue_nums

    def _last_store_ms(self, topic: str, queue_id: int) -> int:
        last = self._broker.store.max_offset(topic, queue_id) - 1
        return max(0, self._broker.store.store_ms(topic, queue_id, last))

    def consume_stats(self, call: Call[GetConsumeStatsRequest]) -> Result:
        """Per queue: where the topic ends, and how far the group has come."""
        broker, group = self._broker, call.request.consumer_group
        topic_only = call.request.topic
        topics = [topic_only] if topic_only else broker.offsets.topics_of_group(group)
        online = broker.clients.group(group)
        if online is not None:
            topics = [name for name in topics if name in online.subscription_table]
        rows = (
            (
                MessageQueue(name, broker.config.name, queue_id),
                self._offsets(group, name, queue_id),
            )
            for name in topics
            if (topic := broker.topics.get(name)) is not None
            for queue_id in range(topic.read_queue_nums)
        )
        return self._table(ConsumeStats(), rows, call.now_ms)

    def _offsets(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        broker = self._broker
        consumed = max(0, broker.offsets.query(group, topic, queue_id) or 0)
        last_ms = broker.store.store_ms(topic, queue_id, consumed - 1) if consumed else 0
        return OffsetWrapper(
            broker_offset=broker.store.max_offset(topic, queue_id),
            consumer_offset=consumed,
            pull_offset=consumed,
            last_timestamp=max(0, last_ms),
        )

    def _table(
        self,
        empty: TopicStatsTable | ConsumeStats,
        rows: Iterator[tuple[MessageQueue, TopicOffset | OffsetWrapper]],
        now_ms: int,
    ) -> Result:
        """A topic may have 100,000 queues."""
        pieces = map(dict, in_pieces(rows, SLICE_ROWS))
        body = long_body(empty, {"offsetTable": pieces}, self._broker.release)
        return in_slices(reply_of(body), now_ms)

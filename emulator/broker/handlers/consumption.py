"""How far groups have come, for tools: of all groups at once, between groups, and in time.

Answers GET_BROKER_CONSUME_STATS, QUERY_CORRECTION_OFFSET and QUERY_CONSUME_TIME_SPAN in every
release.  No rates are measured: ``consumeTps`` is 0.  QUERY_CORRECTION_OFFSET leaves the
offsets of the groups that it filters out where they are; upstream deletes them.

Upstream: AdminBrokerProcessor.fetchAllConsumeStatsInBroker, queryCorrectionOffset,
queryConsumeTimeSpan.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.broker.broker import Broker
from emulator.net.results import Call, Refusal, Reply, Result
from emulator.releases import CORRECTIONS_ARE_COMPARED
from protocol.bodies.body import encode_body
from protocol.bodies.offsets import QueryCorrectionOffsetBody
from protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from protocol.bodies.topics import TopicConfig
from protocol.codes import ResponseCode
from protocol.queues import MessageQueue
from protocol.requests.groups import (
    GetConsumeStatsInBrokerRequest,
    QueryConsumeTimeSpanRequest,
)
from protocol.requests.offsets import QueryCorrectionOffsetRequest

LONG_MAX = 2**63 - 1


class ConsumptionProcessor:
    """Backlogs, corrections and time spans."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all_stats(self, call: Call[GetConsumeStatsInBrokerRequest]) -> Result:
        """The backlog of every group in each topic that it has committed offsets of."""
        broker = self._broker
        topics_of: dict[str, list[str]] = {}
        for topic, group, _ in broker.offsets.entries():
            topics_of.setdefault(group, []).append(topic)
        listed = [
            {name: self._stats(name, topics_of.get(name, ()), only_ordered=call.request.is_order)}
            for name in broker.groups.subscription_group_table
        ]
        wrappers = [
            wrapper
            for groups in listed
            for stats in groups.values()
            for one in stats
            for wrapper in one.offset_table.values()
        ]
        body = ConsumeStatsList(
            consume_stats_list=listed,
            broker_addr=broker.address,
            total_diff=sum(w.broker_offset - w.consumer_offset for w in wrappers),
            # As upstream: nothing fills the pull offsets that this is computed from.
            total_inflight_diff=sum(w.pull_offset - w.consumer_offset for w in wrappers),
        )
        return Reply(body=encode_body(body, broker.release))

    def _stats(
        self, group: str, topics: Iterable[str], *, only_ordered: bool
    ) -> list[ConsumeStats]:
        broker = self._broker
        online = broker.clients.group(group)
        subscribed = online.subscription_table if online is not None else {}
        found = []
        for name in topics:
            topic = broker.topics.get(name)
            if topic is None or (only_ordered and not topic.order):
                continue
            if subscribed and name not in subscribed:
                continue
            found.append(ConsumeStats(offset_table=self._offsets(group, topic)))
        return found

    def _offsets(self, group: str, topic: TopicConfig) -> dict[MessageQueue, OffsetWrapper]:
        broker, name = self._broker, topic.topic_name or ""
        table = {}
        for queue_id in range(topic.write_queue_nums):
            consumed = max(0, broker.offsets.query(group, name, queue_id) or 0)
            last_ms = broker.store.store_ms(name, queue_id, consumed - 1) if consumed else 0
            table[MessageQueue(name, broker.config.name, queue_id)] = OffsetWrapper(
                broker_offset=broker.store.max_offset(name, queue_id),
                consumer_offset=consumed,
                last_timestamp=max(0, last_ms),
            )
        return table

    def correction_offset(self, call: Call[QueryCorrectionOffsetRequest]) -> Result:
        """By queue: the lowest offset of all groups but the filtered ones.

        Since 5.1.0 the largest number where the group that is compared with is further back.
        """
        request, broker = call.request, self._broker
        filtered = set((request.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for topic, group, queues in broker.offsets.entries():
            if topic != request.topic or group in filtered:
                continue
            for queue_id, offset in queues.items():
                if offset >= broker.store.min_offset(topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        if broker.release >= CORRECTIONS_ARE_COMPARED:
            for queue_id in list(lowest):
                known = broker.offsets.query(request.compare_group, request.topic, queue_id)
                if known is not None and lowest[queue_id] > known:
                    lowest[queue_id] = LONG_MAX
        body = QueryCorrectionOffsetBody(correction_offsets=lowest)
        return Reply(body=encode_body(body, broker.release))

    def time_span(self, call: Call[QueryConsumeTimeSpanRequest]) -> Result:
        """By queue: when its messages were stored, and how long ago the next one to consume."""
        broker, name = self._broker, call.request.topic
        topic = broker.topics.get(name)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        spans = [
            self._span(call.request.group or "", name, queue_id, call.now_ms)
            for queue_id in range(topic.write_queue_nums)
        ]
        body = QueryConsumeTimeSpanBody(consume_time_span_set=spans)
        return Reply(body=encode_body(body, broker.release))

    def _span(self, group: str, topic: str, queue_id: int, now_ms: int) -> QueueTimeSpan:
        broker, store = self._broker, self._broker.store
        end = store.max_offset(topic, queue_id)
        first_ms = store.earliest_ms(topic, queue_id)
        known = broker.offsets.query(group, topic, queue_id)
        consumed = -1 if known is None else known
        delay_ms = 0
        if consumed < end:
            delay_ms = now_ms - store.store_ms(topic, queue_id, consumed)
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, broker.config.name, queue_id),
            min_time_stamp=first_ms,
            max_time_stamp=store.store_ms(topic, queue_id, end - 1),
            consume_time_stamp=(
                store.store_ms(topic, queue_id, consumed - 1) if consumed > 0 else first_ms
            ),
            delay_time=delay_ms,
        )

"""Figures of queues for tools: first and last offsets, and the progress of groups.

Answers GET_TOPIC_STATS_INFO, GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS, QUERY_CORRECTION_OFFSET
and QUERY_CONSUME_TIME_SPAN in every release.  No rates are measured: ``consumeTps`` is 0.
QUERY_CORRECTION_OFFSET does not change the offsets of the groups that it filters out; upstream
deletes them.

Upstream: AdminBrokerProcessor; of it fetchAllConsumeStatsInBroker, queryCorrectionOffset,
queryConsumeTimeSpan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.net.slices import (
    SliceBudget,
    Slices,
    filled,
    in_pieces,
    in_slices,
    long_body,
    long_reply,
)
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.offsets import QueryCorrectionOffsetBody
from rocketmq_emulator.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import GetTopicStatsInfoRequest
from rocketmq_emulator.protocol.requests.groups import (
    GetConsumeStatsInBrokerRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
)
from rocketmq_emulator.protocol.requests.offsets import QueryCorrectionOffsetRequest
from rocketmq_emulator.settings.releases import CORRECTIONS_ARE_COMPARED, TOPIC_STATS_OF_ALL_QUEUES

SLICE_ROWS = 500  # about 10 µs each


class StatisticsProcessor:
    """Offsets and backlogs of a topic's queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def topic_stats(self, call: Call[GetTopicStatsInfoRequest]) -> Result:
        """By queue: first offset, next offset, and the store time of the last message."""
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
        """By queue: the next offset of the topic, and the committed offset of the group."""
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
        """A reply encoded in slices: a topic may have 100,000 queues."""
        pieces = map(dict, in_pieces(rows, SLICE_ROWS))
        return long_reply(empty, {"offsetTable": pieces}, self._broker.release, now_ms)


# All groups, corrections, time spans --------------------------------------------------


SLICE_STATS_ROWS = 200  # about 40 µs each
SLICE_OFFSETS = 20_000  # about 0.5 µs each
LONG_MAX = 2**63 - 1


class ConsumptionProcessor:
    """Backlogs, lowest offsets and time spans of groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def all_stats(self, call: Call[GetConsumeStatsInBrokerRequest]) -> Result:
        """The backlog of every group in each topic that it has committed offsets of."""
        return in_slices(self._all_stats(only_ordered=call.request.is_order), call.now_ms)

    def _all_stats(self, *, only_ordered: bool) -> Slices:
        broker, pace, diff = self._broker, SliceBudget(SLICE_STATS_ROWS), _Diff()
        topics_of: dict[str, list[str]] = {}
        for name, group, _ in broker.offsets.entries():
            topics_of.setdefault(group, []).append(name)
        listed: list[bytes] = []
        for group in list(broker.groups.subscription_group_table):
            texts: list[bytes] = []
            for topic in self._seen_topics(group, topics_of.get(group, ())):
                if only_ordered and not topic.order:
                    continue
                rows = map(dict, in_pieces(self._rows(group, topic, diff), SLICE_STATS_ROWS))
                stats = long_body(ConsumeStats(), {"offsetTable": rows}, broker.release)
                texts.append((yield from stats))
                if pace.is_over(topic.write_queue_nums):
                    yield
            key = encode_body(group, broker.release)
            listed.append(b"{%b:[%b]}" % (key, b",".join(texts)))
            if pace.is_over(1):
                yield
        empty = ConsumeStatsList(
            broker_addr=broker.address,
            total_diff=diff.to_consume,
            total_inflight_diff=diff.in_flight,
        )
        return Reply(body=filled(empty, {"consumeStatsList": listed}, broker.release))

    def _seen_topics(self, group: str, committed: Iterable[str]) -> Iterator[TopicConfig]:
        """The group's *committed* topics; of an online group only those it subscribes to."""
        online = self._broker.clients.group(group)
        subscribed = online.subscription_table if online is not None else {}
        for name in committed:
            topic = self._broker.topics.get(name)
            if topic is not None and not (subscribed and name not in subscribed):
                yield topic

    def _rows(
        self, group: str, topic: TopicConfig, diff: _Diff
    ) -> Iterator[tuple[MessageQueue, OffsetWrapper]]:
        broker, name = self._broker, topic.topic_name or ""
        for queue_id in range(topic.write_queue_nums):
            consumed = max(0, broker.offsets.query(group, name, queue_id) or 0)
            last_ms = broker.store.store_ms(name, queue_id, consumed - 1) if consumed else 0
            row = OffsetWrapper(
                broker_offset=broker.store.max_offset(name, queue_id),
                consumer_offset=consumed,
                last_timestamp=max(0, last_ms),
            )
            diff.add(row)
            yield MessageQueue(name, broker.config.name, queue_id), row

    def correction_offset(self, call: Call[QueryCorrectionOffsetRequest]) -> Result:
        """By queue: the lowest offset of all groups but the filtered ones.

        Since 5.1.0 the largest number in queues where the compared group's offset is lower.
        """
        return in_slices(self._corrections(call.request), call.now_ms)

    def _corrections(self, request: QueryCorrectionOffsetRequest) -> Slices:
        broker, pace = self._broker, SliceBudget(SLICE_OFFSETS)
        filtered = set((request.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for topic, group, queues in list(broker.offsets.entries()):
            if topic != request.topic or group in filtered:
                continue
            for queue_id, offset in queues.items():
                if offset >= broker.store.min_offset(topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
            if pace.is_over(len(queues)):
                yield
        if broker.release >= CORRECTIONS_ARE_COMPARED:
            for queue_id in list(lowest):
                known = broker.offsets.query(request.compare_group, request.topic, queue_id)
                if known is not None and lowest[queue_id] > known:
                    lowest[queue_id] = LONG_MAX
        body = QueryCorrectionOffsetBody(correction_offsets=lowest)
        return Reply(body=encode_body(body, broker.release))

    def time_span(self, call: Call[QueryConsumeTimeSpanRequest]) -> Result:
        """By queue: store times of the first, last and last consumed message, and the delay.

        The delay is the age of the next message to consume.
        """
        broker, name = self._broker, call.request.topic
        topic = broker.topics.require(name)
        spans = (
            self._span(call.request.group or "", name, queue_id, call.now_ms)
            for queue_id in range(topic.write_queue_nums)
        )
        pieces = {"consumeTimeSpanSet": in_pieces(spans, SLICE_STATS_ROWS)}
        return long_reply(QueryConsumeTimeSpanBody(), pieces, broker.release, call.now_ms)

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


class _Diff:
    """The summed backlog of all groups."""

    def __init__(self) -> None:
        self.to_consume = 0
        self.in_flight = 0

    def add(self, row: OffsetWrapper) -> None:
        self.to_consume += row.broker_offset - row.consumer_offset
        # As upstream, where the pull offsets are never set.
        self.in_flight += row.pull_offset - row.consumer_offset

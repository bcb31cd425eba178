"""Administration by tools: topics, groups, who is connected, how far behind.

Answers UPDATE_AND_CREATE_TOPIC, DELETE_TOPIC_IN_BROKER, GET_ALL_TOPIC_CONFIG,
GET_TOPIC_STATS_INFO, VIEW_MESSAGE_BY_ID, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_CONSUMER_CONNECTION_LIST, GET_PRODUCER_CONNECTION_LIST,
GET_CONSUME_STATS and QUERY_TOPIC_CONSUME_BY_WHO in every release.  Does not answer runtime
information, configuration, offset resets, searches by key or statistics a time span.

Upstream: AdminBrokerProcessor, QueryMessageProcessor.viewMessageById.
"""

from __future__ import annotations

from emulator.broker.broker import Broker
from emulator.broker.checks import check_size
from emulator.broker.tables.client_channels import ClientChannel
from emulator.net.results import Call, Refusal, Reply, Result, Wait
from emulator.releases import (
    FORBIDDEN_TABLE_SENT,
    MORE_SYSTEM_TOPICS,
    ORDER_SET_BY_ADMIN,
    SAME_TOPIC_NOT_WRITTEN,
    TOPIC_MAPPING_SENT,
    TOPIC_STATS_OF_ALL_QUEUES,
)
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.connections import ClientConnection, ConsumerConnection, ProducerConnection
from protocol.bodies.groups import GroupList, SubscriptionGroupConfig, SubscriptionGroupWrapper
from protocol.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable
from protocol.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigSerializeWrapper,
)
from protocol.codes import ResponseCode
from protocol.fields import BadFields, Header
from protocol.names import SYSTEM_TOPICS, SYSTEM_TOPICS_5, is_system_topic
from protocol.queues import MessageQueue
from protocol.requests.admin import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicStatsInfoRequest,
)
from protocol.requests.groups import (
    GetConsumerConnectionListRequest,
    GetConsumeStatsRequest,
    GetProducerConnectionListRequest,
    QueryTopicConsumeByWhoRequest,
)
from protocol.requests.pulling import ViewMessageRequest
from protocol.validation import broker_refuses_topic


class AdminBrokerProcessor:
    """Topics, groups and statistics for tools."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._system_topics = (
            SYSTEM_TOPICS_5 if broker.release >= MORE_SYSTEM_TOPICS else SYSTEM_TOPICS
        )

    # Topics ---------------------------------------------------------------------------

    def update_topic(self, call: Call[CreateTopicRequest]) -> Result:
        """Make or change a topic; answered when every NameServer knows, or its time is over."""
        request = call.request
        problem = broker_refuses_topic(request.topic)
        if problem is None and self._is_system(request.topic):
            problem = f"The topic[{request.topic}] is conflict with system topic."
        if problem is not None:
            raise Refusal(self._broker.bad_parameter_code, problem)
        config = TopicConfig(
            topic_name=request.topic,
            read_queue_nums=request.read_queue_nums,
            write_queue_nums=request.write_queue_nums,
            perm=request.perm,
            topic_filter_type=request.topic_filter_type,
            topic_sys_flag=request.topic_sys_flag or 0,
            order=request.order and self._broker.release >= ORDER_SET_BY_ADMIN,
        )
        done = Reply(remark="not set any response code")  # upstream does not clear it
        is_same = config == self._broker.topics.get(request.topic)
        if is_same and self._broker.release >= SAME_TOPIC_NOT_WRITTEN:
            return done
        bell = self._broker.update_topic(config, call.now_ms)
        if bell is None:
            return done
        until_ms = call.now_ms + self._broker.register_call_ms_max
        return Wait(bell, until_ms, lambda _now_ms, _expired: done)

    def delete_topic(self, call: Call[DeleteTopicRequest]) -> Result:
        """Refused for the topics of the system."""
        name = call.request.topic
        if not name.strip():
            raise Refusal(self._broker.bad_parameter_code, "The specified topic is blank.")
        if self._is_system(name):
            problem = f"The topic[{name}] is conflict with system topic."
            raise Refusal(self._broker.bad_parameter_code, problem)
        self._broker.delete_topic(name, call.now_ms)
        return Reply()

    def all_topics(self, _call: Call[Header]) -> Result:
        """Every topic, those of the system included."""
        topics = self._broker.topics
        kind: type[TopicConfigAndMappingSerializeWrapper | TopicConfigSerializeWrapper]
        kind = TopicConfigSerializeWrapper
        if self._broker.release >= TOPIC_MAPPING_SENT:
            kind = TopicConfigAndMappingSerializeWrapper
        wrapper = kind(
            topic_config_table={t.topic_name or "": t for t in topics.all()},
            data_version=topics.data_version,
        )
        return Reply(Header(), encode_body(wrapper, self._broker.release))

    def topic_stats(self, call: Call[GetTopicStatsInfoRequest]) -> Result:
        """Per queue: where it begins and ends, and when its last message was stored."""
        broker, name = self._broker, call.request.topic
        topic = broker.topics.get(name)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        table = {
            MessageQueue(name, broker.config.name, queue_id): TopicOffset(
                min_offset=broker.store.min_offset(name, queue_id),
                max_offset=broker.store.max_offset(name, queue_id),
                last_update_timestamp=self._last_store_ms(name, queue_id),
            )
            for queue_id in range(self._shown_queues(topic))
        }
        return Reply(body=encode_body(TopicStatsTable(offset_table=table), broker.release))

    def _shown_queues(self, topic: TopicConfig) -> int:
        if self._broker.release >= TOPIC_STATS_OF_ALL_QUEUES:
            return max(topic.read_queue_nums, topic.write_queue_nums)
        return topic.write_queue_nums

    def _last_store_ms(self, topic: str, queue_id: int) -> int:
        last = self._broker.store.max_offset(topic, queue_id) - 1
        return max(0, self._broker.store.store_ms(topic, queue_id, last))

    def view_message(self, call: Call[ViewMessageRequest]) -> Result:
        """The record at a position of the commit log, as it is stored."""
        data = self._broker.store.record_at(call.request.offset)
        if data is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {call.request.offset}",
            )
        return Reply(body=bytes(data))

    # Groups ---------------------------------------------------------------------------

    def update_group(self, call: Call[Header]) -> Result:
        """Make or change a consumer group."""
        config = decode_body(call.body, SubscriptionGroupConfig)
        if config.group_name is None:
            raise BadFields("a group without a name")
        queues_max = self._broker.config.topic_queues_max
        check_size(config.retry_queue_nums, queues_max, "queues of a retry topic")
        self._broker.groups.check_room(config.group_name)
        self._broker.groups.update(config, call.now_ms)
        return Reply()

    def all_groups(self, _call: Call[Header]) -> Result:
        """Every consumer group, those of the system included."""
        groups = self._broker.groups
        wrapper = SubscriptionGroupWrapper(
            subscription_group_table={g.group_name or "": g for g in groups.all()},
            data_version=groups.data_version,
            forbidden_table={} if self._broker.release >= FORBIDDEN_TABLE_SENT else None,
        )
        return Reply(body=encode_body(wrapper, self._broker.release))

    def consumer_connections(self, call: Call[GetConsumerConnectionListRequest]) -> Result:
        """The connected members of a group and their subscriptions."""
        name = call.request.consumer_group
        group = self._broker.clients.group(name)
        if group is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        body = ConsumerConnection(
            connection_set=[_connection(c) for c in group.channel_info_table.values()],
            subscription_table=group.subscription_table,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return Reply(body=encode_body(body, self._broker.release))

    def producer_connections(self, call: Call[GetProducerConnectionListRequest]) -> Result:
        """The connected members of a producer group."""
        name = call.request.producer_group
        channels = self._broker.clients.producers(name)
        if not channels:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        body = ProducerConnection(connection_set=[_connection(c) for c in channels])
        return Reply(body=encode_body(body, self._broker.release))

    def who_consumes(self, call: Call[QueryTopicConsumeByWhoRequest]) -> Result:
        """Groups that subscribe to a topic, or have committed offsets of it."""
        broker, topic = self._broker, call.request.topic
        online = broker.clients.groups_of_topic(topic)
        found = dict.fromkeys([*online, *broker.offsets.groups_of_topic(topic)])
        return Reply(body=encode_body(GroupList(group_list=list(found)), broker.release))

    def consume_stats(self, call: Call[GetConsumeStatsRequest]) -> Result:
        """Per queue: where the topic ends, and how far the group has come."""
        broker, group = self._broker, call.request.consumer_group
        topic_only = call.request.topic
        topics = [topic_only] if topic_only else broker.offsets.topics_of_group(group)
        online = broker.clients.group(group)
        table: dict[MessageQueue, OffsetWrapper] = {}
        for name in topics:
            topic = broker.topics.get(name)
            if topic is None or (online is not None and name not in online.subscription_table):
                continue
            for queue_id in range(topic.read_queue_nums):
                queue = MessageQueue(name, broker.config.name, queue_id)
                table[queue] = self._offsets(group, name, queue_id)
        body = ConsumeStats(offset_table=table)
        return Reply(body=encode_body(body, broker.release))

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

    def _is_system(self, topic: str) -> bool:
        if self._broker.topics.is_system(topic):
            return True
        return is_system_topic(topic, self._system_topics)


def _connection(channel: ClientChannel) -> ClientConnection:
    return ClientConnection(
        client_id=channel.client_id,
        client_addr=channel.peer.address,
        language=channel.language,
        version=channel.version,
    )

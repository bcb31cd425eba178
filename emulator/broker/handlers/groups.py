"""Consumer groups for tools: their settings, members and subscriptions.

Answers UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, DELETE_SUBSCRIPTIONGROUP,
GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_CONSUMER_CONNECTION_LIST, GET_PRODUCER_CONNECTION_LIST and
QUERY_TOPIC_CONSUME_BY_WHO in every release; GET_SUBSCRIPTIONGROUP_CONFIG,
QUERY_TOPICS_BY_CONSUMER and QUERY_SUBSCRIPTION_BY_CONSUMER since 5.0.  Does not create several
groups by one request, and does not forbid a group to consume single topics.

Upstream: AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.checks import check_size
from rocketmq_emulator.broker.tables.client_channels import ClientChannel
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result
from rocketmq_emulator.net.slices import in_pieces, long_reply
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    ClientConnection,
    ConsumerConnection,
    GroupList,
    ProducerConnection,
    QuerySubscriptionReply,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.routes import TopicList
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.requests.groups import (
    DeleteSubscriptionGroupRequest,
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
    GetSubscriptionGroupConfigRequest,
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)
from rocketmq_emulator.settings.releases import (
    CLEAN_OFFSET_SPELLED,
    FORBIDDEN_TABLE_SENT,
    GROUP_OFFSETS_MAY_GO,
)

SLICE_ROWS = 400  # about 20 µs each


class GroupProcessor:
    """Reads and changes subscription groups, and lists connected members, for administrators."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def update(self, call: Call[Header]) -> Result:
        """Create or change a consumer group."""
        config = decode_body(call.body, SubscriptionGroupConfig)
        if config.group_name is None:
            raise BadFields("a group without a name")
        queues_max = self._broker.config.topic_queues_max
        check_size(config.retry_queue_nums, queues_max, "queues of a retry topic")
        self._broker.groups.check_room(config.group_name)
        self._broker.groups.update(config, call.now_ms)
        return Reply()

    def delete(self, call: Call[DeleteSubscriptionGroupRequest]) -> Result:
        """Delete a group; SUCCESS also for an unknown one.

        Its members stay, and their next pull creates it again.  Its offsets are deleted if the
        request has the flag for that, whose name depends on the release.
        """
        request, broker = call.request, self._broker
        has_new_name = broker.release >= CLEAN_OFFSET_SPELLED
        takes_offsets = request.clean_offset if has_new_name else request.remove_offset
        takes_offsets = takes_offsets and broker.release >= GROUP_OFFSETS_MAY_GO
        broker.groups.delete(request.group_name, call.now_ms)
        broker.store.figures.forget_group(request.group_name)
        if takes_offsets:
            broker.offsets.delete_group(request.group_name)
        return Reply()

    def one(self, call: Call[GetSubscriptionGroupConfigRequest]) -> Result:
        """One group; as upstream, the request creates a missing one."""
        broker, name = self._broker, call.request.group
        group = broker.groups.find(name, call.now_ms, by="admin")
        if group is None:
            remark = "No group in this broker"
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return Reply(body=encode_body(group, broker.release))

    def topics_of_group(self, call: Call[QueryTopicsByConsumerRequest]) -> Result:
        """The topics of which the group has committed offsets."""
        broker, name = self._broker, call.request.group
        topics = broker.offsets.topics_of_group(name)
        body = TopicList(topic_list=topics, broker_addr=broker.address)
        return Reply(body=encode_body(body, broker.release))

    def subscription(self, call: Call[QuerySubscriptionByConsumerRequest]) -> Result:
        """A connected group's subscription to a topic; an empty answer if there is none."""
        request = call.request
        group = self._broker.clients.group(request.group)
        found = group.subscription_table.get(request.topic) if group is not None else None
        body = QuerySubscriptionReply(
            group=request.group, topic=request.topic, subscription_data=found
        )
        return Reply(body=encode_body(body, self._broker.release))

    def all(self, call: Call[Header]) -> Result:
        """All consumer groups, those of the system included."""
        groups = self._broker.groups
        table = groups.subscription_group_table
        empty = SubscriptionGroupWrapper(
            data_version=groups.data_version,
            forbidden_table={} if self._broker.release >= FORBIDDEN_TABLE_SENT else None,
        )
        pieces = map(table.subset, in_pieces(list(table), SLICE_ROWS))
        return long_reply(
            empty, {"subscriptionGroupTable": pieces}, self._broker.release, call.now_ms
        )

    def consumer_connections(self, call: Call[GetConsumerConnectionListRequest]) -> Result:
        """The connected members of a group and their subscriptions."""
        name = call.request.consumer_group
        group = self._broker.clients.group(name)
        if group is None:
            raise Refusal(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        empty = ConsumerConnection(
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        members = in_pieces(list(group.channel_info_table.values()), SLICE_ROWS)
        subscribed = in_pieces(list(group.subscription_table.items()), SLICE_ROWS)
        pieces = {
            "connectionSet": _connections(members),
            "subscriptionTable": map(dict, subscribed),
        }
        return long_reply(empty, pieces, self._broker.release, call.now_ms)

    def producer_connections(self, call: Call[GetProducerConnectionListRequest]) -> Result:
        """The connected members of a producer group."""
        name = call.request.producer_group
        channels = self._broker.clients.producers(name)
        if not channels:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        pieces = {"connectionSet": _connections(in_pieces(channels, SLICE_ROWS))}
        return long_reply(ProducerConnection(), pieces, self._broker.release, call.now_ms)

    def topic_consumers(self, call: Call[QueryTopicConsumeByWhoRequest]) -> Result:
        """The groups that subscribe to a topic, or have committed offsets of it."""
        broker, topic = self._broker, call.request.topic
        online = broker.clients.groups_of_topic(topic)
        found = dict.fromkeys([*online, *broker.offsets.groups_of_topic(topic)])
        return Reply(body=encode_body(GroupList(group_list=list(found)), broker.release))


def _connections(pieces: Iterable[list[ClientChannel]]) -> Iterator[list[ClientConnection]]:
    for piece in pieces:
        yield [
            ClientConnection(
                client_id=channel.client_id,
                client_addr=channel.peer.address,
                language=channel.language,
                version=channel.version,
            )
            for channel in piece
        ]

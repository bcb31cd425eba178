"""Heartbeats, unregistering, and the lists of a group's members and of all producers.

Answers HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG, GET_CONSUMER_LIST_BY_GROUP and
GET_ALL_PRODUCER_INFO in every release.  Does not support 5.x heartbeats that carry only a
fingerprint: each is read whole.  CHECK_CLIENT_CONFIG compiles the expression of a subscription.

Upstream: ClientManageProcessor, ConsumerManageProcessor.getConsumerListByGroup,
ProducerManager.getProducerTable.
"""

from __future__ import annotations

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.tables.checks import check_property_filter
from rocketmq_emulator.broker.tables.client_channels import ClientChannel
from rocketmq_emulator.broker.tables.consumer_filters import compiled
from rocketmq_emulator.facts import HeartbeatReceived
from rocketmq_emulator.net.results import Call, Peer, Refusal, Reply, Result
from rocketmq_emulator.net.slices import (
    Slices,
    in_pieces,
    in_slices,
    long_reply,
)
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupReply,
    HeartbeatData,
    ProducerInfo,
    ProducerTableInfo,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields, Header
from rocketmq_emulator.protocol.flags import TOPIC_UNIT_SUB
from rocketmq_emulator.protocol.messages.misuses import (
    MISUSES,
    FoundMisuse,
    differing,
    in_expression,
)
from rocketmq_emulator.protocol.messages.names import retry_topic
from rocketmq_emulator.protocol.messages.subscription import (
    TAG,
    BadExpression,
    SubscriptionData,
    is_tag_type,
)
from rocketmq_emulator.protocol.requests.groups import (
    GetConsumerListByGroupRequest,
    UnregisterClientRequest,
)
from rocketmq_emulator.settings.releases import (
    EMPTY_BODY_CHECKS_NOTHING,
    GROUP_NEEDED_TO_REGISTER,
    HEARTBEAT_REPLY_HAS_FLAGS,
)

OWN_LANGUAGE = "PYTHON"  # of this project's clients, which warn their application themselves
SLICE_GROUPS = 100  # about 80 µs each, if they are new


class ClientManageProcessor:
    """Heartbeats and unregistering of clients, and lists of connected clients."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._skips_unknown_groups = broker.release >= GROUP_NEEDED_TO_REGISTER
        self._heartbeat_extra = (
            {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
            if broker.release >= HEARTBEAT_REPLY_HAS_FLAGS
            else None
        )

    def heartbeat(self, call: Call[Header]) -> Result:
        """Register the client in all groups of its heartbeat, or in none if it is refused.

        Many groups are registered in slices; other requests are answered between them.
        """
        data = decode_body(call.body, HeartbeatData)
        call.peer.client_id = data.client_id
        command = call.command
        channel = ClientChannel(
            call.peer, data.client_id, str(command.language), command.version, call.now_ms
        )
        _check_named(data)
        self._broker.clients.check_room(data, call.peer)
        if self._broker.wants(HeartbeatReceived):
            self._broker.note(HeartbeatReceived(data.client_id or "", call.peer.address))
        return in_slices(self._register(data, channel), call.now_ms)

    def _register(self, data: HeartbeatData, channel: ClientChannel) -> Slices:
        clients, peer = self._broker.clients, channel.peer
        if len(data.consumer_data_set) > SLICE_GROUPS:
            yield  # reading the body took as long as a slice
        for consumers in in_pieces(data.consumer_data_set, SLICE_GROUPS):
            if not self._counts(peer):
                break
            clients.check_room_of_members(consumers, peer)  # others may join between the slices
            with self._broker.saved_in_one_write():
                for consumer in consumers:
                    self._register_consumer(consumer, channel)
            if len(consumers) == SLICE_GROUPS:
                yield
        for producer in data.producer_data_set if self._counts(peer) else ():
            clients.register_producer(producer.group_name or "", channel)
        return Reply(extra=self._heartbeat_extra)

    def _counts(self, peer: Peer) -> bool:
        """Whether *peer* is open: a closed one was removed, and must not be added again."""
        return peer.is_open

    def _register_consumer(self, data: ConsumerData, channel: ClientChannel) -> None:
        broker, name = self._broker, data.group_name or ""
        now_ms = channel.last_update_ms
        config = broker.groups.find(name, now_ms, by="heartbeat")
        if config is None and self._skips_unknown_groups:
            return
        if config is not None:
            queues, flag = config.retry_queue_nums, TOPIC_UNIT_SUB if data.unit_mode else 0
            topic = retry_topic(name)
            consumed = (subscription.topic for subscription in data.subscription_data_set)
            order = any(broker.topics.is_order(name) for name in consumed)
            broker.ensure_topic(topic, queues, now_ms, by="heartbeat", sys_flag=flag, order=order)
        self._look_for_misuses(data, channel)
        has_changed = broker.clients.register_consumer(data, channel)
        broker.filters.register(name, data.subscription_data_set, now_ms)
        if has_changed and (config is None or config.notify_consumer_ids_changed_enable):
            broker.clients.notify(name, now_ms)

    def _look_for_misuses(self, data: ConsumerData, channel: ClientChannel) -> None:
        """Compare a member's subscriptions with those of the others, before they are replaced."""
        misuses, group, given = (
            self._broker.misuses,
            data.group_name or "",
            data.subscription_data_set,
        )
        client = channel.client_id or channel.peer.address
        if self._broker.clients.shares_client_id(group, channel):
            detail = "brokers and tools see one member, and each reply is that of only one"
            misuses.notice(FoundMisuse("client_id_shared", client, group, "", detail))
        for other, known in self._broker.clients.others(group, channel.client_id or "").items():
            for topic, detail in differing(known, given, other):
                found = FoundMisuse("subscriptions_differ", client, group, topic, detail)
                misuses.notice(found)
        for each in given:
            self._look_for_filters_off(client, group, each)
            if (seen := in_expression(each)) is not None:
                misuse, detail = seen
                misuses.notice(
                    FoundMisuse(misuse, client, group, each.topic, detail),
                    is_reported=channel.language == OWN_LANGUAGE and MISUSES[misuse].client_warns,
                )
            else:
                misuses.tags.subscribed(group, client, each)

    def _look_for_filters_off(self, client: str, group: str, data: SubscriptionData) -> None:
        kind = data.expression_type
        if kind != TAG and not is_tag_type(kind) and not self._broker.config.property_filter:
            found = FoundMisuse("property_filter_off", client, group, data.topic, kind)
            self._broker.misuses.notice(found)

    def unregister(self, call: Call[UnregisterClientRequest]) -> Result:
        """Remove the client from the groups that it names, and notify the other consumers."""
        request, broker = call.request, self._broker
        if request.producer_group is not None:
            group = request.producer_group
            broker.clients.unregister_producer(group, call.peer, request.client_id or "")
        if request.consumer_group is not None:
            name = request.consumer_group
            config = broker.groups.find(name, call.now_ms, by="unregister")
            broker.clients.unregister_consumer(name, call.peer, call.now_ms)
            if config is None or config.notify_consumer_ids_changed_enable:
                broker.clients.notify(name, call.now_ms)
        return Reply(Header())

    def consumer_list(self, call: Call[GetConsumerListByGroupRequest]) -> Result:
        """The client ids of a group, one per connection.  Upstream: getConsumerListByGroup."""
        name = call.request.consumer_group
        group = self._broker.clients.group(name)
        if group is None:
            remark = f"no consumer for this group, {name}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark, Header())
        if group.encoded_client_ids is None:  # after a change every member requests this list
            body = GetConsumerListByGroupReply(consumer_id_list=group.client_ids())
            group.encoded_client_ids = encode_body(body, self._broker.release)
        return Reply(Header(), group.encoded_client_ids)

    def all_producers(self, call: Call[Header]) -> Result:
        """All connections of all producer groups."""
        table = self._broker.clients.producer_table
        pieces = (
            {name: list(map(_producer, table[name].values())) for name in piece if name in table}
            for piece in in_pieces(list(table), SLICE_GROUPS)
        )
        release = self._broker.release
        return long_reply(ProducerTableInfo(), {"data": pieces}, release, call.now_ms)

    def check_config(self, call: Call[Header]) -> Result:
        """SUCCESS if this broker can filter by the client's expression, else refused."""
        if not call.body and self._broker.release >= EMPTY_BODY_CHECKS_NOTHING:
            return Reply()
        request = decode_body(call.body, CheckClientRequestBody)
        data = request.subscription_data
        if data is None or is_tag_type(data.expression_type):
            return Reply()
        self._look_for_filters_off(request.client_id or "", request.group or "", data)
        check_property_filter(data.expression_type, self._broker.config)
        try:
            compiled(data.sub_string, data.expression_type, self._broker.release)
        except BadExpression as error:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.remark) from error
        return Reply()


def _producer(channel: ClientChannel) -> ProducerInfo:
    return ProducerInfo(
        client_id=channel.client_id,
        remote_ip=f"/{channel.peer.address}",  # as Java prints an address without a name
        language=channel.language,
        version=channel.version,
        last_update_timestamp=channel.last_update_ms,
    )


def _check_named(data: HeartbeatData) -> None:
    """Raises ``BadFields`` for a group or a subscription without a name."""
    groups = [group.group_name for group in data.consumer_data_set]
    groups += [group.group_name for group in data.producer_data_set]
    if None in groups:
        raise BadFields("a group without a name")
    topics = [
        part.topic for group in data.consumer_data_set for part in group.subscription_data_set
    ]
    if "" in topics:
        raise BadFields("a subscription without a topic")

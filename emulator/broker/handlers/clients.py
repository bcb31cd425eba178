"""Clients come, are heard, and go: heartbeats, member lists, notices, queue locks.

Upstream: ClientManageProcessor, ConsumerManageProcessor, ClientHousekeepingService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.broker.handlers.filters import check_expression_type
from emulator.broker.tables.consumers import BROADCASTING, ClientChannel, ConsumerGroup
from emulator.broker.tables.limits import check_name, check_size
from emulator.facts import (
    MemberJoined,
    MemberLeft,
    MembersNotified,
    Queue,
    QueuesLocked,
    QueuesUnlocked,
    SubscriptionChanged,
)
from emulator.net.results import Call, Peer, Refusal, Reply, Result
from emulator.releases import BROADCAST_NOT_NOTIFIED, FIVE, GROUP_NEEDED_TO_REGISTER
from protocol import catalog
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupReply,
    HeartbeatData,
    LockBatchReply,
    LockBatchRequestBody,
)
from protocol.codes import RequestCode, ResponseCode
from protocol.fields import BadFields, Header
from protocol.names import retry_topic
from protocol.queues import MessageQueue
from protocol.requests.callbacks import NotifyConsumerIdsChangedRequest

if TYPE_CHECKING:
    from emulator.broker.broker import Broker
    from emulator.net.handler_table import Table
    from protocol.requests.groups import GetConsumerListByGroupRequest, UnregisterClientRequest


class Clients:
    """What clients tell of themselves, and what they hear of each other."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._skips_unknown_groups = broker.release >= GROUP_NEEDED_TO_REGISTER
        self._broadcast_notified = broker.release < BROADCAST_NOT_NOTIFIED
        self._heartbeat_extra = (
            {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
            if broker.release >= FIVE
            else None
        )

    def handlers(self) -> Table:
        return {
            RequestCode.HEART_BEAT: (catalog.HEART_BEAT, self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: (catalog.UNREGISTER_CLIENT, self.unregister),
            RequestCode.CHECK_CLIENT_CONFIG: (catalog.CHECK_CLIENT_CONFIG, self.check_config),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: (
                catalog.GET_CONSUMER_LIST_BY_GROUP,
                self.consumer_list,
            ),
            RequestCode.LOCK_BATCH_MQ: (catalog.LOCK_BATCH_MQ, self.lock),
            RequestCode.UNLOCK_BATCH_MQ: (catalog.UNLOCK_BATCH_MQ, self.unlock),
        }

    # Heartbeats -----------------------------------------------------------------------

    def heartbeat(self, call: Call[Header]) -> Result:
        data = decode_body(call.body, HeartbeatData)
        if not data.client_id:
            raise BadFields("a heartbeat without a clientID")
        command = call.command
        channel = ClientChannel(
            call.peer, data.client_id, str(command.language), command.version, call.now_ms
        )
        _check_named(data)
        self._check_room(data, call.peer)
        for consumer in data.consumer_data_set:
            self._heard_consumer(consumer, channel)
        for producer in data.producer_data_set:
            self._broker.producers.register(producer.group_name or "", channel)
        return Reply(extra=self._heartbeat_extra)

    def _check_room(self, data: HeartbeatData, peer: Peer) -> None:
        """Is there room for all of it?  Raises ``Refusal``."""
        config = self._broker.config
        check_name(data.client_id or "", "a client id")
        consumers, producers = self._broker.consumers, self._broker.producers
        groups = [consumer.group_name or "" for consumer in data.consumer_data_set]
        check_size(
            len(groups) + len(data.producer_data_set),
            config.heartbeat_groups_max,
            "groups in a heartbeat",
        )
        for consumer in data.consumer_data_set:
            count = len(consumer.subscription_data_set)
            check_size(count, config.subscriptions_max, "subscriptions of a group")
        joining = sum(not consumers.has_member(group, peer) for group in groups)
        check_size(consumers.member_count + joining, config.members_max, "members of groups")
        new = {producer.group_name or "" for producer in data.producer_data_set}
        count = len(producers.producer_table) + sum(not producers.knows(group) for group in new)
        check_size(count, config.producer_groups_max, "producer groups")

    def _heard_consumer(self, data: ConsumerData, channel: ClientChannel) -> None:
        broker, name = self._broker, data.group_name or ""
        config = broker.groups.find(name, channel.last_update_ms, by="heartbeat")
        if config is None and self._skips_unknown_groups:
            return
        if config is not None:
            broker.ensure_topic(
                retry_topic(name), config.retry_queue_nums, channel.last_update_ms, by="heartbeat"
            )
        found = broker.consumers.register(
            name,
            channel,
            consume_type=data.consume_type,
            message_model=data.message_model,
            consume_from_where=data.consume_from_where,
            subscriptions=data.subscription_data_set,
        )
        if found.joined:
            broker.note(MemberJoined(name, channel.client_id, channel.peer.address))
        if found.added or found.removed:
            broker.note(SubscriptionChanged(name, found.added, found.removed))
        if found.changed and (config is None or config.notify_consumer_ids_changed_enable):
            self.notify(name)

    def unregister(self, call: Call[UnregisterClientRequest]) -> Result:
        request, broker = call.request, self._broker
        if request.producer_group is not None:
            broker.producers.unregister(request.producer_group, call.peer)
        if request.consumer_group is not None:
            name = request.consumer_group
            config = broker.groups.find(name, call.now_ms, by="unregister")
            model = self._model(name)
            left = broker.consumers.unregister(name, call.peer)
            if left is not None:
                broker.note(MemberLeft(name, left.client_id, call.peer.address, "unregistered"))
            if config is None or config.notify_consumer_ids_changed_enable:
                self.notify(name, model)
        return Reply(Header())

    def closed(self, peer: Peer) -> None:
        """The connection ended.  Locks stay until they expire."""
        broker = self._broker
        models = {name: self._model(name) for name in broker.consumers.consumer_table}
        broker.producers.closed(peer)
        for name, left in broker.consumers.closed(peer):
            broker.note(MemberLeft(name, left.client_id, peer.address, "channel closed"))
            self.notify(name, models[name])

    def expire(self, now_ms: int) -> list[Peer]:
        """Drop clients silent for too long, without a word to their groups; whom to close."""
        broker = self._broker
        silence_ms_max = broker.config.client_silence_ms_max
        gone: dict[Peer, None] = {}
        for name, left in broker.consumers.expire(now_ms, silence_ms_max):
            broker.note(MemberLeft(name, left.client_id, left.peer.address, "expired"))
            gone[left.peer] = None
        for peer in broker.producers.expire(now_ms, silence_ms_max):
            gone[peer] = None
        return list(gone)

    # Notices --------------------------------------------------------------------------

    def notify(self, name: str, model: str | None = None) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED to every connection of the group, the newest included."""
        broker = self._broker
        group = broker.consumers.group(name)
        if group is None or not broker.config.notify_consumer_ids_changed:
            return
        if (model or group.message_model) == BROADCASTING and not self._broadcast_notified:
            return
        header = NotifyConsumerIdsChangedRequest(consumer_group=name)
        told = [
            broker.push(peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, b"")
            for peer in group.channel_info_table
        ]
        broker.note(MembersNotified(name, sum(told)))

    def _model(self, name: str) -> str | None:
        group = self._broker.consumers.group(name)
        return None if group is None else group.message_model

    # Questions ------------------------------------------------------------------------

    def consumer_list(self, call: Call[GetConsumerListByGroupRequest]) -> Result:
        name = call.request.consumer_group
        group: ConsumerGroup | None = self._broker.consumers.group(name)
        if group is None:
            remark = f"no consumer for this group, {name}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark, Header())
        body = GetConsumerListByGroupReply(consumer_id_list=group.client_ids())
        return Reply(Header(), encode_body(body, self._broker.release))

    def check_config(self, call: Call[Header]) -> Result:
        asked = decode_body(call.body, CheckClientRequestBody)
        data = asked.subscription_data
        if data is not None:
            check_expression_type(data.expression_type, self._broker.config)
        return Reply()

    # Queue locks ----------------------------------------------------------------------

    def lock(self, call: Call[Header]) -> Result:
        asked, group, client = _asked_locks(call)
        locks = self._broker.locks
        new = sum(locks.owner(group, queue, call.now_ms) is None for queue in asked.mq_set)
        check_size(locks.held_count + new, self._broker.config.locks_max, "queue locks")
        granted = locks.lock(group, asked.mq_set, client, call.now_ms)
        refused = [queue for queue in asked.mq_set if queue not in granted]
        self._broker.note(QueuesLocked(group, client, _names(granted), _names(refused)))
        body = LockBatchReply(lock_ok_mq_set=list(granted))
        return Reply(body=encode_body(body, self._broker.release))

    def unlock(self, call: Call[Header]) -> Result:
        asked, group, client = _asked_locks(call)
        self._broker.locks.unlock(group, asked.mq_set, client)
        self._broker.note(QueuesUnlocked(group, client, _names(asked.mq_set)))
        return Reply()


def _check_named(data: HeartbeatData) -> None:
    """Whom nobody can name cannot be kept: then nothing of the heartbeat counts."""
    groups = [group.group_name for group in data.consumer_data_set]
    groups += [group.group_name for group in data.producer_data_set]
    if None in groups:
        raise BadFields("a group without a name")
    topics = [
        part.topic for group in data.consumer_data_set for part in group.subscription_data_set
    ]
    if "" in topics:
        raise BadFields("a subscription without a topic")


def _asked_locks(call: Call[Header]) -> tuple[LockBatchRequestBody, str, str]:
    """What is asked, for which group, by which client."""
    asked = decode_body(call.body, LockBatchRequestBody)
    if asked.consumer_group is None:
        raise BadFields("locks of a group without a name")
    return asked, asked.consumer_group, asked.client_id or ""


def _names(queues: list[MessageQueue]) -> tuple[Queue, ...]:
    return tuple(Queue(q.topic, q.broker_name, q.queue_id) for q in sorted(queues))

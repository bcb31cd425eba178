"""The broker calls of a group's member, each with upstream's timeout and choice of address.

A call without a reply raises ``RemoteError``, a reply with an error code raises
``GroupCallRefused``; a result is never assumed without a reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.client.instance.topic_routes import subscribe_queues
from rocketmq_emulator.errors.call_errors import (
    ClientError,
    ClientErrorCode,
    GroupCallRefusedByBroker,
    GroupCallUnanswered,
    NeverSent,
    RemoteError,
)
from rocketmq_emulator.errors.missing_routes import why_not_readable
from rocketmq_emulator.protocol.bodies.body import EncodedCache, decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerConnection,
    GetConsumerListByGroupReply,
    LockBatchReply,
    LockBatchRequestBody,
)
from rocketmq_emulator.protocol.catalog import (
    CHECK_CLIENT_CONFIG,
    CONSUMER_SEND_MSG_BACK,
    GET_CONSUMER_CONNECTION_LIST,
    GET_CONSUMER_LIST_BY_GROUP,
    GET_EARLIEST_MSG_STORETIME,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    LOCK_BATCH_MQ,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UNLOCK_BATCH_MQ,
    UPDATE_CONSUMER_OFFSET,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import ext_of
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.messages.subscription import NEEDS_PROPERTY_FILTER
from rocketmq_emulator.protocol.requests.groups import GetConsumerListByGroupRequest
from rocketmq_emulator.protocol.requests.offsets import (
    GetEarliestMsgStoretimeReply,
    GetEarliestMsgStoretimeRequest,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from rocketmq_emulator.protocol.versions import HIGHER_VERSION
from rocketmq_emulator.settings.releases import OFFSET_ERRORS_COUNT

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.protocol.command import Ext, RemotingCommand
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.rpc import AnyRpc

POSITION_TIMEOUT_MS = 6_000  # MQAdminImpl.timeoutMillis
OFFSET_TIMEOUT_MS = 5_000  # RemoteBrokerOffsetStore
LOCK_TIMEOUT_MS = 1_000  # RebalanceImpl.lock
SEND_BACK_TIMEOUT_MS = 5_000  # DefaultMQPushConsumerImpl.sendMessageBack


@contextmanager
def no_answer_is_refused() -> Iterator[None]:
    """For public methods: inside, a call without a reply raises ``GroupCallRefused`` too."""
    try:
        yield
    except RemoteError as error:
        code = ClientErrorCode.ACCESS_BROKER_TIMEOUT
        if isinstance(error, NeverSent):
            code = ClientErrorCode.CONNECT_BROKER
        raise GroupCallUnanswered(str(error), code=code, definite=error.definite) from error


class GroupCalls:
    """Calls brokers and NameServers for one member of *group*."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._list_members = ext_of(GetConsumerListByGroupRequest(consumer_group=group))
        # Cached, because an idle group commits the same offsets every five seconds.
        self._commits: EncodedCache[tuple[MessageQueue, int]] = EncodedCache(self._commit_text)

    # Positions ------------------------------------------------------------------------

    async def query_offset(self, queue: MessageQueue) -> int | None:
        """The group's stored offset; None if the broker replies that there is none.

        4.x treats every error reply as "none", so a faulty broker can make a group skip
        messages.  Upstream: MQClientAPIImpl.queryConsumerOffset.
        """
        header = QueryConsumerOffsetRequest(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id
        )
        address = await self._address_to_read(queue)
        reply = await self._call(address, QUERY_CONSUMER_OFFSET, header, OFFSET_TIMEOUT_MS)
        if reply.code == ResponseCode.SUCCESS:
            return _offset(address, reply)
        errors_count = self._instance.release >= OFFSET_ERRORS_COUNT
        if reply.code == ResponseCode.QUERY_NOT_FOUND or not errors_count:
            return None
        raise _refused(address, reply)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset of the next message to be stored."""
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return await self._position(queue, GET_MAX_OFFSET, header)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the first message that is still stored."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return await self._position(queue, GET_MIN_OFFSET, header)

    async def earliest_store_ms(self, queue: MessageQueue) -> int:
        """When the first message of *queue* was stored (wall time, ms)."""
        header = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id)
        address = await self._master_to_ask(queue)
        reply = await self._call(address, GET_EARLIEST_MSG_STORETIME, header, POSITION_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise _refused(address, reply)
        try:
            return reply.decode(GetEarliestMsgStoretimeReply).timestamp
        except BadFields as error:
            raise GroupCallUnanswered(f"{address}: {error}") from error

    async def offset_at(self, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* (wall time, ms) or later."""
        header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms)
        return await self._position(queue, SEARCH_OFFSET_BY_TIMESTAMP, header)

    def batch(self) -> AbstractContextManager[object]:
        """Inside, commits are sent together, with one write per broker."""
        return self._instance.remoting.batch()

    def commit_offset(self, queue: MessageQueue, offset: int) -> None:
        """Send *offset* one-way to the master; without a master to a slave, which loses it."""
        found = self._instance.brokers.to_subscribe(queue.broker_name, MASTER_ID, only_this=False)
        if found is None:
            return  # the next commit, five seconds later, may have an address
        header = msgspec.Raw(self._commits.text((queue, offset), key=queue))
        self._instance.remoting.send_oneway(found.address, UPDATE_CONSUMER_OFFSET, header)

    def _commit_text(self, commit: tuple[MessageQueue, int]) -> bytes:
        queue, offset = commit
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        return bytes(ext_of(header))

    # Routes ---------------------------------------------------------------------------

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that may be read, as a NameServer has them now; not cached.

        Raises ``NoNameServer``, or ``GroupCallRefused`` for a topic without such queues.
        Upstream: MQAdminImpl.fetchSubscribeMessageQueues.
        """
        routes = self._instance.routes
        route = await routes.fetch(topic, timeout_ms=POSITION_TIMEOUT_MS)
        queues = sorted(subscribe_queues(topic, route)) if route is not None else []
        if not queues:
            why = await routes.why_none(topic) if route is None else why_not_readable(route)
            text = f"no queue of {topic} can be read: {why}"
            raise GroupCallRefusedByBroker(text, code=ClientErrorCode.NOT_FOUND_TOPIC)
        return queues

    # Members --------------------------------------------------------------------------

    async def members(self, topic: str) -> list[str] | None:
        """The group's client ids, from one random broker of *topic*; None without a reply.

        Upstream: MQClientInstance.findConsumerIdList.
        """
        reply = await self._query_members(topic, GET_CONSUMER_LIST_BY_GROUP)
        if reply is None:
            return None
        try:
            members = decode_unlimited_body(
                reply.body, GetConsumerListByGroupReply
            ).consumer_id_list
        except BadFields:
            return None
        return [member for member in members if member is not None]

    async def member_versions(self, topic: str) -> dict[str, int] | None:
        """The version of each member by client id, from one random broker of *topic*.

        For an id with several connections it is the oldest version.  None without a reply.
        Upstream: MQClientAPIImpl.getConsumerConnectionList.
        """
        reply = await self._query_members(topic, GET_CONSUMER_CONNECTION_LIST)
        if reply is None:
            return None
        try:
            connections = decode_unlimited_body(reply.body, ConsumerConnection).connection_set
        except BadFields:
            return None
        versions: dict[str, int] = {}
        for connection in connections:
            if (client := connection.client_id) is not None:
                versions[client] = min(connection.version, versions.get(client, HIGHER_VERSION))
        return versions

    async def _query_members(self, topic: str, rpc: AnyRpc) -> RemotingCommand | None:
        """A broker's SUCCESS reply, or None; if no broker is known, refresh the route once."""
        address = self._any_broker_of(topic)
        timeout_ms = self._instance.config.api_timeout_ms
        try:
            if address is None:
                await self._instance.routes.refresh(topic)
                address = self._any_broker_of(topic)
            if address is None:
                return None
            reply = await self._call(address, rpc, self._list_members, timeout_ms)
        except (RemoteError, ClientError):
            return None
        return reply if reply.code == ResponseCode.SUCCESS else None

    async def check_client(self, subscription: SubscriptionData) -> None:
        """Have a broker of the topic check an expression that is not a list of tags.

        Raises ``GroupCallRefused`` if the broker cannot read it, or does not answer.
        Upstream: MQClientInstance.checkClientInBroker.
        """
        address = self._any_broker_of(subscription.topic)
        if address is None:
            return  # no broker is known; brokers will refuse the pulls instead
        body = CheckClientRequestBody(
            client_id=self._instance.client_id,
            group=self._group,
            subscription_data=subscription,
        )
        data = encode_body(body, self._instance.release)
        timeout_ms = self._instance.config.api_timeout_ms
        try:
            reply = await self._call(address, CHECK_CLIENT_CONFIG, None, timeout_ms, data)
        except RemoteError as error:  # raised to the application
            raise GroupCallUnanswered(
                f"no broker checked the expression of {subscription.topic}: {error}",
                code=ClientErrorCode.ACCESS_BROKER_TIMEOUT,
                definite=error.definite,
            ) from error
        if reply.code == ResponseCode.SYSTEM_ERROR:
            text = f"{address} answered {reply.code}: {reply.remark}; {NEEDS_PROPERTY_FILTER}"
            raise GroupCallRefusedByBroker(text, code=reply.code)
        if reply.code != ResponseCode.SUCCESS:
            raise _refused(address, reply)

    # Locks ----------------------------------------------------------------------------

    async def lock(self, broker: str, queues: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Lock *queues*, all of one broker; returns the queues that are now locked."""
        address = self._master_of(broker)
        body = self._lock_body(queues)
        reply = await self._call(address, LOCK_BATCH_MQ, None, LOCK_TIMEOUT_MS, body)
        if reply.code != ResponseCode.SUCCESS:
            raise _refused(address, reply)
        try:
            return frozenset(decode_unlimited_body(reply.body, LockBatchReply).lock_ok_mq_set)
        except BadFields as error:
            raise GroupCallUnanswered(f"{address}: {error}") from error

    def unlock_soon(self, queue: MessageQueue) -> None:
        """Unlock one queue with a one-way request."""
        found = self._instance.brokers.to_subscribe(queue.broker_name, MASTER_ID, only_this=True)
        if found is not None:
            body = self._lock_body([queue])
            self._instance.remoting.send_oneway(found.address, UNLOCK_BATCH_MQ, None, body)

    async def unlock(self, broker: str, queues: Collection[MessageQueue]) -> None:
        """Unlock *queues*, all of one broker, and wait for the reply, whatever its code."""
        address = self._master_of(broker)
        await self._call(address, UNLOCK_BATCH_MQ, None, LOCK_TIMEOUT_MS, self._lock_body(queues))

    # Messages -------------------------------------------------------------------------

    async def send_back(
        self, message: MessageExt, broker: str, delay_level: int, times_max: int
    ) -> None:
        """Have the message's broker deliver it again later.

        Upstream: MQClientAPIImpl.consumerSendMessageBack.
        """
        header = ConsumerSendMsgBackRequest(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            max_reconsume_times=times_max,
        )
        address = self._instance.brokers.to_publish(broker)
        if address is None:
            code = ClientErrorCode.BROKER_NOT_EXIST
            raise GroupCallUnanswered(f"{broker} has no master", code=code, definite=True)
        reply = await self._call(address, CONSUMER_SEND_MSG_BACK, header, SEND_BACK_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise _refused(address, reply)

    # Inside ---------------------------------------------------------------------------

    async def _call(
        self, address: str, rpc: AnyRpc, header: Ext | None, timeout_ms: int, body: bytes = b""
    ) -> RemotingCommand:
        return await self._instance.remoting.invoke(
            address, rpc, header, body, timeout_ms=timeout_ms
        )

    async def _position(self, queue: MessageQueue, rpc: AnyRpc, header: Header) -> int:
        address = await self._master_to_ask(queue)
        reply = await self._call(address, rpc, header, POSITION_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise _refused(address, reply)
        return _offset(address, reply)

    async def _master_to_ask(self, queue: MessageQueue) -> str:
        """The master's address; without a known master the route is refreshed once."""
        address = self._instance.brokers.to_publish(queue.broker_name)
        if address is None:
            await self._instance.routes.refresh(queue.topic)
            address = self._instance.brokers.to_publish(queue.broker_name)
        if address is None:
            raise _no_route(queue.broker_name)
        return address

    async def _address_to_read(self, queue: MessageQueue) -> str:
        """The master's address; without a master, after one route refresh, any replica's."""
        brokers = self._instance.brokers
        found = brokers.to_subscribe(queue.broker_name, MASTER_ID, only_this=True)
        if found is None:
            await self._instance.routes.refresh(queue.topic)
            found = brokers.to_subscribe(queue.broker_name, MASTER_ID, only_this=False)
        if found is None:
            raise _no_route(queue.broker_name)
        return found.address

    def _any_broker_of(self, topic: str) -> str | None:
        """The address of a random broker of *topic*: its master, or else any slave.

        Upstream: MQClientInstance.findBrokerAddrByTopic.
        """
        route = self._instance.routes.table.get(topic)
        if route is None or not route.broker_datas:
            return None
        addresses = self._instance.rng.choice(route.broker_datas).broker_addrs
        if MASTER_ID in addresses:
            return addresses[MASTER_ID]
        return self._instance.rng.choice(list(addresses.values())) if addresses else None

    def _master_of(self, broker: str) -> str:
        found = self._instance.brokers.to_subscribe(broker, MASTER_ID, only_this=True)
        if found is None:
            raise _no_route(broker)
        return found.address

    def _lock_body(self, queues: Collection[MessageQueue]) -> bytes:
        return encode_body(
            LockBatchRequestBody(
                client_id=self._instance.client_id,
                consumer_group=self._group,
                mq_set=sorted(queues),
            ),
            self._instance.release,
        )


def _refused(address: str, reply: RemotingCommand) -> GroupCallRefusedByBroker:
    text = f"{address} answered {reply.code}: {reply.remark}"
    return GroupCallRefusedByBroker(text, code=reply.code)


def _offset(address: str, reply: RemotingCommand) -> int:
    try:
        return reply.decode(OffsetReply).offset
    except BadFields as error:
        raise GroupCallUnanswered(f"{address}: {error}") from error


def _no_route(broker: str) -> GroupCallUnanswered:
    code = ClientErrorCode.BROKER_NOT_EXIST
    return GroupCallUnanswered(f"no route leads to {broker}", code=code, definite=True)

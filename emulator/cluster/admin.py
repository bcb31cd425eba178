"""What a tool asks of a cluster: one call, one verb.

A cluster that does not answer, a topic or group nobody knows, a refusal: each is an error
of its own, whose text can be shown to a user as it is.

Upstream: MQClientAPIImpl's part for tools.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from emulator.clock import WallClock
from emulator.config import NetConfig
from emulator.journal import silent
from emulator.net.errors import RemoteError
from emulator.net.plain_nursery import plain_nursery
from emulator.net.remoting_client import RemotingClient
from emulator.net.tcp import TcpNetwork
from emulator.releases import R_4_9_7
from protocol import catalog
from protocol.bodies.body import Body, decode_body, encode_body
from protocol.bodies.connections import ConsumerConnection
from protocol.bodies.groups import (
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from protocol.bodies.routes import ClusterInfo, TopicRouteData
from protocol.bodies.stats import ConsumeStats, TopicStatsTable
from protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from protocol.codes import ResponseCode
from protocol.names import AUTO_CREATE_TOPIC_KEY_TOPIC, MASTER_ID
from protocol.requests.admin import CreateTopicRequest, GetTopicStatsInfoRequest
from protocol.requests.groups import (
    GetConsumerConnectionListRequest,
    GetConsumeStatsRequest,
    QueryTopicConsumeByWhoRequest,
)
from protocol.requests.offsets import (
    OffsetReply,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from protocol.requests.routes import GetRouteInfoRequest

if TYPE_CHECKING:
    from protocol.command import RemotingCommand
    from protocol.fields import Header
    from protocol.queues import MessageQueue
    from protocol.rpc import AnyRpc

CALL_MS_MAX = 5_000  # DefaultMQAdminExt.timeoutMillis
TOOL_RELEASE = R_4_9_7  # in whose shape bodies are written: every release reads it
B = TypeVar("B", bound=Body)


class AdminError(Exception):
    """What a tool could not learn or do; the text says why."""


class Unreachable(AdminError):
    """Nobody answers there."""


class Unknown(AdminError):
    """There is no such topic, group or broker."""


class Refused(AdminError):
    """The server said no."""


class Admin:
    """Calls to the NameServers at *namesrv* ("host:port;host:port") and to brokers by address."""

    def __init__(self, namesrv: str, remoting: RemotingClient) -> None:
        self._namesrv = [part.strip() for part in namesrv.split(";") if part.strip()]
        self._remoting = remoting

    # Asked of a NameServer ------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        return decode_body((await self._ask_namesrv(catalog.GET_BROKER_CLUSTER_INFO)), ClusterInfo)

    async def masters(self) -> dict[str, str]:
        """Addresses by broker name."""
        table = (await self.cluster_info()).broker_addr_table
        return {
            name: data.broker_addrs[MASTER_ID]
            for name, data in sorted(table.items())
            if MASTER_ID in data.broker_addrs
        }

    async def route(self, topic: str) -> TopicRouteData:
        """Raises ``Unknown``."""
        request = GetRouteInfoRequest(topic=topic)
        try:
            body = await self._ask_namesrv(catalog.GET_ROUTEINFO_BY_TOPIC, request)
        except Unknown:
            raise Unknown(f"there is no topic {topic}: see `topic list`") from None
        return decode_body(body, TopicRouteData)

    # Asked of a broker ----------------------------------------------------------------

    async def topics(self, broker: str) -> list[TopicConfig]:
        reply = await self._ask(broker, catalog.GET_ALL_TOPIC_CONFIG)
        return list(
            decode_body(reply.body, TopicConfigSerializeWrapper).topic_config_table.values()
        )

    async def create_topic(self, broker: str, config: TopicConfig) -> None:
        header = CreateTopicRequest(
            topic=config.topic_name or "",
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            order=config.order,
        )
        await self._ask(broker, catalog.UPDATE_AND_CREATE_TOPIC, header)

    async def create_topic_everywhere(self, config: TopicConfig) -> list[str]:
        """On every master; their names."""
        masters = await self.masters()
        for address in masters.values():
            await self.create_topic(address, config)
        return list(masters)

    async def topic_stats(self, broker: str, topic: str) -> TopicStatsTable:
        header = GetTopicStatsInfoRequest(topic=topic)
        reply = await self._ask(broker, catalog.GET_TOPIC_STATS_INFO, header)
        return decode_body(reply.body, TopicStatsTable)

    async def topic_stats_if_any(self, broker: str, topic: str) -> TopicStatsTable:
        """The same, empty for a broker that has not that topic."""
        try:
            return await self.topic_stats(broker, topic)
        except Unknown:
            return TopicStatsTable()

    async def groups(self, broker: str) -> list[SubscriptionGroupConfig]:
        reply = await self._ask(broker, catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        wrapper = decode_body(reply.body, SubscriptionGroupWrapper)
        return list(wrapper.subscription_group_table.values())

    async def groups_of_topic(self, broker: str, topic: str) -> list[str]:
        header = QueryTopicConsumeByWhoRequest(topic=topic)
        reply = await self._ask(broker, catalog.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return decode_body(reply.body, GroupList).group_list

    async def connections(self, broker: str, group: str) -> ConsumerConnection:
        """Who is online; nobody is an answer too."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        reply = await self._call(broker, catalog.GET_CONSUMER_CONNECTION_LIST, header)
        if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return ConsumerConnection()
        return decode_body(_checked(broker, reply).body, ConsumerConnection)

    async def consume_stats(
        self, broker: str, group: str, topic: str | None = None
    ) -> ConsumeStats:
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        reply = await self._ask(broker, catalog.GET_CONSUME_STATS, header)
        return decode_body(reply.body, ConsumeStats)

    async def offset_at(self, broker: str, queue: MessageQueue, at_ms: int) -> int:
        header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms)
        reply = await self._ask(broker, catalog.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return reply.decode(OffsetReply).offset

    async def commit(self, broker: str, group: str, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        await self._ask(broker, catalog.UPDATE_CONSUMER_OFFSET, header)

    async def move_group(
        self, group: str, topic: str, to: str, at_ms: int | None = None
    ) -> list[dict[str, object]]:
        """Commit, for every queue, its first offset, its last, or the one at a time."""
        await self.route(topic)
        moved: list[dict[str, object]] = []
        for name, broker in (await self.masters()).items():
            table = (await self.topic_stats_if_any(broker, topic)).offset_table
            for queue, offsets in sorted(table.items()):
                offset = offsets.min_offset if to == "first" else offsets.max_offset
                if at_ms is not None:
                    offset = await self.offset_at(broker, queue, at_ms)
                await self.commit(broker, group, queue, offset)
                moved.append({"broker": name, "queue": queue.queue_id, "offset": offset})
        return moved

    async def create_group(self, broker: str, config: SubscriptionGroupConfig) -> None:
        body = encode_body(config, TOOL_RELEASE)
        await self._ask(broker, catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    # Inside ---------------------------------------------------------------------------

    async def _ask_namesrv(self, rpc: AnyRpc, header: Header | None = None) -> bytes:
        """The first one that answers is believed."""
        for address in self._namesrv:
            try:
                reply = await self._remoting.invoke(address, rpc, header, timeout_ms=CALL_MS_MAX)
            except RemoteError:
                continue
            return _checked(address, reply).body
        where = ", ".join(self._namesrv)
        raise Unreachable(f"no NameServer answers at {where}: start one with `rmqemu up`")

    async def _ask(
        self, address: str, rpc: AnyRpc, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        return _checked(address, await self._call(address, rpc, header, body))

    async def _call(
        self, address: str, rpc: AnyRpc, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        try:
            return await self._remoting.invoke(address, rpc, header, body, timeout_ms=CALL_MS_MAX)
        except RemoteError as error:
            raise Unreachable(f"the broker at {error}") from error


@asynccontextmanager
async def admin_over_tcp(namesrv: str) -> AsyncIterator[Admin]:
    """An ``Admin`` that lives as long as the block."""
    async with plain_nursery() as nursery:
        remoting = RemotingClient(
            TcpNetwork(nursery),
            nursery,
            clock=WallClock.of_this_machine(),
            config=NetConfig(),
            release=TOOL_RELEASE,
            note=silent,
            handlers={},
        )
        yield Admin(namesrv, remoting)
        remoting.close_all()


def _checked(address: str, reply: RemotingCommand) -> RemotingCommand:
    if reply.code == ResponseCode.SUCCESS:
        return reply
    remark = (reply.remark or "no reason given").split("\n", 1)[0]
    if reply.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
        raise Unknown(remark)
    raise Refused(f"{address} refused with code {reply.code}: {remark}")

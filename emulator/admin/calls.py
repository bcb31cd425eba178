"""Admin calls of tools to a cluster: one method per call, and deletions made of several calls.

A cluster that does not answer, a missing topic or group, and a refusal each have an error class,
whose text can be shown to users.  A topic or a group is deleted on every broker, with its routes,
offsets, retries and dead letters.

Upstream: MQClientAPIImpl's part for tools; DeleteTopicSubCommand, DeleteSubscriptionGroupCommand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rocketmq_emulator.admin.overview import GroupView
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.errors.missing_routes import nearest_topic, not_a_name_server
from rocketmq_emulator.net.remoting_client import RemotingClient, tool_connections
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import (
    Body,
    decode_body,
    decode_unlimited_body,
    encode_body,
)
from rocketmq_emulator.protocol.bodies.extensions import BrokerOverview
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerConnection,
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.routes import (
    ClusterInfo,
    KVTable,
    TopicList,
    TopicRouteData,
)
from rocketmq_emulator.protocol.bodies.running import ConsumerRunningInfo
from rocketmq_emulator.protocol.bodies.stats import ConsumeStats, TopicStatsTable
from rocketmq_emulator.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.error_families import (
    CannotDoHere,
    NobodyAnswered,
    Picklable,
    RefusedByServer,
    public,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import (
    MASTER_ID,
    dlq_topic,
    is_retry_topic,
    retry_topic,
)
from rocketmq_emulator.protocol.requests.admin import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicStatsInfoRequest,
)
from rocketmq_emulator.protocol.requests.groups import (
    DeleteSubscriptionGroupRequest,
    GetConsumerConnectionListRequest,
    GetConsumerRunningInfoRequest,
    GetConsumeStatsRequest,
    QueryTopicConsumeByWhoRequest,
)
from rocketmq_emulator.protocol.requests.nameserver import (
    DeleteTopicFromNamesrvRequest,
    GetRouteInfoRequest,
)
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.settings.releases import R_4_9_7
from rocketmq_emulator.text.values import in_natural_order

if TYPE_CHECKING:
    import trio

    from rocketmq_emulator.net.transport import Network
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.rpc import AnyRpc


CALL_MS_MAX = 5_000  # DefaultMQAdminExt.timeoutMillis
NAMESRV_MS_MAX = 2_500  # ours, for all NameServers together: a user waits for the answer
TOOL_RELEASE = R_4_9_7  # the format of request bodies; every release reads it
B = TypeVar("B", bound=Body)


class AdminError(Picklable, Exception):
    """A call of a tool failed; the text gives the reason."""


@public
class ClusterUnreachable(AdminError, NobodyAnswered):
    """No server answered at the address."""


class NotFound(AdminError, RefusedByServer):
    """A topic, group or broker does not exist."""


class TopicMissing(NotFound):
    """A topic does not exist; *why* is the end of the text, if more than that is known."""

    def __init__(self, topic: str, why: str = "") -> None:
        end = why or f": make it with `rmqemu topic create {topic}`"
        super().__init__(f"there is no topic {topic}{end}")
        self.topic = topic
        self.why = why


@public
class AdminRefused(AdminError, RefusedByServer):
    """The server answered with an error, its response *code* if it has one."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


class NotAnEmulator(AdminError, CannotDoHere):
    """A server does not support a call that only this emulator answers."""


class Admin:
    """Calls to the NameServers at *namesrv* ("host:port;host:port") and to brokers by address.

    Each call fails after *call_ms_max* without an answer.  With *lists_topics* the error about a
    missing topic has the most similar name, for which the names of all topics are requested.
    """

    def __init__(
        self,
        namesrv: str,
        remoting: RemotingClient,
        call_ms_max: int = CALL_MS_MAX,
        *,
        lists_topics: bool = False,
    ) -> None:
        self._lists_topics = lists_topics
        self._namesrv = [part.strip() for part in namesrv.split(";") if part.strip()]
        self._remoting = remoting
        self._call_ms_max = call_ms_max

    # NameServers ----------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """The clusters, their brokers, and the brokers' addresses by id."""
        body = await self.call_namesrv(catalog.GET_BROKER_CLUSTER_INFO)
        return decode_unlimited_body(body, ClusterInfo)

    async def masters(self) -> dict[str, str]:
        """The masters' addresses, ``host:port`` by broker name."""
        return masters_of(await self.cluster_info())

    async def route(self, topic: str) -> TopicRouteData:
        """The route of *topic*.  Raises ``TopicMissing``."""
        request = GetRouteInfoRequest(topic=topic)
        try:
            body = await self.call_namesrv(catalog.GET_ROUTEINFO_BY_TOPIC, request)
        except NotFound:
            why = await self._why_missing(topic) if self._lists_topics else ""
            raise TopicMissing(topic, why) from None
        return decode_unlimited_body(body, TopicRouteData)

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """The addresses of the masters in the route of *topic*, by name.  Raises ``NotFound``."""
        route = await self.route(topic)
        return masters_of(ClusterInfo({data.broker_name: data for data in route.broker_datas}))

    async def delete_topic_in_namesrv(self, topic: str) -> None:
        """Remove *topic* from the routes of every NameServer that answers."""
        header = DeleteTopicFromNamesrvRequest(topic=topic)
        for address in self._namesrv:
            with suppress(ClusterUnreachable):
                await self.call(address, catalog.DELETE_TOPIC_IN_NAMESRV, header)

    # Brokers --------------------------------------------------------------------------

    async def overview(self, broker: str) -> BrokerOverview:
        """The broker's topics and groups, in one call.  Raises ``NotAnEmulator`` at a RocketMQ."""
        try:
            reply = await self.call(broker, catalog.GET_BROKER_OVERVIEW)
        except AdminRefused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            raise NotAnEmulator(f"the broker at {broker} is no emulator") from error
        return msgspec.json.decode(reply.body, type=BrokerOverview)

    async def log_end(self, broker: str) -> int | None:
        """Where the log of the broker at address *broker* ends, in bytes; None: it tells nothing.

        A RocketMQ has no runtime figures in its first seconds.
        """
        try:
            reply = await self.call(broker, catalog.GET_BROKER_RUNTIME_INFO)
        except AdminRefused:
            return None
        end = decode_body(reply.body, KVTable).table.get("commitLogMaxOffset", "")
        return int(end) if end.isdecimal() else None

    async def topics(self, broker: str) -> list[TopicConfig]:
        """All topics of the broker at address *broker*, with its system topics."""
        reply = await self.call(broker, catalog.GET_ALL_TOPIC_CONFIG)
        return list(
            decode_unlimited_body(
                reply.body, TopicConfigSerializeWrapper
            ).topic_config_table.values()
        )

    async def create_topic(self, broker: str, config: TopicConfig) -> None:
        """Create or update a topic on one broker."""
        header = CreateTopicRequest.of(config)
        await self.call(broker, catalog.UPDATE_AND_CREATE_TOPIC, header)

    async def create_topic_everywhere(self, config: TopicConfig) -> list[str]:
        """Create or update a topic on every master; returns the masters' names."""
        masters = await self.masters()
        for address in masters.values():
            await self.create_topic(address, config)
        return list(masters)

    async def topic_stats(self, broker: str, topic: str) -> TopicStatsTable:
        """The first and the next offset of every queue of *topic*.  Raises ``NotFound``."""
        header = GetTopicStatsInfoRequest(topic=topic)
        reply = await self.call(broker, catalog.GET_TOPIC_STATS_INFO, header)
        return decode_unlimited_body(reply.body, TopicStatsTable)

    async def topic_stats_if_any(self, broker: str, topic: str) -> TopicStatsTable:
        """As ``topic_stats``, but empty if the broker does not have *topic*."""
        try:
            return await self.topic_stats(broker, topic)
        except NotFound:
            return TopicStatsTable()

    async def groups(self, broker: str) -> list[SubscriptionGroupConfig]:
        """All consumer groups in the broker's table."""
        reply = await self.call(broker, catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        wrapper = decode_unlimited_body(reply.body, SubscriptionGroupWrapper)
        return list(wrapper.subscription_group_table.values())

    async def groups_of_topic(self, broker: str, topic: str) -> list[str]:
        """The consumer groups that subscribe to *topic* or have offsets in it."""
        header = QueryTopicConsumeByWhoRequest(topic=topic)
        reply = await self.call(broker, catalog.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return decode_unlimited_body(reply.body, GroupList).group_list

    async def connections(self, broker: str, group: str) -> ConsumerConnection:
        """The connected members of *group* and their subscriptions; empty if none is connected."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        reply = await self.invoke(broker, catalog.GET_CONSUMER_CONNECTION_LIST, header)
        if reply.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return ConsumerConnection()
        return decode_unlimited_body(checked(broker, reply).body, ConsumerConnection)

    async def running_info(self, broker: str, group: str, client: str) -> ConsumerRunningInfo:
        """The running info of a member, which the broker at address *broker* requests from it."""
        header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client)
        reply = await self.call(broker, catalog.GET_CONSUMER_RUNNING_INFO, header)
        return decode_unlimited_body(reply.body, ConsumerRunningInfo)

    async def consume_stats(
        self, broker: str, group: str, topic: str | None = None
    ) -> ConsumeStats:
        """The stored and committed offsets of *group*'s queues, of all topics or of *topic*."""
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        reply = await self.call(broker, catalog.GET_CONSUME_STATS, header)
        return decode_unlimited_body(reply.body, ConsumeStats)

    async def offset_at(self, broker: str, queue: MessageQueue, at_ms: int) -> int:
        """The offset of the first message stored at *at_ms* or later."""
        header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms)
        reply = await self.call(broker, catalog.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return reply.decode(OffsetReply).offset

    async def commit(self, broker: str, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of *group* in *queue*."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        await self.call(broker, catalog.UPDATE_CONSUMER_OFFSET, header)

    async def move_group(
        self, group: str, topic: str, to: str, at_ms: int | None = None
    ) -> list[dict[str, object]]:
        """Commit, for every queue, its first offset, its last, or the one at *at_ms*.

        Returns one row per queue: broker, queue, offset.  Raises ``NotFound`` for the topic.
        """
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
        """Create or update a consumer group on one broker."""
        body = encode_body(config, TOOL_RELEASE)
        await self.call(broker, catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    async def delete_topic(self, broker: str, topic: str) -> None:
        """Delete a topic and its messages on one broker; no error if it does not exist."""
        header = DeleteTopicRequest(topic=topic)
        await self.call(broker, catalog.DELETE_TOPIC_IN_BROKER, header)

    async def delete_group(self, broker: str, group: str) -> None:
        """Delete a consumer group and its offsets on one broker."""
        header = DeleteSubscriptionGroupRequest(
            group_name=group, remove_offset=True, clean_offset=True
        )
        await self.call(broker, catalog.DELETE_SUBSCRIPTIONGROUP, header)

    # Inside ---------------------------------------------------------------------------

    async def _why_missing(self, topic: str) -> str:
        """What the NameServer's list of topics tells about an unknown one; empty: nothing."""
        try:
            body = await self.call_namesrv(catalog.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            topics = decode_unlimited_body(body, TopicList).topic_list
        except (AdminError, BadFields):
            return ""
        if not topics:
            return ": no broker is registered at the NameServer; they are dead, or start just now"
        near = nearest_topic(topic, topics)
        return f"; did you mean {near}?" if near else ""

    async def call_namesrv(self, rpc: AnyRpc, header: Header | None = None) -> bytes:
        """The reply's body from the first NameServer that answers."""
        reasons: list[str] = []
        patience_ms = NAMESRV_MS_MAX // len(self._namesrv)
        for address in self._namesrv:
            try:
                reply = await self._remoting.invoke(address, rpc, header, timeout_ms=patience_ms)
            except RemoteError as error:
                reasons.append(str(error))
                continue
            if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise ClusterUnreachable(not_a_name_server(address))
            return checked(address, reply).body
        raise ClusterUnreachable(
            f"no NameServer answers at {', '.join(reasons)}; start one with `rmqemu up`"
        )

    async def call(
        self, address: str, rpc: AnyRpc, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """The reply of the broker at *address*.  Raises ``AdminError`` unless it is SUCCESS."""
        return checked(address, await self.invoke(address, rpc, header, body))

    async def invoke(
        self,
        address: str,
        rpc: AnyRpc,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> RemotingCommand:
        """The reply, whatever its code.  Raises ``ClusterUnreachable``."""
        try:
            return await self._remoting.invoke(
                address, rpc, header, body, timeout_ms=timeout_ms or self._call_ms_max
            )
        except RemoteError as error:
            raise ClusterUnreachable(f"the broker at {error}") from error


def tool_client(nursery: trio.Nursery) -> RemotingClient:
    """The connections of a tool over TCP, until *nursery* ends."""
    clock = WallClock.of_this_machine()
    return RemotingClient.of_tool(TcpNetwork(nursery), nursery, clock=clock, release=TOOL_RELEASE)


@asynccontextmanager
async def admin_on(
    network: Network,
    clock: WallClock,
    namesrv: str,
    call_ms_max: int = CALL_MS_MAX,
    *,
    lists_topics: bool = False,
) -> AsyncIterator[Admin]:
    """An ``Admin`` that calls over *network*, until the block ends."""
    async with tool_connections(network, clock, TOOL_RELEASE) as remoting:
        yield Admin(namesrv, remoting, call_ms_max, lists_topics=lists_topics)


@asynccontextmanager
async def admin_over_tcp(namesrv: str, call_ms_max: int = CALL_MS_MAX) -> AsyncIterator[Admin]:
    """As ``admin_on``, over TCP, with *lists_topics*: a user reads its errors."""
    async with cancelling_nursery() as nursery:
        network, clock = TcpNetwork(nursery), WallClock.of_this_machine()
        calls = admin_on(network, clock, namesrv, call_ms_max, lists_topics=True)
        async with calls as admin:
            yield admin


def masters_of(info: ClusterInfo) -> dict[str, str]:
    """The masters' addresses, ``host:port`` by broker name, in natural order."""
    table = info.broker_addr_table
    return {
        name: table[name].broker_addrs[MASTER_ID]
        for name in in_natural_order(table)
        if MASTER_ID in table[name].broker_addrs
    }


def checked(address: str, reply: RemotingCommand) -> RemotingCommand:
    """*reply* of the server at *address*.  Raises ``AdminError`` unless it is SUCCESS."""
    if reply.code == ResponseCode.SUCCESS:
        return reply
    remark = (reply.remark or "no reason given").split("\n", 1)[0]
    if reply.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
        raise NotFound(remark)
    raise AdminRefused(f"{address} refused with code {reply.code}: {remark}", reply.code)


# Deleting topics and groups everywhere ------------------------------------------------


class GroupLosses(msgspec.Struct, frozen=True):
    """The data lost with a group: its offsets in *topics*, its retries and dead letters."""

    group: str
    topics: tuple[str, ...]
    retries: int  # messages waiting to be consumed again
    dead_letters: int

    @property
    def text(self) -> str:
        """The losses as a part of a sentence."""
        where = f"its offsets in {', '.join(self.topics)}" if self.topics else "no offsets"
        return f"{where}, {self.retries:,} retries and {self.dead_letters:,} dead letters"


async def losses_of(admin: Admin, group: GroupView) -> GroupLosses:
    """The data that deleting *group* would lose.  Raises ``AdminError``."""
    retry, dead = retry_topic(group.name), dlq_topic(group.name)
    stored = 0
    for address in (await admin.masters()).values():
        stats = await admin.topic_stats_if_any(address, dead)
        stored += sum(at.max_offset - at.min_offset for at in stats.offset_table.values())
    return GroupLosses(
        group.name,
        topics=tuple(_topics_of(group)),
        retries=sum(queue.lag for queue in group.queues if queue.topic == retry),
        dead_letters=stored,
    )


async def delete_group_everywhere(admin: Admin, group: str) -> None:
    """Delete a group, its offsets, retries and dead letters.  Raises ``AdminError``."""
    masters = await admin.masters()
    for address in masters.values():
        await admin.delete_group(address, group)
    for topic in (retry_topic(group), dlq_topic(group)):
        await delete_topic_everywhere(admin, topic, masters)


async def delete_topic_everywhere(admin: Admin, topic: str, brokers: Mapping[str, str]) -> None:
    """Delete a topic on *brokers*, then in the routes.  Raises ``AdminError``."""
    for address in brokers.values():
        await admin.delete_topic(address, topic)
    await admin.delete_topic_in_namesrv(topic)


def _topics_of(group: GroupView) -> Iterable[str]:
    return sorted({queue.topic for queue in group.queues if not is_retry_topic(queue.topic)})

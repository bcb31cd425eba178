"""The tasks of a broker that may be replaced, while it is away, by the slave with the smallest id.

Each second it sends a heartbeat to every NameServer, and asks one for the members of its name.  A
slave that sees another smallest id starts or stops the special services, forgets a master that is
lost, and copies from a master that is back.  Masters do the same two requests, and react to none.

``compatible_with_old_namesrv`` (on by default) uses requests that NameServers of 4.x know too: the
heartbeat is a query of the data version, the members are in the route of a topic that every broker
of 5.x has.

Upstream: BrokerController.scheduleSendHeartbeat, syncBrokerMemberGroup, onMinBrokerChange;
BrokerOuterAPI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import ActingMasterBegan, ActingMasterEnded, MinBrokerChanged
from rocketmq_emulator.net.tasks import every_async
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.routes import GetBrokerMemberGroupReply, TopicRouteData
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.requests.nameserver import (
    BrokerHeartbeatRequest,
    ExchangeHAInfo,
    GetBrokerMemberGroupRequest,
    GetRouteInfoRequest,
    QueryDataVersionRequest,
)
from rocketmq_emulator.text.values import vip_channel

if TYPE_CHECKING:
    from rocketmq_emulator.broker.replication.member_group import MinBrokerChange
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.rpc import AnyRpc
    from rocketmq_emulator.settings.config import BrokerConfig

FIRST_MS = 1_000  # BrokerController.scheduleSendHeartbeat and start: the first of both requests
CALL_MS_MAX = 3_000  # BrokerOuterAPI.getBrokerMemberGroup, retrieveBrokerHaInfo
MEMBER_TOPIC = (
    "rmq_sys_SYNC_BROKER_MEMBER_{name}"  # TopicValidator.SYNC_BROKER_MEMBER_GROUP_PREFIX
)


class NameServerAsking:
    """Asks the NameServers at ``name_servers()`` for the members of the name of *broker*."""

    def __init__(
        self, broker: Broker, client: RemotingClient, name_servers: Callable[[], Sequence[str]]
    ) -> None:
        self._config = broker.config
        self._client = client
        self.name_servers = name_servers

    async def wait_members(self) -> dict[int, str] | None:
        """The addresses by id; none for an unknown name; None if no NameServer answers."""
        for address in self.name_servers():
            try:
                reply = await self._client.invoke(
                    address, *self._request(), timeout_ms=CALL_MS_MAX
                )
            except RemoteError:
                continue
            return self._members_in(reply)
        return None

    def _request(self) -> tuple[AnyRpc, GetRouteInfoRequest | GetBrokerMemberGroupRequest]:
        config = self._config
        if config.compatible_with_old_namesrv:
            topic = MEMBER_TOPIC.format(name=config.name)
            return catalog.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic)
        header = GetBrokerMemberGroupRequest(cluster_name=config.cluster, broker_name=config.name)
        return catalog.GET_BROKER_MEMBER_GROUP, header

    def _members_in(self, reply: RemotingCommand) -> dict[int, str]:
        """The members of an answer; a refusal or an unreadable answer has none.

        Upstream: BrokerOuterAPI.getBrokerMemberGroupCompatible.
        """
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return {}
        config = self._config
        try:
            if not config.compatible_with_old_namesrv:
                group = decode_body(reply.body, GetBrokerMemberGroupReply)
                return group.broker_member_group.broker_addrs
            route = decode_body(reply.body, TopicRouteData)
        except BadFields:
            return {}
        for data in route.broker_datas:
            if (data.broker_name, data.cluster) == (config.name, config.cluster):
                return data.broker_addrs
        return {}


class SlaveActingMaster:
    """Follows the members of the name of *broker*, in *nursery*.

    ``change_special_services(active)`` starts or stops them; ``own_address_at`` is the address of
    this broker at a NameServer.
    """

    def __init__(
        self,
        broker: Broker,
        client: RemotingClient,
        nursery: TaskNursery,
        *,
        asking: NameServerAsking,
        own_address_at: Callable[[str], str],
        change_special_services: Callable[[bool], object],
    ) -> None:
        self._broker = broker
        self._client = client
        self._nursery = nursery
        self._asking = asking
        self._own_address_at = own_address_at
        self._change_special_services = change_special_services
        broker.on_min_broker_changed = self.react

    def start(self) -> None:
        """Send heartbeats and ask for members, from a second later on."""
        config = self._broker.config
        self._nursery.start_soon(
            _every_ms, config.broker_heartbeat_interval_ms, self._send_heartbeat
        )
        self._nursery.start_soon(_every_ms, config.member_group_interval_ms, self._poll)

    def serve(self, min_broker_id: int, address: str | None) -> None:
        """Begin with the members as they are: the smallest id runs the special services.

        Upstream: BrokerController.startService, without the registration.
        """
        self._broker.members.begin(min_broker_id, address)
        self._switch_services()
        self._broker.members.is_isolated = False

    # Heartbeats -----------------------------------------------------------------------

    async def _send_heartbeat(self) -> None:
        """One-way, to every NameServer; none while this broker is isolated."""
        if self._broker.members.is_isolated:
            await trio.lowlevel.checkpoint()
            return
        config = self._broker.config
        for name_server in self._asking.name_servers():
            own_address = self._own_address_at(name_server)
            if config.compatible_with_old_namesrv:
                header, body = _data_version_of(config, own_address), self._data_version()
                self._client.send_oneway(name_server, catalog.QUERY_DATA_VERSION, header, body)
            else:
                beat = _heartbeat_of(config, own_address)
                self._client.send_oneway(name_server, catalog.BROKER_HEARTBEAT, beat)
        await trio.lowlevel.checkpoint()

    def _data_version(self) -> bytes:
        return encode_body(self._broker.topics.data_version, self._broker.release)

    # Members --------------------------------------------------------------------------

    async def _poll(self) -> None:
        members: Mapping[int, str] | None = await self._asking.wait_members()
        change = self._broker.members.polled(members or {})
        if change is not None:
            await self._react(change)

    def react(self, change: MinBrokerChange) -> None:
        """React to a notice of a NameServer."""
        self._nursery.start_soon(self._react, change)

    async def _react(self, change: MinBrokerChange) -> None:
        """Start or stop the services; lose the old master, find the new one."""
        broker, address = self._broker, change.min_broker_address
        lost = change.offline_address or ""
        broker.note(MinBrokerChanged(change.min_broker_id, address or "", lost))
        self._switch_services()
        if lost and lost == broker.master_address:
            broker.lose_master()
            for closed in (lost, vip_channel(lost)):
                self._client.disconnect(closed)
        if change.min_broker_id != MASTER_ID:
            return
        if address is not None:
            await self._find_master(address, change.master_ha_address)
        broker.answer_held_pulls()

    def _switch_services(self) -> None:
        broker = self._broker
        number, smallest = broker.config.broker_id, broker.members.min_broker_id
        is_smallest = number == smallest
        if broker.config.is_slave and is_smallest != broker.has_special_services:
            began, ended = ActingMasterBegan(number), ActingMasterEnded(number, smallest)
            broker.note(began if is_smallest else ended)
        self._change_special_services(is_smallest)

    async def _find_master(self, address: str, ha_address: str | None) -> None:
        """Copy from the master that is back.  Upstream: BrokerController.onMasterOnline."""
        broker = self._broker
        if ha_address is None:
            found = await wait_ha_info(self._client, address)
        else:
            found = ExchangeHAInfo(master_ha_address=ha_address)
        if isinstance(found, ExchangeHAInfo):
            broker.take_ha_info(found)
        if broker.ha_client is not None:
            broker.ha_client.on_woken()


async def wait_ha_info(client: RemotingClient, address: str) -> ExchangeHAInfo | str:
    """What the master at *address* tells about its HA service, or why it does not.

    Upstream: BrokerOuterAPI.retrieveBrokerHaInfo.
    """
    header = ExchangeHAInfo()
    try:
        reply = await client.invoke(
            address, catalog.EXCHANGE_BROKER_HA_INFO, header, timeout_ms=CALL_MS_MAX
        )
        if reply.code == ResponseCode.SUCCESS:
            return reply.decode(ExchangeHAInfo)
    except (RemoteError, BadFields) as error:
        return str(error)
    return f"code {reply.code}: {reply.remark or ''}"


async def _every_ms(interval_ms: int, action: Callable[[], Awaitable[object]]) -> None:
    await every_async(interval_ms, action, first_ms=FIRST_MS)


def _data_version_of(config: BrokerConfig, address: str) -> QueryDataVersionRequest:
    return QueryDataVersionRequest(
        broker_name=config.name,
        broker_addr=address,
        cluster_name=config.cluster,
        broker_id=config.broker_id,
    )


def _heartbeat_of(config: BrokerConfig, address: str) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        cluster_name=config.cluster, broker_addr=address, broker_name=config.name
    )

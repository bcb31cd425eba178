"""What producers and consumers of one client id share: connections, routes, timers.

The periodic tasks share *one* thread of control, in order, as upstream's do: a heartbeat
to brokers that do not answer makes the route poll late.

Upstream: MQClientInstance.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from emulator.client.instance.addresses import BrokerAddresses, NameServerRing
from emulator.client.instance.consumer_services import PullMessageService, RebalanceService
from emulator.client.instance.heartbeats import Heartbeats
from emulator.client.instance.interfaces import RegisteredMembers
from emulator.client.instance.remoting_processor import ClientRemotingProcessor, handler_table
from emulator.client.instance.schedule import Periodic, run_schedule
from emulator.client.instance.topic_routes import TopicRoutes
from emulator.net.address_server import (
    FETCH_FIRST_MS,
    FETCH_INTERVAL_MS,
    AddressServer,
    url_of,
)
from emulator.net.remoting_client import RemotingClient
from emulator.net.tcp import TcpNetwork
from emulator.releases import HEARTBEAT_ON_CONNECT
from protocol.command import ext_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from emulator.client.config import ClientConfig
    from emulator.client.instance.interfaces import (
        Documents,
        InnerProducer,
        RegisteredConsumer,
        RegisteredProducer,
    )
    from emulator.clock import WallClock
    from emulator.facts import Fact, Note
    from emulator.net.address_server import HttpNames
    from emulator.net.transport import Network
    from protocol.command import RemotingCommand
    from protocol.message_ids import UniqKeys


STREAM = "0"  # RequestType.STREAM


class ProcessResources(NamedTuple):
    """What a process gives to each of its instances.  Without a *network*: TCP."""

    network: Network | None
    clock: WallClock
    rng: random.Random
    note: Note
    wants: Callable[[type[Fact]], bool]  # called before a fact is made on a hot path
    uniq_keys: UniqKeys
    http: HttpNames
    open_folder: Callable[[str], Documents] | None  # None: of this machine


class ClientInstance:
    """Made by ``ClientProcess.instance``, which also stops it when it has no more users."""

    inner_producer: InnerProducer  # for messages a consumer publishes itself

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        resources: ProcessResources,
        nursery: trio.Nursery,
    ) -> None:
        self.client_id = client_id
        self.config = config
        self.release = config.rules
        self.clock = resources.clock
        self.rng = resources.rng
        self.note, self.wants = resources.note, resources.wants
        self.uniq_keys = resources.uniq_keys
        self.open_folder = resources.open_folder
        self.nursery = nursery
        self.members = RegisteredMembers(client_id)
        self.producers, self.consumers = self.members.producers, self.members.consumers
        self.brokers = BrokerAddresses()
        self.rebalance_service = RebalanceService(
            self.consumers,
            self.release,
            interval_ms=config.rebalance_interval_ms,
            interval_ms_min=config.rebalance_interval_ms_min,
            alarm=self.clock.new_alarm(),
        )
        self.remoting = self._remoting_client(resources.network or TcpNetwork(nursery))
        self.name_servers = NameServerRing(config.namesrv_addresses, self.rng, self.release)
        self._address_server: AddressServer | None = None
        if not config.namesrv_addresses:
            url = url_of(config.namesrv_domain, config.namesrv_subgroup, config.unit_name)
            self._address_server = AddressServer(
                url, resources.http, self.note, self._take_name_servers
            )
        self.routes = TopicRoutes(
            config,
            self.name_servers,
            remoting=self.remoting,
            brokers=self.brokers,
            members=self.members,
            note=self.note,
            now_ms=self.clock.now_ms,
        )
        self.heartbeats = Heartbeats(
            client_id, config, remoting=self.remoting, brokers=self.brokers, members=self.members
        )
        self.pull_service = PullMessageService(self.consumers, self.remoting.timers)
        nursery.start_soon(run_schedule, self._periodic(), self.clock.new_alarm())
        nursery.start_soon(self.pull_service.run)
        nursery.start_soon(self.rebalance_service.run)

    def now_ms(self) -> int:
        """Wall time, as this machine reads it."""
        return self.clock.now_ms()

    async def find_name_servers(self) -> None:
        """Ask the address server, if there is one.  Upstream: MQClientInstance.start."""
        if self._address_server is not None:
            await self._address_server.fetch()

    # Members --------------------------------------------------------------------------

    def register_producer(self, producer: RegisteredProducer) -> None:
        """From now on it gets routes and is in heartbeats.  Raises ``GroupTaken``."""
        self.members.add_producer(producer)

    def register_consumer(self, consumer: RegisteredConsumer) -> None:
        """From now on it gets routes, passes and pulls.  Raises ``GroupTaken``."""
        self.members.add_consumer(consumer)

    async def unregister_producer(self, group: str) -> None:
        """Forget it and tell every broker; the caller then releases the instance."""
        del self.producers[group]
        await self.heartbeats.unregister(producer=group)

    async def unregister_consumer(self, group: str) -> None:
        """Forget it and tell every broker; the caller then releases the instance."""
        del self.consumers[group]
        await self.heartbeats.unregister(consumer=group)

    @property
    def is_used(self) -> bool:
        """Whether it has any member but its own inner producer."""
        return self.members.has_users

    def stop(self) -> None:
        """Close its connections and cancel its tasks; calls under way end with a RemoteError."""
        self.remoting.end()
        self.nursery.cancel_scope.cancel()

    # Periodic tasks -------------------------------------------------------------------

    def _remoting_client(self, network: Network) -> RemotingClient:
        processor = ClientRemotingProcessor(self.consumers, self.rebalance_service.wake)
        remoting = RemotingClient(
            network,
            self.nursery,
            clock=self.clock,
            config=self.config.net,
            release=self.release,
            note=self.note,
            handlers=handler_table(processor, self.release),
        )
        remoting.language = "PYTHON"
        remoting.gather_writes()
        if self.release >= HEARTBEAT_ON_CONNECT:
            remoting.on_connected = self._connected
        if self.config.marks_streams:
            remoting.sign = _mark_stream
        return remoting

    def _periodic(self) -> list[Periodic]:
        config = self.config
        fetching = []
        if self._address_server is not None:
            fetching = [Periodic(FETCH_FIRST_MS, FETCH_INTERVAL_MS, self._address_server.fetch)]
        return [
            *fetching,
            Periodic(config.route_poll_first_ms, config.route_poll_interval_ms, self.routes.poll),
            Periodic(
                config.heartbeat_first_ms, config.heartbeat_interval_ms, self._clean_and_heartbeat
            ),
            Periodic(
                config.offset_persist_first_ms,
                config.offset_persist_interval_ms,
                self._persist_offsets,
            ),
        ]

    async def _clean_and_heartbeat(self) -> None:
        await self.routes.forget_offline_brokers()
        await self.heartbeats.send_round()

    async def _persist_offsets(self) -> None:
        for consumer in list(self.consumers.values()):
            await consumer.persist_offsets()

    def _take_name_servers(self, addresses: tuple[str, ...]) -> None:
        left = self.name_servers.replace(addresses, self.rng)
        if left is not None:
            self.remoting.disconnect(left)

    def _connected(self, address: str) -> None:
        if self.brokers.has(address):
            self.nursery.start_soon(self._heartbeat_to, address)

    async def _heartbeat_to(self, address: str) -> None:
        if await self.heartbeats.send_to(address):
            self.rebalance_service.wake("connected")


def _mark_stream(_address: str, request: RemotingCommand) -> None:
    """Upstream: StreamTypeRPCHook."""
    request.ext = ext_of(None, {**request.fields(), "ReqT": STREAM})

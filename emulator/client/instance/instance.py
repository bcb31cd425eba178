"""An instance: connections, heartbeats and periodic tasks of the clients with one client id.

The periodic tasks run in *one* task, in order, like upstream's in one thread: a heartbeat to
brokers that do not answer delays the route poll.

A round of heartbeats sends to one broker after the other; two rounds never overlap.  It sends to
the brokers in known routes, not to every broker of a cluster, and only to masters, unless there
is a consumer, which may have to read from a slave.  A client handles seven requests of brokers: a
notice to rebalance, four about one consumer group, the check of a half message, a pushed reply.

Upstream: MQClientInstance (sendHeartbeatToAllBrokerWithLock), ClientRemotingProcessor.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_emulator.client.instance.interfaces import RegisteredMembers
from rocketmq_emulator.client.instance.request_futures import RequestFutureTable
from rocketmq_emulator.client.instance.services import (
    Periodic,
    PullMessageService,
    RebalanceService,
    run_schedule,
)
from rocketmq_emulator.client.instance.topic_routes import (
    BrokerAddresses,
    NameServerRing,
    TopicRoutes,
)
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import MisuseNoticed
from rocketmq_emulator.net.address_server import (
    FETCH_FIRST_MS,
    FETCH_INTERVAL_MS,
    AddressServer,
    url_of,
)
from rocketmq_emulator.net.dispatch import Row, Table, table_of
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.results import NO_REPLY, Call, Refusal, Result
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import EncodedCache, encode_body
from rocketmq_emulator.protocol.bodies.groups import HeartbeatData, ProducerData
from rocketmq_emulator.protocol.catalog import HEART_BEAT, UNREGISTER_CLIENT
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import ext_of
from rocketmq_emulator.protocol.messages.message import decode_messages
from rocketmq_emulator.protocol.messages.misuses import FoundMisuse, Misuses
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.messages.properties import PGROUP
from rocketmq_emulator.protocol.requests.groups import UnregisterClientRequest
from rocketmq_emulator.settings.releases import (
    COMPRESSED_BIT_CLEARED,
    HEARTBEAT_ON_CONNECT,
    RECORD_MAGIC_MATTERS,
)

if TYPE_CHECKING:
    import trio

    from rocketmq_emulator.client.instance.interfaces import (
        ConsumerRequests,
        Documents,
        InnerProducer,
        RegisteredConsumer,
        RegisteredProducer,
    )
    from rocketmq_emulator.client.settings.config import ClientConfig
    from rocketmq_emulator.clocks.clock import WallClock
    from rocketmq_emulator.facts import Fact, Note
    from rocketmq_emulator.facts.clients import RebalanceCause
    from rocketmq_emulator.net.address_server import HttpFetcher
    from rocketmq_emulator.net.transport import Network
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.messages.message_ids import UniqKeys
    from rocketmq_emulator.protocol.requests.groups import (
        CheckTransactionStateRequest,
        ConsumeMessageDirectlyRequest,
        GetConsumerRunningInfoRequest,
        GetConsumerStatusRequest,
        NotifyConsumerIdsChangedRequest,
        ReplyMessageRequest,
    )
    from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest
    from rocketmq_emulator.settings.releases import Release


STREAM = "0"  # RequestType.STREAM
UNKNOWN_MS_MIN = 25_000  # a topic may be created after its consumers start; less than one poll


class ProcessResources(NamedTuple):
    """The resources that a process passes to its instances.  Without a *network*: TCP."""

    network: Network | None
    clock: WallClock
    rng: random.Random
    note: Note
    wants: Callable[[type[Fact]], bool]  # whether facts of a type are recorded; for hot paths
    uniq_keys: UniqKeys
    http: HttpFetcher
    open_folder: Callable[[str], Documents] | None  # None: of this machine's disk
    lists_topics: bool = False  # for an error about an unknown topic


class ClientInstance:
    """Made by ``ClientProcess.instance``; ``ClientProcess.release`` stops it without users."""

    inner_producer: InnerProducer  # for messages that consumers publish

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
        self.misuses = Misuses(lambda found: self.note(MisuseNoticed(*found)))
        self.members = RegisteredMembers(client_id)
        self.producers, self.consumers = self.members.producers, self.members.consumers
        self.brokers = BrokerAddresses()
        self.requests = RequestFutureTable(self.note)
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
            lists_topics=resources.lists_topics,
        )
        self.heartbeats = Heartbeats(
            client_id, config, remoting=self.remoting, brokers=self.brokers, members=self.members
        )
        self.pull_service = PullMessageService(self.consumers, self.remoting.timers)
        nursery.start_soon(run_schedule, self._periodic(), self.clock.new_alarm())
        nursery.start_soon(self.pull_service.run)
        nursery.start_soon(self.rebalance_service.run)

    def now_ms(self) -> int:
        """Wall time by this machine's clock."""
        return self.clock.now_ms()

    async def find_name_servers(self) -> None:
        """Query the address server, if there is one.  Upstream: MQClientInstance.start."""
        if self._address_server is not None:
            await self._address_server.fetch()

    # Members --------------------------------------------------------------------------

    def register_producer(self, producer: RegisteredProducer) -> None:
        """From now on *producer* gets routes and is in heartbeats.  Raises ``GroupTaken``."""
        self.members.add_producer(producer)

    def register_consumer(self, consumer: RegisteredConsumer) -> None:
        """From now on *consumer* gets routes, passes and pulls.  Raises ``GroupTaken``."""
        self.members.add_consumer(consumer)

    async def unregister_producer(self, group: str) -> None:
        """Remove it and unregister at every broker; the caller then releases the instance."""
        del self.producers[group]
        await self.heartbeats.unregister(producer=group)

    async def unregister_consumer(self, group: str) -> None:
        """Remove it and unregister at every broker; the caller then releases the instance."""
        del self.consumers[group]
        await self.heartbeats.unregister(consumer=group)

    @property
    def is_used(self) -> bool:
        """Whether it has any member except its inner producer."""
        return self.members.has_users

    def stop(self) -> None:
        """Close connections and cancel tasks; unfinished calls raise ``RemoteError``."""
        self.remoting.end()
        self.nursery.cancel_scope.cancel()

    # Periodic tasks -------------------------------------------------------------------

    def _remoting_client(self, network: Network) -> RemotingClient:
        processor = ClientRemotingProcessor(
            self.members, self.rebalance_service.wake, self.requests, self.release
        )
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
            Periodic(config.route_poll_first_ms, config.route_poll_interval_ms, self._poll_routes),
            Periodic(
                config.heartbeat_first_ms, config.heartbeat_interval_ms, self._clean_and_heartbeat
            ),
            Periodic(
                config.offset_persist_first_ms,
                config.offset_persist_interval_ms,
                self._persist_offsets,
            ),
        ]

    async def _poll_routes(self) -> None:
        await self.routes.poll()
        for group, consumer in self.consumers.items():
            for topic in consumer.topics():
                if self.routes.unknown_for_ms(topic) >= UNKNOWN_MS_MIN:
                    found = FoundMisuse("topic_nobody_made", self.client_id, group, topic)
                    self.misuses.notice(found)

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
    """Add the field that marks a stream client's request.  Upstream: StreamTypeRPCHook."""
    request.ext = ext_of(None, {**request.fields(), "ReqT": STREAM})


# Heartbeats ---------------------------------------------------------------------------


class Heartbeats:
    """Sends the heartbeats of one instance."""

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        *,
        remoting: RemotingClient,
        brokers: BrokerAddresses,
        members: RegisteredMembers,
    ) -> None:
        self._client_id = client_id
        self._timeout_ms = config.api_timeout_ms
        self._remoting = remoting
        self._brokers = brokers
        self._members = members
        self._is_sending = False
        release = config.rules
        self._bodies: EncodedCache[HeartbeatData] = EncodedCache(
            lambda data: encode_body(data, release)
        )

    async def send_round(self) -> bool:
        """Send to all known brokers, one by one; False if a round runs or no broker is known.

        Each broker has ``api_timeout_ms`` to reply; the round continues after a failure.
        """
        if self._is_sending:
            return False
        self._is_sending = True
        try:
            targets = self._targets()
            body = self._body()
            for address in targets:
                await self._send(address, body)
        finally:
            self._is_sending = False
        return bool(targets)

    async def send_to(self, address: str) -> bool:
        """Send to one broker; True if it succeeded, False also while a round runs."""
        if self._is_sending or address not in self._targets():
            return False
        return await self._send(address, self._body())

    async def unregister(
        self, *, producer: str | None = None, consumer: str | None = None
    ) -> None:
        """Send UNREGISTER_CLIENT to every known address, masters and slaves.

        Upstream: MQClientInstance.unregisterClientWithLock.
        """
        request = UnregisterClientRequest(
            client_id=self._client_id, producer_group=producer, consumer_group=consumer
        )
        for _, _, address in list(self._brokers.all()):
            try:
                await self._remoting.invoke(
                    address, UNREGISTER_CLIENT, request, timeout_ms=self._timeout_ms
                )
            except RemoteError:
                continue  # the broker will remove the client after a timeout

    # Inside ---------------------------------------------------------------------------

    def _targets(self) -> list[str]:
        slaves_too = bool(self._members.consumers)
        return [
            address
            for _, broker_id, address in self._brokers.all()
            if slaves_too or broker_id == MASTER_ID
        ]

    def _body(self) -> bytes:
        producers, consumers = self._members.producers, self._members.consumers
        data = HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=group) for group in producers],
            consumer_data_set=[member.heartbeat_data() for member in consumers.values()],
        )
        return self._bodies.text(data)

    async def _send(self, address: str, body: bytes) -> bool:
        try:
            reply = await self._remoting.invoke(
                address, HEART_BEAT, None, body, timeout_ms=self._timeout_ms
            )
        except RemoteError:
            return False
        return reply.code == ResponseCode.SUCCESS


# Requests of brokers ------------------------------------------------------------------


class ClientRemotingProcessor:
    """Handles brokers' requests for the *members* of one instance; *wake* rebalances them.

    *requests* are those of its producers that wait for a reply.
    """

    def __init__(
        self,
        members: RegisteredMembers,
        wake: Callable[[RebalanceCause], object],
        requests: RequestFutureTable,
        release: Release,
    ) -> None:
        self._consumers = members.consumers
        self._producers = members.producers
        self._wake = wake
        self._release = release
        self._requests = requests

    def ids_changed(self, _call: Call[NotifyConsumerIdsChangedRequest]) -> Result:
        """Rebalance every consumer of the instance, not only those of the group."""
        self._wake("notice")
        return NO_REPLY

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Reset the offsets of the group's queues."""
        return self._requests_of(call.request.group or "").reset_offset(call)

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """Reply with the group's offsets in one topic."""
        return self._requests_of(call.request.group).consumer_status(call)

    def running_info(self, call: Call[GetConsumerRunningInfoRequest]) -> Result:
        """Reply with the group's process queues and settings."""
        return self._requests_of(call.request.consumer_group).running_info(call)

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Call the group's listener with one message; reply when it has returned."""
        return self._requests_of(call.request.consumer_group).consume_directly(call)

    def check_transaction(self, call: Call[CheckTransactionStateRequest]) -> Result:
        """Pass the half message of the body to the producer of its group, if there is one.

        Otherwise it is ignored, as is a body that is no message.
        """
        found = decode_messages(
            call.body,
            call.request.bname or "",
            magic_matters=self._release >= RECORD_MAGIC_MATTERS,
            clears_compressed=self._release >= COMPRESSED_BIT_CLEARED,
        )
        if found:
            producer = self._producers.get(found[0].properties.get(PGROUP, ""))
            if producer is not None and producer.transaction_checks is not None:
                producer.transaction_checks.check(found[0], call.request, call.peer.address)
        return NO_REPLY

    def push_reply(self, call: Call[ReplyMessageRequest]) -> Result:
        """Pass the reply to the request that waits for it."""
        return self._requests.receive(call)

    def _requests_of(self, group: str) -> ConsumerRequests:
        if (consumer := self._consumers.get(group)) is not None:
            return consumer.requests
        remark = f"The Consumer Group <{group}> not exist in this consumer"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def handler_table(processor: ClientRemotingProcessor, release: Release) -> Table:
    """The requests that a client of *release* handles, by code."""
    rows = (
        Row(catalog.NOTIFY_CONSUMER_IDS_CHANGED, processor.ids_changed),
        Row(catalog.RESET_CONSUMER_CLIENT_OFFSET, processor.reset_offset),
        Row(catalog.GET_CONSUMER_STATUS_FROM_CLIENT, processor.consumer_status),
        Row(catalog.GET_CONSUMER_RUNNING_INFO, processor.running_info),
        Row(catalog.CONSUME_MESSAGE_DIRECTLY, processor.consume_directly),
        Row(catalog.CHECK_TRANSACTION_STATE, processor.check_transaction),
        Row(catalog.PUSH_REPLY_MESSAGE_TO_CLIENT, processor.push_reply),
    )
    return table_of(rows, release)

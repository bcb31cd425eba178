"""What producers and consumers of one client id share: connections, routes, timers.

The periodic tasks share *one* thread of control, in order: a heartbeat to brokers that
do not answer makes the route poll late, and applications have seen that happen.

Upstream: MQClientInstance, ClientRemotingProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.client.errors import GroupTaken
from emulator.client.instance.broker_addresses import BrokerAddresses
from emulator.client.instance.heartbeats import Heartbeats
from emulator.client.instance.name_servers import NameServers
from emulator.client.instance.pull_service import PullMessageService
from emulator.client.instance.rebalance_service import RebalanceService
from emulator.client.instance.schedule import Periodic, run_schedule
from emulator.client.instance.topic_routes import TopicRoutes
from emulator.client.instance.wakeup import Wakeup
from emulator.net.remoting_client import RemotingClient
from emulator.net.results import NO_REPLY, Call, Handler, Reply, Result
from emulator.net.tcp import TcpNetwork
from emulator.releases import HEARTBEAT_ON_CONNECT
from protocol import catalog
from protocol.codes import RequestCode, ResponseCode
from protocol.names import CLIENT_INNER_PRODUCER_GROUP, MASTER_ID

if TYPE_CHECKING:
    import trio

    from emulator.client.config import ClientConfig
    from emulator.client.instance.members import RegisteredConsumer, RegisteredProducer
    from emulator.client.instance.process import ClientProcess
    from emulator.client.producer.send_pipeline import SendPipeline
    from emulator.net.handler_table import Table
    from protocol.requests.callbacks import NotifyConsumerIdsChangedRequest


class ClientInstance:
    """Made by ``ClientProcess.instance``, which also stops it when its last user has left."""

    inner_producer: SendPipeline  # for messages a consumer publishes itself

    def __init__(
        self,
        client_id: str,
        config: ClientConfig,
        process: ClientProcess,
        nursery: trio.Nursery,
    ) -> None:
        self.client_id = client_id
        self.config = config
        self.release = config.rules
        self.process = process
        self.clock = process.clock
        self.rng = process.rng
        self.note = process.note
        self.nursery = nursery
        self.producers: dict[str, RegisteredProducer] = {}
        self.consumers: dict[str, RegisteredConsumer] = {}
        self.brokers = BrokerAddresses()
        self.rebalance_wakeup = Wakeup()
        self.remoting = RemotingClient(
            process.network or TcpNetwork(nursery),
            nursery,
            clock=self.clock,
            config=config.net,
            release=self.release,
            note=self.note,
            handlers=self._handlers(),
        )
        name_servers = NameServers(config.namesrv_addresses, self.rng, self.release)
        self.routes = TopicRoutes(self, name_servers)
        self.heartbeats = Heartbeats(self)
        if self.release >= HEARTBEAT_ON_CONNECT:
            self.remoting.on_connected = self._connected
        self.pull_service = PullMessageService(self.consumers, self.remoting.timers)
        self.rebalance_service = RebalanceService(
            self.consumers,
            self.rebalance_wakeup,
            self.release,
            interval_ms=config.rebalance_interval_ms,
            interval_ms_min=config.rebalance_interval_ms_min,
        )
        nursery.start_soon(run_schedule, self._periodic())
        nursery.start_soon(self.pull_service.run)
        nursery.start_soon(self.rebalance_service.run)

    def now_ms(self) -> int:
        """Wall time, as this machine reads it."""
        return self.clock.now_ms()

    # Members --------------------------------------------------------------------------

    def register_producer(self, producer: RegisteredProducer) -> None:
        """Raises ``GroupTaken``."""
        if producer.group in self.producers:
            raise GroupTaken(f"{self.client_id} already has a producer group {producer.group}")
        self.producers[producer.group] = producer

    def register_consumer(self, consumer: RegisteredConsumer) -> None:
        """Raises ``GroupTaken``."""
        if consumer.group in self.consumers:
            raise GroupTaken(f"{self.client_id} already has a consumer group {consumer.group}")
        self.consumers[consumer.group] = consumer

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
        return bool(self.consumers) or bool(self.producers.keys() - {CLIENT_INNER_PRODUCER_GROUP})

    def stop(self) -> None:
        self.remoting.end()
        self.nursery.cancel_scope.cancel()

    # Looking up -----------------------------------------------------------------------

    def broker_of_topic(self, topic: str) -> str | None:
        """The address of any broker that has *topic*: its master, else any slave.

        Upstream: MQClientInstance.findBrokerAddrByTopic.
        """
        route = self.routes.table.get(topic)
        if route is None or not route.broker_datas:
            return None
        addresses = self.rng.choice(route.broker_datas).broker_addrs
        if MASTER_ID in addresses:
            return addresses[MASTER_ID]
        return self.rng.choice(list(addresses.values())) if addresses else None

    # What happens by itself -----------------------------------------------------------

    def _periodic(self) -> list[Periodic]:
        config = self.config
        return [
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

    def _connected(self, address: str) -> None:
        if self.brokers.has(address):
            self.nursery.start_soon(self._introduce, address)

    async def _introduce(self, address: str) -> None:
        if await self.heartbeats.send_to(address):
            self.rebalance_wakeup.ring()

    # What brokers ask -----------------------------------------------------------------

    def _handlers(self) -> Table:
        by_group: Handler = self._ask_consumer
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: (
                catalog.NOTIFY_CONSUMER_IDS_CHANGED,
                self._ids_changed,
            ),
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: (
                catalog.RESET_CONSUMER_CLIENT_OFFSET,
                by_group,
            ),
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (
                catalog.GET_CONSUMER_STATUS_FROM_CLIENT,
                by_group,
            ),
            RequestCode.GET_CONSUMER_RUNNING_INFO: (catalog.GET_CONSUMER_RUNNING_INFO, by_group),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: (catalog.CONSUME_MESSAGE_DIRECTLY, by_group),
        }

    def _ids_changed(self, _call: Call[NotifyConsumerIdsChangedRequest]) -> Result:
        # Whatever the group: every consumer of the instance rebalances.
        self.rebalance_wakeup.ring()
        return NO_REPLY

    def _ask_consumer(self, call: Call[Any]) -> Result:
        request = call.request
        group: str = getattr(request, "consumer_group", "") or getattr(request, "group", "")
        if (consumer := self.consumers.get(group)) is not None:
            return consumer.answer(call)
        remark = f"The Consumer Group <{group}> not exist in this consumer"
        return Reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)

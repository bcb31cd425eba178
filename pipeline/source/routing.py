"""The queues of topics and their brokers, from the NameServers, asked one after the other.

The first NameServer that answers is used, and asked first the next time.  A topic without a
route is an error that names the nearest existing topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import (
    ServerRefused,
    ServerUnavailable,
    SourceError,
    TopicUnknown,
)
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.routes import BrokerData, TopicList, TopicRouteData
from rocketmq_emulator.protocol.catalog import (
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_ROUTEINFO_BY_TOPIC,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import Header, RemotingCommand
from rocketmq_emulator.protocol.flags import PERM_READ, PERM_WRITE
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.queues import MessageQueue, queue_order
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.text.suggestions import did_you_mean


class RoutedQueues(msgspec.Struct, frozen=True):
    """The queues of some topics, in order, and the addresses of their brokers, by broker name.

    ``addresses`` has the master's address; for reads, a slave's if no master is registered.
    ``slaves`` has the slave with the lowest id, which is read if the master does not answer.
    """

    queues: tuple[MessageQueue, ...]
    addresses: dict[str, str]
    slaves: dict[str, str] = {}

    def read_addresses(self, broker: str) -> list[str]:
        """Addresses to read *broker* at, the best one first."""
        found = (self.addresses.get(broker, ""), self.slaves.get(broker, ""))
        return [address for address in dict.fromkeys(found) if address]

    def is_slave(self, address: str) -> bool:
        """Whether the broker registered at *address* is a slave."""
        return address in self.slaves.values()

    def by_broker(self) -> dict[str, list[MessageQueue]]:
        """The queues by the name of their broker."""
        found: dict[str, list[MessageQueue]] = {}
        for queue in self.queues:
            found.setdefault(queue.broker_name, []).append(queue)
        return found


class NameServers:
    """NameServers at ``host:port``; one of them has to answer within *timeout_ms*."""

    def __init__(self, addresses: Sequence[str], timeout_ms: int) -> None:
        self._addresses = list(addresses)
        self._timeout_ms = timeout_ms
        self._connection: BlockingConnection | None = None

    def close(self) -> None:
        """Closes the connection that was kept."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def queues(self, topics: Iterable[str], *, to_write: bool = False) -> RoutedQueues:
        """The queues of *topics*.  Raises ``TopicUnknown``, ``ServerUnavailable``."""
        routes = {topic: self.route(topic) for topic in topics}
        brokers = [broker for route in routes.values() for broker in route.broker_datas]
        masters = {
            broker.broker_name: broker.broker_addrs[MASTER_ID]
            for broker in brokers
            if MASTER_ID in broker.broker_addrs
        }
        slaves = {} if to_write else _slaves(brokers)
        found = {
            MessageQueue(topic, data.broker_name, queue_id)
            for topic, route in routes.items()
            for data in route.queue_datas
            if data.perm & (PERM_WRITE if to_write else PERM_READ)
            for queue_id in range(data.write_queue_nums if to_write else data.read_queue_nums)
        }
        return RoutedQueues(tuple(sorted(found, key=queue_order)), slaves | masters, slaves)

    def route(self, topic: str) -> TopicRouteData:
        """The route of *topic*.  Raises ``TopicUnknown``, ``ServerUnavailable``."""
        try:
            reply = self._ask(GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic))
        except ServerRefused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise TopicUnknown(self._no_such(topic)) from None
        return decode_unlimited_body(reply.body, TopicRouteData)

    def _no_such(self, topic: str) -> str:
        known: list[str] = []
        try:
            body = self._ask(GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body
            known = decode_unlimited_body(body, TopicList).topic_list
        except SourceError:
            known = []
        others = "create it, send to it first, or start its broker"
        advice = did_you_mean(topic, known, otherwise=others)
        return f"no broker has registered a topic {topic!r} at the NameServer: {advice}"

    def _ask(self, rpc: AnyRpc, header: Header | None = None) -> RemotingCommand:
        reasons = []
        for address in list(self._addresses):
            try:
                return self._connected(address).call(rpc, header)
            except ServerUnavailable as error:
                self.close()
                reasons.append(str(error))
                self._addresses.append(self._addresses.pop(0))
        raise ServerUnavailable(
            f"no NameServer answers: {'; '.join(reasons)}. Check the option namesrv"
        )

    def _connected(self, address: str) -> BlockingConnection:
        if self._connection is None:
            self._connection = BlockingConnection(address, self._timeout_ms)
        return self._connection


def _slaves(brokers: Iterable[BrokerData]) -> dict[str, str]:
    """The address of the slave with the lowest id, for each broker with slaves."""
    found = {}
    for broker in brokers:
        ids = [number for number in broker.broker_addrs if number != MASTER_ID]
        if ids:
            found[broker.broker_name] = broker.broker_addrs[min(ids)]
    return found

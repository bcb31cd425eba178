"""Heartbeats: one broker after the other, never two rounds at once.

They go to the brokers in known routes, not to every broker of a cluster; and only to
masters, unless there is a consumer, which may have to read from a slave.

Upstream: MQClientInstance.sendHeartbeatToAllBrokerWithLock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.net.errors import RemoteError
from protocol.bodies.body import encode_body
from protocol.bodies.encoded_cache import EncodedCache
from protocol.bodies.groups import HeartbeatData, ProducerData
from protocol.catalog import HEART_BEAT, UNREGISTER_CLIENT
from protocol.codes import ResponseCode
from protocol.names import MASTER_ID
from protocol.requests.groups import UnregisterClientRequest

if TYPE_CHECKING:
    from emulator.client.config import ClientConfig
    from emulator.client.instance.addresses import BrokerAddresses
    from emulator.client.instance.interfaces import RegisteredMembers
    from emulator.net.remoting_client import RemotingClient


class Heartbeats:
    """The rounds of one instance."""

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
        self._under_way = False
        release = config.rules
        self._bodies: EncodedCache[HeartbeatData] = EncodedCache(
            lambda data: encode_body(data, release)
        )

    async def send_round(self) -> bool:
        """Send to all brokers, one by one.  False: a round is under way, or no broker is known.

        Each has ``api_timeout_ms`` to answer; one that fails does not end the round.
        """
        if self._under_way:
            return False
        self._under_way = True
        try:
            targets = self._targets()
            body = self._body()
            for address in targets:
                await self._send(address, body)
        finally:
            self._under_way = False
        return bool(targets)

    async def send_to(self, address: str) -> bool:
        """Send to one broker; True if it succeeded.  False also while a round is under way."""
        if self._under_way or address not in self._targets():
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
                continue  # the broker will remove the silent client by itself

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

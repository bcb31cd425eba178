"""Telling brokers who is here: one after the other, never two rounds at once.

Heard are the brokers in known routes, not every broker of a cluster; and only masters,
unless there is a consumer, who may have to read from a slave.

Upstream: MQClientInstance.sendHeartbeatToAllBrokerWithLock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.net.errors import RemoteError
from protocol.bodies.body import encode_body
from protocol.bodies.groups import HeartbeatData, ProducerData
from protocol.bodies.remembered import Remembered
from protocol.catalog import HEART_BEAT, UNREGISTER_CLIENT
from protocol.codes import ResponseCode
from protocol.names import MASTER_ID
from protocol.requests.groups import UnregisterClientRequest

if TYPE_CHECKING:
    from emulator.client.instance.instance import ClientInstance


class Heartbeats:
    """The rounds of one instance."""

    def __init__(self, instance: ClientInstance) -> None:
        self.versions: dict[str, int] = {}  # by address: what each broker said it is
        self._instance = instance
        self._timeout_ms = instance.config.api_timeout_ms
        self._under_way = False
        self._bodies = Remembered(lambda data: encode_body(data, instance.release))

    async def send_round(self) -> bool:
        """To all, three seconds each at most.  False: a round is under way, or nobody is known."""
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
        """To one broker; whether it took it."""
        if self._under_way or address not in self._targets():
            return False
        return await self._send(address, self._body())

    async def unregister(
        self, *, producer: str | None = None, consumer: str | None = None
    ) -> None:
        """Tell every known address, masters and slaves, that a group has left."""
        request = UnregisterClientRequest(
            client_id=self._instance.client_id, producer_group=producer, consumer_group=consumer
        )
        for _, _, address in list(self._instance.brokers.all()):
            try:
                await self._instance.remoting.invoke(
                    address, UNREGISTER_CLIENT, request, timeout_ms=self._timeout_ms
                )
            except RemoteError:
                continue  # it will notice by itself that we are silent

    # Inside ---------------------------------------------------------------------------

    def _targets(self) -> list[str]:
        slaves_too = bool(self._instance.consumers)
        return [
            address
            for _, broker_id, address in self._instance.brokers.all()
            if slaves_too or broker_id == MASTER_ID
        ]

    def _body(self) -> bytes:
        instance = self._instance
        data = HeartbeatData(
            client_id=instance.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in instance.producers],
            consumer_data_set=[member.heartbeat_data() for member in instance.consumers.values()],
        )
        return self._bodies.text(data)

    async def _send(self, address: str, body: bytes) -> bool:
        try:
            reply = await self._instance.remoting.invoke(
                address, HEART_BEAT, None, body, timeout_ms=self._timeout_ms
            )
        except RemoteError:
            return False
        if reply.code != ResponseCode.SUCCESS:
            return False
        self.versions[address] = reply.version
        return True

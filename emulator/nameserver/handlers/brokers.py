"""Requests of brokers: registration, heartbeats, removal.

Upstream: DefaultRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.nameserver.kv_config import ORDER_TOPIC_CONFIG
from emulator.nameserver.registration import comparable, read_registration
from emulator.net.results import Call, Reply
from emulator.releases import QUERY_IS_HEARTBEAT
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.routes import BrokerMemberGroup, GetBrokerMemberGroupReply, KVTable
from protocol.bodies.topics import DataVersion
from protocol.requests.registration import QueryDataVersionReply, RegisterBrokerReply

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.requests.registration import (
        BrokerHeartbeatRequest,
        QueryDataVersionRequest,
        RegisterBrokerRequest,
        UnregisterBrokerRequest,
    )
    from protocol.requests.routes import GetBrokerMemberGroupRequest


class BrokerRequestProcessor:
    """Registers brokers, keeps them alive, removes them."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    def register_broker(self, call: Call[RegisterBrokerRequest]) -> Reply:
        """The reply has a slave's master and, for every broker, the ordered topics."""
        registration = read_registration(call, self._server.release)
        seen = self._server.routes.register(registration, call.peer, call.now_ms)
        header = RegisterBrokerReply(master_addr=seen.address, ha_server_addr=seen.ha_address)
        return Reply(header, body=self._order_table())

    def unregister_broker(self, call: Call[UnregisterBrokerRequest]) -> Reply:
        """SUCCESS also for an unknown broker."""
        request = call.request
        self._server.routes.unregister(
            request.cluster_name, request.broker_name, request.broker_id, request.broker_addr
        )
        return Reply()

    def query_data_version(self, call: Call[QueryDataVersionRequest]) -> Reply:
        """Whether a registration is needed.  On 4.x a heartbeat only if none is needed."""
        server, request = self._server, call.request
        queried = comparable(decode_body(call.body, DataVersion), server.release)
        key = server.routes.key(request.cluster_name, request.broker_addr)
        held = server.routes.live.data_version(key)
        if held == queried or server.release >= QUERY_IS_HEARTBEAT:
            server.routes.live.refresh(key, call.now_ms)
        body = b"" if held is None else encode_body(held, server.release)
        return Reply(QueryDataVersionReply(changed=held != queried), body=body)

    def broker_heartbeat(self, call: Call[BrokerHeartbeatRequest]) -> Reply:
        """SUCCESS also for an unknown broker: its next registration adds it."""
        routes, request = self._server.routes, call.request
        routes.live.refresh(routes.key(request.cluster_name, request.broker_addr), call.now_ms)
        return Reply()

    def get_broker_member_group(self, call: Call[GetBrokerMemberGroupRequest]) -> Reply:
        """5.x: the replicas that share a broker name; none for a name that is unknown."""
        request = call.request
        known = self._server.routes.brokers.broker_addr_table.get(request.broker_name)
        group = BrokerMemberGroup(
            cluster=request.cluster_name,
            broker_name=request.broker_name,
            broker_addrs={} if known is None else known.data().broker_addrs,
        )
        body = GetBrokerMemberGroupReply(broker_member_group=group)
        return Reply(body=encode_body(body, self._server.release))

    def _order_table(self) -> bytes:
        """Which topics are ordered: a broker marks them so."""
        server = self._server
        if not server.settings.config.return_order_topic_config_to_broker:
            return b""
        table = server.kv_config.of(ORDER_TOPIC_CONFIG)
        return b"" if table is None else encode_body(KVTable(table=table), server.release)

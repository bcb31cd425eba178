"""What brokers ask: to be known, to stay known, to be forgotten.

Upstream: DefaultRequestProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.nameserver.kv_config import ORDER_TOPIC_CONFIG
from emulator.nameserver.lookup import member_group
from emulator.nameserver.registration import read_registration, understood
from emulator.net.results import Call, Reply
from emulator.releases import FIVE
from protocol.bodies.body import decode_body, encode_body
from protocol.bodies.routes import GetBrokerMemberGroupReply, KVTable
from protocol.bodies.topics import DataVersion
from protocol.requests.registration import (
    BrokerHeartbeatRequest,
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerReply,
    UnregisterBrokerRequest,
)

if TYPE_CHECKING:
    from emulator.nameserver.nameserver import NameServer
    from protocol.requests.routes import GetBrokerMemberGroupRequest


def register_broker(server: NameServer, call: Call) -> Reply:
    said = read_registration(call, server.release)
    seen = server.routes.register(said, call.peer, call.now_ms)
    header = RegisterBrokerReply(master_addr=seen.address, ha_server_addr=seen.ha_address)
    return Reply(header, body=_order_table(server))


def unregister_broker(server: NameServer, call: Call) -> Reply:
    asked: UnregisterBrokerRequest = call.request
    server.routes.unregister(
        asked.cluster_name, asked.broker_name, asked.broker_id, asked.broker_addr
    )
    return Reply()


def query_data_version(server: NameServer, call: Call) -> Reply:
    """Is a registration needed?  To ask is a sign of life; on 4.x only if the answer is no."""
    asked: QueryDataVersionRequest = call.request
    told = understood(decode_body(call.body, DataVersion), server.release)
    key = server.routes.key(asked.cluster_name, asked.broker_addr)
    held = server.routes.live.data_version(key)
    if held == told or server.release >= FIVE:
        server.routes.live.refresh(key, call.now_ms)
    body = b"" if held is None else encode_body(held, server.release)
    return Reply(QueryDataVersionReply(changed=held != told), body=body)


def broker_heartbeat(server: NameServer, call: Call) -> Reply:
    """Success for strangers too: they learn of it when they register."""
    asked: BrokerHeartbeatRequest = call.request
    key = server.routes.key(asked.cluster_name, asked.broker_addr)
    server.routes.live.refresh(key, call.now_ms)
    return Reply()


def get_broker_member_group(server: NameServer, call: Call) -> Reply:
    asked: GetBrokerMemberGroupRequest = call.request
    group = member_group(server.routes, asked.cluster_name, asked.broker_name)
    body = GetBrokerMemberGroupReply(broker_member_group=group)
    return Reply(body=encode_body(body, server.release))


def _order_table(server: NameServer) -> bytes:
    """Which topics are ordered: a broker marks them so."""
    if not server.settings.config.return_order_topic_config_to_broker:
        return b""
    table = server.kv_config.of(ORDER_TOPIC_CONFIG)
    return b"" if table is None else encode_body(KVTable(table=table), server.release)

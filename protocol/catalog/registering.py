"""Requests of brokers to the NameServer, of the NameServer to brokers, and between brokers."""

from __future__ import annotations

from protocol.bodies.registration import RegisterBrokerBody
from protocol.bodies.routes import KVTable
from protocol.bodies.topics import DataVersion
from protocol.catalog.page import broker, nameserver
from protocol.requests.registration import (
    AddBrokerRequest,
    BrokerHeartbeatRequest,
    ExchangeHAInfo,
    NotifyMinBrokerIdChangeRequest,
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    RegisterFilterServer,
    RemoveBrokerRequest,
    UnregisterBrokerRequest,
)
from protocol.versions import FILTER_SERVERS_UNKNOWN, R_5_0_0

REGISTER_BROKER = nameserver(
    "REGISTER_BROKER",
    RegisterBrokerRequest,
    RegisterBrokerReply,
    request_body=RegisterBrokerBody,
    reply_body=KVTable,
)
UNREGISTER_BROKER = nameserver("UNREGISTER_BROKER", UnregisterBrokerRequest)
QUERY_DATA_VERSION = nameserver(
    "QUERY_DATA_VERSION",
    QueryDataVersionRequest,
    QueryDataVersionReply,
    request_body=DataVersion,
    reply_body=DataVersion,
)
BROKER_HEARTBEAT = nameserver(
    "BROKER_HEARTBEAT", BrokerHeartbeatRequest, one_way=True, since=R_5_0_0
)

NOTIFY_MIN_BROKER_ID_CHANGE = broker(
    "NOTIFY_MIN_BROKER_ID_CHANGE", NotifyMinBrokerIdChangeRequest, one_way=True, since=R_5_0_0
)
EXCHANGE_BROKER_HA_INFO = broker(
    "EXCHANGE_BROKER_HA_INFO", ExchangeHAInfo, ExchangeHAInfo, since=R_5_0_0
)
ADD_BROKER = broker("ADD_BROKER", AddBrokerRequest, since=R_5_0_0)  # to a container of brokers
REMOVE_BROKER = broker("REMOVE_BROKER", RemoveBrokerRequest, since=R_5_0_0)
REGISTER_FILTER_SERVER = broker(
    "REGISTER_FILTER_SERVER",
    RegisterFilterServer,
    RegisterFilterServer,
    until=FILTER_SERVERS_UNKNOWN,
)

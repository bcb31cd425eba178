"""Requests of clients, tools and brokers to the NameServer: routes and registration.

Also the requests of the NameServer to brokers, and between brokers.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.registration import RegisterBrokerBody
from rocketmq_emulator.protocol.bodies.routes import (
    ClusterInfo,
    GetBrokerMemberGroupReply,
    KVTable,
    TopicList,
    TopicRouteData,
)
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.requests.nameserver import (
    AddBrokerRequest,
    AddWritePermOfBrokerReply,
    BrokerHeartbeatRequest,
    DeleteKVConfigRequest,
    DeleteTopicFromNamesrvRequest,
    ExchangeHAInfo,
    GetBrokerMemberGroupRequest,
    GetKVConfigReply,
    GetKVConfigRequest,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    NotifyMinBrokerIdChangeRequest,
    PutKVConfigRequest,
    QueryDataVersionReply,
    QueryDataVersionRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    RegisterFilterServer,
    RegisterTopicRequest,
    RemoveBrokerRequest,
    ResetMasterFlushOffsetRequest,
    UnregisterBrokerRequest,
    WipeWritePermOfBrokerReply,
    WritePermOfBrokerRequest,
)
from rocketmq_emulator.protocol.rpc import broker, nameserver, nameserver_or_controller
from rocketmq_emulator.protocol.versions import FILTER_SERVERS_UNKNOWN, R_5_0_0

GET_ROUTEINFO_BY_TOPIC = nameserver(
    "GET_ROUTEINFO_BY_TOPIC", GetRouteInfoRequest, reply_body=TopicRouteData
)
GET_BROKER_CLUSTER_INFO = nameserver("GET_BROKER_CLUSTER_INFO", reply_body=ClusterInfo)
GET_BROKER_MEMBER_GROUP = nameserver(
    "GET_BROKER_MEMBER_GROUP",
    GetBrokerMemberGroupRequest,
    reply_body=GetBrokerMemberGroupReply,
    since=R_5_0_0,
)

GET_ALL_TOPIC_LIST_FROM_NAMESERVER = nameserver(
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", reply_body=TopicList
)
GET_TOPICS_BY_CLUSTER = nameserver(
    "GET_TOPICS_BY_CLUSTER", GetTopicsByClusterRequest, reply_body=TopicList
)
GET_SYSTEM_TOPIC_LIST_FROM_NS = nameserver("GET_SYSTEM_TOPIC_LIST_FROM_NS", reply_body=TopicList)
GET_UNIT_TOPIC_LIST = nameserver("GET_UNIT_TOPIC_LIST", reply_body=TopicList)
GET_HAS_UNIT_SUB_TOPIC_LIST = nameserver("GET_HAS_UNIT_SUB_TOPIC_LIST", reply_body=TopicList)
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = nameserver(
    "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", reply_body=TopicList
)

WIPE_WRITE_PERM_OF_BROKER = nameserver(
    "WIPE_WRITE_PERM_OF_BROKER", WritePermOfBrokerRequest, WipeWritePermOfBrokerReply
)
ADD_WRITE_PERM_OF_BROKER = nameserver(
    "ADD_WRITE_PERM_OF_BROKER", WritePermOfBrokerRequest, AddWritePermOfBrokerReply
)
DELETE_TOPIC_IN_NAMESRV = nameserver("DELETE_TOPIC_IN_NAMESRV", DeleteTopicFromNamesrvRequest)
REGISTER_TOPIC_IN_NAMESRV = nameserver(
    "REGISTER_TOPIC_IN_NAMESRV", RegisterTopicRequest, request_body=TopicRouteData, since=R_5_0_0
)

PUT_KV_CONFIG = nameserver("PUT_KV_CONFIG", PutKVConfigRequest)
GET_KV_CONFIG = nameserver("GET_KV_CONFIG", GetKVConfigRequest, GetKVConfigReply)
DELETE_KV_CONFIG = nameserver("DELETE_KV_CONFIG", DeleteKVConfigRequest)
GET_KVLIST_BY_NAMESPACE = nameserver(
    "GET_KVLIST_BY_NAMESPACE", GetKVListByNamespaceRequest, reply_body=KVTable
)
UPDATE_NAMESRV_CONFIG = nameserver("UPDATE_NAMESRV_CONFIG", request_body=bytes)
GET_NAMESRV_CONFIG = nameserver("GET_NAMESRV_CONFIG", reply_body=bytes)


# Registration, and between brokers ----------------------------------------------------


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
BROKER_HEARTBEAT = nameserver_or_controller(
    "BROKER_HEARTBEAT", BrokerHeartbeatRequest, one_way=True, since=R_5_0_0
)

NOTIFY_MIN_BROKER_ID_CHANGE = broker(
    "NOTIFY_MIN_BROKER_ID_CHANGE", NotifyMinBrokerIdChangeRequest, one_way=True, since=R_5_0_0
)
EXCHANGE_BROKER_HA_INFO = broker(
    "EXCHANGE_BROKER_HA_INFO", ExchangeHAInfo, ExchangeHAInfo, since=R_5_0_0
)
RESET_MASTER_FLUSH_OFFSET = broker(
    "RESET_MASTER_FLUSH_OFFSET", ResetMasterFlushOffsetRequest, since=R_5_0_0
)
ADD_BROKER = broker("ADD_BROKER", AddBrokerRequest, since=R_5_0_0)  # to a container of brokers
REMOVE_BROKER = broker("REMOVE_BROKER", RemoveBrokerRequest, since=R_5_0_0)
REGISTER_FILTER_SERVER = broker(
    "REGISTER_FILTER_SERVER",
    RegisterFilterServer,
    RegisterFilterServer,
    until=FILTER_SERVERS_UNKNOWN,
)

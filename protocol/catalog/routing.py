"""Requests of clients and tools to the NameServer."""

from __future__ import annotations

from protocol.bodies.routes import (
    ClusterInfo,
    GetBrokerMemberGroupReply,
    KVTable,
    TopicList,
    TopicRouteData,
)
from protocol.catalog.page import nameserver
from protocol.requests.routes import (
    AddWritePermOfBrokerReply,
    DeleteKVConfigRequest,
    DeleteTopicFromNamesrvRequest,
    GetBrokerMemberGroupRequest,
    GetKVConfigReply,
    GetKVConfigRequest,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    GetTopicsByClusterRequest,
    PutKVConfigRequest,
    RegisterTopicRequest,
    WipeWritePermOfBrokerReply,
    WritePermOfBrokerRequest,
)
from protocol.versions import R_5_0_0

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

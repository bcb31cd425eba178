"""Requests of brokers and tools to the controller, and of both to brokers that have one.

The controller's own log entries (1014 to 1018 of upstream's JRaft controller) are no requests:
a controller refuses them with REQUEST_CODE_NOT_SUPPORTED.  Its heartbeats are BROKER_HEARTBEAT.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterBody,
    EpochEntryCache,
    SyncStateSet,
)
from rocketmq_emulator.protocol.requests.controller import (
    AlterSyncStateSetReply,
    AlterSyncStateSetRequest,
    ApplyBrokerIdReply,
    ApplyBrokerIdRequest,
    CleanControllerBrokerDataRequest,
    ElectMasterRequest,
    GetMetaDataReply,
    GetNextBrokerIdReply,
    GetNextBrokerIdRequest,
    GetReplicaInfoReply,
    GetReplicaInfoRequest,
    MasterReply,
    NotifyBrokerRoleChangedRequest,
    RegisterBrokerToControllerReply,
    RegisterBrokerToControllerRequest,
)
from rocketmq_emulator.protocol.rpc import broker, controller
from rocketmq_emulator.protocol.versions import BROKER_IDS_APPLIED, R_5_0_0

CONTROLLER_ALTER_SYNC_STATE_SET = controller(
    "CONTROLLER_ALTER_SYNC_STATE_SET",
    AlterSyncStateSetRequest,
    AlterSyncStateSetReply,
    request_body=SyncStateSet,
    reply_body=SyncStateSet,
    since=R_5_0_0,
)
CONTROLLER_ELECT_MASTER = controller(
    "CONTROLLER_ELECT_MASTER",
    ElectMasterRequest,
    MasterReply,
    reply_body=ElectMasterBody,
    since=R_5_0_0,
)
CONTROLLER_REGISTER_BROKER = controller(
    "CONTROLLER_REGISTER_BROKER",
    RegisterBrokerToControllerRequest,
    RegisterBrokerToControllerReply,
    reply_body=SyncStateSet,
    since=R_5_0_0,
)
CONTROLLER_GET_REPLICA_INFO = controller(
    "CONTROLLER_GET_REPLICA_INFO",
    GetReplicaInfoRequest,
    GetReplicaInfoReply,
    reply_body=SyncStateSet,
    since=R_5_0_0,
)
CONTROLLER_GET_METADATA_INFO = controller(
    "CONTROLLER_GET_METADATA_INFO", reply=GetMetaDataReply, since=R_5_0_0
)
CONTROLLER_GET_SYNC_STATE_DATA = controller(
    "CONTROLLER_GET_SYNC_STATE_DATA",
    request_body=list[str],
    reply_body=BrokerReplicasInfo,
    since=R_5_0_0,
)
UPDATE_CONTROLLER_CONFIG = controller(
    "UPDATE_CONTROLLER_CONFIG", request_body=bytes, since=R_5_0_0
)
GET_CONTROLLER_CONFIG = controller("GET_CONTROLLER_CONFIG", reply_body=bytes, since=R_5_0_0)
CLEAN_BROKER_DATA = controller(
    "CLEAN_BROKER_DATA", CleanControllerBrokerDataRequest, since=R_5_0_0
)
CONTROLLER_GET_NEXT_BROKER_ID = controller(
    "CONTROLLER_GET_NEXT_BROKER_ID",
    GetNextBrokerIdRequest,
    GetNextBrokerIdReply,
    since=BROKER_IDS_APPLIED,
)
CONTROLLER_APPLY_BROKER_ID = controller(
    "CONTROLLER_APPLY_BROKER_ID",
    ApplyBrokerIdRequest,
    ApplyBrokerIdReply,
    since=BROKER_IDS_APPLIED,
)

GET_BROKER_EPOCH_CACHE = broker(
    "GET_BROKER_EPOCH_CACHE", reply_body=EpochEntryCache, since=R_5_0_0
)
# Ours: what upstream's controllers send each other is DLedger's or JRaft's.
CONTROLLER_GROUP = controller("CONTROLLER_GROUP", request_body=bytes, reply_body=bytes)
NOTIFY_BROKER_ROLE_CHANGED = broker(
    "NOTIFY_BROKER_ROLE_CHANGED",
    NotifyBrokerRoleChangedRequest,
    request_body=SyncStateSet,
    one_way=True,
    since=R_5_0_0,
)

"""Pulling, offsets, membership, and the requests of brokers to consumers."""

from __future__ import annotations

from protocol.bodies.connections import ConsumerConnection
from protocol.bodies.groups import (
    CheckClientRequestBody,
    GetConsumerListByGroupReply,
    HeartbeatData,
    LockBatchReply,
    LockBatchRequestBody,
)
from protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from protocol.bodies.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
)
from protocol.catalog.page import broker, broker_or_client, client
from protocol.requests.callbacks import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    NotifyConsumerIdsChangedRequest,
)
from protocol.requests.groups import (
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    HeartbeatReply,
    UnregisterClientRequest,
)
from protocol.requests.offsets import (
    GetEarliestMsgStoretimeReply,
    GetEarliestMsgStoretimeRequest,
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetReply,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from protocol.requests.pulling import (
    PullMessageReply,
    PullMessageRequest,
    QueryMessageReply,
    QueryMessageRequest,
    ViewMessageRequest,
)
from protocol.versions import R_5_0_0

PULL_MESSAGE = broker("PULL_MESSAGE", PullMessageRequest, PullMessageReply, reply_body=bytes)
LITE_PULL_MESSAGE = broker(
    "LITE_PULL_MESSAGE", PullMessageRequest, PullMessageReply, reply_body=bytes, since=R_5_0_0
)
QUERY_MESSAGE = broker("QUERY_MESSAGE", QueryMessageRequest, QueryMessageReply, reply_body=bytes)
VIEW_MESSAGE_BY_ID = broker("VIEW_MESSAGE_BY_ID", ViewMessageRequest, reply_body=bytes)

QUERY_CONSUMER_OFFSET = broker("QUERY_CONSUMER_OFFSET", QueryConsumerOffsetRequest, OffsetReply)
UPDATE_CONSUMER_OFFSET = broker(
    "UPDATE_CONSUMER_OFFSET", UpdateConsumerOffsetRequest, one_way=True
)
GET_MAX_OFFSET = broker("GET_MAX_OFFSET", GetMaxOffsetRequest, OffsetReply)
GET_MIN_OFFSET = broker("GET_MIN_OFFSET", GetMinOffsetRequest, OffsetReply)
SEARCH_OFFSET_BY_TIMESTAMP = broker("SEARCH_OFFSET_BY_TIMESTAMP", SearchOffsetRequest, OffsetReply)
GET_EARLIEST_MSG_STORETIME = broker(
    "GET_EARLIEST_MSG_STORETIME", GetEarliestMsgStoretimeRequest, GetEarliestMsgStoretimeReply
)

HEART_BEAT = broker("HEART_BEAT", reply=HeartbeatReply, request_body=HeartbeatData)
UNREGISTER_CLIENT = broker("UNREGISTER_CLIENT", UnregisterClientRequest)
CHECK_CLIENT_CONFIG = broker("CHECK_CLIENT_CONFIG", request_body=CheckClientRequestBody)
GET_CONSUMER_LIST_BY_GROUP = broker(
    "GET_CONSUMER_LIST_BY_GROUP",
    GetConsumerListByGroupRequest,
    reply_body=GetConsumerListByGroupReply,
)
GET_CONSUMER_CONNECTION_LIST = broker(
    "GET_CONSUMER_CONNECTION_LIST",
    GetConsumerConnectionListRequest,
    reply_body=ConsumerConnection,
)
LOCK_BATCH_MQ = broker(
    "LOCK_BATCH_MQ", request_body=LockBatchRequestBody, reply_body=LockBatchReply
)
UNLOCK_BATCH_MQ = broker("UNLOCK_BATCH_MQ", request_body=LockBatchRequestBody)
QUERY_ASSIGNMENT = broker(
    "QUERY_ASSIGNMENT",
    request_body=QueryAssignmentRequestBody,
    reply_body=QueryAssignmentReply,
    since=R_5_0_0,
)

NOTIFY_CONSUMER_IDS_CHANGED = client(
    "NOTIFY_CONSUMER_IDS_CHANGED", NotifyConsumerIdsChangedRequest, one_way=True
)
# The body's form depends on the client: an array for C++, a map with object keys else.
RESET_CONSUMER_CLIENT_OFFSET = client(
    "RESET_CONSUMER_CLIENT_OFFSET",
    ResetOffsetRequest,
    request_body=ResetOffsetBody,
    one_way=True,
)
GET_CONSUMER_STATUS_FROM_CLIENT = client(
    "GET_CONSUMER_STATUS_FROM_CLIENT", GetConsumerStatusRequest, reply_body=GetConsumerStatusBody
)
# Tools invoke the broker, which invokes the consumer and forwards its answer.
GET_CONSUMER_RUNNING_INFO = broker_or_client(
    "GET_CONSUMER_RUNNING_INFO", GetConsumerRunningInfoRequest, reply_body=ConsumerRunningInfo
)
CONSUME_MESSAGE_DIRECTLY = broker_or_client(
    "CONSUME_MESSAGE_DIRECTLY",
    ConsumeMessageDirectlyRequest,
    request_body=bytes,
    reply_body=ConsumeMessageDirectlyResult,
)

"""Calls of producers and consumers, and the requests of brokers to them.

Sending, replies, sending back, ending transactions; pulling, offsets, membership; popping and
acknowledging, which came with 5.0.
"""

from __future__ import annotations

from rocketmq_emulator.protocol.bodies.groups import (
    CheckClientRequestBody,
    ConsumerConnection,
    GetConsumerListByGroupReply,
    HeartbeatData,
    LockBatchReply,
    LockBatchRequestBody,
)
from rocketmq_emulator.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketmq_emulator.protocol.bodies.running import (
    BatchAckMessageRequestBody,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
)
from rocketmq_emulator.protocol.requests.groups import (
    CheckTransactionStateRequest,
    ConsumeMessageDirectlyRequest,
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    HeartbeatReply,
    NotifyConsumerIdsChangedRequest,
    ReplyMessageRequest,
    UnregisterClientRequest,
)
from rocketmq_emulator.protocol.requests.offsets import (
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
from rocketmq_emulator.protocol.requests.pulling import (
    AckMessageRequest,
    ChangeInvisibleTimeReply,
    ChangeInvisibleTimeRequest,
    NotificationReply,
    NotificationRequest,
    PeekMessageRequest,
    PollingInfoReply,
    PollingInfoRequest,
    PopMessageReply,
    PopMessageRequest,
    PullMessageReply,
    PullMessageRequest,
    QueryMessageReply,
    QueryMessageRequest,
    ViewMessageRequest,
)
from rocketmq_emulator.protocol.requests.sending import (
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    RecallMessageReply,
    RecallMessageRequest,
    SendMessageReply,
    SendMessageRequest,
    SendMessageRequestV2,
)
from rocketmq_emulator.protocol.rpc import broker, broker_or_client, client
from rocketmq_emulator.protocol.versions import BATCH_ACK_KNOWN, R_5_0_0, RECALL_KNOWN

# Producing ----------------------------------------------------------------------------


SEND_MESSAGE = broker("SEND_MESSAGE", SendMessageRequest, SendMessageReply, request_body=bytes)
SEND_MESSAGE_V2 = broker(
    "SEND_MESSAGE_V2", SendMessageRequestV2, SendMessageReply, request_body=bytes
)
SEND_BATCH_MESSAGE = broker(
    "SEND_BATCH_MESSAGE", SendMessageRequestV2, SendMessageReply, request_body=bytes
)
SEND_REPLY_MESSAGE = broker(
    "SEND_REPLY_MESSAGE", SendMessageRequest, SendMessageReply, request_body=bytes
)
SEND_REPLY_MESSAGE_V2 = broker(
    "SEND_REPLY_MESSAGE_V2", SendMessageRequestV2, SendMessageReply, request_body=bytes
)
PUSH_REPLY_MESSAGE_TO_CLIENT = client(
    "PUSH_REPLY_MESSAGE_TO_CLIENT", ReplyMessageRequest, request_body=bytes
)
CONSUMER_SEND_MSG_BACK = broker("CONSUMER_SEND_MSG_BACK", ConsumerSendMsgBackRequest)
END_TRANSACTION = broker("END_TRANSACTION", EndTransactionRequest, one_way=True)
CHECK_TRANSACTION_STATE = client(
    "CHECK_TRANSACTION_STATE", CheckTransactionStateRequest, request_body=bytes, one_way=True
)
RECALL_MESSAGE = broker(
    "RECALL_MESSAGE", RecallMessageRequest, RecallMessageReply, since=RECALL_KNOWN
)


# Consuming ----------------------------------------------------------------------------


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


# Popping and acknowledging ------------------------------------------------------------


POP_MESSAGE = broker(
    "POP_MESSAGE", PopMessageRequest, PopMessageReply, reply_body=bytes, since=R_5_0_0
)
PEEK_MESSAGE = broker(
    "PEEK_MESSAGE", PeekMessageRequest, PopMessageReply, reply_body=bytes, since=R_5_0_0
)
ACK_MESSAGE = broker("ACK_MESSAGE", AckMessageRequest, since=R_5_0_0)
BATCH_ACK_MESSAGE = broker(
    "BATCH_ACK_MESSAGE", request_body=BatchAckMessageRequestBody, since=BATCH_ACK_KNOWN
)
CHANGE_MESSAGE_INVISIBLETIME = broker(
    "CHANGE_MESSAGE_INVISIBLETIME",
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeReply,
    since=R_5_0_0,
)
NOTIFICATION = broker("NOTIFICATION", NotificationRequest, NotificationReply, since=R_5_0_0)
POLLING_INFO = broker("POLLING_INFO", PollingInfoRequest, PollingInfoReply, since=R_5_0_0)

"""Sending, answering, sending back, ending transactions."""

from __future__ import annotations

from protocol.catalog.page import broker, client
from protocol.requests.callbacks import CheckTransactionStateRequest, ReplyMessageRequest
from protocol.requests.sending import (
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    RecallMessageReply,
    RecallMessageRequest,
    SendMessageReply,
    SendMessageRequest,
    SendMessageRequestV2,
)
from protocol.versions import RECALL_KNOWN

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

"""Popping and acknowledging, which came with 5.0."""

from __future__ import annotations

from protocol.bodies.running import BatchAckMessageRequestBody
from protocol.catalog.page import FIVE, broker
from protocol.requests.pop import (
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
)

POP_MESSAGE = broker(
    "POP_MESSAGE", PopMessageRequest, PopMessageReply, reply_body=bytes, since=FIVE
)
PEEK_MESSAGE = broker(
    "PEEK_MESSAGE", PeekMessageRequest, PopMessageReply, reply_body=bytes, since=FIVE
)
ACK_MESSAGE = broker("ACK_MESSAGE", AckMessageRequest, since=FIVE)
BATCH_ACK_MESSAGE = broker(
    "BATCH_ACK_MESSAGE", request_body=BatchAckMessageRequestBody, since=FIVE
)
CHANGE_MESSAGE_INVISIBLETIME = broker(
    "CHANGE_MESSAGE_INVISIBLETIME",
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeReply,
    since=FIVE,
)
NOTIFICATION = broker("NOTIFICATION", NotificationRequest, NotificationReply, since=FIVE)
POLLING_INFO = broker("POLLING_INFO", PollingInfoRequest, PollingInfoReply, since=FIVE)

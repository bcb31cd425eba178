"""Popping and acknowledging, which came with 5.0."""

from __future__ import annotations

from protocol.bodies.running import BatchAckMessageRequestBody
from protocol.catalog.page import broker
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
from protocol.versions import BATCH_ACK_KNOWN, R_5_0_0

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

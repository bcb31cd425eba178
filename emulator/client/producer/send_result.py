"""What one attempt of a send may come to, and what a broker's answer says."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from emulator.net.errors import NoAnswer, RemoteError
from protocol.codes import ResponseCode
from protocol.fields import BadFields
from protocol.names import DEFAULT_REGION
from protocol.queues import MessageQueue
from protocol.requests.sending import SendMessageReply

if TYPE_CHECKING:
    from protocol.command import RemotingCommand


class SendStatus(Enum):
    """Stored, and how safely.  Upstream: SendStatus."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_OF_CODE = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True):
    """``msg_id`` is the unique key made here, ``offset_msg_id`` the broker's own id.

    Of a batch both are lists joined by commas, and ``queue_offset`` is its first message's.
    Upstream: SendResult.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = ""
    trace_on: bool = True

    @property
    def is_ok(self) -> bool:
        return self.status is SendStatus.SEND_OK


class Refused(msgspec.Struct, frozen=True):
    """A broker answered with an error code."""

    code: int
    remark: str


class NoMaster(msgspec.Struct, frozen=True):
    """No route leads to a master of that name."""

    broker: str


Outcome: TypeAlias = SendResult | Refused | NoMaster | RemoteError


def read_reply(
    reply: RemotingCommand, asked: MessageQueue, msg_id: str
) -> SendResult | Refused | NoAnswer:
    """What a broker's *reply* to a send means.

    Upstream: MQClientAPIImpl.processSendResponse.
    """
    if (status := STATUS_OF_CODE.get(reply.code)) is None:
        return Refused(reply.code, reply.remark or "")
    try:
        said = reply.decode(SendMessageReply)
    except BadFields as error:
        return NoAnswer(
            asked.broker_name, f"stored perhaps, but the answer is unreadable: {error}"
        )
    return SendResult(
        status=status,
        msg_id=msg_id,
        offset_msg_id=said.msg_id,
        queue=MessageQueue(asked.topic, asked.broker_name, said.queue_id),
        queue_offset=said.queue_offset,
        transaction_id=said.transaction_id,
        region_id=said.region_id or DEFAULT_REGION,
        trace_on=said.trace_on != "false",
    )

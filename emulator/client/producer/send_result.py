"""The outcomes of one attempt of a send, and the error that a send ends with.

Upstream: MQClientAPIImpl.processSendResponse, DefaultMQProducer.retryResponseCodes,
DefaultMQProducerImpl.sendDefaultImpl (its exceptions).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from emulator.client.errors import (
    BrokerRefused,
    ClientErrorCode,
    MaybeStored,
    NotStored,
    SendError,
)
from emulator.net.errors import NeverSent, NoAnswer, RemoteError, TimedOut
from emulator.releases import BUSY_IS_RETRYABLE, GO_AWAY_IS_RETRYABLE, Release
from protocol.codes import ResponseCode, response_name
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
RETRYABLE_CODES = frozenset(  # in every release; is_retryable knows two more
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """``msg_id`` is the unique key made here, ``offset_msg_id`` the broker's own id.

    Of a batch both are lists joined by commas, and ``queue_offset`` is its first message's.
    ``recall_handle`` is that of a message which waits for its time at a 5.3 broker.
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
    recall_handle: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether it is stored as safely as the broker is configured to."""
        return self.status is SendStatus.SEND_OK


class ErrorReply(msgspec.Struct, frozen=True):
    """A broker answered with an error code: it stored nothing."""

    code: int
    remark: str


class NoMaster(msgspec.Struct, frozen=True):
    """No route leads to a master of that name: nothing was sent."""

    broker: str


AttemptOutcome: TypeAlias = SendResult | ErrorReply | NoMaster | RemoteError


def read_reply(
    reply: RemotingCommand, queue: MessageQueue, msg_id: str
) -> SendResult | ErrorReply | NoAnswer:
    """What a broker's *reply* to a send into *queue* means.

    Upstream: MQClientAPIImpl.processSendResponse.
    """
    if (status := STATUS_OF_CODE.get(reply.code)) is None:
        return ErrorReply(reply.code, reply.remark or "")
    try:
        header = reply.decode(SendMessageReply)
    except BadFields as error:
        return NoAnswer(
            queue.broker_name, f"stored perhaps, but the answer is unreadable: {error}"
        )
    if header.queue_id != queue.queue_id:  # it was the broker that chose
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status=status,
        msg_id=msg_id,
        offset_msg_id=header.msg_id,
        queue=queue,
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region_id=header.region_id or DEFAULT_REGION,
        trace_on=header.trace_on != "false",
        recall_handle=header.recall_handle,
    )


def is_retryable(code: int, release: Release) -> bool:
    """Whether another broker is tried after an error reply with *code*.

    Upstream: DefaultMQProducer.retryResponseCodes.
    """
    if code == ResponseCode.SYSTEM_BUSY:
        return release >= BUSY_IS_RETRYABLE
    if code == ResponseCode.GO_AWAY:
        return release >= GO_AWAY_IS_RETRYABLE
    return code in RETRYABLE_CODES


def send_error(
    topic: str,
    brokers: Sequence[str],
    last: AttemptOutcome | None,
    took_ms: int,
    *,
    release: Release,
    maybe_stored: bool,
) -> SendError:
    """The error of a send that tried *brokers*; *last* is None if it ran out of time."""
    where = ", ".join(brokers) or "no broker"
    why = describe(last, release)
    attempts = f"{len(brokers)} attempt{'' if len(brokers) == 1 else 's'}"
    text = f"{topic}: {attempts} in {took_ms} ms at {where}: {why}"
    kind: type[SendError] = NotStored
    if maybe_stored:
        kind = MaybeStored
    elif isinstance(last, ErrorReply):
        kind = BrokerRefused
    return kind(text, code=_code_of(last), brokers=brokers, took_ms=took_ms)


def describe(outcome: AttemptOutcome | None, release: Release) -> str:
    """An outcome in words; None stands for a send that is out of time."""
    match outcome:
        case SendResult(status=status):
            return status.value
        case ErrorReply(code=code, remark=remark):
            return f"{response_name(code, release)}: {remark}"
        case NoMaster(broker=broker):
            return f"{broker} has no master"
        case None:
            return "the call is out of time"
    return str(outcome)


def _code_of(outcome: AttemptOutcome | None) -> int | None:
    """The number upstream would put into its exception."""
    match outcome:
        case ErrorReply(code=code):
            return code
        case NoMaster():
            return ClientErrorCode.BROKER_NOT_EXIST
        case NeverSent():
            return ClientErrorCode.CONNECT_BROKER
        case TimedOut() | None:
            return ClientErrorCode.ACCESS_BROKER_TIMEOUT
    return None

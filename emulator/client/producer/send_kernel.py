"""One attempt of a send: the address, the request, the reply, the outcome, and the facts.

The outcome of an attempt is a ``SendResult``, an ``ErrorReply``, ``NoMaster`` or a
``RemoteError``; ``send_error`` turns the last outcome into the error of the whole send.

Upstream: DefaultMQProducerImpl.sendKernelImpl, sendDefaultImpl (its exceptions);
MQClientAPIImpl.sendMessage, processSendResponse; DefaultMQProducer.retryResponseCodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.client.producer.fault_strategy import (
    AttemptEnding,
    MQFaultStrategy,
    fault_update,
)
from rocketmq_emulator.client.producer.outgoing_message import SendHeaders
from rocketmq_emulator.errors.call_errors import (
    BrokerRefused,
    ClientError,
    ClientErrorCode,
    MaybeStored,
    NeverSent,
    NoAnswer,
    NoBrokerAnswered,
    RemoteError,
    RequesterGone,
    SendError,
    TimedOut,
)
from rocketmq_emulator.facts import HalfMessageSent, MessageSent, Queue, SendAttempted, SendFailed
from rocketmq_emulator.protocol.catalog import (
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE_V2,
    SEND_REPLY_MESSAGE_V2,
)
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import transaction_type
from rocketmq_emulator.protocol.messages.names import DEFAULT_REGION
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.sending import SendMessageReply
from rocketmq_emulator.settings.releases import BUSY_IS_RETRYABLE, GO_AWAY_IS_RETRYABLE, Release
from rocketmq_emulator.text.values import vip_channel

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.producer.outgoing_message import OutgoingMessage
    from rocketmq_emulator.client.producer.publish_info import TopicPublishInfoTable
    from rocketmq_emulator.client.settings.config import ProducerConfig
    from rocketmq_emulator.net.remoting_client import OnDone
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
    from rocketmq_emulator.protocol.rpc import Rpc


if TYPE_CHECKING:
    # The ext fields, as encoded text.
    SendRequest: TypeAlias = tuple[Rpc[SendMessageRequestV2, SendMessageReply], msgspec.Raw]
    # Called with a message, the broker's address, the begin of the attempt and its result.
    OnAnswered: TypeAlias = "Callable[[OutgoingMessage, str, int, SendResult], None]"


NOT_STORED = "0"  # the id of a reply that was pushed and not stored
ONE_WAY = "ONE_WAY"  # the outcome of a one-way attempt, which has no reply


class SendKernel:
    """Makes single attempts, for every form of sending."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ProducerConfig,
        table: TopicPublishInfoTable,
        trace: OnAnswered | None = None,
    ) -> None:
        self.config = config
        self.table = table
        self.now_ms = instance.clock.now_ms
        self.strategy = MQFaultStrategy(
            config.rules,
            instance.rng,
            enabled=config.send_latency_fault_enable,
            note=instance.note,
            table=config.fault_table,
        )
        self._headers = SendHeaders(config)
        self._brokers = instance.brokers
        self._remoting = instance.remoting
        self._uniq_keys = instance.uniq_keys
        self._note = instance.note
        self._wants = instance.wants
        self._trace = trace

    def new_key(self) -> str:
        """A unique key for one message.  Upstream: MessageClientIDSetter.setUniqID."""
        return self._uniq_keys.make(self.now_ms())

    # Attempts -------------------------------------------------------------------------

    async def attempt(
        self, outgoing: OutgoingMessage, queue: MessageQueue, timeout_ms: int
    ) -> AttemptOutcome:
        """Send and wait for the reply.

        Errors of the network or the broker are returned as outcomes, not raised.
        """
        address = await self.find_address(queue)
        if address is None:
            return NoMaster(queue.broker_name)
        rpc, header = self.request(outgoing, queue, self.now_ms())
        try:
            reply = await self._remoting.invoke(
                address, rpc, header, outgoing.body, timeout_ms=timeout_ms
            )
        except RemoteError as error:
            return error
        return read_reply(reply, queue, outgoing)

    def attempt_async(
        self, address: str, request: SendRequest, body: bytes, timeout_ms: int, on_done: OnDone
    ) -> None:
        """Send; *on_done* is called once, with the reply or a ``RemoteError``."""
        self._remoting.invoke_async(
            address, *request, body, timeout_ms=timeout_ms, on_done=on_done
        )

    def send_oneway(
        self, outgoing: OutgoingMessage, queue: MessageQueue, address: str | None
    ) -> bool:
        """Send one-way; False, and nothing is sent, if there is no *address*."""
        began_ms = self.now_ms()
        if address is None:
            self.note_attempt(outgoing, queue, 1, began_ms, NoMaster(queue.broker_name))
            self.update_fault_item(queue.broker_name, AttemptEnding.NO_MASTER, 0)
            return False
        request = self.request(outgoing, queue, began_ms)
        self._remoting.send_oneway(address, *request, outgoing.body)
        self.note_attempt(outgoing, queue, 1, began_ms, ONE_WAY)
        self.update_fault_item(queue.broker_name, AttemptEnding.REQUEST_WRITTEN, 0)
        return True

    def request(self, outgoing: OutgoingMessage, queue: MessageQueue, born_ms: int) -> SendRequest:
        """The RPC and the encoded ext fields of a request."""
        rpc = SEND_MESSAGE_V2
        if outgoing.is_batch or outgoing.is_reply:
            rpc = SEND_BATCH_MESSAGE if outgoing.is_batch else SEND_REPLY_MESSAGE_V2
        return rpc, self._headers.text(outgoing, queue, born_ms)

    def address(self, broker: str) -> str | None:
        """The address of the master, or of its VIP channel; None if no route has a master."""
        address = self._brokers.to_publish(broker)
        if address is not None and self.config.vip_channel_enabled:
            return vip_channel(address)
        return address

    async def find_address(self, queue: MessageQueue) -> str | None:
        """Like ``address``, but queries the topic's route if none is known yet."""
        if (address := self.address(queue.broker_name)) is not None:
            return address
        try:
            await self.table.find(queue.topic)
        except ClientError:
            return None
        return self.address(queue.broker_name)

    # After an attempt -----------------------------------------------------------------

    def update_fault_item(self, broker: str, ending: AttemptEnding, latency_ms: int) -> None:
        """Record that an attempt at *broker* ended.  Upstream: updateFaultItem."""
        if not self.strategy.enabled:
            return
        config = self.config
        update = fault_update(ending, config.rules, detector=config.start_detector_enable)
        self.strategy.update(
            broker,
            latency_ms,
            self.now_ms(),
            isolate=update.isolate,
            reachable=update.reachable,
        )

    def note_attempt(
        self,
        outgoing: OutgoingMessage,
        queue: MessageQueue,
        attempt: int,
        began_ms: int,
        outcome: AttemptOutcome | str | None,
    ) -> None:
        """Note the end of the attempt that began at *began_ms*; None: no time was left for it."""
        if not self._wants(SendAttempted):
            return
        self._note(
            SendAttempted(
                outgoing.topic,
                _as_fact(queue),
                outgoing.uniq_keys[0],
                attempt,
                took_ms=self.now_ms() - began_ms,
                outcome=_outcome_text(outcome, self.config.rules),
            )
        )

    def trace(
        self,
        outgoing: OutgoingMessage,
        queue: MessageQueue,
        began_ms: int,
        outcome: AttemptOutcome,
    ) -> None:
        """Trace an attempt at *queue* that was answered, if the producer traces."""
        if self._trace is not None and isinstance(outcome, SendResult):
            store_host = self.address(queue.broker_name) or ""
            self._trace(outgoing, store_host, began_ms, outcome)

    def note_sent(
        self, outgoing: OutgoingMessage, result: SendResult, attempts: int, took_ms: int
    ) -> None:
        """Note a successful send: one fact for each message, also of a batch."""
        is_half = bool(transaction_type(outgoing.sys_flag))
        is_wanted = self._wants(HalfMessageSent if is_half else MessageSent)
        if not is_wanted or result.offset_msg_id == NOT_STORED:
            return
        queue, status = _as_fact(result.queue), result.status.value
        for place, key in enumerate(outgoing.uniq_keys):
            offset = result.queue_offset + place
            fields = outgoing.topic, queue, offset, key, attempts, took_ms, status
            self._note(HalfMessageSent(*fields) if is_half else MessageSent(*fields))

    def note_failed(self, outgoing: OutgoingMessage, error: SendError, attempts: int) -> None:
        """Note a failed send: one fact for each message, also of a batch."""
        text = f"{type(error).__name__}: {error}"
        for key in outgoing.uniq_keys:
            self._note(SendFailed(outgoing.topic, key, attempts, text, error.maybe_stored))


def _as_fact(queue: MessageQueue) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


def _outcome_text(outcome: AttemptOutcome | str | None, release: Release) -> str:
    match outcome:
        case str():
            return outcome
        case SendResult() | None:
            return describe(outcome, release)
    return f"{type(outcome).__name__}: {describe(outcome, release)}"


# Outcomes of an attempt ---------------------------------------------------------------


class SendStatus(Enum):
    """How safely a message is stored.  Upstream: SendStatus."""

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
RETRYABLE_CODES = frozenset(  # in every release; is_retryable has two more
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
    """``msg_id`` is the unique key made by the client, ``offset_msg_id`` the broker's id.

    For a batch both are lists joined by commas, and ``queue_offset`` is that of the first message.
    ``recall_handle`` is set for a timer message at a 5.3 broker.  Upstream: SendResult.
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
        """Whether the message is stored as safely as the broker's configuration requires."""
        return self.status is SendStatus.SEND_OK


class ErrorReply(msgspec.Struct, frozen=True):
    """A broker replied with an error code: it stored nothing."""

    code: int
    remark: str


class NotPushed(ErrorReply, frozen=True):
    """A broker could not push a reply to its requester; it may have stored the reply."""


class NoMaster(msgspec.Struct, frozen=True):
    """No route has a master of *broker*: nothing was sent."""

    broker: str


AttemptOutcome: TypeAlias = SendResult | ErrorReply | NoMaster | RemoteError


def read_reply(
    reply: RemotingCommand, queue: MessageQueue, outgoing: OutgoingMessage
) -> SendResult | ErrorReply | NoAnswer:
    """The outcome that a broker's *reply* to a send into *queue* means.

    Upstream: MQClientAPIImpl.processSendResponse.
    """
    if (status := STATUS_OF_CODE.get(reply.code)) is None:
        is_pushing = outgoing.is_reply and reply.code == ResponseCode.SYSTEM_ERROR
        return (NotPushed if is_pushing else ErrorReply)(reply.code, reply.remark or "")
    try:
        header = reply.decode(SendMessageReply)
    except BadFields as error:
        return NoAnswer(
            queue.broker_name, f"the message may be stored, the reply is unreadable: {error}"
        )
    if header.queue_id != queue.queue_id:  # the broker chose another queue
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status=status,
        msg_id=outgoing.msg_id,
        offset_msg_id=header.msg_id,
        queue=queue,
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region_id=header.region_id or DEFAULT_REGION,
        trace_on=header.trace_on != "false",
        recall_handle=header.recall_handle,
    )


def is_retryable(code: int, release: Release) -> bool:
    """Whether a send is retried at another broker after an error reply with *code*.

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
    """The error of a send that tried *brokers*; *last* is None if its time was over."""
    where = ", ".join(brokers) or "no broker"
    why = describe(last, release)
    attempts = f"{len(brokers)} attempt{'' if len(brokers) == 1 else 's'}"
    text = f"{topic}: {attempts} in {took_ms} ms at {where}: {why}"
    kind: type[SendError] = NoBrokerAnswered
    if isinstance(last, NotPushed):
        kind = RequesterGone
    elif maybe_stored:
        kind = MaybeStored
    elif isinstance(last, ErrorReply):
        kind = BrokerRefused
    return kind(text, code=_code_of(last), brokers=brokers, took_ms=took_ms)


def describe(outcome: AttemptOutcome | None, release: Release) -> str:
    """An outcome as text; None stands for a send whose time is over."""
    match outcome:
        case SendResult(status=status):
            return status.value
        case ErrorReply(code=code, remark=remark):
            name = response_name(code, release)
            return f"{name}: {remark}" if remark else name
        case NoMaster(broker=broker):
            return f"{broker} has no master"
        case None:
            return "the call is out of time"
    return str(outcome)


def _code_of(outcome: AttemptOutcome | None) -> int | None:
    """The code that upstream puts into its exception."""
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

"""The forms of sending: awaited with retries, to a chosen queue, in the background, one-way.

Each form combines ``outgoing_message``, which makes the parts of the request, with
``send_attempts``, whose attempts go through ``send_kernel``.  A timer message is recalled by one
call to the broker that its handle names.

Upstream: DefaultMQProducerImpl (recallMessage: 5.3.2), MQClientAPIImpl.recallMessage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.client.producer.fault_strategy import AttemptEnding
from rocketmq_emulator.client.producer.outgoing_message import (
    OutgoingMessage,
    prepare,
    prepare_batch,
)
from rocketmq_emulator.client.producer.publish_info import TopicPublishInfoTable
from rocketmq_emulator.client.producer.requests import RequestCallback, Requesting, RequestSender
from rocketmq_emulator.client.producer.send_attempts import AsyncSend, Callback, Sending, SyncSend
from rocketmq_emulator.client.producer.send_kernel import SendKernel
from rocketmq_emulator.client.producer.send_traces import SendTraces
from rocketmq_emulator.client.settings.config import ClientConfig, ProducerConfig
from rocketmq_emulator.errors.call_errors import (
    BadSelector,
    ClientErrorCode,
    MessageIllegal,
    NeverSent,
    NoBrokerAnswered,
    RecallRefused,
    RecallUnanswered,
    RemoteError,
    SendError,
    SendNotWritten,
    TooManySends,
)
from rocketmq_emulator.protocol.catalog import RECALL_MESSAGE
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.message_ids import BadHandle, RecallHandle, decode_handle
from rocketmq_emulator.protocol.messages.names import (
    CLIENT_INNER_PRODUCER_GROUP,
    DLQ_GROUP_TOPIC_PREFIX,
    is_retry_topic,
)
from rocketmq_emulator.protocol.messages.validation import client_refuses_topic
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.sending import RecallMessageReply, RecallMessageRequest
from rocketmq_emulator.settings.quirks import class_for

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.instance.interfaces import TransactionChecks
    from rocketmq_emulator.client.instance.tracing import TraceDispatcher
    from rocketmq_emulator.client.producer.publish_info import Selector, TopicPublishInfo
    from rocketmq_emulator.client.producer.send_kernel import SendResult
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt


class SendPipeline:
    """One producer group on an instance; applications use it through ``Producer``."""

    def __init__(
        self,
        instance: ClientInstance,
        config: ProducerConfig,
        dispatcher: TraceDispatcher | None = None,
    ) -> None:
        self.config = config
        self.group = config.group
        self.table = TopicPublishInfoTable(instance, config)
        self.traces = None if dispatcher is None else SendTraces(dispatcher)
        trace = None if self.traces is None else self.traces.sent
        self.kernel = SendKernel(instance, config, self.table, trace)
        self.instance = instance
        self.transaction_checks: TransactionChecks | None = None  # without: checks are ignored
        self._in_flight: dict[Sending, AsyncSend] = {}
        self.requests = RequestSender(self)
        self._async_send = class_for(AsyncSend, "producer", config.quirks)

    # As a member of the instance ------------------------------------------------------

    def topics(self) -> Sequence[str]:
        """All topics that were published; their routes are polled."""
        return self.table.topics()

    def needs_route(self, topic: str) -> bool:
        """Whether no queue of *topic* is known that can be written."""
        return self.table.needs_route(topic)

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        """Use *route* for sends that start from now on."""
        self.table.take_route(topic, route)

    # Awaited --------------------------------------------------------------------------

    async def send(
        self, message: Message, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Send, with retries at other brokers.

        Raises ``Misuse``, ``NotStored``, ``MaybeStored``.
        """
        outgoing = prepare(message, self.config, self.kernel.new_key)
        return await self._sync_send(outgoing, timeout_ms).send_with_retries(worker)

    async def send_batch(
        self, messages: Sequence[Message], timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Like ``send``, with all messages in one request."""
        outgoing = prepare_batch(messages, self.config, self.kernel.new_key)
        return await self._sync_send(outgoing, timeout_ms).send_with_retries(worker)

    async def send_to(
        self, message: Message, queue: MessageQueue, timeout_ms: int | None = None
    ) -> SendResult:
        """Send to *queue* with one attempt; the fault table is not changed."""
        outgoing = prepare(message, self.config, self.kernel.new_key)

        async def given() -> MessageQueue:
            return queue

        return await self._sync_send(outgoing, timeout_ms).send_to(given)

    async def send_to_selected(
        self, message: Message, selector: Selector, argument: object, timeout_ms: int | None = None
    ) -> SendResult:
        """Send with one attempt to the queue that *selector* returns.

        Raises ``BadSelector`` and the errors of ``send``.
        """
        outgoing = prepare(message, self.config, self.kernel.new_key)

        async def selected() -> MessageQueue:
            info = await self.table.find(outgoing.topic)
            return _selected(info, selector, message, argument)

        return await self._sync_send(outgoing, timeout_ms).send_to(selected)

    async def recall_message(self, topic: str, handle: str, timeout_ms: int | None = None) -> str:
        """Cancel the delivery of a timer message; returns its ``msg_id``.

        Raises ``MessageIllegal``, ``NoRoute``, ``NoNameServer``, ``RecallFailed``.
        """
        remoting, timeout_ms = self.instance.remoting, self._timeout_ms(timeout_ms)
        return await recall_message(self.kernel, remoting, topic, handle, timeout_ms=timeout_ms)

    async def request(
        self, message: Message, queue: MessageQueue | None, timeout_ms: int | None = None
    ) -> MessageExt:
        """Send, and wait for the reply of a consumer.

        Raises ``Misuse``, ``NotStored``, ``MaybeStored``, ``RequestUnanswered``.
        """
        return await self.requests.request(message, queue, self._timeout_ms(timeout_ms))

    # Not awaited ----------------------------------------------------------------------

    async def send_oneway(
        self, message: Message, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """Send with one attempt and without a reply.

        Raises ``Misuse``, ``NotStored``.
        """
        kernel = self.kernel
        outgoing = prepare(message, self.config, kernel.new_key)
        if queue is None:
            info = await self.table.find(outgoing.topic)
            queue = kernel.strategy.select(info, None, kernel.now_ms(), worker=worker)
        if not kernel.send_oneway(outgoing, queue, await kernel.find_address(queue)):
            text, code = f"{queue.broker_name} has no master", ClientErrorCode.BROKER_NOT_EXIST
            error = NoBrokerAnswered(text, code=code)
            kernel.note_failed(outgoing, error, 0)
            raise error

    def start_send(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> Sending:
        """Start a send in the background, retried after network failures only.

        Raises ``Misuse``, ``TooManySends``.
        """
        outgoing = prepare(message, self.config, self.kernel.new_key)
        if len(self._in_flight) >= self.config.async_sends_max:
            raise TooManySends(f"{len(self._in_flight)} sends are under way")
        sending, now_ms = Sending(callback), self.kernel.now_ms()

        def end(result: SendResult | SendError) -> None:
            del self._in_flight[sending]
            try:
                sending.end(result)
            except Exception as error:  # noqa: BLE001  # any error of the callback is noted
                self.instance.note(callback_raised(self.group, "callback", error))

        send = self._async_send(self.kernel, outgoing, self._timeout_ms(timeout_ms), end, now_ms)
        self._in_flight[sending] = send
        if queue is not None:
            self.instance.nursery.start_soon(self._launch_later, send, queue, worker)
        elif (info := self.table.known(outgoing.topic)) is not None:
            try:
                self._launch(send, info, worker, now_ms)
            except Exception:
                self._in_flight.pop(sending, None)  # only the caller gets the error
                raise
        else:
            self.instance.nursery.start_soon(self._launch_later, send, None, worker)
        return sending

    def start_request(
        self,
        message: Message,
        callback: RequestCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Requesting:
        """Start a request in the background.

        Raises ``Misuse``, ``TooManySends``.
        """
        wait_ms = self._timeout_ms(timeout_ms)
        return self.requests.start_request(message, callback, queue, wait_ms)

    def close(self) -> None:
        """End all background sends and requests.

        Callbacks get ``MaybeStored`` or ``NotStored``; of a stored request ``RequestUnanswered``.
        """
        for send in list(self._in_flight.values()):
            send.abandon()
        self.requests.close()

    # Inside ---------------------------------------------------------------------------

    def _sync_send(self, outgoing: OutgoingMessage, timeout_ms: int | None) -> SyncSend:
        return SyncSend(self.kernel, outgoing, self._timeout_ms(timeout_ms))

    def _timeout_ms(self, given_ms: int | None) -> int:
        return self.config.send_timeout_ms if given_ms is None else given_ms

    def _launch(self, send: AsyncSend, info: TopicPublishInfo, worker: int, now_ms: int) -> None:
        send.info = info
        kernel = self.kernel
        queue = kernel.strategy.select(info, None, now_ms, worker=worker)
        address = kernel.address(queue.broker_name)
        send.launch(queue, address, now_ms)
        ending = AttemptEnding.NO_MASTER if address is None else AttemptEnding.REQUEST_WRITTEN
        kernel.update_fault_item(queue.broker_name, ending, 0)

    async def _launch_later(
        self, send: AsyncSend, queue: MessageQueue | None, worker: int
    ) -> None:
        """Find a queue and launch *send*; any error ends only this send."""
        kernel = self.kernel
        try:
            if queue is None:
                info = await self.table.find(send.topic)
                self._launch(send, info, worker, kernel.now_ms())
            else:
                address = await kernel.find_address(queue)
                send.launch(queue, address, kernel.now_ms())
        except SendError as error:
            send.fail(error)
        except Exception as error:  # noqa: BLE001
            send.fail(SendNotWritten(f"{send.topic}: {error!r}"))


def inner_producer(instance: ClientInstance) -> SendPipeline:
    """The inner producer of *instance*, with the instance's settings, otherwise defaults.

    Upstream: MQClientInstance.defaultMQProducer.
    """
    shared = {name: getattr(instance.config, name) for name in ClientConfig.__struct_fields__}
    return SendPipeline(
        instance, ProducerConfig(**{**shared, "group": CLIENT_INNER_PRODUCER_GROUP})
    )


TRACE_SEND_MS_MAX = 5_000  # AsyncTraceDispatcher.sendTraceDataByMQ
TRACE_BYTES_MAX = 128_000  # maxMsgSize
TRACE_SENDS_MAX = 2_048  # appenderQueue


def trace_producer(instance: ClientInstance, group: str) -> SendPipeline:
    """A producer of trace messages.  Upstream: AsyncTraceDispatcher.getAndCreateTraceProducer."""
    shared = {name: getattr(instance.config, name) for name in ClientConfig.__struct_fields__}
    own = {
        "group": group,
        "send_timeout_ms": TRACE_SEND_MS_MAX,
        "message_bytes_max": TRACE_BYTES_MAX,
        "async_sends_max": TRACE_SENDS_MAX,
    }
    return SendPipeline(instance, ProducerConfig(**{**shared, **own}))


def _selected(
    info: TopicPublishInfo, selector: Selector, message: Message, argument: object
) -> MessageQueue:
    try:
        queue = selector(tuple(info.queues), message, argument)
    except Exception as error:
        raise BadSelector(f"the queue selector failed: {error!r}") from error
    if not isinstance(queue, MessageQueue):
        raise BadSelector(f"the queue selector returned {queue!r}, which is no MessageQueue")
    return queue


# Recalling a timer message ------------------------------------------------------------


async def recall_message(
    kernel: SendKernel, remoting: RemotingClient, topic: str, text: str, *, timeout_ms: int
) -> str:
    """Send one RECALL_MESSAGE; returns the ``msg_id`` of the message.

    Raises ``MessageIllegal``, ``RecallFailed``, and the errors of a route query.
    """
    handle = _checked(topic, text)
    info = await kernel.table.find(topic)
    address = kernel.address(handle.broker_name) or kernel.address(info.queues[0].broker_name)
    if address is None:
        code = ClientErrorCode.BROKER_NOT_EXIST
        raise RecallUnanswered(f"{handle.broker_name} has no master", code=code)
    request = RecallMessageRequest(
        topic=topic,
        recall_handle=text,
        producer_group=kernel.config.group,
        bname=handle.broker_name,
    )
    try:
        reply = await remoting.invoke(address, RECALL_MESSAGE, request, timeout_ms=timeout_ms)
        if reply.code == ResponseCode.SUCCESS:
            return reply.decode(RecallMessageReply).msg_id
    except NeverSent as error:
        raise RecallUnanswered(str(error), code=ClientErrorCode.CONNECT_BROKER) from error
    except (RemoteError, BadFields) as error:
        raise RecallUnanswered(str(error), maybe_recalled=True) from error
    name = response_name(reply.code, kernel.config.rules)
    raise RecallRefused(f"{handle.broker_name}: {name}: {reply.remark}", code=reply.code)


def _checked(topic: str, text: str) -> RecallHandle:
    if (complaint := client_refuses_topic(topic)) is not None:
        raise MessageIllegal(complaint)
    if is_retry_topic(topic) or topic.startswith(DLQ_GROUP_TOPIC_PREFIX):
        raise MessageIllegal("topic is not supported")
    try:
        return decode_handle(text)
    except BadHandle as error:
        raise MessageIllegal(str(error)) from error

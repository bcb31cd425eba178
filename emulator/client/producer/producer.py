"""The producer, for applications.

    async with Producer(namesrv="127.0.0.1:9876", group="orders") as producer:
        result = await producer.send(Message("orders", b"one more"))

A send either returns where the message was stored, or raises an error whose class shows whether
the message may be stored (see ``errors``).

With ``start_detector_enable`` the producer probes brokers that failed: a successful probe marks
the broker reachable.  A probe never marks a broker unreachable and never ends an isolation.
Upstream: DefaultMQProducer, LatencyFaultToleranceImpl.startDetector,
MQClientAPIImpl.getMaxOffset as ServiceDetector.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

import trio

from rocketmq_emulator.client.instance.process import ClientProcess, check_process, note_left
from rocketmq_emulator.client.instance.tracing import start_tracing
from rocketmq_emulator.client.producer.requests import create_reply_message
from rocketmq_emulator.client.producer.send_pipeline import SendPipeline
from rocketmq_emulator.client.settings.arguments import (
    check_background_send,
    check_message,
    check_plain_function,
    check_queue,
    check_request,
    check_text,
    check_timing,
    messages_of,
)
from rocketmq_emulator.client.settings.config import ProducerConfig, merged_config
from rocketmq_emulator.errors.call_errors import (
    MessageIllegal,
    NotRunning,
    RemoteError,
    SendError,
    check_not_running,
    refuse_sync_with,
)
from rocketmq_emulator.protocol.catalog import GET_MAX_OFFSET
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.names import DEFAULT_PRODUCER_GROUP
from rocketmq_emulator.protocol.messages.validation import (
    client_refuses_group,
    client_refuses_topic,
)
from rocketmq_emulator.protocol.requests.offsets import GetMaxOffsetRequest
from rocketmq_emulator.settings.releases import DETECTOR_EXISTS, START_QUERIES_ROUTES

if TYPE_CHECKING:
    from types import TracebackType

    from rocketmq_emulator.client.instance.instance import ClientInstance
    from rocketmq_emulator.client.producer.publish_info import Selector
    from rocketmq_emulator.client.producer.requests import RequestCallback, Requesting
    from rocketmq_emulator.client.producer.send_attempts import Callback, Sending
    from rocketmq_emulator.client.producer.send_kernel import SendResult
    from rocketmq_emulator.protocol.messages.message import Message, MessageExt
    from rocketmq_emulator.protocol.queues import MessageQueue


class Producer:
    """Sends messages of one producer group.

    Settings are those of ``ProducerConfig``: pass a *config*, or single fields by name.
    Without a *process* it makes its own, with TCP and this machine's clock.
    Upstream: DefaultMQProducer.
    """

    _CONFIG_TYPE: ClassVar[type[ProducerConfig]] = ProducerConfig

    def __init__(
        self,
        config: ProducerConfig | None = None,
        *,
        process: ClientProcess | None = None,
        **settings: object,
    ) -> None:
        self.config = merged_config(self._CONFIG_TYPE, config, settings)
        _check_group(self.config.group)
        check_process(process)
        self._process = process
        self._stack = AsyncExitStack()
        self._pipeline: SendPipeline | None = None

    # From start to end ----------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start.  Raises ``GroupTaken`` if the instance already has a producer of this group."""
        check_not_running(self._pipeline, "producer")
        async with AsyncExitStack() as stack:
            process = self._process
            if process is None:
                process = await stack.enter_async_context(ClientProcess())
            instance = await process.instance(self.config)
            stack.callback(process.release, instance)
            group = self.config.group
            dispatcher = await start_tracing(stack, process, self.config, group, "PRODUCE")
            pipeline = SendPipeline(instance, self.config, dispatcher)
            await self._prepare(process, pipeline, stack)
            instance.register_producer(pipeline)
            stack.push_async_callback(instance.unregister_producer, group)
            stack.callback(pipeline.close)
            if self._detects:
                instance.nursery.start_soon(probe_brokers, pipeline, instance)
            if self.config.rules >= START_QUERIES_ROUTES:
                await self._query_routes(pipeline)
            await instance.heartbeats.send_round()
            instance.requests.start_sweeps(trio.current_time())
            self._pipeline = pipeline
            self._stack = stack.pop_all()
        return self

    __enter__ = refuse_sync_with
    __exit__ = refuse_sync_with

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """End unfinished background sends with an error; then unregister at every broker.

        When cancelled it sends nothing, like a killed process.
        """
        note_left(error)
        self._pipeline = None
        return await self._stack.__aexit__(kind, error, traceback)

    @property
    def instance(self) -> ClientInstance:
        """The client instance that it uses.  Raises ``NotRunning`` outside of the block."""
        return self.pipeline.instance

    @property
    def pipeline(self) -> SendPipeline:
        """The parts of the running producer.  Raises ``NotRunning`` outside of the block."""
        if self._pipeline is None:
            raise NotRunning("a producer is used inside its `async with` only")
        return self._pipeline

    # Sending --------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> SendResult:
        """Send *message*; failed attempts are retried at other brokers.

        With a *queue* there is one attempt, at this queue.  *timeout_ms* is for all attempts
        together.  Each *worker* has its own round robin, like upstream's threads.
        Raises ``Misuse``, ``NotStored``, ``MaybeStored``.
        """
        check_timing(timeout_ms, worker)
        check_message(message)
        if queue is not None:
            check_queue(queue, message.topic)
            return await self.pipeline.send_to(message, queue, timeout_ms)
        return await self.pipeline.send(message, timeout_ms, worker)

    async def send_to_selected(
        self,
        message: Message,
        selector: Selector,
        argument: object = None,
        *,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send with one attempt, to the queue of ``selector(queues, message, argument)``.

        Raises ``BadSelector`` if *selector* raises or returns no queue, and the errors of
        ``send``.
        """
        check_timing(timeout_ms)
        check_message(message)
        check_plain_function("selector", selector, takes="queues, message, argument")
        return await self.pipeline.send_to_selected(message, selector, argument, timeout_ms)

    async def send_batch(
        self, messages: Iterable[Message], *, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Send several messages of one topic to one queue, in one request.

        Raises the errors of ``send``; ``MessageIllegal`` if the messages cannot form a batch.
        """
        check_timing(timeout_ms, worker)
        batch = messages_of(messages)
        for message in batch:
            check_message(message)
        return await self.pipeline.send_batch(batch, timeout_ms, worker)

    async def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """Send with one attempt and without a reply: the message may be lost.

        Raises ``Misuse``; ``NotStored`` if no broker is known for it.
        """
        check_timing(None, worker)
        check_message(message)
        if queue is not None:
            check_queue(queue, message.topic)
        await self.pipeline.send_oneway(message, queue, worker)

    def start_send(
        self,
        message: Message,
        callback: Callback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        worker: int = 0,
    ) -> Sending:
        """Start a send in the background; ``await sending.wait_sent()`` returns its result.

        *callback* gets the result or the ``SendError``; it must neither wait nor raise.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, worker)
        return self.pipeline.start_send(
            message, callback, queue=queue, timeout_ms=timeout_ms, worker=worker
        )

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> MessageExt:
        """Send *message* as a request; returns the reply of a consumer (``reply_to``).

        *timeout_ms* is for the send and the reply together.
        Raises ``Misuse``, ``NotStored``, ``MaybeStored``; ``RequestUnanswered``, which has the
        place of the request, if no reply comes in time.  Upstream: DefaultMQProducer.request.
        """
        check_background_send(message, None, queue, timeout_ms, 0)
        return await self.pipeline.request(message, queue, timeout_ms)

    def start_request(
        self,
        message: Message,
        callback: RequestCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Requesting:
        """Start a request in the background; ``await requesting.wait_reply()`` returns the reply.

        *callback* gets the reply, the ``SendError`` or ``RequestUnanswered``, the last up to a
        second late; it must neither wait nor raise.
        Raises ``Misuse``; ``TooManySends`` above ``async_sends_max``.
        """
        check_background_send(message, callback, queue, timeout_ms, 0)
        return self.pipeline.start_request(message, callback, queue=queue, timeout_ms=timeout_ms)

    async def reply_to(
        self, request: MessageExt, body: bytes, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Send *body* as the reply to *request*, a consumed message.

        It returns when the requester has the reply.  Raises ``NotARequest`` for a message
        that is no request; ``RequesterGone`` if no broker that was tried could push the reply;
        the errors of ``send``.  Upstream: MessageUtil.createReplyMessage.
        """
        check_timing(timeout_ms)
        check_request(request)
        reply = create_reply_message(request, body)
        check_message(reply)
        return await self.pipeline.send(reply, timeout_ms)

    async def recall_message(
        self, topic: str, recall_handle: str, *, timeout_ms: int | None = None
    ) -> str:
        """Cancel the delivery of a timer message; returns its ``msg_id``.

        *recall_handle* is that of the message's ``SendResult``; brokers set it from 5.3.2 on.
        It also succeeds if the broker has no such message.
        Raises ``MessageIllegal`` for an invalid topic or handle; ``NoRoute``,
        ``NoNameServer``; ``RecallFailed``.  Upstream: DefaultMQProducer.recallMessage.
        """
        check_timing(timeout_ms)
        check_text("topic", topic)
        check_text("recall_handle", recall_handle)
        return await self.pipeline.recall_message(topic, recall_handle, timeout_ms)

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of *topic* that can be written now.

        Raises ``Misuse``, ``NoRoute``, ``NoNameServer``.

        Upstream: fetchPublishMessageQueues.
        """
        check_text("topic", topic)
        if (complaint := client_refuses_topic(topic)) is not None:
            raise MessageIllegal(complaint)
        return list((await self.pipeline.table.find(topic)).queues)

    # Inside ---------------------------------------------------------------------------

    async def _prepare(
        self, process: ClientProcess, pipeline: SendPipeline, stack: AsyncExitStack
    ) -> None:
        """Called before *pipeline* is registered; *stack* is closed at the end of the block."""

    async def _query_routes(self, pipeline: SendPipeline) -> None:
        """So that the first heartbeat reaches the brokers.  Upstream: initTopicRoute."""
        for topic in self.config.topics:
            with suppress(SendError):  # the route is polled, and queried again by a send
                await pipeline.table.find(topic)

    @property
    def _detects(self) -> bool:
        return self.config.start_detector_enable and self.config.rules >= DETECTOR_EXISTS


def _check_group(group: str) -> None:
    """Raise ``MessageIllegal`` for an invalid group name.

    Upstream: DefaultMQProducerImpl.checkConfig.
    """
    if (complaint := client_refuses_group(group)) is not None:
        raise MessageIllegal(complaint)
    if group == DEFAULT_PRODUCER_GROUP:
        raise MessageIllegal(f"producerGroup can not equal {DEFAULT_PRODUCER_GROUP}")


# Probing brokers that failed ----------------------------------------------------------


PROBE_INTERVAL_S = 3.0  # between rounds, and before the first round


async def probe_brokers(pipeline: SendPipeline, instance: ClientInstance) -> NoReturn:
    """Probe the brokers that are due every ``PROBE_INTERVAL_S``, until cancelled."""
    while True:
        await trio.sleep(PROBE_INTERVAL_S)
        await _probe_all(pipeline, instance)


async def _probe_all(pipeline: SendPipeline, instance: ClientInstance) -> None:
    faults, config = pipeline.kernel.strategy.faults, pipeline.config
    for broker in faults.due_for_check(instance.now_ms(), config.detect_interval_ms):
        address = instance.brokers.to_publish(broker)
        if address is None:
            faults.forget(broker)
        elif await _probe(pipeline, instance, address):
            faults.mark_reachable(broker)


async def _probe(pipeline: SendPipeline, instance: ClientInstance, address: str) -> bool:
    topic = next(iter(pipeline.topics()), "")  # any topic: only the reply's code matters
    header = GetMaxOffsetRequest(topic=topic, queue_id=0)
    try:
        reply = await instance.remoting.invoke(
            address, GET_MAX_OFFSET, header, timeout_ms=pipeline.config.detect_timeout_ms
        )
    except RemoteError:
        return False
    return reply.code == ResponseCode.SUCCESS

"""The forms of sending: awaited with retries, to a chosen queue, in the background, one-way.

What several attempts come to is decided in ``attempts`` and ``async_sends``; one attempt
is made in ``send_kernel``; here is which queue each form tries, and how often.

Upstream: DefaultMQProducerImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from emulator.client.config import ClientConfig, ProducerConfig
from emulator.client.errors import (
    BadSelector,
    ClientErrorCode,
    NotStored,
    SendError,
    TooManySends,
)
from emulator.client.producer.async_sends import AsyncSend, Callback, Sending
from emulator.client.producer.attempts import Attempts
from emulator.client.producer.fault_events import Ending
from emulator.client.producer.outgoing import Outgoing, prepare, prepare_batch
from emulator.client.producer.publish_table import PublishTable
from emulator.client.producer.send_kernel import SendKernel, ending_of
from protocol.names import CLIENT_INNER_PRODUCER_GROUP
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from emulator.client.instance.instance import ClientInstance
    from emulator.client.producer.selectors import Selector
    from emulator.client.producer.send_result import Outcome, SendResult
    from emulator.client.producer.topic_publish_info import TopicPublishInfo
    from protocol.bodies.routes import TopicRouteData
    from protocol.message import Message


class SendPipeline:
    """One producer group on an instance; ``Producer`` is its public face."""

    def __init__(self, instance: ClientInstance, config: ProducerConfig) -> None:
        self.config = config
        self.group = config.group
        self.table = PublishTable(instance, config)
        self.kernel = SendKernel(instance, config, self.table)
        self.instance = instance
        self._under_way: dict[Sending, AsyncSend] = {}

    # As a member of the instance ------------------------------------------------------

    def topics(self) -> Sequence[str]:
        return self.table.topics()

    def needs_route(self, topic: str) -> bool:
        return self.table.needs_route(topic)

    def take_route(self, topic: str, route: TopicRouteData) -> None:
        self.table.take_route(topic, route)

    # Awaited --------------------------------------------------------------------------

    async def send(
        self, message: Message, timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        """Retried at other brokers.  Raises ``Misuse``, ``NotStored``, ``MaybeStored``."""
        outgoing = prepare(message, self.config, self.kernel.new_key)
        return await self._send_anywhere(outgoing, timeout_ms, worker)

    async def send_batch(
        self, messages: Sequence[Message], timeout_ms: int | None = None, worker: int = 0
    ) -> SendResult:
        outgoing = prepare_batch(messages, self.config, self.kernel.new_key)
        return await self._send_anywhere(outgoing, timeout_ms, worker)

    async def send_to(
        self, message: Message, queue: MessageQueue, timeout_ms: int | None = None
    ) -> SendResult:
        """One attempt; nothing is learnt from it."""
        outgoing = prepare(message, self.config, self.kernel.new_key)
        attempts = self._attempts(outgoing, timeout_ms, count_max=1)

        async def once() -> None:
            await self._attempt(outgoing, attempts, queue)

        return await self._noted(outgoing, attempts, once)

    async def send_to_selected(
        self, message: Message, selector: Selector, argument: Any, timeout_ms: int | None = None
    ) -> SendResult:
        """One attempt, at the queue that *selector* picks.  Raises ``BadSelector`` too."""
        outgoing = prepare(message, self.config, self.kernel.new_key)
        attempts = self._attempts(outgoing, timeout_ms, count_max=1)

        async def once() -> None:
            info = await self.table.find(outgoing.topic)
            await self._attempt(outgoing, attempts, _selected(info, selector, message, argument))

        return await self._noted(outgoing, attempts, once)

    # Not awaited ----------------------------------------------------------------------

    async def send_one_way(
        self, message: Message, queue: MessageQueue | None = None, worker: int = 0
    ) -> None:
        """One attempt; once it has left, whether it arrives is nobody's to know.

        Raises ``Misuse``, ``NotStored``.
        """
        outgoing = prepare(message, self.config, self.kernel.new_key)
        if queue is None:
            info = await self.table.find(outgoing.topic)
            queue = self.kernel.strategy.select(info, None, self.kernel.now_ms(), worker=worker)
        broker, kernel = queue.broker_name, self.kernel
        if (address := await kernel.find_address(queue)) is not None:
            kernel.tell(outgoing, queue, address)
            kernel.learn(broker, Ending.HANDED_OVER, 0)
            return
        kernel.learn(broker, Ending.NO_MASTER, 0)
        error = NotStored(f"{broker} has no master", code=ClientErrorCode.BROKER_NOT_EXIST)
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
        """Retried after network failures only.  Raises ``Misuse``, ``TooManySends``."""
        outgoing = prepare(message, self.config, self.kernel.new_key)
        if len(self._under_way) >= self.config.async_sends_max:
            raise TooManySends(f"{len(self._under_way)} sends are under way")
        sending = Sending(callback)

        def end(result: SendResult | SendError) -> None:
            del self._under_way[sending]
            sending.end(result)

        send = AsyncSend(self.kernel, outgoing, self._timeout_ms(timeout_ms), end)
        self._under_way[sending] = send
        if queue is not None:
            self.instance.nursery.start_soon(self._launch_to, send, queue)
        elif (info := self.table.known(outgoing.topic)) is not None:
            self._launch(send, info, worker)
        else:
            self.instance.nursery.start_soon(self._launch_later, send, outgoing.topic, worker)
        return sending

    def close(self) -> None:
        """End the sends under way; their callbacks hear of it."""
        for send in list(self._under_way.values()):
            send.abandon()

    # Inside ---------------------------------------------------------------------------

    async def _send_anywhere(
        self, outgoing: Outgoing, timeout_ms: int | None, worker: int
    ) -> SendResult:
        count_max = 1 + self.config.sync_retries
        attempts = self._attempts(outgoing, timeout_ms, count_max)
        kernel = self.kernel

        async def until_over() -> None:
            info = await self.table.find(outgoing.topic)
            while not attempts.is_over:
                last = attempts.last_broker
                began_ms = kernel.now_ms()
                queue = kernel.strategy.select(
                    info, last, began_ms, worker=worker, sync_retry=last is not None
                )
                outcome = await self._attempt(outgoing, attempts, queue)
                if outcome is not None:
                    latency_ms = kernel.now_ms() - began_ms
                    kernel.learn(queue.broker_name, ending_of(outcome), latency_ms)

        return await self._noted(outgoing, attempts, until_over)

    async def _attempt(
        self, outgoing: Outgoing, attempts: Attempts, queue: MessageQueue
    ) -> Outcome | None:
        """None if there is no time left for it."""
        left_ms = attempts.time_left_ms(self.kernel.now_ms())
        if left_ms <= 0:
            return None
        outcome = await self.kernel.attempt(outgoing, queue, left_ms)
        attempts.heard(queue.broker_name, outcome)
        return outcome

    async def _noted(
        self, outgoing: Outgoing, attempts: Attempts, work: Callable[[], Awaitable[None]]
    ) -> SendResult:
        try:
            await work()
            result = attempts.result(self.kernel.now_ms())
        except SendError as error:
            self.kernel.note_failed(outgoing, error, len(attempts.brokers))
            raise
        took_ms = attempts.took_ms(self.kernel.now_ms())
        self.kernel.note_sent(outgoing, result, len(attempts.brokers), took_ms)
        return result

    def _attempts(self, outgoing: Outgoing, timeout_ms: int | None, count_max: int) -> Attempts:
        return Attempts(
            self.config,
            outgoing.topic,
            self.kernel.now_ms(),
            self._timeout_ms(timeout_ms),
            count_max,
        )

    def _timeout_ms(self, given_ms: int | None) -> int:
        return self.config.send_timeout_ms if given_ms is None else given_ms

    def _launch(self, send: AsyncSend, info: TopicPublishInfo, worker: int) -> None:
        send.info = info
        kernel = self.kernel
        queue = kernel.strategy.select(info, None, kernel.now_ms(), worker=worker)
        address = kernel.address(queue.broker_name)
        send.launch(queue, address)
        kernel.learn(
            queue.broker_name, Ending.NO_MASTER if address is None else Ending.HANDED_OVER, 0
        )

    async def _launch_later(self, send: AsyncSend, topic: str, worker: int) -> None:
        try:
            info = await self.table.find(topic)
        except SendError as error:
            send.fail(error)
        else:
            self._launch(send, info, worker)

    async def _launch_to(self, send: AsyncSend, queue: MessageQueue) -> None:
        send.launch(queue, await self.kernel.find_address(queue))


def inner_producer(instance: ClientInstance) -> SendPipeline:
    """The producer of *instance* itself, with its settings and the defaults of all others.

    Upstream: MQClientInstance.defaultMQProducer.
    """
    shared = {name: getattr(instance.config, name) for name in ClientConfig.__struct_fields__}
    return SendPipeline(
        instance, ProducerConfig(**{**shared, "group": CLIENT_INNER_PRODUCER_GROUP})
    )


def _selected(
    info: TopicPublishInfo, selector: Selector, message: Message, argument: Any
) -> MessageQueue:
    try:
        queue = selector(tuple(info.queues), message, argument)
    except Exception as error:
        raise BadSelector(f"the queue selector failed: {error!r}") from error
    if not isinstance(queue, MessageQueue):
        raise BadSelector(f"the queue selector chose {queue!r}")
    return queue

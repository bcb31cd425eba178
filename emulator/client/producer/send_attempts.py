"""The attempts of one send, until it succeeds or fails: awaited, or in the background.

The timeout is for the whole call.  A refused connection takes milliseconds and leaves time for
retries; a broker that hangs uses up the timeout, so by default an awaited send is *not* retried at
another broker after that.

A send in the background is retried after network failures; its callback is called once.  A retry
chooses a queue again but uses only its *broker*: the request, including the queue number, is sent
unchanged.  A send is not retried after an error reply.

Upstream: DefaultMQProducerImpl.sendDefaultImpl, sendSelectImpl; MQClientAPIImpl.sendMessageAsync,
onExceptionImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import trio

from rocketmq_emulator.client.producer.fault_strategy import AttemptEnding
from rocketmq_emulator.client.producer.send_kernel import (
    AttemptOutcome,
    ErrorReply,
    NoMaster,
    SendResult,
    is_retryable,
    read_reply,
    send_error,
)
from rocketmq_emulator.errors.call_errors import (
    MaybeStored,
    NoAnswer,
    RemoteError,
    SendError,
    SendNotWritten,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.producer.outgoing_message import OutgoingMessage
    from rocketmq_emulator.client.producer.publish_info import TopicPublishInfo
    from rocketmq_emulator.client.producer.send_kernel import SendKernel
    from rocketmq_emulator.client.settings.config import ProducerConfig
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.queues import MessageQueue


# Sends that are awaited ---------------------------------------------------------------


class SyncSend:
    """One awaited send; *timeout_ms* is for all its attempts."""

    def __init__(self, kernel: SendKernel, outgoing: OutgoingMessage, timeout_ms: int) -> None:
        self._kernel = kernel
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms
        self._began_ms = kernel.now_ms()

    async def send_with_retries(self, worker: int) -> SendResult:
        """Make attempts at queues that the strategy selects.  Raises ``SendError``."""
        config = self._kernel.config
        attempts = self._attempts(1 + config.sync_retries)
        return await self._run(attempts, lambda: self._try_brokers(attempts, worker))

    async def send_to(self, choose: Callable[[], Awaitable[MessageQueue]]) -> SendResult:
        """Make one attempt at the chosen queue; the fault table is not changed.

        Raises ``SendError``, and the errors of *choose*.
        """
        attempts = self._attempts(1)

        async def once() -> None:
            await self._attempt(attempts, await choose())

        return await self._run(attempts, once)

    # Inside ---------------------------------------------------------------------------

    async def _run(self, attempts: Attempts, work: Callable[[], Awaitable[None]]) -> SendResult:
        try:
            await work()
            result = attempts.result(self._kernel.now_ms())
        except SendError as error:
            self._kernel.note_failed(self._outgoing, error, len(attempts.brokers))
            raise
        took_ms = self._kernel.now_ms() - self._began_ms
        self._kernel.note_sent(self._outgoing, result, len(attempts.brokers), took_ms)
        return result

    async def _try_brokers(self, attempts: Attempts, worker: int) -> None:
        kernel = self._kernel
        info = await kernel.table.find(self._outgoing.topic)
        while not attempts.is_over:
            last = attempts.last_broker
            began_ms = kernel.now_ms()
            queue = kernel.strategy.select(
                info, last, began_ms, worker=worker, sync_retry=last is not None
            )
            outcome = await self._attempt(attempts, queue)
            if outcome is not None:
                latency_ms = kernel.now_ms() - began_ms
                kernel.update_fault_item(queue.broker_name, ending_of(outcome), latency_ms)

    async def _attempt(self, attempts: Attempts, queue: MessageQueue) -> AttemptOutcome | None:
        """Make one attempt; None if no time is left for it."""
        kernel = self._kernel
        began_ms = kernel.now_ms()
        left_ms = attempts.time_left_ms(began_ms)
        if left_ms <= 0:
            return None
        outcome = await kernel.attempt(self._outgoing, queue, left_ms)
        kernel.trace(self._outgoing, queue, began_ms, outcome)
        attempts.record(queue.broker_name, outcome)
        kernel.note_attempt(self._outgoing, queue, len(attempts.brokers), began_ms, outcome)
        return outcome

    def _attempts(self, count_max: int) -> Attempts:
        topic, began_ms = self._outgoing.topic, self._began_ms
        return Attempts(self._kernel.config, topic, began_ms, self._timeout_ms, count_max)


class Attempts:
    """The attempts of a send so far.

    Until ``is_over``: check ``time_left_ms``, make an attempt, and ``record`` it.
    """

    def __init__(
        self, config: ProducerConfig, topic: str, began_ms: int, timeout_ms: int, count_max: int
    ) -> None:
        self.brokers: list[str] = []
        self.maybe_stored = False
        self.is_over = False
        self._config = config
        self._release = config.rules
        self._topic = topic
        self._began_ms = began_ms
        self._timeout_ms = timeout_ms
        self._count_max = count_max
        self._result: SendResult | None = None
        self._last: AttemptOutcome | None = None
        self._out_of_time = False

    @property
    def last_broker(self) -> str | None:
        """The broker of the last attempt; None before the first attempt."""
        return self.brokers[-1] if self.brokers else None

    def time_left_ms(self, now_ms: int) -> int:
        """The timeout of the next attempt; 0 ends the send: the whole call's time is over."""
        left_ms = self._timeout_ms - (now_ms - self._began_ms)
        if left_ms <= 0:
            self._out_of_time = self.is_over = True
            return 0
        cap_ms = self._config.send_timeout_ms_per_attempt
        another_follows = len(self.brokers) + 1 < self._count_max
        return min(left_ms, cap_ms) if cap_ms >= 0 and another_follows else left_ms

    def record(self, broker: str, outcome: AttemptOutcome) -> None:
        """Record an attempt at *broker*; sets ``is_over`` unless another attempt follows."""
        self.brokers.append(broker)
        self._last = outcome
        if isinstance(outcome, SendResult):
            self._result = outcome
            retry = self._config.retry_another_broker_when_not_store_ok and not outcome.is_ok
        elif isinstance(outcome, ErrorReply):
            retry = is_retryable(outcome.code, self._release)
        else:
            retry = True
            self.maybe_stored |= isinstance(outcome, RemoteError) and not outcome.definite
        self.is_over = not retry or len(self.brokers) >= self._count_max

    def result(self, now_ms: int) -> SendResult:
        """The last ``SendResult``.  Raises ``SendError`` if there is none."""
        if self._result is not None:
            return self._result
        raise send_error(
            self._topic,
            self.brokers,
            None if self._out_of_time else self._last,
            now_ms - self._began_ms,
            release=self._release,
            maybe_stored=self.maybe_stored,
        )


def ending_of(outcome: AttemptOutcome) -> AttemptEnding:
    """The ending of a synchronous attempt, for the fault table."""
    if isinstance(outcome, SendResult):
        return AttemptEnding.ANSWERED
    if isinstance(outcome, ErrorReply):
        return AttemptEnding.ERROR_REPLY
    if isinstance(outcome, NoMaster):
        return AttemptEnding.NO_MASTER
    return AttemptEnding.REMOTE_ERROR


# Sends in the background --------------------------------------------------------------


Callback: TypeAlias = Callable[[SendResult | SendError], object]


class Sending:
    """A send in the background; ``result`` is set when it is over."""

    __slots__ = ("_callback", "_done", "result")

    def __init__(self, callback: Callback | None = None) -> None:
        self.result: SendResult | SendError | None = None
        self._callback = callback
        self._done: trio.Event | None = None  # made by wait_sent

    async def wait_sent(self) -> SendResult:
        """Wait for the end of the send; returns its result or raises its ``SendError``."""
        if self.result is None:
            self._done = self._done or trio.Event()
            await self._done.wait()
        else:
            await trio.lowlevel.checkpoint()
        if isinstance(self.result, SendError):
            raise self.result
        assert self.result is not None, "over without a result"
        return self.result

    def end(self, result: SendResult | SendError) -> None:
        """Set the result and call the callback; called once by the producer."""
        self.result = result
        if self._done is not None:
            self._done.set()
        if self._callback is not None:
            self._callback(result)


class AsyncSend:
    """The attempts of one send in the background; *end* is called once, with its result.

    ``info`` is None if the caller chose the queue: then retries go to the same broker.
    """

    __slots__ = (
        "_began_ms",
        "_brokers",
        "_end",
        "_is_over",
        "_kernel",
        "_launched_ms",
        "_maybe_stored",
        "_outgoing",
        "_queue",
        "_request",
        "_tried_ms",
        "_until_ms",
        "info",
    )

    def __init__(
        self,
        kernel: SendKernel,
        outgoing: OutgoingMessage,
        timeout_ms: int,
        end: Callback,
        began_ms: int,
    ) -> None:
        self.info: TopicPublishInfo | None = None
        self._kernel = kernel
        self._outgoing = outgoing
        self._end = end
        self._began_ms = began_ms
        self._until_ms = began_ms + timeout_ms
        self._brokers: list[str] = []
        self._maybe_stored = False
        self._is_over = False

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return self._outgoing.topic

    def launch(self, queue: MessageQueue, address: str | None, now_ms: int) -> None:
        """Make the first attempt; without an *address* the send fails."""
        if self._is_over:
            return
        self._queue = queue
        self._launched_ms = now_ms
        self._request = self._kernel.request(self._outgoing, queue, now_ms)
        self._try(queue.broker_name, address, now_ms)

    def fail(self, error: SendError) -> None:
        """End the send with *error*, unless it is over."""
        if self._is_over:
            return
        self._is_over = True
        self._kernel.note_failed(self._outgoing, error, len(self._brokers))
        self._end(error)

    def abandon(self) -> None:
        """End the send because the producer closes; a sent message may be stored."""
        if self._is_over:
            return
        kind = MaybeStored if self._brokers else SendNotWritten
        topic, why = self._outgoing.topic, "the producer was closed"
        if self._brokers:
            self._note_attempt(NoAnswer(self._brokers[-1], why))
        self.fail(kind(f"{topic}: {why}", brokers=self._brokers))

    # Inside ---------------------------------------------------------------------------

    def _try(self, broker: str, address: str | None, now_ms: int) -> None:
        self._brokers.append(broker)
        self._tried_ms = now_ms
        left_ms = self._until_ms - now_ms
        if address is None:
            self._end_attempt(NoMaster(broker))
        elif left_ms <= 0:
            self._end_attempt(None)
        else:
            body, on_done = self._outgoing.body, self._answered
            self._kernel.attempt_async(address, self._request, body, left_ms, on_done)

    def _answered(self, reply: RemotingCommand | RemoteError) -> None:
        if self._is_over:
            return
        broker = self._brokers[-1]
        now_ms = self._kernel.now_ms()
        latency_ms = now_ms - self._tried_ms
        match self._read(broker, reply):
            case SendResult() as result:
                self._kernel.update_fault_item(broker, AttemptEnding.ASYNC_ANSWERED, latency_ms)
                self._succeed(result, now_ms)
            case ErrorReply() as refused:
                self._kernel.update_fault_item(broker, AttemptEnding.ASYNC_ERROR_REPLY, latency_ms)
                self._end_attempt(refused)
            case RemoteError() as error:
                self._kernel.update_fault_item(
                    broker, AttemptEnding.ASYNC_REMOTE_ERROR, latency_ms
                )
                self._maybe_stored |= not error.definite
                self._try_again(error, now_ms)

    def _read(self, broker: str, reply: RemotingCommand | RemoteError) -> AttemptOutcome:
        if isinstance(reply, RemoteError):
            return reply
        return read_reply(reply, self._queue_at(broker), self._outgoing)

    def _try_again(self, error: RemoteError, now_ms: int) -> None:
        kernel = self._kernel
        if len(self._brokers) > kernel.config.async_retries or now_ms >= self._until_ms:
            self._end_attempt(error)
            return
        self._note_attempt(error)
        broker = self._brokers[-1]
        if self.info is not None:
            broker = kernel.strategy.select(self.info, broker, now_ms).broker_name
        self._try(broker, kernel.address(broker), now_ms)

    def _succeed(self, result: SendResult, now_ms: int) -> None:
        took_ms = now_ms - self._began_ms
        self._is_over = True
        self._note_attempt(result)
        self._kernel.trace(self._outgoing, self._queue, self._launched_ms, result)
        self._kernel.note_sent(self._outgoing, result, len(self._brokers), took_ms)
        self._end(result)

    def _end_attempt(self, last: AttemptOutcome | None) -> None:
        """End the send after a failed attempt; None: no time was left for it."""
        self._note_attempt(last)
        error = send_error(
            self._outgoing.topic,
            self._brokers,
            last,
            self._kernel.now_ms() - self._began_ms,
            release=self._kernel.config.rules,
            maybe_stored=self._maybe_stored,
        )
        self.fail(error)

    def _note_attempt(self, outcome: AttemptOutcome | None) -> None:
        brokers = self._brokers
        queue = self._queue_at(brokers[-1])
        self._kernel.note_attempt(self._outgoing, queue, len(brokers), self._tried_ms, outcome)

    def _queue_at(self, broker: str) -> MessageQueue:
        """The queue of *broker* with the queue number of the first attempt."""
        queue = self._queue
        if queue.broker_name == broker:
            return queue
        return msgspec.structs.replace(queue, broker_name=broker)

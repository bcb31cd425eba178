"""A send in the background: started at once, retried after network failures, reported once.

A retry takes only the *broker* from a new choice of queue; the request, its queue number
included, goes out again as it was.  A broker that answers with an error is not retried.

Upstream: MQClientAPIImpl.sendMessageAsync, onExceptionImpl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import trio

from emulator.client.errors import MaybeStored, NotStored, SendError
from emulator.client.producer.latency_faults import AttemptEnding
from emulator.client.producer.send_result import (
    AttemptOutcome,
    ErrorReply,
    NoMaster,
    SendResult,
    read_reply,
    send_error,
)
from emulator.net.errors import NoAnswer, RemoteError

if TYPE_CHECKING:
    from emulator.client.producer.outgoing_message import OutgoingMessage
    from emulator.client.producer.publish_info import TopicPublishInfo
    from emulator.client.producer.send_kernel import SendKernel
    from protocol.command import RemotingCommand
    from protocol.queues import MessageQueue

Callback: TypeAlias = Callable[[SendResult | SendError], object]


class Sending:
    """A send under way.  ``result`` is there once it is over."""

    __slots__ = ("_callback", "_over", "result")

    def __init__(self, callback: Callback | None = None) -> None:
        self.result: SendResult | SendError | None = None
        self._callback = callback
        self._over: trio.Event | None = None  # made for those who wait

    async def wait_sent(self) -> SendResult:
        """Where the message was stored.  Raises the ``SendError`` it ended with."""
        if self.result is None:
            self._over = self._over or trio.Event()
            await self._over.wait()
        else:
            await trio.lowlevel.checkpoint()
        if isinstance(self.result, SendError):
            raise self.result
        assert self.result is not None, "over without a result"
        return self.result

    def end(self, result: SendResult | SendError) -> None:
        """Called once by the producer, with what the send came to."""
        self.result = result
        if self._over is not None:
            self._over.set()
        if self._callback is not None:
            self._callback(result)


class AsyncSend:
    """The attempts of one such send.  *end* is called with what it came to, exactly once.

    Without an *info* the queue was given by the caller, and retries stay with its broker.
    """

    __slots__ = (
        "_began_ms",
        "_brokers",
        "_end",
        "_is_over",
        "_kernel",
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
        """The message's."""
        return self._outgoing.topic

    def launch(self, queue: MessageQueue, address: str | None, now_ms: int) -> None:
        """Make the first attempt; without an address it is the last one too."""
        if self._is_over:
            return
        self._queue = queue
        self._request = self._kernel.request(self._outgoing, queue, now_ms)
        self._try(queue.broker_name, address, now_ms)

    def fail(self, error: SendError) -> None:
        """End with *error*, unless it is over."""
        if self._is_over:
            return
        self._is_over = True
        self._kernel.note_failed(self._outgoing, error, len(self._brokers))
        self._end(error)

    def abandon(self) -> None:
        """The producer closes: what was sent may be stored, and its answer will not be read."""
        if self._is_over:
            return
        kind = MaybeStored if self._brokers else NotStored
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
        return read_reply(reply, self._queue_at(broker), self._outgoing.msg_id)

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
        self._kernel.note_sent(self._outgoing, result, len(self._brokers), took_ms)
        self._end(result)

    def _end_attempt(self, last: AttemptOutcome | None) -> None:
        """The last attempt failed; None: there was no time left for it."""
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
        """Retries go to other brokers with the number of the first queue."""
        queue = self._queue
        if queue.broker_name == broker:
            return queue
        return msgspec.structs.replace(queue, broker_name=broker)

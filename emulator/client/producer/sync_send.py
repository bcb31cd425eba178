"""A send that its caller waits for: one attempt after the other until one settles it.

The timeout is the budget of the whole call.  A refused connection costs milliseconds
and leaves time for the retries; a broker that hangs uses all of it, so by default the
send is *not* retried at another broker after that.

Upstream: DefaultMQProducerImpl.sendDefaultImpl, sendSelectImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from emulator.client.errors import SendError
from emulator.client.producer.latency_faults import AttemptEnding
from emulator.client.producer.send_result import (
    AttemptOutcome,
    ErrorReply,
    NoMaster,
    SendResult,
    is_retryable,
    send_error,
)
from emulator.net.errors import RemoteError

if TYPE_CHECKING:
    from emulator.client.config import ProducerConfig
    from emulator.client.producer.outgoing_message import OutgoingMessage
    from emulator.client.producer.send_kernel import SendKernel
    from protocol.queues import MessageQueue


class SyncSend:
    """One such send, with a budget of *timeout_ms*."""

    def __init__(self, kernel: SendKernel, outgoing: OutgoingMessage, timeout_ms: int) -> None:
        self._kernel = kernel
        self._outgoing = outgoing
        self._timeout_ms = timeout_ms
        self._began_ms = kernel.now_ms()

    async def send_anywhere(self, worker: int) -> SendResult:
        """Attempts at queues of the strategy's choice.  Raises ``SendError``."""
        config = self._kernel.config
        attempts = self._attempts(1 + config.sync_retries)
        return await self._run(attempts, lambda: self._try_brokers(attempts, worker))

    async def send_to(self, choose: Callable[[], Awaitable[MessageQueue]]) -> SendResult:
        """One attempt at the chosen queue; the fault table is left alone.

        Raises ``SendError``, and what *choose* raises.
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
        """None if there is no time left for it."""
        kernel = self._kernel
        began_ms = kernel.now_ms()
        left_ms = attempts.time_left_ms(began_ms)
        if left_ms <= 0:
            return None
        outcome = await kernel.attempt(self._outgoing, queue, left_ms)
        attempts.record(queue.broker_name, outcome)
        kernel.note_attempt(self._outgoing, queue, len(attempts.brokers), began_ms, outcome)
        return outcome

    def _attempts(self, count_max: int) -> Attempts:
        topic, began_ms = self._outgoing.topic, self._began_ms
        return Attempts(self._kernel.config, topic, began_ms, self._timeout_ms, count_max)


class Attempts:
    """What a send has tried: ask ``time_left_ms``, try, ``record``, until ``is_over``."""

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
        """That of the last attempt; None before the first."""
        return self.brokers[-1] if self.brokers else None

    def time_left_ms(self, now_ms: int) -> int:
        """For the next attempt; 0 when the whole call has no more, which ends it."""
        left_ms = self._timeout_ms - (now_ms - self._began_ms)
        if left_ms <= 0:
            self._out_of_time = self.is_over = True
            return 0
        cap_ms = self._config.send_timeout_ms_per_attempt
        another_follows = len(self.brokers) + 1 < self._count_max
        return min(left_ms, cap_ms) if cap_ms >= 0 and another_follows else left_ms

    def record(self, broker: str, outcome: AttemptOutcome) -> None:
        """An attempt at *broker* came to *outcome*; decides whether another one follows."""
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
        """The last result there was.  Raises ``SendError`` if there was none."""
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
    """What a synchronous attempt's outcome is to the fault table."""
    if isinstance(outcome, SendResult):
        return AttemptEnding.ANSWERED
    if isinstance(outcome, ErrorReply):
        return AttemptEnding.ERROR_REPLY
    if isinstance(outcome, NoMaster):
        return AttemptEnding.NO_MASTER
    return AttemptEnding.REMOTE_ERROR

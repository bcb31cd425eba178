"""Concurrent listeners: many batches at once, in any order, each acknowledged separately.

Failed messages are sent back, to be delivered again later.  Messages that could not be sent
back stay in the process queue, where they keep the committed offset from rising, and are
consumed again after five seconds.  If a queue is dropped while a batch runs, the listener
finishes the batch and its outcome is discarded.

Upstream: ConsumeMessageConcurrentlyService, ProcessQueue.cleanExpiredMsg.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import msgspec
import trio

from rocketmq_emulator.client.consumer.group.consume_traces import traced_outcome
from rocketmq_emulator.client.consumer.group.listeners import (
    ConsumeContext,
    ConsumeResult,
    restore_topic,
)
from rocketmq_emulator.client.consumer.group.process_queue import NOTHING_CACHED, ProcessQueue
from rocketmq_emulator.client.consumer.push.worker_pool import WorkerPool
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.protocol.messages.properties import CONSUME_START_TIME
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import SEND_BACK_IS_CHECKED

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.listeners import (
        ConsumptionFacts,
        ListenerInvoker,
        ListenerOutcome,
    )
    from rocketmq_emulator.client.consumer.group.member import PushMember
    from rocketmq_emulator.client.consumer.push.send_back import SendBack

LATER = ConsumeResult.RECONSUME_LATER
EXPIRED_IN_ONE_ROUND_MAX = 16  # ProcessQueue.cleanExpiredMsg
EXPIRED_DELAY_LEVEL = 3
MS_DIGITS_MAX = 19


class ConsumeRequest(msgspec.Struct, eq=False):
    """The messages of one call of the listener, and their queue."""

    messages: list[MessageExt]
    process_queue: ProcessQueue
    queue: MessageQueue


Done: TypeAlias = "tuple[ConsumeRequest, ListenerOutcome]"


class ConsumeConcurrently:
    """Calls one consumer's concurrent listener."""

    def __init__(
        self,
        member: PushMember,
        invoker: ListenerInvoker,
        facts: ConsumptionFacts,
        send_back: SendBack,
    ) -> None:
        self._member = member
        self._invoker = invoker
        self._facts = facts
        self._send_back = send_back
        # One run may call the listener several times; if every call must be noted, only once.
        notes_calls = facts.wants_given or member.traces is not None
        plain_calls = None if notes_calls else invoker.plain_calls
        self._plain_calls = plain_calls
        work = self._consume if plain_calls is None else self._consume_batches
        self.pool: WorkerPool[ConsumeRequest] = WorkerPool(member.config.consume_threads_max, work)

    def start(self, workers: trio.Nursery) -> None:
        """Run listeners in *workers*, and the search for expired messages too."""
        self.pool.open(workers)
        workers.start_soon(ExpiredMessages(self._member, self._send_back).run)

    def submit(
        self,
        messages: list[MessageExt],
        process_queue: ProcessQueue,
        queue: MessageQueue,
        _wake: bool = False,
    ) -> None:
        """Split pulled messages into batches and queue them for the workers."""
        size = self._member.config.consume_batch_max
        for start in range(0, len(messages), size):
            self.pool.submit(ConsumeRequest(messages[start : start + size], process_queue, queue))

    # Calling the listener -------------------------------------------------------------

    async def _consume(self, batch: ConsumeRequest) -> None:
        began_ms = self._member.now_ms()
        if (context := self._begin(batch, began_ms)) is not None:
            outcome = await traced_outcome(
                self._member.traces,
                batch.messages,
                lambda: self._invoker.wait_outcome(batch.messages, context, LATER),
            )
            took_ms = self._member.now_ms() - began_ms
            await self._finish_all([(batch, outcome)], took_ms)

    async def _consume_batches(self, first: ConsumeRequest) -> None:
        """Consume *first* and more batches, in one run of plain functions."""
        plain_calls, now_ms = self._plain_calls, self._member.now_ms()
        assert plain_calls is not None
        one_run_s_max = plain_calls.one_run_s_max
        done, took_s = await plain_calls.run(
            lambda: self._invoke_batches(first, now_ms, one_run_s_max)
        )
        for batch, outcome in done:
            if outcome.error is not None:
                self._facts.note_raised(batch.messages, batch.queue, outcome.error)
        await self._finish_all(done, int(took_s * 1000))

    def _invoke_batches(
        self, first: ConsumeRequest, now_ms: int, one_run_s_max: float
    ) -> tuple[list[Done], float]:
        """Call the listener until ``one_run_s_max`` has passed or a batch fails.

        After a failure the worker first sends the batch back.  Returns the batches with their
        outcomes, and the seconds that all calls took.
        """
        began_s = time.monotonic()
        passed_s = 0.0
        done = []
        batch: ConsumeRequest | None = first
        while batch is not None:
            if (context := self._begin(batch, now_ms + int(passed_s * 1000))) is not None:
                outcome = self._invoker.invoke(batch.messages, context, LATER)
                done.append((batch, outcome))
                if outcome.result is not ConsumeResult.SUCCESS:
                    break
            passed_s = time.monotonic() - began_s
            if passed_s >= one_run_s_max or not self._member.is_running:
                break
            batch = self.pool.next_job()
        return done, time.monotonic() - began_s

    def _begin(self, batch: ConsumeRequest, now_ms: int) -> ConsumeContext | None:
        """Prepare the messages for the listener; None if their queue was dropped."""
        if batch.process_queue.dropped:
            return None
        now = str(now_ms)
        for message in batch.messages:
            restore_topic(message, self._member.retry_topic)
            message.properties[CONSUME_START_TIME] = now
        return ConsumeContext(batch.queue)

    # Its outcome ----------------------------------------------------------------------

    async def _finish_all(self, done: list[Done], took_ms: int) -> None:
        """Process the outcomes of one run; in the figures its calls share *took_ms* evenly."""
        tallies: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for batch, outcome in done:
            tally = tallies[batch.queue.topic]
            tally[0] += 1
            acked = await self._finish(batch, outcome)
            if acked is not None:
                tally[1] += acked
                tally[2] += len(batch.messages) - acked
        now_ms = self._member.now_ms()
        for topic, (calls, ok, failed) in tallies.items():
            shared_ms = took_ms * calls // len(done)
            self._member.stats.consumed(topic, calls, shared_ms, now_ms, ok=ok, failed=failed)

    async def _finish(self, batch: ConsumeRequest, outcome: ListenerOutcome) -> int | None:
        """Process one outcome; returns the count of consumed messages, None if dropped meanwhile.

        Upstream: ConsumeMessageConcurrentlyService.processConsumeResult.
        """
        messages, context = batch.messages, outcome.context
        ok = outcome.result is ConsumeResult.SUCCESS
        acked = max(0, min(context.ack_index + 1, len(messages))) if ok else 0
        self._facts.note_consumed(batch.queue, messages, acked)
        if batch.process_queue.dropped:
            return None  # another client may hold the queue now
        done = messages
        if acked < len(messages) and not self._member.is_broadcasting:
            done = await self._send_failed_back(batch, acked, context.delay_level)
        offset = batch.process_queue.remove(done, self._member.now_ms())
        if offset != NOTHING_CACHED and not batch.process_queue.dropped:
            self._member.offsets.table.raise_to(batch.queue, offset)
        return acked

    async def _send_failed_back(
        self, batch: ConsumeRequest, acked: int, delay_level: int
    ) -> list[MessageExt]:
        """Send failed messages back; returns the messages that were consumed or sent back."""
        finished, stuck = batch.messages[:acked], []
        for message in batch.messages[acked:]:
            if self._was_finished(batch, message):
                continue
            if await self._send_back.send_back(message, batch.queue, delay_level):
                finished.append(message)
            else:
                message.reconsume_times += 1
                stuck.append(message)
        if stuck:
            delay_ms = self._member.config.consume_again_delay_ms
            again = ConsumeRequest(stuck, batch.process_queue, batch.queue)
            self._member.call_later(delay_ms, lambda: self.pool.submit(again))
        return finished

    def _was_finished(self, batch: ConsumeRequest, message: MessageExt) -> bool:
        """Whether ``ExpiredMessages`` has sent *message* back already; checked since 5.1.0."""
        checked = self._member.release >= SEND_BACK_IS_CHECKED
        return checked and message.queue_offset not in batch.process_queue


class ExpiredMessages:
    """Sends back messages whose listener has not returned for ``consume_timeout_ms``.

    It checks only the lowest message of a queue, up to 16 times in a round: this message keeps
    the committed offset from rising.  The listener is not interrupted; its outcome is ignored.
    Upstream: ProcessQueue.cleanExpiredMsg.
    """

    def __init__(self, member: PushMember, send_back: SendBack) -> None:
        self._member = member
        self._send_back = send_back

    async def run(self) -> NoReturn:
        """Run a round every ``consume_timeout_ms``, until cancelled."""
        while True:
            await trio.sleep(self._member.config.consume_timeout_ms / 1000)
            await self.run_round()

    async def run_round(self) -> None:
        """Check every held queue once."""
        for queue, process_queue in sorted(self._member.process_queue_table.items()):
            await self._clean(queue, process_queue)

    async def _clean(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        for _ in range(min(process_queue.count, EXPIRED_IN_ONE_ROUND_MAX)):
            message = process_queue.first()
            if message is None or not self._is_expired(message):
                return
            if not await self._send_back.send_back(message, queue, EXPIRED_DELAY_LEVEL):
                continue
            if process_queue.first() is message:
                process_queue.remove([message], self._member.now_ms())

    def _is_expired(self, message: MessageExt) -> bool:
        began = message.properties.get(CONSUME_START_TIME, "")
        if not (began.isascii() and began.isdigit() and len(began) < MS_DIGITS_MAX):
            return False  # the message's producer may have set the property
        return self._member.now_ms() - int(began) > self._member.config.consume_timeout_ms

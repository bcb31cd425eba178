"""Listeners side by side: many batches at once, in any order, each acknowledged for itself.

What failed is sent back to be delivered again later; what could not even be sent back
stays here, holds the committed offset where it is, and is tried again in five seconds.
A batch whose queue was dropped meanwhile is finished by its listener and then forgotten.

Upstream: ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import trio

from emulator.client.consumer.listening import ConsumeContext, ConsumeResult, Ear, Heard
from emulator.client.consumer.process_queue import NOTHING_CACHED, ProcessQueue
from emulator.client.consumer.stuck_messages import StuckMessages
from emulator.client.consumer.worker_pool import WorkerPool
from emulator.releases import SEND_BACK_IS_CHECKED
from protocol.message import MessageExt
from protocol.properties import CONSUME_START_TIME, RETRY_TOPIC
from protocol.queues import MessageQueue

if TYPE_CHECKING:
    from emulator.client.consumer.consumed import Consumed
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.send_back import SendBack

LATER = ConsumeResult.RECONSUME_LATER
IN_ONE_HOP_S_MAX = 0.005  # a thread keeps its results to itself no longer than this


class Batch(msgspec.Struct, eq=False):
    """What one call of the listener gets."""

    messages: list[MessageExt]
    process_queue: ProcessQueue
    queue: MessageQueue


class ConsumeConcurrently:
    """One consumer's concurrent listener."""

    needs_locks = False

    def __init__(self, member: Member, ear: Ear, send_back: SendBack, consumed: Consumed) -> None:
        self._member = member
        self._ear = ear
        self._send_back = send_back
        self._consumed = consumed
        work = self._in_a_thread if ear.needs_threads else self._on_the_loop
        self.pool: WorkerPool[Batch] = WorkerPool(member.config.consume_threads_max, work)

    def begin(self, workers: trio.Nursery) -> None:
        self.pool.open(workers)
        workers.start_soon(StuckMessages(self._member, self._send_back).run)

    def submit(
        self,
        messages: list[MessageExt],
        process_queue: ProcessQueue,
        queue: MessageQueue,
        _wake: bool = False,
    ) -> None:
        """Cut what was pulled into batches, and line them up."""
        size = self._member.config.consume_batch_max
        for start in range(0, len(messages), size):
            self.pool.submit(Batch(messages[start : start + size], process_queue, queue))

    # Calling the listener -------------------------------------------------------------

    async def _on_the_loop(self, batch: Batch) -> None:
        if (context := self._begin(batch, self._member.now_ms())) is None:
            return
        await self._finish(batch, await self._ear.wait_heard(batch.messages, context, LATER))

    async def _in_a_thread(self, batch: Batch) -> None:
        """One hop may do several batches: it costs more than a quick listener does."""
        done = await trio.to_thread.run_sync(
            self._several,
            batch,
            self._member.now_ms(),
            limiter=self._ear.threads,
            abandon_on_cancel=True,
        )
        for each, heard in done:
            await self._finish(each, heard)

    def _several(self, first: Batch, now_ms: int) -> list[tuple[Batch, Heard]]:
        """Until time is up, or one fails: giving it back is this worker's next task."""
        began_s = time.monotonic()
        passed_s = 0.0
        done = []
        batch: Batch | None = first
        while batch is not None:
            if (context := self._begin(batch, now_ms + int(passed_s * 1000))) is not None:
                heard = self._ear.hear(batch.messages, context, LATER)
                done.append((batch, heard))
                if heard.result is not ConsumeResult.SUCCESS:
                    break
            passed_s = time.monotonic() - began_s
            if passed_s > IN_ONE_HOP_S_MAX or not self._member.is_running:
                break
            batch = self.pool.next_job()
        return done

    def _begin(self, batch: Batch, now_ms: int) -> ConsumeContext | None:
        """What the listener is told; None if its queue is gone already."""
        if batch.process_queue.dropped:
            return None
        now = str(now_ms)
        for message in batch.messages:
            restore_topic(message, self._member.retry_topic)
            message.properties[CONSUME_START_TIME] = now
        return ConsumeContext(batch.queue)

    # What it said ---------------------------------------------------------------------

    async def _finish(self, batch: Batch, heard: Heard) -> None:
        """Upstream: ConsumeMessageConcurrentlyService.processConsumeResult."""
        messages = batch.messages
        ok = heard.result is ConsumeResult.SUCCESS
        acked = min(heard.context.ack_index + 1, len(messages)) if ok else 0
        self._consumed.note(batch.queue, messages, acked)
        if batch.process_queue.dropped:
            return  # somebody else has the queue now
        done = messages
        if acked < len(messages) and not self._member.config.is_broadcasting:
            done = await self._give_back(batch, acked, heard.context.delay_level)
        offset = batch.process_queue.remove(done, self._member.now_ms())
        if offset != NOTHING_CACHED and not batch.process_queue.dropped:
            self._member.offsets.table.raise_to(batch.queue, offset)

    async def _give_back(self, batch: Batch, acked: int, delay_level: int) -> list[MessageExt]:
        """Send back what failed; returns all that is finished here, one way or the other."""
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
            again = Batch(stuck, batch.process_queue, batch.queue)
            self._member.later(delay_ms, lambda: self.pool.submit(again))
        return finished

    def _was_finished(self, batch: Batch, message: MessageExt) -> bool:
        """Has the timeout sent it back already?  Looked at since 5.1.0."""
        checked = self._member.release >= SEND_BACK_IS_CHECKED
        return checked and message.queue_offset not in batch.process_queue


def restore_topic(message: MessageExt, retry_topic: str) -> None:
    """A retried message shows the topic it was first sent to.

    Upstream: DefaultMQPushConsumerImpl.resetRetryAndNamespace.
    """
    if message.topic == retry_topic:
        message.topic = message.properties.get(RETRY_TOPIC, message.topic)

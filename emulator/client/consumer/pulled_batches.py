"""What pull tasks have pulled and the application has not taken yet, in order of arrival.

Upstream: DefaultLitePullConsumerImpl.consumeRequestCache.
"""

from __future__ import annotations

from collections import deque

import msgspec
import trio

from emulator.client.consumer.process_queue import ProcessQueue
from protocol.message import MessageExt
from protocol.queues import MessageQueue


class PulledBatch(msgspec.Struct, eq=False):
    """The messages of one pull."""

    messages: list[MessageExt]
    queue: MessageQueue
    process_queue: ProcessQueue


class PulledBatches:
    """Batches wait here; those whose queue was given away are skipped when they are taken."""

    def __init__(self) -> None:
        self._batches: deque[PulledBatch] = deque()
        self._arrived = trio.Event()

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: PulledBatch) -> None:
        """Append *batch*, and wake who waits."""
        self._batches.append(batch)
        self._arrived.set()

    def forget(self, queue: MessageQueue) -> None:
        """Drop the batches of *queue*."""
        self._batches = deque(batch for batch in self._batches if batch.queue != queue)

    async def wait_next(self, timeout_s: float) -> PulledBatch | None:
        """Take the first batch, or None when there was none for *timeout_s*.

        Nothing is taken by a caller that is cancelled.
        """
        until_s = trio.current_time() + timeout_s
        await trio.lowlevel.checkpoint()
        while (batch := self._take()) is None and trio.current_time() < until_s:
            self._arrived = trio.Event() if self._arrived.is_set() else self._arrived
            with trio.move_on_at(until_s):
                await self._arrived.wait()
        return batch

    def _take(self) -> PulledBatch | None:
        while self._batches:
            batch = self._batches.popleft()
            if not batch.process_queue.dropped:
                return batch
        return None

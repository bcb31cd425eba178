"""Giving a queue away: at once, or not before its listener has come to rest.

Concurrent listeners may overlap with the next owner's, orderly ones may not.  Before
5.2.0 a listener that hangs keeps its queue for ever; since then patience ends 20
seconds after the last lock.

Upstream: RebalancePushImpl.removeUnnecessaryMessageQueue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.consumer.orderly_queue import OrderlyQueue
from emulator.releases import ORDERLY_RELEASE_FORCED

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.queue_locks import QueueLocks
    from protocol.queues import MessageQueue

PATIENCE_MS_UNFORCED = 1_000
PATIENCE_MS = 500


class Releasing:
    """How one consumer lets go of its queues."""

    def __init__(self, member: Member, locks: QueueLocks) -> None:
        self._member = member
        self._locks = locks

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Whether the queue is free for others now; if not, the next pass tries again."""
        offsets = self._member.offsets
        offsets.persist(queue)
        if self._member.config.is_broadcasting or not isinstance(process_queue, OrderlyQueue):
            offsets.forget(queue)
            return True
        if self._member.release >= ORDERLY_RELEASE_FORCED:
            return await self._quiet_or_forced(queue, process_queue)
        offsets.forget(queue)
        return await self._quiet(queue, process_queue)

    async def _quiet(self, queue: MessageQueue, process_queue: OrderlyQueue) -> bool:
        if not await process_queue.wait_quiet(PATIENCE_MS_UNFORCED):
            process_queue.unlock_tries += 1
            return False
        try:
            if process_queue.is_waiting:
                # Whoever takes over should not start before what we still hold is forgotten here.
                delay_ms = self._member.config.unlock_delay_ms
                self._member.later(delay_ms, lambda: self._locks.unlock_soon(queue))
            else:
                self._locks.unlock_soon(queue)
        finally:
            process_queue.listening.release()
        return True

    async def _quiet_or_forced(self, queue: MessageQueue, process_queue: OrderlyQueue) -> bool:
        silent_ms = self._member.now_ms() - process_queue.last_lock_ms
        forced = process_queue.dropped and silent_ms > self._member.config.unlock_delay_ms
        if not forced and not await process_queue.wait_quiet(PATIENCE_MS):
            process_queue.unlock_tries += 1
            return False
        try:
            self._member.offsets.persist(queue)
            self._member.offsets.forget(queue)
            process_queue.locked = False
            self._locks.unlock_soon(queue)
        finally:
            if not forced:
                process_queue.listening.release()
        return True

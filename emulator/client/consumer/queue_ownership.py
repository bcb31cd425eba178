"""Owning queues in an orderly group: the broker's lock, and the release of a queue.

A queue may be consumed only by the client that holds its lock.  The lock lives at the
queue's master for 60 seconds and is renewed every 20; the client trusts it for 30.  So
when a broker cannot be reached the client stops before the broker could give the lock
to another client.

Concurrent listeners may overlap with the next owner's, orderly ones may not: their queue
is released only when its listener has returned.  Before 5.2.0 a listener that hangs
keeps its queue for ever; since then the wait ends 20 seconds after the last lock.

Upstream: RebalanceImpl.lock, lockAll, unlock, unlockAll,
RebalancePushImpl.removeUnnecessaryMessageQueue.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import trio

from emulator.client.consumer.process_queue import ProcessQueue
from emulator.client.errors import ClientError
from emulator.net.errors import RemoteError
from emulator.releases import (
    BROADCAST_IS_NOT_LOCKED,
    DROPPED_LOCKS_LAPSE,
    ORDERLY_RELEASE_FORCED,
)

if TYPE_CHECKING:
    from emulator.client.consumer.member import PushMember
    from protocol.queues import MessageQueue

QUIET_WAIT_MS_UNFORCED = 1_000
QUIET_WAIT_MS = 500


class OrderlyProcessQueue(ProcessQueue):
    """``listening`` is held while the listener is called.  Upstream: ProcessQueue.consumeLock."""

    def __init__(self, now_ms: int, *, locked: bool = False) -> None:
        super().__init__(now_ms, locked=locked)
        self.listening = trio.Lock()

    async def wait_quiet(self, wait_ms_max: int) -> bool:
        """Whether the listener returned within *wait_ms_max*.

        Then no other call of it can begin until ``listening`` is released.
        """
        with trio.move_on_after(wait_ms_max / 1000):
            await self.listening.acquire()
            return True
        return False


class QueueLocks:
    """The broker locks of one orderly consumer."""

    def __init__(self, member: PushMember) -> None:
        self._member = member

    @property
    def are_needed(self) -> bool:
        """Whether a queue is claimed only with its lock.

        Before 5.3.2 a broadcasting consumer asks for locks too.
        """
        member = self._member
        return not (member.is_broadcasting and member.release >= BROADCAST_IS_NOT_LOCKED)

    async def lock(self, queue: MessageQueue) -> bool:
        """Lock *queue* at its master; whether it is locked.  Without an answer it is not."""
        try:
            granted = await self._member.calls.lock(queue.broker_name, [queue])
        except (RemoteError, ClientError):
            return False
        self._mark(granted, locked=True)
        return queue in granted

    async def renew(self) -> None:
        """Lock all held queues again, broker by broker; an unreachable broker changes nothing."""
        for broker, queues in self._by_broker().items():
            try:
                granted = await self._member.calls.lock(broker, queues)
            except (RemoteError, ClientError):
                continue
            self._mark(granted, locked=True)
            self._mark(frozenset(queues) - granted, locked=False)

    def unlock_soon(self, queue: MessageQueue) -> None:
        """Unlock one queue without waiting for an answer."""
        self._member.calls.unlock_soon(queue)

    async def unlock_all(self) -> None:
        """Unlock all at the end, so that other members need not wait a minute."""
        for broker, queues in self._by_broker().items():
            try:
                await self._member.calls.unlock(broker, queues)
            except (RemoteError, ClientError):
                continue
            self._mark(frozenset(queues), locked=False)

    def _mark(self, queues: frozenset[MessageQueue], *, locked: bool) -> None:
        now_ms = self._member.now_ms()
        for queue in queues:
            if (process_queue := self._member.held.get(queue)) is not None:
                process_queue.locked = locked
                if locked:
                    process_queue.last_lock_ms = now_ms

    def _by_broker(self) -> dict[str, list[MessageQueue]]:
        # Before 5.0.0 dropped queues too: so a listener that hangs keeps its queue for ever.
        also_dropped = self._member.release < DROPPED_LOCKS_LAPSE
        brokers: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue, process_queue in sorted(self._member.held.items()):
            if also_dropped or not process_queue.dropped:
                brokers[queue.broker_name].append(queue)
        return brokers


class LockedOwnership:
    """How an orderly consumer claims its queues and gives them up."""

    process_queue_type: type[ProcessQueue] = OrderlyProcessQueue

    def __init__(self, member: PushMember) -> None:
        self.locks = QueueLocks(member)
        self._member = member

    async def claim(self, queue: MessageQueue) -> bool:
        """Whether the broker has locked *queue* for this client."""
        return not self.locks.are_needed or await self.locks.lock(queue)

    async def release(self, queue: MessageQueue, process_queue: ProcessQueue) -> bool:
        """Unlock *queue*; True if it was released.  If not, the next pass tries again.

        A broadcasting consumer does not wait: no other member gets the queue.
        """
        offsets = self._member.offsets
        offsets.persist(queue)
        if self._member.is_broadcasting or not isinstance(process_queue, OrderlyProcessQueue):
            offsets.forget(queue)
            return True
        if self._member.release >= ORDERLY_RELEASE_FORCED:
            return await self._quiet_or_forced(queue, process_queue)
        offsets.forget(queue)
        return await self._quiet(queue, process_queue)

    async def _quiet(self, queue: MessageQueue, process_queue: OrderlyProcessQueue) -> bool:
        if not await process_queue.wait_quiet(QUIET_WAIT_MS_UNFORCED):
            process_queue.unlock_tries += 1
            return False
        try:
            if process_queue.is_waiting:
                # The next owner should not start before our cached messages are dropped.
                delay_ms = self._member.config.unlock_delay_ms
                self._member.later(delay_ms, lambda: self.locks.unlock_soon(queue))
            else:
                self.locks.unlock_soon(queue)
        finally:
            process_queue.listening.release()
        return True

    async def _quiet_or_forced(
        self, queue: MessageQueue, process_queue: OrderlyProcessQueue
    ) -> bool:
        silent_ms = self._member.now_ms() - process_queue.last_lock_ms
        forced = process_queue.dropped and silent_ms > self._member.config.unlock_delay_ms
        if not forced and not await process_queue.wait_quiet(QUIET_WAIT_MS):
            process_queue.unlock_tries += 1
            return False
        try:
            self._member.offsets.persist(queue)
            self._member.offsets.forget(queue)
            process_queue.locked = False
            self.locks.unlock_soon(queue)
        finally:
            if not forced:
                process_queue.listening.release()
        return True

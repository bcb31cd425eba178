"""Orderly consumption: a queue may be consumed only by the client that holds its lock.

The lock lives at the queue's master for 60 seconds and is renewed every 20; the client
trusts it for 30.  So when a broker cannot be reached the client stops before the broker
could give the lock to somebody else.

Upstream: RebalanceImpl.lock, lockAll, unlock, unlockAll.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from emulator.client.errors import ClientError
from emulator.net.errors import RemoteError
from emulator.releases import BROADCAST_IS_NOT_LOCKED, FIVE

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from protocol.queues import MessageQueue


class QueueLocks:
    """The locks of one orderly consumer."""

    def __init__(self, member: Member) -> None:
        self._member = member

    @property
    def are_needed(self) -> bool:
        """To claim a queue.  Until 5.3.2 a broadcasting consumer asks too."""
        member = self._member
        return member.config.orderly and not (
            member.config.is_broadcasting and member.release >= BROADCAST_IS_NOT_LOCKED
        )

    async def lock(self, queue: MessageQueue) -> bool:
        """Whether *queue* is ours now.  No answer is no lock."""
        try:
            granted = await self._member.calls.lock(queue.broker_name, [queue])
        except (RemoteError, ClientError):
            return False
        self._mark(granted, locked=True)
        return queue in granted

    async def renew(self) -> None:
        """All held queues, broker by broker; an unreachable broker changes nothing."""
        for broker, queues in self._by_broker().items():
            try:
                granted = await self._member.calls.lock(broker, queues)
            except (RemoteError, ClientError):
                continue
            self._mark(granted, locked=True)
            self._mark(frozenset(queues) - granted, locked=False)

    def unlock_soon(self, queue: MessageQueue) -> None:
        self._member.calls.unlock_soon(queue)

    async def unlock_all(self) -> None:
        """At the end, so that others need not wait a minute."""
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
        also_dropped = self._member.release < FIVE
        brokers: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue, process_queue in sorted(self._member.held.items()):
            if also_dropped or not process_queue.dropped:
                brokers[queue.broker_name].append(queue)
        return brokers

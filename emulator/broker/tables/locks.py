"""Queue locks: the client that may consume a queue in order, until the lock expires.

A lock ends when its owner unlocks the queue or does not renew it.  A closed connection does not
end it: the broker cannot distinguish a dead owner from a slow one.

Upstream: RebalanceLockManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.queues import MessageQueue


class _Lock(NamedTuple):
    client: str
    renewed_ms: int


class RebalanceLocks:
    """Group to queue to owner; a lock expires *lock_ms_max* after its last renewal."""

    def __init__(self, lock_ms_max: int) -> None:
        self._lock_ms_max = lock_ms_max
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._sweep_ms = 0

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client: str, now_ms: int
    ) -> list[MessageQueue]:
        """Lock for *client* the queues that are free, expired or its own; returns those."""
        self._sweep(now_ms)
        held = self._locks.setdefault(group, {})
        granted = []
        renewed = _Lock(client, now_ms)
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.client == client or self._has_lapsed(lock, now_ms):
                held[queue] = renewed
                granted.append(queue)
        return granted

    def unlock(self, group: str, queues: Iterable[MessageQueue], client: str) -> None:
        """Unlock the queues that *client* has locked; locks of other clients stay."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client == client:
                del held[queue]

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client that has locked the queue; None if no lock is valid."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None or self._has_lapsed(lock, now_ms) else lock.client

    def reset(self, kept_clients: Collection[str], now_ms: int) -> None:
        """Remove all locks but those of *kept_clients*, which are renewed at *now_ms*."""
        self._sweep_ms = 0
        for group, held in list(self._locks.items()):
            self._locks[group] = {
                queue: _Lock(lock.client, now_ms)
                for queue, lock in held.items()
                if lock.client in kept_clients and not self._has_lapsed(lock, now_ms)
            }
            if not self._locks[group]:
                del self._locks[group]

    @property
    def held_count(self) -> int:
        """The number of locks, with expired ones until the next sweep removes them."""
        return sum(map(len, self._locks.values()))

    def holds_any(self, group: str, now_ms: int) -> bool:
        """Whether a client has a valid lock for *group*.

        Upstream: RebalanceLockManager.isLockAllExpired (5.1.1).
        """
        held = self._locks.get(group, {})
        return any(not self._has_lapsed(lock, now_ms) for lock in held.values())

    def _has_lapsed(self, lock: _Lock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._lock_ms_max

    def _sweep(self, now_ms: int) -> None:
        """Remove expired locks, once every *lock_ms_max*."""
        if now_ms < self._sweep_ms:
            return
        self._sweep_ms = now_ms + self._lock_ms_max
        for group, held in list(self._locks.items()):
            alive = {q: lock for q, lock in held.items() if not self._has_lapsed(lock, now_ms)}
            if alive:
                self._locks[group] = alive
            else:
                del self._locks[group]

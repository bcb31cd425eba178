"""The round-robin counter: one integer per worker, started anywhere, never negative."""

from __future__ import annotations

from collections.abc import Callable

_MASK = 0x7FFF_FFFF


class ThreadLocalIndex:
    """One counter for each worker, started by ``start()`` at that worker's first step.

    A worker stands for one of upstream's calling threads: N workers are N independent
    round robins.  There are as many counters as distinct workers were named.

    Upstream: ThreadLocalIndex.
    """

    def __init__(self, start: Callable[[], int]) -> None:
        self._start = start
        self._at: dict[int, int] = {}

    def step(self, worker: int = 0) -> int:
        """Count up first, then give the count, masked to 31 bits."""
        at = self._at.get(worker)
        value = ((self._start() if at is None else at) + 1) & _MASK
        self._at[worker] = value
        return value

    def restart(self, worker: int = 0) -> None:
        """Go on from somewhere else.  Upstream: ThreadLocalIndex.reset."""
        self._at[worker] = self._start()

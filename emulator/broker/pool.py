"""One pool of threads and the queue before it: who waits how long, and who is given up.

All requests of a pool take the same time and none overtakes another.  So how a request
ends is decided when it arrives: it gets a thread at a known time, or is given up at one.
A request that waits is one entry in the server's heap of timers, and a busy pool runs
nothing.  Only when the pool is set otherwise are those that wait decided anew.

Times are microseconds of the monotonic clock: a wall clock that jumps neither empties a
queue nor freezes it.

Upstream: ThreadPoolExecutor and its queue, BrokerFastFailure.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import NamedTuple

import msgspec

FIRST_LOOK_US, LOOK_EVERY_US = 1_000_000, 10_000  # BrokerFastFailure.start


class Capacity(NamedTuple):
    """What a pool can do."""

    threads: int
    service_us: int  # of each request; 0: it is done at once
    queue_max: int  # requests that wait
    wait_us_max: int | None  # then it is given up; None: never


class Visit(msgspec.Struct, eq=False):
    """One request in a pool: in the queue until ``leaves_us``, done at ``ends_us``."""

    arrived_us: int
    leaves_us: int = 0
    ends_us: int = 0
    is_given_up: bool = False
    is_over: bool = False


class Pool:
    """*began_us* is when BrokerFastFailure began to look at its queue: with the broker."""

    def __init__(self, capacity: Capacity, began_us: int) -> None:
        self.capacity = capacity
        self._looks_from_us = began_us + FIRST_LOOK_US
        self._visits: dict[Visit, None] = {}  # in the order in which they came
        self._queue: deque[Visit] = deque()  # of those the ones that may still wait
        self._free_us: list[int] = []  # a heap: when each thread that was used is free again

    def arrive(self, now_us: int) -> Visit | None:
        """A request came; None if the queue is full."""
        visit = Visit(now_us)
        is_free = len(self._free_us) < self.capacity.threads or self._free_us[0] <= now_us
        if not is_free and self.waiting_count(now_us) >= self.capacity.queue_max:
            return None
        self._visits[visit] = None
        self._decide(visit, now_us)
        return visit

    def end(self, visit: Visit) -> None:
        """It was passed on, or given up."""
        visit.is_over = True
        del self._visits[visit]

    def waiting_count(self, now_us: int) -> int:
        """How many wait for a thread; those to be given up now count until each has ended."""
        self._tidy(now_us)
        return len(self._queue)

    def head_waited_us(self, now_us: int) -> int:
        """How long the first that waits has waited."""
        self._tidy(now_us)
        return now_us - self._queue[0].arrived_us if self._queue else 0

    def change(self, capacity: Capacity, now_us: int) -> list[Visit]:
        """Be like this from now on; all who are here, whose end may have changed.

        Who has a thread keeps it as long as it was to, unless requests take no time now.
        """
        self.capacity = capacity
        served = [v for v in self._visits if v.leaves_us <= now_us and not v.is_given_up]
        waiting = [v for v in self._visits if v.leaves_us > now_us]
        if not capacity.service_us:
            for visit in self._visits:
                if not visit.is_given_up or visit.leaves_us > now_us:
                    visit.leaves_us = visit.ends_us = now_us
                    visit.is_given_up = False
            waiting, served = [], []
        self._free_us = sorted(visit.ends_us for visit in served)[-capacity.threads :]
        self._queue.clear()
        for visit in waiting:
            self._decide(visit, now_us)
        return list(self._visits)

    # Inside ---------------------------------------------------------------------------

    def _decide(self, visit: Visit, now_us: int) -> None:
        threads, service_us, _, _ = self.capacity
        has_more = len(self._free_us) < threads
        begins_us = now_us if has_more else max(now_us, self._free_us[0])
        given_up_us = self._given_up_us(visit)
        visit.is_given_up = given_up_us is not None and given_up_us < begins_us
        if visit.is_given_up:
            assert given_up_us is not None
            visit.leaves_us = visit.ends_us = max(given_up_us, now_us)
        else:
            visit.leaves_us, visit.ends_us = begins_us, begins_us + service_us
            replace = heapq.heappush if has_more else heapq.heapreplace
            replace(self._free_us, visit.ends_us)
        if visit.leaves_us > now_us:
            self._queue.append(visit)

    def _given_up_us(self, visit: Visit) -> int | None:
        """When upstream looks next after it has waited too long."""
        if self.capacity.wait_us_max is None:
            return None
        too_long_us = visit.arrived_us + self.capacity.wait_us_max - self._looks_from_us
        return self._looks_from_us + max(0, -(-too_long_us // LOOK_EVERY_US)) * LOOK_EVERY_US

    def _tidy(self, now_us: int) -> None:
        queue = self._queue
        while queue and queue[0].leaves_us <= now_us:
            if queue[0].is_given_up and not queue[0].is_over:
                return
            queue.popleft()

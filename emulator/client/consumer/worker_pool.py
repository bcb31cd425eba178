"""A few workers take jobs from one line, which has no end.

Workers are tasks, born when there is work and none is free, and kept.  A job that never
waits is done by one worker alone; while it waits, the next worker goes on, up to the
limit.  Upstream: the consume services' thread pools, 20 threads and an unbounded queue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

J = TypeVar("J")

JOBS_WITHOUT_A_BREAK_MAX = 64


class WorkerPool(Generic[J]):
    """At most *workers_max* tasks run ``work(job)``, jobs in order of arrival."""

    def __init__(self, workers_max: int, work: Callable[[J], Awaitable[object]]) -> None:
        self._nursery: trio.Nursery | None = None
        self._workers_max = workers_max
        self._work = work
        self._line: deque[J] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._born = 0
        self._waking = False  # a worker is on its way and has not looked at the line yet
        self._busy = 0
        self._is_closed = False
        self._finished = trio.Event()

    def open(self, nursery: trio.Nursery) -> None:
        """Workers are born into *nursery*, and die with it."""
        self._nursery = nursery

    def submit(self, job: J) -> None:
        if not self._is_closed:
            self._line.append(job)
            self._wake_one()

    def close(self) -> None:
        """Take no more jobs: soon nobody will be there to do them."""
        self._is_closed = True

    async def wait_finished(self) -> None:
        """After ``close``: until the jobs that were taken are done."""
        if self._line or self._busy:
            await self._finished.wait()

    def next_job(self) -> J | None:
        """Take another job without going back to the line: for work that does several at once."""
        try:
            return self._line.popleft()
        except IndexError:  # not looked at first: threads ask too
            return None

    def _wake_one(self) -> None:
        if self._waking:
            return
        if len(self._idle):
            self._idle.unpark()
        elif self._born < self._workers_max and self._nursery is not None:
            self._born += 1
            self._nursery.start_soon(self._worker)
        else:
            return
        self._waking = True

    async def _worker(self) -> None:
        done = 0
        while True:
            self._waking = False
            while self._line:
                job = self._line.popleft()
                if self._line:
                    self._wake_one()  # should this job wait, somebody goes on
                self._busy += 1
                await self._work(job)
                self._busy -= 1
                done += 1
                if done % JOBS_WITHOUT_A_BREAK_MAX == 0:
                    await trio.lowlevel.checkpoint()
            if self._is_closed and not self._busy:
                self._finished.set()
            await self._idle.park()

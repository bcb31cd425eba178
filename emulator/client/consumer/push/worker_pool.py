"""Workers that take jobs from one unbounded queue.

A worker is a task.  It is started when there is work and no worker is idle, and it is
kept.  A job that never waits is done by one worker alone; while a job waits, the next
worker goes on, up to the limit.

Upstream: the consume services' thread pools, 20 threads and an unbounded queue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

J = TypeVar("J")

JOBS_WITHOUT_A_CHECKPOINT_MAX = 64


class WorkerPool(Generic[J]):
    """At most *workers_max* tasks run ``work(job)``, jobs in order of arrival."""

    def __init__(self, workers_max: int, work: Callable[[J], Awaitable[object]]) -> None:
        self._nursery: trio.Nursery | None = None
        self._workers_max = workers_max
        self._work = work
        self._jobs: deque[J] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._started = 0
        self._waking = False  # a worker was woken and has not looked at the jobs yet
        self._busy = 0
        self.on_job_over: Callable[[], object] | None = None
        self.on_interrupted: Callable[[J], object] | None = None  # a job, when the pool is closed
        self._is_closed = False
        self._finished = trio.Event()

    def open(self, nursery: trio.Nursery) -> None:
        """Start workers in *nursery* when they are needed; they end when it ends."""
        self._nursery = nursery

    def submit(self, job: J) -> None:
        """Queue *job*; a closed pool drops it."""
        if not self._is_closed:
            self._jobs.append(job)
            self._wake_one()

    def close(self) -> None:
        """Take no more jobs; those that were taken are still done."""
        self._is_closed = True

    async def wait_finished(self) -> None:
        """After ``close``: wait until the jobs that were taken are done."""
        if self._jobs or self._busy:
            await self._finished.wait()

    @property
    def busy_count(self) -> int:
        """How many jobs workers are doing now."""
        return self._busy

    def next_job(self) -> J | None:
        """Take the next job, or None; threads that do several jobs in a row call it too."""
        # Not looked at first: between a look and the pop another thread may take the last one.
        try:
            return self._jobs.popleft()
        except IndexError:
            return None

    def _wake_one(self) -> None:
        if self._waking:
            return
        if len(self._idle):
            self._idle.unpark()
        elif self._started < self._workers_max and self._nursery is not None:
            self._started += 1
            self._nursery.start_soon(self._worker)
        else:
            return
        self._waking = True

    async def _worker(self) -> None:
        done = 0
        while True:
            self._waking = False
            while (job := self.next_job()) is not None:
                if self._jobs:
                    self._wake_one()  # should this job wait, another worker goes on
                self._busy += 1
                try:
                    await self._work(job)
                except trio.Cancelled:
                    if self._is_closed and self.on_interrupted is not None:
                        self.on_interrupted(job)
                    raise
                self._busy -= 1
                done += 1
                if self.on_job_over is not None:
                    self.on_job_over()
                if done % JOBS_WITHOUT_A_CHECKPOINT_MAX == 0:
                    await trio.lowlevel.checkpoint()
            if self._is_closed and not self._busy:
                self._finished.set()
            await self._idle.park()

"""Workers that take jobs from one unbounded queue.

A worker is a task.  It is started when there is a job and no worker is idle, and it runs until
its nursery ends.  Jobs that never wait are all done by one worker; while a job waits, another
worker takes the next job, up to the limit.

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
    """At most *workers_max* tasks call ``work(job)``, for jobs in order of arrival."""

    def __init__(self, workers_max: int, work: Callable[[J], Awaitable[object]]) -> None:
        self._nursery: trio.Nursery | None = None
        self._workers_max = workers_max
        self._work = work
        self._jobs: deque[J] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._started = 0
        self._waking = False  # a worker was woken and has not taken a job yet
        self._busy = 0
        self.on_job_over: Callable[[], object] | None = None
        # Called with each job that is cancelled after the pool was closed.
        self.on_interrupted: Callable[[J], object] | None = None
        self._is_closed = False
        self._finished = trio.Event()

    def open(self, nursery: trio.Nursery) -> None:
        """Start workers in *nursery* when jobs arrive; they end with the nursery."""
        self._nursery = nursery

    def submit(self, job: J) -> None:
        """Queue *job*; a closed pool drops it."""
        if not self._is_closed:
            self._jobs.append(job)
            self._wake_one()

    def close(self) -> None:
        """Accept no more jobs; the submitted ones are still done."""
        self._is_closed = True

    async def wait_finished(self) -> None:
        """After ``close``: wait until the submitted jobs are done."""
        if self._jobs or self._busy:
            await self._finished.wait()

    @property
    def busy_count(self) -> int:
        """How many jobs workers are doing now."""
        return self._busy

    def next_job(self) -> J | None:
        """Take the next job, or None; threads that do several jobs in a row call this too."""
        # No check before: between a check and the pop another thread may take the last job.
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
                    self._wake_one()  # if this job waits, another worker takes the next
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

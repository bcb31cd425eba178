"""The pool that consume services run their listeners in."""

from __future__ import annotations

from collections import deque

import trio

from rocketmq_emulator.client.consumer.push.worker_pool import WorkerPool


class JobsThatAThreadTakesFirst(deque):
    """A queue of jobs: after the check that it has one, another thread takes that job."""

    def __init__(self) -> None:
        super().__init__()
        self.stolen = []

    def __bool__(self) -> bool:
        if not len(self):
            return False
        self.stolen.append(self.popleft())
        return True


async def test_a_worker_survives_that_a_thread_takes_the_last_job_before_it(autojump_clock):
    done = []

    async def work(job) -> None:
        done.append(job)

    pool: WorkerPool[int] = WorkerPool(1, work)
    pool._jobs = jobs = JobsThatAThreadTakesFirst()
    async with trio.open_nursery() as nursery:
        pool.open(nursery)
        for job in range(3):
            pool.submit(job)
        await trio.sleep(1)
        pool.submit(3)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sorted(done + jobs.stolen) == [0, 1, 2, 3]


async def test_jobs_that_never_wait_are_done_in_order_by_one_worker(autojump_clock):
    done, workers = [], set()

    async def work(job) -> None:
        done.append(job)
        workers.add(trio.lowlevel.current_task())

    pool: WorkerPool[int] = WorkerPool(20, work)
    async with trio.open_nursery() as nursery:
        pool.open(nursery)
        for job in range(60):
            pool.submit(job)
        pool.close()
        pool.submit(60)  # closed: dropped
        await pool.wait_finished()
        nursery.cancel_scope.cancel()
    assert done == list(range(60))
    assert len(workers) <= 2


async def test_a_job_that_waits_delays_no_other_while_there_are_workers_left(autojump_clock):
    done = []

    async def work(job) -> None:
        await trio.sleep(job)
        done.append((job, trio.current_time()))

    pool: WorkerPool[int] = WorkerPool(2, work)
    start_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        pool.open(nursery)
        for job in (10, 1, 2):
            pool.submit(job)
        pool.close()
        await pool.wait_finished()
        nursery.cancel_scope.cancel()
    assert [(job, at - start_s) for job, at in done] == [(1, 1), (2, 3), (10, 10)]

"""Real time is refused in the thread of a virtual world, and in no other thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketmq_emulator.scenarios.running.no_wall_time import WallTimeRefused, no_wall_time


def in_thread_of(pool: ThreadPoolExecutor, function) -> object:
    return pool.submit(function).result(10)


def test_threads_beside_a_virtual_world_read_the_time_and_start_threads() -> None:
    refused: list[WallTimeRefused] = []
    with ThreadPoolExecutor(1) as beside:
        in_thread_of(beside, int)  # now the pool has started its thread
        with no_wall_time(refused.append):
            with pytest.raises(WallTimeRefused, match=r"time\.time"):
                time.time()
            assert in_thread_of(beside, lambda: time.time()) > 0  # noqa: PLW0108  # called from here
            in_thread_of(beside, lambda: threading.Thread(target=int).start())
    assert len(refused) == 1


def test_two_worlds_that_end_in_the_order_in_which_they_began_leave_nothing_behind() -> None:
    before = (time.time, time.sleep, threading.Thread.start)
    first_is_inside, second_is_inside, first_is_out = (threading.Event() for _ in range(3))
    refused: list[WallTimeRefused] = []

    def first() -> None:
        with no_wall_time(refused.append):
            first_is_inside.set()
            assert second_is_inside.wait(10)
        first_is_out.set()

    def second() -> None:
        assert first_is_inside.wait(10)
        with no_wall_time(refused.append):
            second_is_inside.set()
            assert first_is_out.wait(10)
            with pytest.raises(WallTimeRefused):
                time.sleep(0)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(first), threads.submit(second)]:
            done.result(20)
    assert len(refused) == 1
    assert (time.time, time.sleep, threading.Thread.start) == before

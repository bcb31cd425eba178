"""Histories that wait for one deed: it is done once, when all are there or have given up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.histories.appointment import Appointment


def test_the_last_one_that_arrives_does_it_once() -> None:
    done: list[str] = []
    appointment = Appointment(3, lambda: done.append(threading.current_thread().name))
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(appointment.arrive) for _ in range(3)]
        assert [each.result() for each in waiting] == [None] * 3
    assert len(done) == 1


def test_nobody_waits_for_a_story_that_failed() -> None:
    done: list[int] = []
    appointment = Appointment(2, lambda: done.append(1))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(appointment.arrive)
        appointment.cancel()
        assert waiting.result() is None
    assert done == [1]


def test_each_story_gets_the_error_of_what_failed() -> None:
    def fail() -> None:
        raise OSError("the broker did not start")

    appointment = Appointment(2, fail)
    with ThreadPoolExecutor(2) as threads:
        for waiting in [threads.submit(appointment.arrive) for _ in range(2)]:
            with pytest.raises(RuntimeError) as raised:
                waiting.result()
            assert isinstance(raised.value.__cause__, OSError)

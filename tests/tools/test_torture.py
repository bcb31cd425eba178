"""The driver of ``make torture``: a theme that fails has a row with the failure."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator

import pytest

from tools.torture import Row, kills, peers, starts, tables
from tools.torture import __main__ as driver
from tools.torture.waiting import MachineShare, ServerClock


def a_theme(monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    theme = types.ModuleType("tools.torture.scripted")
    theme.NAME, theme.run = "scripted", lambda: rows
    monkeypatch.setitem(sys.modules, theme.__name__, theme)


def test_every_theme_says_what_it_is() -> None:
    assert "kills" in driver.themes()
    assert all(driver._module(theme).NAME for theme in driver.themes())


def test_the_themes_have_the_sizes_that_are_promised() -> None:
    assert peers.LEAVING == 1_000
    assert peers.NON_READERS == 500
    assert tables.TOPICS == 10_000
    assert tables.LOCKS == 200_000
    assert kills.KILLS == 200
    assert "--timeout=0" in kills.COMMAND, "the test's own limit is for 20 kills"
    assert starts.MESSAGES == 1_000_000
    assert starts.BROKERS == 26


def test_rows_come_as_they_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    a_theme(monkeypatch, [("a thousand", "none dies", "one died", False)])
    assert driver.rows_of("scripted") == [Row("a thousand", "none dies", "one died", False)]


def test_a_theme_whose_process_dies_is_a_row_that_missed_its_aim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_theme(monkeypatch, [])  # a module without a file: the process cannot import it
    (row,) = driver._run_apart("scripted")
    assert (row.found, row.reached) == ("exit status 1", False)


@contextlib.contextmanager
def busy_loops_beside(count: int) -> Iterator[None]:
    """Run *count* busy loops on one CPU; this thread is bound to the same CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.2)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        os.sched_setaffinity(0, allowed)


def test_a_wait_without_a_cpu_is_not_the_server_s() -> None:
    clock = ServerClock(os.getppid())
    with busy_loops_beside(4):
        began_s, wall_s, cpu_s = clock.now_s(), time.perf_counter(), time.thread_time()
        while time.thread_time() - cpu_s < 0.2:
            pass
        wall_s = time.perf_counter() - wall_s
        own_s = clock.since_s(began_s)
    assert wall_s > 0.5, "this thread should get a fifth of the CPU"
    assert 0.15 < own_s < 0.35


def test_a_wait_of_a_server_that_sleeps_is_its_own() -> None:
    clock = ServerClock(os.getpid())
    began_s = clock.now_s()
    time.sleep(0.2)
    assert clock.since_s(began_s) > 0.15


def test_a_machine_that_others_use_is_not_whole() -> None:
    share = MachineShare()
    loop = [sys.executable, "-c", "import time\nwhile time.thread_time() < 0.3: pass"]
    subprocess.run(["sh", "-c", '"$@" & wait', "sh", *loop], check=True)  # ended: no child
    assert 0 <= share.left() < 0.95

"""One seed gives one run: in any interpreter, and beside anything that runs in other threads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import pytest
import trio
from trio._core import _run

from rocketmq_emulator.sim.determinism import InsideTrioRun, deterministic_scheduling
from rocketmq_emulator.sim.scheduler import (
    PRIVATE_NAMES,
    SCHEDULER,
    TRIED_WITH,
    UnknownTrio,
    check_trio,
)
from rocketmq_emulator.sim.world import run_virtual
from tests.support.paths import ROOT, SUPPORT


def what_happened(seed: int, hash_seed: int) -> str:
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "sim" / "toy_world.py"), str(seed)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def test_one_seed_gives_one_log_in_two_interpreters_and_another_seed_another() -> None:
    first = what_happened(seed=7, hash_seed=1)
    assert len(first.splitlines()) > 100
    assert what_happened(seed=7, hash_seed=2) == first
    assert what_happened(seed=8, hash_seed=1) != first


def order(seed: int, after_each: Callable[[], object] = lambda: None) -> list[int]:
    """The order in which twenty tasks that wake at the same time continue, ten times."""
    seen: list[int] = []

    async def one(number: int) -> None:
        for _ in range(10):
            await trio.sleep(1)
            seen.append(number)
            after_each()

    async def main(world) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, number)

    run_virtual(main, seed=seed)
    return seen


def test_the_seed_decides_the_order_of_tasks() -> None:
    assert order(1) == order(1)
    assert order(1) != order(2)


def test_trio_is_left_as_it_was() -> None:
    own, is_sorted = _run._r, _run._ALLOW_DETERMINISTIC_SCHEDULING
    drawn_next = own.getstate()
    with deterministic_scheduling(1), deterministic_scheduling(2):
        assert _run._ALLOW_DETERMINISTIC_SCHEDULING is True
        _run._r.shuffle(list(range(9)))
    assert _run._r is own
    assert _run._ALLOW_DETERMINISTIC_SCHEDULING is is_sorted
    assert own.getstate() == drawn_next


async def test_a_virtual_run_refuses_to_start_inside_another_run() -> None:
    async def main(world) -> None: ...

    with pytest.raises(InsideTrioRun):
        run_virtual(main, seed=1)


def test_virtual_runs_repeat_themselves_beside_each_other_and_beside_a_busy_run() -> None:
    alone = {seed: order(seed) for seed in (1, 2)}
    turns, over = threading.Semaphore(0), threading.Event()

    async def other() -> None:
        async def spin() -> None:
            while not over.is_set():
                await trio.lowlevel.checkpoint()
                turns.release()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spin)
            nursery.start_soon(spin)

    busy = threading.Thread(target=trio.run, args=(other,))
    busy.start()
    try:
        with ThreadPoolExecutor(2) as threads:  # the busy run draws between any two of our draws
            orders = threads.map(lambda seed: order(seed, turns.acquire), alone)
            both = dict(zip(alone, orders, strict=True))
    finally:
        over.set()
        busy.join()
    assert both == alone


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_a_trio_without_a_private_name_is_refused_when_a_virtual_run_starts(
    name, monkeypatch
) -> None:
    *outer, last = name.split(".")
    monkeypatch.delattr(reduce(getattr, outer, _run), last)
    began = []

    async def main(world) -> None:
        began.append(world)

    with pytest.raises(
        UnknownTrio, match=rf"lacks trio\._core\._run\.{name}, which .* with trio 0\.30\.0,"
    ):
        run_virtual(main, seed=1)
    assert began == []


def test_a_trio_that_shuffles_with_something_else_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(_run, "_r", object())
    with pytest.raises(UnknownTrio, match=r"lacks a random\.Random"):
        check_trio()


def test_a_trio_without_its_scheduler_is_refused(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, SCHEDULER, None)
    with pytest.raises(UnknownTrio, match=rf"lacks {re.escape(SCHEDULER)}, which"):
        check_trio()


def test_the_page_names_the_releases_that_were_tried() -> None:
    page = (ROOT / "docs" / "worlds.md").read_text()
    (named,) = re.findall(r"Tried with trio ([\d., and]+):", page)
    assert re.findall(r"\d+\.\d+\.\d+", named) == list(TRIED_WITH)


def test_every_trio_from_the_oldest_one_that_was_tried_may_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (needed,) = [name for name in project["dependencies"] if name.startswith("trio")]
    oldest, _, patch = TRIED_WITH[0].rpartition(".")
    assert (needed, patch) == (f"trio>={oldest}", "0")

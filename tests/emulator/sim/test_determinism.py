"""One seed is one run, in whatever interpreter; beside another run there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
import trio
from trio._core import _run

from emulator.sim.determinism import (
    TRIO_BELOW,
    TRIO_FROM,
    NotAlone,
    deterministic_scheduling,
)
from emulator.sim.world import run_virtual

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def what_happened(seed: int, hash_seed: int) -> str:
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(HERE / "toy_world.py"), str(seed)],
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


def test_the_seed_decides_the_order_of_tasks() -> None:
    def order(seed: int) -> list[int]:
        seen: list[int] = []

        async def one(number: int) -> None:
            await trio.sleep(1)
            seen.append(number)

        async def main(world) -> None:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(one, number)

        run_virtual(main, seed=seed)
        return seen

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_trio_is_left_as_it_was() -> None:
    before = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    with deterministic_scheduling(1):
        assert _run._ALLOW_DETERMINISTIC_SCHEDULING is True
        assert _run._r.getstate() != before[1]
    assert (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()) == before


async def test_a_virtual_run_refuses_to_start_inside_another_run() -> None:
    async def main(world) -> None: ...

    with pytest.raises(NotAlone):
        run_virtual(main, seed=1)


def test_a_virtual_run_refuses_to_start_beside_another_threads_run() -> None:
    running = threading.Event()
    tokens: list[trio.lowlevel.TrioToken] = []
    scopes: list[trio.CancelScope] = []

    async def other() -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            tokens.append(trio.lowlevel.current_trio_token())
            running.set()
            await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(other,))
    thread.start()
    assert running.wait(10)
    try:
        with pytest.raises(NotAlone), deterministic_scheduling(1):
            pass
    finally:
        tokens[0].run_sync_soon(scopes[0].cancel)
        thread.join()
    with deterministic_scheduling(1):
        pass


def test_trio_is_capped_to_the_releases_whose_scheduler_was_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (trio_needed,) = [name for name in project["dependencies"] if name.startswith("trio")]
    first, below = (".".join(map(str, release)) for release in (TRIO_FROM, TRIO_BELOW))
    assert trio_needed == f"trio>={first},<{below}"

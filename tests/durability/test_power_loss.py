"""200 losses of power for each flush type: flushed messages stay, lost ones are in the journal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.paths import ROOT, TESTS

PROGRAM = TESTS / "durability" / "power_loss_run.py"
SEEDS = 50  # runs of one process; each loses power twice
NOTHING: tuple[str, ...] = (
    "lost although flushed",
    "missing without a word",
    "lost and yet consumed",
    "bugs",
)


def started(flush_disk_type: str, first_seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, PROGRAM, flush_disk_type, str(first_seed), str(first_seed + SEEDS)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )


def ended(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.parametrize("first_seed", range(0, 100, SEEDS))
def test_synchronous_flushes_lose_nothing_acknowledged_and_others_what_the_journal_says(
    first_seed: int,
) -> None:
    processes = [started(kind, first_seed) for kind in ("SYNC_FLUSH", "ASYNC_FLUSH")]
    synchronous, asynchronous = [ended(process) for process in processes]
    for run in (*synchronous, *asynchronous):
        assert run["acknowledged"] > 20
        assert [run[what] for what in NOTHING] == [[] for _ in NOTHING]
    assert all(run["acknowledged and lost"] == 0 for run in synchronous)
    # Both lost records; without losses, the assertions above would prove nothing.
    assert sum(run["gone"] for run in synchronous) > SEEDS / 2
    assert sum(run["acknowledged and lost"] for run in asynchronous) > 2 * SEEDS

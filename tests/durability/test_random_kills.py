"""Kills at random times: all acknowledged messages are consumed after the last restart."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT, TESTS

PROGRAM = TESTS / "durability" / "random_kills_run.py"
RUN_S_MAX = 120


def came_through(*seeds: int, how: tuple[str, ...] = ()) -> list[dict]:
    """The outcome of each seed; the runs are concurrent."""
    runs = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(seed), *how],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        for seed in seeds
    ]
    outputs = [run.communicate(timeout=RUN_S_MAX)[0] for run in runs]
    assert [run.returncode for run in runs] == [0] * len(runs)
    return [json.loads(output) for output in outputs]


@pytest.mark.parametrize("seed", range(1, 9, 2))
def test_client_invariant_61_no_acknowledged_message_is_lost_to_kills_at_random_times(
    seed: int,
) -> None:
    for found in came_through(seed, seed + 1):
        assert found["sent"] > 300
        assert found["lost"] == []
        assert found["bugs"] == []


def test_client_invariant_61_a_client_that_commits_what_it_pulled_loses_messages() -> None:
    for found in came_through(1, 2, how=("eager",)):
        assert found["sent"] > 300
        assert found["lost"]

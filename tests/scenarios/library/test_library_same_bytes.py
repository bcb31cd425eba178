"""One seed, two processes with different string hashes: every scenario's journal is the same.

The second process runs the scenarios in reverse order, so the test also fails if a run depends
on state that an earlier run left in its process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rocketmq_emulator.scenarios.catalog.finding import LIBRARY, in_folder, load
from tests.support.paths import ROOT, SUPPORT
from tests.support.scenarios.bytes_of_runs import releases_of

RATE_MAX = 1.0  # messages a second: to compare the order of facts, few are enough
PROGRAM = SUPPORT / "scenarios" / "bytes_of_runs.py"


def begun(hash_seed: int, output: Path, *arguments: str) -> subprocess.Popen[bytes]:
    env = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, PROGRAM, str(RATE_MAX), *arguments]
    with output.open("wb") as file:
        return subprocess.Popen(command, env=env, stdout=file)


def test_each_scenario_of_the_library_writes_the_same_bytes_in_two_processes(tmp_path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with begun(1, one) as first, begun(2, other, "backwards") as second:
        pass
    assert (first.returncode, second.returncode) == (0, 0)
    forwards, backwards = (file.read_text().splitlines() for file in (one, other))
    parted = [pair for pair in zip(forwards, reversed(backwards), strict=True) if len({*pair}) > 1]
    assert parted == [], "`rmqemu replay SCENARIO` runs one twice and shows the first difference"
    assert [line for line in forwards if ": finished, " not in line] == []
    assert {tuple(line.split()[1:3]) for line in forwards} >= {
        (found.name, f"{release}:")
        for found in in_folder(LIBRARY)
        for release in releases_of(load(found.name))
    }

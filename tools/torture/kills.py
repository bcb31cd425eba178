"""Two hundred ``kill -9`` under load: the test with twenty kills, ten times as long."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.clusters import ROOT
from tools.torture import Row

NAME = "brokers killed under load"
KILLS = 200
TEST = "tests/durability/test_kill_nine.py"
COMMAND = (sys.executable, "-m", "pytest", "-q", "--timeout=0", TEST)  # a theme has its own limit


def run() -> list[Row]:
    """One row: whether every acknowledged message survived, in its queue and at its offset."""
    ended = subprocess.run(
        COMMAND,
        cwd=ROOT,
        env={**os.environ, "KILLS": str(KILLS)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.stderr.write(ended.stdout)
    found = "nothing lost" if ended.returncode == 0 else ended.stdout.splitlines()[-1]
    what = f"{KILLS} × kill -9 of a broker while it takes sync, async, batch and delayed sends"
    return [Row(what, "no acknowledged message lost", found, ended.returncode == 0)]

"""Running the command line as a user does: another process, its pipes, its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

RMQEMU = (sys.executable, "-m", "rocketmq_emulator")
PATIENCE_S = 60


def environment(**more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RMQEMU_")}
    for name in ("NAMESRV_ADDR", "COLUMNS", "LINES"):  # a test run of several processes sets two
        plain.pop(name, None)
    return {**plain, "PYTHONPATH": str(ROOT), **more}


def rmqemu(*arguments: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end."""
    return subprocess.run(
        [*RMQEMU, *arguments],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment(**more),
        check=False,
    )


@contextlib.contextmanager
def started(
    *arguments: str, command: tuple[str, ...] = RMQEMU
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs until the block ends."""
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def ready_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The command's first line; readline returns at the latest when the process ends."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read().decode()
    found: dict[str, Any] = json.loads(line)
    return found


def wait_gone(pids: Collection[int]) -> None:
    """Wait until none of these processes runs; they are not our children."""
    until_s = time.monotonic() + PATIENCE_S
    while any(map(is_running, pids)):
        assert time.monotonic() < until_s, f"some of {pids} still run"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """False if the process has ended, also if its parent has not waited for it (a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends while it is read
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"

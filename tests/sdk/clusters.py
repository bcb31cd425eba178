"""A cluster is a command that prints one JSON line when it is ready and lives until SIGTERM.

Our ``up`` and the launcher of a real RocketMQ keep the same promise, so that a story does
not know which of them it is told to.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
READY_S_MAX = 120
STOP_S_MAX = 20

OURS = (sys.executable, "-m", "emulator.cli", "up", "--brokers", "2", "--port", "0")
REAL = (sys.executable, str(ROOT / "benchmarks" / "real_cluster.py"), "--version", "4.9.7")


class Cluster(msgspec.Struct, frozen=True):
    """Where a running cluster listens."""

    namesrv: str
    brokers: dict[str, str]
    pids: list[int] = []
    ready_s: float = 0.0


@contextlib.contextmanager
def running(
    command: Sequence[str], settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """The cluster that *command* starts, stopped with the block."""
    environment = dict(os.environ, PYTHONUNBUFFERED="1", **(settings or {}))
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield msgspec.convert(_ready_line(process), Cluster)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _ready_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The first JSON line, or an error that says what came instead."""
    assert process.stdout is not None
    stream = process.stdout
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        text = lines.get(timeout=READY_S_MAX)
    except queue.Empty:
        raise AssertionError(f"no cluster after {READY_S_MAX} s: {process.args!r}") from None
    if not text.startswith("{"):
        raise AssertionError(f"the cluster said {text!r} and exit code {process.poll()}")
    line: dict[str, Any] = json.loads(text)
    return line

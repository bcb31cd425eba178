"""A cluster is a command that prints one JSON line when it is ready and lives until SIGTERM.

``rmqemu up`` and the launcher of a real RocketMQ keep the same promise, so that whoever
measures or tests a cluster does not know which of them it is.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
READY_S_MAX = 600.0  # of the command: a busy machine starts a JVM in minutes
STOP_S_MAX = 20.0

OURS = (sys.executable, "-m", "rocketmq_emulator.cli", "up", "--brokers", "2", "--port", "0")
REAL = (sys.executable, str(ROOT / "benchmarks" / "real_cluster.py"), "--version", "4.9.7")


class ClusterNotUp(Exception):
    """The command ended, or printed something else, or nothing for too long."""


class Cluster(msgspec.Struct, frozen=True):
    """Where a running cluster listens, and which processes its servers are."""

    namesrv: str
    brokers: dict[str, str]
    pids: list[int] = []
    ready_s: float = 0.0  # as the command measured it
    started_s: float = 0.0  # from the start of the command to its line, as we measured it
    command_pid: int = 0


@contextlib.contextmanager
def running(command: Sequence[str]) -> Iterator[Cluster]:
    """The cluster that *command* starts; it is gone after the block.  Raises ``ClusterNotUp``."""
    began_s = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE
    ) as process:
        try:
            line = _first_line(process)
            started_s = time.monotonic() - began_s
            cluster = msgspec.json.decode(line, type=Cluster)
            yield msgspec.structs.replace(cluster, started_s=started_s, command_pid=process.pid)
        finally:
            _stop(process)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    lines: queue.Queue[bytes] = queue.Queue()
    stream = process.stdout
    assert stream is not None
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        line = lines.get(timeout=READY_S_MAX)
    except queue.Empty:
        raise ClusterNotUp(f"silent for {READY_S_MAX} s: {process.args!r}") from None
    if not line.startswith(b"{"):
        raise ClusterNotUp(f"{process.args!r} printed {line!r} and no JSON line")
    return line


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()


def _environment() -> dict[str, str]:
    # A start that compiles our code would measure the compiler: installed code is compiled.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return dict(kept, PYTHONUNBUFFERED="1")

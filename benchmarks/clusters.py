"""A cluster is a command that prints one JSON line when it is ready and runs until SIGTERM.

``rmqemu up`` and the launcher of a real RocketMQ behave the same, so that benchmarks and tests
of a cluster use the same code for both.
"""

from __future__ import annotations

import contextlib
import http.client
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
READY_S_MAX = 600.0  # for the JSON line: a busy machine starts a JVM in minutes
STOP_S_MAX = 20.0

OURS = (sys.executable, "-m", "rocketmq_emulator.cli", "up", "--brokers", "2", "--port", "0")
REAL = (sys.executable, str(ROOT / "benchmarks" / "real_cluster.py"), "--version", "4.9.7")


class ClusterNotUp(Exception):
    """The command ended or printed another line, or printed none for ``READY_S_MAX``."""


class Cluster(msgspec.Struct, frozen=True):
    """The addresses of a running cluster, and the processes of its servers."""

    namesrv: str
    brokers: dict[str, str]
    controllers: dict[str, str] = {}
    pids: list[int] = []
    ready_s: float = 0.0  # as the command measured it
    started_s: float = 0.0  # from the start of the command to its line, measured here
    command_pid: int = 0
    control: str = ""  # URL by which a server is killed and started

    def control_node(self, name: str, verb: str) -> None:
        """``kill`` (as by kill -9) or ``start`` a server; returns when that is done."""
        address = self.control.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(address, timeout=READY_S_MAX)) as link:
            link.request("POST", f"/nodes/{name}/{verb}")
            answer = link.getresponse()
            text = answer.read().decode()
        assert answer.status == http.HTTPStatus.OK, f"{verb} {name}: {answer.status} {text}"


@contextlib.contextmanager
def running(command: Sequence[str]) -> Iterator[Cluster]:
    """Start a cluster by *command*, and stop it after the block.  Raises ``ClusterNotUp``."""
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
        raise ClusterNotUp(f"no line in {READY_S_MAX} s from {process.args!r}") from None
    if not line.startswith(b"{"):
        raise ClusterNotUp(f"{process.args!r} printed {line!r} instead of a JSON line")
    return line


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()


def _environment() -> dict[str, str]:
    # Bytecode is written as for installed code: otherwise each start would measure the compiler.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return dict(kept, PYTHONUNBUFFERED="1")

"""The load: the official Java client of the compared release, one process per measurement.

Jars are fetched and class files compiled once, under ``.cache``.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.clusters import ROOT
from benchmarks.real_cluster import fetched_jars

RELEASE = "4.9.7"
SOURCE = Path(__file__).resolve().parent / "java" / "Bench.java"
BODY_BYTES = 100
RUN_S_MAX = 300


class LoadFailed(Exception):
    """The client failed or printed no figures, or messages are missing."""


def bench(namesrv: str, mode: str, *arguments: object) -> dict[str, Any]:
    """Run the load program in *mode*; returns its figures.  Raises ``LoadFailed``."""
    command = ["java", "-cp", classpath(), "Bench", namesrv, mode, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=RUN_S_MAX, check=False)
    figures = [line for line in done.stdout.splitlines() if line.startswith(b'{"mode"')]
    if done.returncode != 0 or not figures:
        raise LoadFailed(f"{mode} {arguments}: {(done.stdout + done.stderr)[-800:].decode()}")
    found: dict[str, Any] = json.loads(figures[-1])
    return found


def classpath() -> str:
    """The class path; jars are fetched and classes compiled at the first call."""
    jars = fetched_jars(RELEASE)
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    classes = ROOT / ".cache" / f"bench-{digest}"
    if not classes.exists():
        compiler = ["javac", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(classes)]
        subprocess.run([*compiler, str(SOURCE)], check=True)
    return f"{classes}:{jars}/*"

"""A sweep on a standalone Spark cluster whose executors have only a packed environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pyspark
import pytest

from rocketmq_emulator.pipeline.sweep.folder import RUNS
from rocketmq_emulator.pipeline.sweep.rows import SweptRow, read_rows
from tests.support.free_ports import free_port
from tests.support.paths import ROOT
from tests.support.pipeline.sweeping import QUESTIONS, SHORT
from tests.support.wheels import built

LIBRARIES = ("trio", "msgspec", "h11", "structlog", "typer", "rich", "lz4", "zstandard")
OF_EXECUTORS = (*LIBRARIES, "pyarrow")  # workers have PySpark in their Spark
NEEDLESS = ("__pycache__", "/include/", "/tests/")
PATIENCE_S = 90
WORKERS = 2


def packed(target: Path) -> Path:
    """A virtual environment as a ``.tar.gz``: Python, these libraries, and the built wheel.

    Spark unpacks a plain ``.tar`` without execute permissions, and refuses links that lead out
    of an archive.
    """
    site = Path(sysconfig.get_paths()["purelib"])
    inside = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    with tarfile.open(target, "w:gz", compresslevel=0) as tar:
        tar.add(Path(sys.prefix, "pyvenv.cfg"), "pyvenv.cfg")
        tar.add(Path(sys.executable).resolve(), "bin/python")
        for top in sorted(files_of(OF_EXECUTORS)):
            if (site / top).exists():
                tar.add(site / top, f"{inside}/{top}", filter=no_caches)
        wheel = built("wheel", target.parent / "wheel")
        shutil.unpack_archive(wheel, target.parent / "unpacked", "zip")
        tar.add(target.parent / "unpacked", inside, filter=no_caches)
    return target


def files_of(names: tuple[str, ...]) -> set[str]:
    """Names in ``site-packages`` that belong to these distributions or their dependencies."""
    found: set[str] = set()
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # a dependency for another platform, or of an extra
        if name in seen or name == "pyspark":
            continue
        seen.add(name)
        tops = {str(file).split("/")[0] for file in distribution.files or ()}
        found |= {top for top in tops if top not in ("..", "__pycache__")}
        needed = [text for text in distribution.requires or () if "extra ==" not in text]
        waiting += [re.match(r"[\w.-]+", text)[0] for text in needed]
    return found


def no_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(part in entry.name for part in NEEDLESS) else entry


@pytest.fixture
def master(spark_parts, tmp_path) -> Iterator[str]:
    """The address of a Spark master on loopback; it has two workers of one core each."""
    del spark_parts
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    at = ("--host", "127.0.0.1", "--webui-port", "0")
    commands = [("master.Master", *at, "--port", str(port))]
    work = [tmp_path / f"worker{number}" for number in range(WORKERS)]
    own = ("--cores", "1", "--memory", "600m", "--work-dir")
    commands += [("worker.Worker", *at, *own, str(folder), address) for folder in work]
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    environment.pop("PYTHONPATH", None)
    started = []
    try:
        for kind, *words in commands:
            line = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *words]
            log = (tmp_path / f"{len(started)}.log").open("wb")
            started.append(subprocess.Popen(line, stdout=log, stderr=log, env=environment))
            log.close()
            if kind == "master.Master":
                wait_for_port(port, started[0])
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(PATIENCE_S)


def wait_for_port(port: int, process: subprocess.Popen) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None
        assert time.monotonic() < until_s
        time.sleep(0.1)


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The environment of the executors."""
    return packed(tmp_path_factory.mktemp("packed") / "environment.tar.gz")


def swept(master: str, archive: Path, folder: Path, *words: str) -> tuple[dict, str]:
    """The summary of a ``rmqemu sweep`` into ``folder/sweep``, and its standard error."""
    line = [*words, "--to", str(folder / "sweep"), "--master", master, "--json"]
    for setting in (
        f"spark.archives={archive}#environment",
        "spark.driver.host=127.0.0.1",
        "spark.executor.memory=512m",
        "spark.scheduler.minRegisteredResourcesRatio=1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime=60s",
        "spark.cores.max=2",
    ):
        line += ["--conf", setting]
    run = subprocess.run(
        [sys.executable, "-m", "rocketmq_emulator.cli", "sweep", *line],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=False,
    )
    assert run.stdout, run.stderr
    return json.loads(run.stdout), run.stderr


def rows_in(folder: Path) -> list[SweptRow]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    return [each.row for each in read_rows(pq.read_table(folder / "sweep" / RUNS))]


@pytest.mark.cluster
def test_a_sweep_runs_on_two_workers_from_a_packed_environment(master, archive, tmp_path) -> None:
    file = tmp_path / "short.toml"
    file.write_text(SHORT.replace("lost = 0", "sends_max = 9"))
    words = (str(file), "--vary", "queues=1..2", "--seeds", "1..4")
    summary, _ = swept(master, archive, tmp_path, *words)
    assert (summary["done"], summary["failed"], summary["error"]) == (8, 8, 0)
    rows = rows_in(tmp_path)
    assert {row.reason for row in rows} == {"sends <= 9 was expected, it is 10"}
    assert all(Path(row.journal).is_file() for row in rows)
    unpacked = [*tmp_path.glob("worker*/app-*/*/environment/bin/python")]
    assert len(unpacked) == WORKERS


@pytest.mark.cluster
def test_a_question_in_a_file_of_ones_own_is_brought_to_the_workers(
    master, archive, tmp_path
) -> None:
    (tmp_path / "mine.py").write_text(QUESTIONS)
    words = ("mine.py:halves", "--vary", "width=2..5", "--seeds", "0..49")
    brought = ("--conf", f"spark.files={tmp_path / 'mine.py'}")
    summary, said = swept(master, archive, tmp_path, *words, *brought)
    assert (summary["done"], summary["error"]) == (200, 0), said
    halves = {row.metrics["half"] for row in rows_in(tmp_path)}
    assert halves == {1.0, 1.5, 2.0, 2.5}

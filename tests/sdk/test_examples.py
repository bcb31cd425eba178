"""The examples in other languages, started with ``make run`` as their first lines document."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.clusters import ROOT
from rocketmq_emulator.cli.options.shared import read_cluster
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.sdk import toolchains

RUN_S_MAX = 120.0  # most of it for downloads in the first run
TOOLS = {"java": ("java", "mvn"), "node": ("node", "npm"), "go": ("go",)}
PRINTED = {
    "java": ["SEND_OK", "from Java"],
    "node": ["SEND_OK", "from Node"],
    "go": ["from Go"],
}
COLOUR_OFF = "\x1b[0m"  # Debian's Maven always writes it


def need(*tools: str) -> None:
    try:
        toolchains.need(*tools)
    except toolchains.PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))


def make_run(language: str, namesrv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return make(language, "run", folder, f"NAMESRV={namesrv}")


def make(
    example: str, target: str, folder: Path, *settings: str
) -> subprocess.CompletedProcess[str]:
    """Run ``make`` in a copy of the example, so that built files are not in the source tree."""
    copy = folder / example
    built = shutil.ignore_patterns("target", "node_modules")
    shutil.copytree(ROOT / "examples" / example, copy, ignore=built)
    settings = (*settings, f"RMQEMU={sys.executable} -m rocketmq_emulator")
    command = ["make", "--no-print-directory", "-s", "-C", str(copy), target, *settings]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and the processes that make started
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


@pytest.mark.sdk
@pytest.mark.parametrize("language", TOOLS)
def test_an_example_runs_as_it_is_and_leaves_no_lag(language: str, tmp_path: Path) -> None:
    need("make", *TOOLS[language])
    with EmbeddedCluster(ClusterSpec()) as cluster:
        run = make_run(language, cluster.namesrv, tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.stdout.replace(COLOUR_OFF, "").splitlines() == PRINTED[language]
        (group,) = read_cluster(cluster.namesrv).groups
        assert (group.name, group.lag) == (f"hello-{language}-readers", 0)
        assert group.committed == 1


@pytest.mark.parametrize("language", TOOLS)
def test_an_example_without_a_cluster_says_so_in_one_line(language: str, tmp_path: Path) -> None:
    run = make_run(language, "127.0.0.1:1", tmp_path)
    assert run.returncode != 0
    (line,) = run.stdout.splitlines()
    assert line.startswith("nobody listens at 127.0.0.1:1: start a cluster (rmqemu up)")


@pytest.mark.sdk
def test_a_suite_in_java_kills_a_broker_and_loses_nothing(tmp_path: Path) -> None:
    need("make", "java", "mvn")
    run = make("junit", "test", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    reports = tmp_path / "junit" / "target" / "surefire-reports"
    for suite, count in (("BrokerDiesTest", 1), ("ResetTest", 3)):
        passed = f"Tests run: {count}, Failures: 0, Errors: 0, Skipped: 0"
        assert passed in (reports / f"{suite}.txt").read_text()


@pytest.mark.sdk
def test_tests_in_go_reset_a_running_cluster_and_kill_a_broker(tmp_path: Path) -> None:
    need("make", "go")
    with EmbeddedCluster(control=0) as cluster:
        settings = (f"NAMESRV={cluster.namesrv}", f"CONTROL={cluster.control}")
        run = make("go", "test", tmp_path, *settings)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "ok" in run.stdout.split()


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("tool", "command"), [("java", ("java", "Fault.java")), ("go", ("go", "run", "fault.go"))]
)
def test_a_fault_is_begun_and_ended_from_another_language(tool: str, command) -> None:
    need(tool)
    with EmbeddedCluster(control=0) as cluster:
        run = subprocess.run(
            [*command, cluster.control],
            cwd=ROOT / "examples" / "faults",
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S_MAX,
        )
        assert run.stdout.splitlines() == ["dead", "running"], run.stderr
        assert cluster.faults() == ()

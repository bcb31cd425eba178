"""The examples in other languages, started with ``make run`` and ``make test`` as they document.

Their suites use the libraries of ``testkits``, which start and end clusters; one test of each uses
a cluster whose ports are mapped, as a container engine does it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from benchmarks.clusters import ROOT
from rocketmq_emulator.cli.options.shared import read_cluster
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from tests.sdk import toolchains
from tests.support.net.mapped_ports import MappedPort, mapped

RUN_S_MAX = 300.0  # most of it for downloads in the first run
END_S_MAX = 20.0
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


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of examples and libraries, so that built files are not in the source tree."""
    folder = tmp_path_factory.mktemp("copies")
    built = shutil.ignore_patterns("target", "node_modules")
    for name in ("examples", "testkits"):
        shutil.copytree(ROOT / name, folder / name, ignore=built)
    return folder


def make_run(language: str, namesrv: str, copies: Path) -> subprocess.CompletedProcess[str]:
    return make(language, "run", copies, f"NAMESRV={namesrv}")


def make(
    example: str, target: str, copies: Path, *settings: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    settings = (*settings, f"RMQEMU={sys.executable} -m rocketmq_emulator")
    where = str(copies / "examples" / example)
    command = ["make", "--no-print-directory", "-s", "-C", where, target, *settings]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
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
def test_an_example_runs_as_it_is_and_leaves_no_lag(language: str, copies: Path) -> None:
    need("make", *TOOLS[language])
    with EmbeddedCluster(ClusterSpec()) as cluster:
        run = make_run(language, cluster.namesrv, copies)
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.stdout.replace(COLOUR_OFF, "").splitlines() == PRINTED[language]
        (group,) = read_cluster(cluster.namesrv).groups
        assert (group.name, group.lag) == (f"hello-{language}-readers", 0)
        assert group.committed == 1


@pytest.mark.parametrize("language", TOOLS)
def test_an_example_without_a_cluster_says_so_in_one_line(language: str, copies: Path) -> None:
    run = make_run(language, "127.0.0.1:1", copies)
    assert run.returncode != 0
    (line,) = run.stdout.splitlines()
    assert line.startswith("nobody listens at 127.0.0.1:1: start a cluster (rmqemu up)")


class Mapped(NamedTuple):
    """A cluster, and the mapped ports by its own ports, as the examples expect them."""

    cluster: EmbeddedCluster
    ports: Mapping[int, MappedPort]

    @property
    def variable(self) -> str:
        pairs = ((inside, port.address.rpartition(":")[2]) for inside, port in self.ports.items())
        return ",".join(f"{inside}={outside}" for inside, outside in pairs)


@pytest.fixture(scope="module")
def container() -> Iterator[Mapped]:
    """In place of a container with the ports 9875, 9876 and those of its brokers."""
    with EmbeddedCluster(control=0) as cluster, ExitStack() as stack:
        targets = {
            9875: cluster.control.removeprefix("http://"),
            9876: cluster.addresses["namesrv"],
        }
        for name in cluster.spec.broker_names:
            address = cluster.addresses[name]
            targets[int(address.rpartition(":")[2])] = address
        ports = {inside: stack.enter_context(mapped(to)) for inside, to in targets.items()}
        yield Mapped(cluster, ports)


def suite(language: str, copies: Path, container: Mapped) -> str:
    """Run an example's tests: they use each mapped port, and no process is left; the output."""
    mark, counts = uuid.uuid4().hex, {}
    for inside, port in container.ports.items():
        counts[inside] = port.connection_count
    for name, address in container.cluster.addresses.items():
        if name in container.cluster.spec.broker_names:
            container.cluster.advertise(name, address)
    run = make(language, "test", copies, MAPPED_PORTS=container.variable, SUITE=mark)
    assert run.returncode == 0, run.stdout + run.stderr
    for inside, port in container.ports.items():
        assert port.connection_count > counts[inside], f"no client has used the port for {inside}"
    shown = {port.address.rpartition(":")[2] for port in container.ports.values()}
    assert {to.rpartition(":")[2] for to in container.cluster.brokers.values()} <= shown
    left = [process for process in psutil.process_iter() if belongs_to(mark, process)]
    _, alive = psutil.wait_procs(left, timeout=END_S_MAX)
    assert alive == []
    assert 'Exception in thread "rmqemu' not in run.stdout + run.stderr  # of the Java library
    return run.stdout


def belongs_to(mark: str, process: psutil.Process) -> bool:
    try:
        return process.environ().get("SUITE") == mark
    except psutil.Error:
        return False


@pytest.mark.sdk
def test_a_suite_in_java_hurts_its_clusters_and_loses_nothing(copies: Path, container) -> None:
    need("make", "java", "mvn")
    suite("junit", copies, container)
    reports = (copies / "examples" / "junit" / "target" / "surefire-reports").glob("*.xml")
    text = "".join(report.read_text() for report in reports)
    assert not re.search("<(failure|error|skipped)", text)
    assert sorted(re.findall(r'<testcase name="[^"]*" classname="([^"]*)"', text)) == [
        "BrokerDiesTest",
        *["ClusterEndsTest"] * 3,
        "FailedTestTest",
        "MappedPortsTest",
        "ReplyRuleTest",
        *["ResetTest"] * 5,
        "SideBySideTest$One",
        "SideBySideTest$Other",
    ]


@pytest.mark.sdk
def test_a_suite_in_go_resets_its_clusters_and_kills_a_broker(copies: Path, container) -> None:
    need("make", "go")
    assert "ok" in suite("go", copies, container).split()


@pytest.mark.sdk
def test_a_suite_in_node_resets_its_cluster_and_kills_a_broker(copies: Path, container) -> None:
    need("make", "node", "npm")
    printed = suite("node", copies, container)
    assert "# pass 6\n" in printed
    assert "# todo 1\n" in printed  # it fails on purpose


def test_the_libraries_for_tests_have_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for file, line in (
        ("testkits/java-junit/pom.xml", f"<version>{version}</version>"),
        ("testkits/node/package.json", f'"version": "{version}"'),
        ("examples/junit/pom.xml", f"<version>{version}</version>"),
        ("examples/go/go.mod", f"rocketmq-emulator/testkit v{version}"),
    ):
        assert line in (ROOT / file).read_text(), file

"""One cluster and one process per official client for the whole run; a scenario per test.

``STORY_CLUSTER=real`` runs the same tests on a real RocketMQ 4.9.7, and
``STORY_CLUSTER=HOST:PORT`` on the cluster of that NameServer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from benchmarks.clusters import OURS, REAL, Cluster, running
from tests.sdk import toolchains
from tests.sdk.administration import cluster_at
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess
from tests.sdk.toolchains import found_or_skipped


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    wanted = os.environ.get("STORY_CLUSTER", "ours")
    if ":" in wanted:
        yield cluster_at(wanted)
        return
    with running({"ours": OURS, "real": REAL}[wanted]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def java(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkProcess]:
    scratch = tmp_path_factory.mktemp("java")
    process = SdkProcess(
        "java",
        found_or_skipped(lambda: toolchains.java_command(cluster.namesrv, scratch)),
        os.environ,
    )
    yield process
    process.stop()


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> Iterator[SdkProcess]:
    command = found_or_skipped(lambda: toolchains.node_command(cluster.namesrv))
    process = SdkProcess("node", command, found_or_skipped(toolchains.node_environment))
    yield process
    process.stop()


@pytest.fixture(scope="session")
def go(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkProcess]:
    command = found_or_skipped(lambda: toolchains.go_command(cluster.namesrv))
    process = SdkProcess("go", command, toolchains.go_environment(tmp_path_factory.mktemp("go")))
    yield process
    process.stop()


@pytest.fixture(params=["java", "node", "go"])
def sdk(request: pytest.FixtureRequest) -> SdkProcess:
    """Each official client in turn."""
    process: SdkProcess = request.getfixturevalue(request.param)
    return process


@pytest.fixture
def scenario(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    title = re.sub(r"[^a-z_]", "-", request.node.name.removeprefix("test_"))
    with Scenario(cluster, title) as scenario:
        yield scenario

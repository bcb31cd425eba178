"""Tests with ``cluster`` run twice: on our cluster, and (marked ``real``) on a real 4.9.7."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from benchmarks.clusters import OURS, REAL, Cluster, running
from benchmarks.real_cluster import fetched_jars
from tests.sdk.scenario import Scenario

# On a busy machine a send may wait for longer than the 200 ms after which it would be refused.
PATIENT = ("--set", "waitTimeMillsInSendQueue=20000")
COMMANDS = {"ours": OURS, "real": (*REAL, *PATIENT)}


@pytest.fixture(scope="session", params=["ours", pytest.param("real", marks=pytest.mark.real)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "real" and (missing := missing_for_real()):
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {missing}")
        pytest.skip(missing)
    with running(COMMANDS[request.param]) as cluster:
        yield cluster


@pytest.fixture
def scenario(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Scenario]:
    title = re.sub(r"[^a-z_]", "-", request.node.name.removeprefix("test_"))
    with Scenario(cluster, title) as scenario:
        yield scenario


def missing_for_real() -> str:
    """The reason why a real RocketMQ cannot run here; "" if it can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        return f"no {' and no '.join(missing)} on this machine"
    try:
        fetched_jars("4.9.7")
    except subprocess.CalledProcessError as failed:
        return f"the jars of RocketMQ 4.9.7 could not be fetched: {failed}"
    return ""

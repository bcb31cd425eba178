"""One cluster and one process per official client for the whole run; a stage per story.

``STORY_CLUSTER=real`` tells the same stories to a real RocketMQ 4.9.7, and
``STORY_CLUSTER=HOST:PORT`` to whatever NameServer listens there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from sdk import parts
from sdk.actors import Actor
from sdk.administration import cluster_at
from sdk.stage import Stage

from benchmarks.clusters import OURS, REAL, Cluster, running

T = TypeVar("T")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    wanted = os.environ.get("STORY_CLUSTER", "ours")
    if ":" in wanted:
        yield cluster_at(wanted)
        return
    with running({"ours": OURS, "real": REAL}[wanted]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def java(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    scratch = tmp_path_factory.mktemp("java")
    actor = Actor("java", _part(lambda: parts.java_command(cluster.namesrv, scratch)), os.environ)
    yield actor
    actor.stop()


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> Iterator[Actor]:
    command = _part(lambda: parts.node_command(cluster.namesrv))
    actor = Actor("node", command, _part(parts.node_environment))
    yield actor
    actor.stop()


@pytest.fixture(params=["java", "node"])
def sdk(request: pytest.FixtureRequest) -> Actor:
    """Each official client in turn."""
    actor: Actor = request.getfixturevalue(request.param)
    return actor


@pytest.fixture
def stage(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    title = re.sub(r"[^a-z_]", "-", request.node.name.removeprefix("test_"))
    with Stage(cluster, title) as stage:
        yield stage


def _part(fetch: Callable[[], T]) -> T:
    """What *fetch* gives; without it the story is skipped, or fails where parts are required."""
    try:
        return fetch()
    except parts.PartMissing as reason:
        if os.environ.get("REQUIRE_PARTS") == "1":
            pytest.fail(f"REQUIRE_PARTS=1, but {reason}")
        pytest.skip(str(reason))

"""A cluster of operating-system processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.processes.node_process import NodeDied


def masters(namesrv: str) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        async with admin_over_tcp(namesrv) as admin:
            return await admin.masters()

    return trio.run(ask)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    with ProcessCluster(ClusterSpec(store=str(store)), journal=str(store / "facts")) as running:
        yield running


def test_every_broker_is_in_the_route_when_the_block_begins(cluster) -> None:
    assert masters(cluster.namesrv) == cluster.brokers
    assert set(cluster.pids) == {"namesrv", "broker-a", "broker-b"}
    assert 0 < cluster.ready_s < 20


def test_a_broker_that_was_killed_starts_again_where_it_listened(cluster) -> None:
    address, pid = cluster.brokers["broker-b"], cluster.pids["broker-b"]
    cluster.kill("broker-b")
    assert not is_alive(pid)
    cluster.check_alive()  # a requested kill is no death to report
    cluster.restart("broker-b")
    assert cluster.brokers["broker-b"] == address
    assert cluster.pids["broker-b"] != pid
    assert masters(cluster.namesrv)["broker-b"] == address


def test_a_paused_node_answers_again_when_it_is_resumed(cluster) -> None:
    cluster.pause("namesrv")
    cluster.resume("namesrv")
    assert masters(cluster.namesrv) == cluster.brokers


def test_each_node_writes_its_facts_to_a_file_of_its_own_and_what_was_done_to_it_is_in_another(
    cluster,
) -> None:
    cluster.pause("namesrv")
    cluster.resume("namesrv")
    facts = Path(cluster.spec.store, "facts").iterdir()
    assert sorted(path.name for path in facts) == [
        "broker-a.jsonl",
        "broker-b.jsonl",
        "namesrv.jsonl",
        "world.jsonl",
    ]


def test_a_death_nobody_asked_for_is_reported_with_how_it_came() -> None:
    with ProcessCluster(ClusterSpec(brokers=1)) as running:
        os.kill(running.pids["broker-a"], signal.SIGKILL)
        running._nodes["broker-a"].popen.wait()
        with pytest.raises(NodeDied, match="broker-a was killed by signal 9"):
            running.check_alive()


def test_who_died_by_itself_can_be_started_again_and_leaves_no_file_open() -> None:
    with ProcessCluster(ClusterSpec(brokers=1)) as running:
        pid, open_files = running.pids["broker-a"], len(list(Path("/proc/self/fd").iterdir()))
        os.kill(pid, signal.SIGKILL)
        dead = running._nodes["broker-a"].popen
        dead.wait()
        running.start("broker-a")
        assert dead.stdin.closed
        assert dead.stdout.closed
        assert len(list(Path("/proc/self/fd").iterdir())) == open_files
        running.check_alive()


def test_all_nodes_are_gone_after_the_block_even_a_paused_one() -> None:
    with ProcessCluster(ClusterSpec(brokers=1)) as running:
        pids = list(running.pids.values())
        running.pause("broker-a")
    assert not any(map(is_alive, pids))


def test_a_node_that_does_not_end_in_time_is_killed() -> None:
    with ProcessCluster(ClusterSpec(brokers=0)) as running:
        pid = running.pids["namesrv"]
        running.pause("namesrv")
        running._nodes["namesrv"].wait_ended(time.monotonic())
        assert not is_alive(pid)


def test_a_start_that_fails_says_what_the_node_said_and_leaves_nobody(cluster) -> None:
    port = int(cluster.namesrv.rpartition(":")[2])
    second = ProcessCluster(ClusterSpec(port=port, brokers=0))
    with pytest.raises(NodeDied) as caught, second:
        pass
    assert str(caught.value) == (
        f"namesrv: 127.0.0.1:{port} is in use: "
        "stop the process that uses it, or choose another port (0 = any free one)"
    )
    assert not any(map(is_alive, second.pids.values()))

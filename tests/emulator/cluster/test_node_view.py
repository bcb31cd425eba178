"""The states of nodes that a cluster reports, also after signals from outside."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from rocketmq_emulator.cluster.node_view import NodeCondition, StateTimes
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import ClusterEnded, UnknownNode
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.processes.node_process import NodeDied


def states(cluster) -> list[str]:
    return [node.state for node in cluster.nodes]


@pytest.fixture(scope="module")
def cluster():
    with ProcessCluster(ClusterSpec()) as running:
        yield running


def test_a_node_has_a_role_an_address_a_process_and_a_state(cluster) -> None:
    assert [(node.name, node.role) for node in cluster.nodes] == [
        ("namesrv", "nameserver"),
        ("broker-a", "broker"),
        ("broker-b", "broker"),
    ]
    broker = cluster.node("broker-a")
    assert broker.address == cluster.brokers["broker-a"]
    assert broker.pid == cluster.pids["broker-a"]
    assert states(cluster) == ["running"] * 3
    with pytest.raises(UnknownNode, match="there are broker-a, broker-b, namesrv"):
        cluster.node("nobody")


def test_who_was_killed_is_dead_and_who_was_stopped_is_stopped(cluster) -> None:
    cluster.kill("broker-b")
    broker = cluster.node("broker-b")
    assert (broker.state, broker.pid, broker.signal, broker.exit_code) == ("dead", None, 9, None)
    assert broker.address == cluster.brokers["broker-b"]
    cluster.restart("broker-b")
    cluster.stop("broker-b")
    broker = cluster.node("broker-b")
    assert (broker.state, broker.signal, broker.exit_code) == ("stopped", None, 0)
    cluster.start("broker-b")
    assert states(cluster) == ["running"] * 3


def test_a_node_is_asked_to_stop_once_for_a_second_signal_would_end_it_at_once(cluster) -> None:
    node = cluster._nodes["broker-b"]
    sent, send = [], node.popen.send_signal
    node.popen.send_signal = lambda number: (sent.append(number), send(number))
    cluster.stop("broker-b")
    assert sent == [signal.SIGTERM, signal.SIGCONT]
    assert cluster.node("broker-b").exit_code == 0
    cluster.start("broker-b")


def test_a_node_that_somebody_else_pauses_is_paused_too(cluster) -> None:
    os.kill(cluster.pids["broker-a"], signal.SIGSTOP)
    cluster.pause("broker-a")  # returns when it is paused
    assert states(cluster) == ["running", "paused", "running"]
    os.kill(cluster.pids["broker-a"], signal.SIGCONT)
    assert states(cluster) == ["running"] * 3


def test_a_death_is_reported_once_and_only_if_nobody_asked_for_it(cluster) -> None:
    cluster.kill("broker-a")
    assert cluster.deaths() == []
    cluster.start("broker-a")
    os.kill(cluster.pids["broker-a"], signal.SIGKILL)
    cluster._nodes["broker-a"].popen.wait()
    (death,) = cluster.deaths()
    assert death.first_line == "broker-a was killed by signal 9"
    assert cluster.deaths() == []
    cluster.stop("broker-a")  # it has ended already
    assert cluster.node("broker-a").state == "dead"
    cluster.start("broker-a")


def test_a_kill_does_not_wait_for_a_start_that_is_under_way(cluster) -> None:
    """The NameServer is paused, so the broker does not get ready before it is killed."""
    cluster.stop("broker-b")
    cluster.pause("namesrv")
    failed: list[NodeDied] = []

    def start() -> None:
        try:
            cluster.start("broker-b")
        except NodeDied as error:
            failed.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    try:
        while cluster.node("broker-b").state != "starting":
            continue
        cluster.kill("broker-b")
        thread.join()
    finally:
        cluster.resume("namesrv")
    assert [error.code for error in failed] == [-9]
    assert cluster.node("broker-b").state == "dead"
    assert cluster.deaths() == []
    cluster.start("broker-b")


def test_nothing_starts_in_a_cluster_that_has_ended() -> None:
    with ProcessCluster(ClusterSpec(brokers=0)) as ended:
        pass
    with pytest.raises(ClusterEnded):
        ended.start("namesrv")
    assert states(ended) == ["stopped"]


def test_embedded_nodes_are_told_apart_as_well() -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        assert {node.pid for node in cluster.nodes} == {os.getpid()}
        cluster.kill("broker-a")
        cluster.stop("broker-b")
        assert states(cluster) == ["running", "dead", "stopped"]
        assert cluster.node("broker-a").pid is None
        cluster.start("broker-a")
        assert states(cluster) == ["running", "running", "stopped"]
        assert cluster.deaths() == []


def test_since_is_when_a_node_was_first_seen_so() -> None:
    times = iter([10, 20, 30])
    histories = StateTimes(lambda: next(times))
    assert histories.since_ms("a", NodeCondition("running", 1)) == 10
    assert histories.since_ms("a", NodeCondition("running", 1)) == 10
    assert histories.since_ms("a", NodeCondition("running", 2)) == 20, "another process"
    assert histories.since_ms("b", NodeCondition("running", 1)) == 30

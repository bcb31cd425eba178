"""A node of an embedded cluster is paused while the others in its thread continue."""

from __future__ import annotations

import socket
import threading

import pytest
import trio

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.embedded_node import FlushReports
from rocketmq_emulator.net.blocking_calls import call_blocking
from rocketmq_emulator.processes.node_process import NodeDied
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand

TOPICS = RemotingCommand(code=RequestCode.GET_ALL_TOPIC_CONFIG, opaque=1)
FLUSHED = {"flush_disk_type": "SYNC_FLUSH"}


@pytest.fixture
def cluster(tmp_path):
    spec = ClusterSpec(store=str(tmp_path), broker_settings=FLUSHED)
    with EmbeddedCluster(spec) as running:
        yield running


def test_it_takes_bytes_and_answers_when_it_goes_on_while_others_answer_at_once(cluster) -> None:
    answers: list[RemotingCommand] = []
    cluster.pause("broker-a")
    address = cluster.brokers["broker-a"]
    asking = threading.Thread(target=lambda: answers.append(call_blocking(address, TOPICS)))
    asking.start()
    with pytest.raises(TimeoutError):
        call_blocking(address, TOPICS, 50)
    assert call_blocking(cluster.brokers["broker-b"], TOPICS).code == 0
    assert answers == []
    cluster.resume("broker-a")
    asking.join()
    assert answers[0].code == 0


def test_a_timer_that_falls_due_meanwhile_acts_when_it_goes_on(cluster) -> None:
    delay = ReplyRule(code=RequestCode.GET_ALL_TOPIC_CONFIG, delay_ms=200)
    cluster.set_reply_rule("broker-a", delay)
    answers: list[RemotingCommand] = []
    address = cluster.brokers["broker-a"]
    asking = threading.Thread(target=lambda: answers.append(call_blocking(address, TOPICS)))
    asking.start()
    while not cluster.reply_rules("broker-a")[0].applied_count:
        continue
    cluster.pause("broker-a")
    asking.join(0.4)  # twice the delay
    assert answers == []
    cluster.resume("broker-a")
    asking.join()
    assert answers[0].code == 0


def test_two_that_stand_still_go_on_one_by_one(cluster) -> None:
    for name in ("broker-a", "broker-b", "broker-b"):
        cluster.pause(name)
    assert [node.state for node in cluster.nodes] == ["running", "paused", "paused"]
    cluster.resume("broker-a")
    assert call_blocking(cluster.brokers["broker-a"], TOPICS).code == 0
    cluster.resume("broker-b")
    cluster.resume("broker-b")
    assert call_blocking(cluster.brokers["broker-b"], TOPICS).code == 0


@pytest.mark.parametrize("verb", ["kill", "stop", "restart"])
def test_it_can_be_ended_as_it_stands(cluster, verb) -> None:
    cluster.pause("broker-a")
    getattr(cluster, verb)("broker-a")
    assert cluster.node("broker-a").state == {"kill": "dead", "stop": "stopped"}.get(
        verb, "running"
    )
    cluster.start("broker-a")
    assert call_blocking(cluster.brokers["broker-a"], TOPICS).code == 0


def test_the_cluster_ends_with_nodes_that_stand_still(tmp_path) -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        cluster.pause("namesrv")
        cluster.pause("broker-a")
    assert not cluster._thread.is_alive()


def fail(cluster) -> None:
    """Let a task of the cluster's thread raise, wait for the thread's end, check the cluster."""

    async def divide() -> None:
        raise ZeroDivisionError

    async def begin() -> None:
        cluster._nursery.start_soon(divide)

    trio.from_thread.run(begin, trio_token=cluster._token)
    cluster._thread.join(30)
    cluster.check_alive()


def test_a_cluster_that_fails_ends_although_a_node_stands_still() -> None:
    with EmbeddedCluster(ClusterSpec()) as cluster:
        cluster.pause("broker-a")
        with pytest.raises(ZeroDivisionError):
            fail(cluster)


def test_a_node_that_does_not_run_cannot_stand_still(cluster) -> None:
    cluster.kill("broker-a")
    cluster.pause("broker-a")
    cluster.resume("broker-a")
    assert cluster.node("broker-a").state == "dead"


def test_a_finished_flush_is_reported_when_the_node_goes_on() -> None:
    heard: list[str] = []
    flush_reports = FlushReports(lambda action: action())
    flush_reports.deliver(lambda: heard.append("before"))
    flush_reports.pause()
    flush_reports.deliver(lambda: heard.append("first"))
    flush_reports.deliver(lambda: heard.append("second"))
    assert heard == ["before"]
    flush_reports.resume()
    assert heard == ["before", "first", "second"]


def test_a_connection_made_meanwhile_is_served_when_it_goes_on(cluster) -> None:
    cluster.pause("broker-b")
    host, _, port = cluster.brokers["broker-b"].rpartition(":")
    with socket.create_connection((host, int(port)), 5):
        cluster.resume("broker-b")
        assert call_blocking(cluster.brokers["broker-b"], TOPICS).code == 0


def test_a_node_that_is_killed_before_it_is_ready_fails_its_start_with_that() -> None:
    """The NameServer is paused, so the broker cannot get ready."""
    with EmbeddedCluster(ClusterSpec(brokers=1)) as cluster:
        cluster.kill("broker-a")
        cluster.pause("namesrv")
        failed: list[NodeDied] = []

        def start() -> None:
            try:
                cluster.start("broker-a")
            except NodeDied as error:
                failed.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        while cluster.node("broker-a").state != "starting":
            continue
        cluster.kill("broker-a")
        thread.join(30)
        assert [str(error) for error in failed] == ["broker-a was killed by signal 9"]
        assert cluster.node("broker-a").state == "dead"
        cluster.resume("namesrv")
        cluster.start("broker-a")
        assert cluster.node("broker-a").state == "running"

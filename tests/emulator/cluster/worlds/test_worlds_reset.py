"""A reset between two tests starts all nodes again, and removes messages, rules and faults."""

from __future__ import annotations

import http.client
import json
import threading
import time

import pytest

from rocketmq_emulator.cluster.control.server import find_announced
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.facts import BrokerReset
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.sync import Message, Producer, PushConsumer
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.sdk.administration import ask, body_of, broker_addresses
from tests.support.portal.client_kinds import SHORT_TIMERS

REPLICAS = ("inSyncReplicas", "notInSyncReplicas")
WORLDS = {"embedded": EmbeddedCluster, "processes": ProcessCluster}


def as_new(cluster) -> None:
    assert {node.state for node in cluster.nodes} == {"running"}
    assert all(cluster.reply_rules(name) == () for name in cluster.node_names)
    with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        results = [producer.send(Message("orders", b"two cups")) for _ in range(8)]
    offsets: dict[str, list[int]] = {}
    for result in results:
        offsets.setdefault(str(result.queue), []).append(result.queue_offset)
    assert all(of_queue == list(range(len(of_queue))) for of_queue in offsets.values()), offsets


@pytest.mark.parametrize("kind", WORLDS)
def test_after_a_reset_a_cluster_is_as_it_was_at_first(kind) -> None:
    with WORLDS[kind](brokers=2) as cluster:
        as_new(cluster)
        cluster.set_reply_rule("broker-a", ReplyRule(error_code=2))
        cluster.skew_clock("namesrv", -3_600_000)
        cluster.skew_clock("broker-a", 3_600_000)
        cluster.pause("broker-a")
        cluster.kill("broker-b")
        cluster.reset()
        as_new(cluster)
        cluster.restart("broker-a")  # with a correct clock
        with Producer(namesrv=cluster.namesrv, group="shop") as producer:
            sent = producer.send(Message("orders", b"one cup"))
        assert sent.offset_msg_id
        cluster.stop("namesrv")
        cluster.reset()
        as_new(cluster)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_clients_that_stay_connected_go_on_at_once(release) -> None:
    """A producer and a consumer stay connected during three resets."""
    came, news = [], threading.Condition()

    def take(messages) -> None:
        with news:
            came.extend(message.body for message in messages)
            news.notify()

    with (
        EmbeddedCluster(brokers=2, release=release) as cluster,
        Producer(namesrv=cluster.namesrv, group="shop") as producer,
    ):
        producer.send(Message("orders", b"0"))
        with PushConsumer(
            take,
            {"orders": "*"},
            namesrv=cluster.namesrv,
            group="billing",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            **SHORT_TIMERS,
        ):
            for _ in range(9):  # so that both brokers have the topic, and the consumer its route
                producer.send(Message("orders", b"0"))
            for number in range(4):
                if number:
                    cluster.reset()
                    began_s = time.monotonic()
                    for _ in range(9):
                        producer.send(Message("orders", b"%d" % number))
                with news:
                    wanted = 10 + 9 * number
                    assert news.wait_for(lambda n=wanted: len(came) >= n, timeout=20)
                assert not number or time.monotonic() - began_s < 5, "a client waited too long"
        assert came.count(b"3") == 9
        assert len(came) == 37
        cluster.reset()  # without a consumer
        assert producer.send(Message("orders", b"4")).queue_offset == 0


def test_any_program_can_reset_a_cluster_by_its_control_address() -> None:
    with EmbeddedCluster(brokers=2, control=0) as cluster:
        cluster.kill("broker-b")
        line = http.client.HTTPConnection(cluster.control.removeprefix("http://"))
        line.request("POST", "/reset")
        nodes = json.load(line.getresponse())["nodes"]
        line.close()
        assert [node["state"] for node in nodes] == ["running"] * 3
        as_new(cluster)
        assert find_announced(cluster.namesrv) == cluster.control.removeprefix("http://")


def test_declared_topics_are_there_after_a_reset_with_their_queues() -> None:
    with RocketMQ(brokers=2, topics={"orders": 3, "jobs": 5}) as cluster:
        for _ in range(2):
            with Producer(namesrv=cluster.namesrv, group="shop") as producer:
                for topic, queues in (("orders", 6), ("jobs", 10)):
                    sent = [producer.send(Message(topic, b"one")) for _ in range(2 * queues)]
                    assert len({str(result.queue) for result in sent}) == queues
            cluster.kill("broker-b")
            cluster.reset()
    with pytest.raises(ValueError, match="illegal characters"), RocketMQ(topics=["a b"]):
        pass


def test_a_reset_leaves_the_roles_that_controllers_have_granted() -> None:
    with EmbeddedCluster(brokers=1, slaves=1, controllers=1, release="5.3.3") as cluster:

        def decided() -> tuple[object, ...]:
            body = json.dumps(["broker-a"]).encode()
            code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            found = body_of(ask(cluster.node("controller").address, code, {}, body))
            known = found["replicasInfoTable"]["broker-a"]
            ids = {each["brokerId"] for kind in REPLICAS for each in known[kind]}
            return known["masterBrokerId"], known["masterEpoch"], ids

        with Producer(**cluster.client_settings(quick=True), group="shop") as producer:
            producer.send(Message("orders", b"one"))
            before, masters = decided(), broker_addresses(cluster.namesrv, "broker-a")
            cluster.reset()
            assert producer.send(Message("orders", b"two")).queue_offset == 0
            assert decided() == before == (1, 1, {1, 2})
            assert broker_addresses(cluster.namesrv, "broker-a") == masters


def test_after_a_fail_over_and_a_reset_the_slave_copies_again_whoever_leads() -> None:
    settings = {"slave_sync_interval_ms": 300}
    spec = {"brokers": 1, "slaves": 1, "controllers": 1, "release": "5.3.3"}
    with RocketMQ(topics=["orders"], settings=settings, **spec) as cluster:
        for dies, leads in (("broker-a", "broker-a-1"), ("broker-a-1", "broker-a")):
            with Producer(**cluster.client_settings(quick=True), group="shop") as producer:
                assert producer.send(Message("orders", b"one")).queue_offset == 0
                cluster.wait_until_copied()
                cluster.kill(dies)
                assert cluster.wait_for_master("broker-a", 30) == leads
            cluster.reset()
            entries = cluster.entries
            order = [each.node for each in entries if isinstance(each.fact, BrokerReset)]
            assert order == [leads, dies], "a slave would copy the log that its master has still"

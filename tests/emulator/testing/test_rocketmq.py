"""A test's cluster: the settings of quick clients, and the words of a wait that ends too early."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import trio

import rocketmq_emulator
from rocketmq_emulator import aio, testing
from rocketmq_emulator.client import BrokerRefused
from rocketmq_emulator.client.instance.process import LEFT_AT
from rocketmq_emulator.client.settings.config import (
    QUICK_TIMERS,
    ProducerConfig,
    PushConsumerConfig,
    merged_config,
)
from rocketmq_emulator.cluster.fault_values import Kill
from rocketmq_emulator.facts import (
    FaultEnded,
    MemberLeft,
    MessageConsumed,
    NodeResumed,
    NodeStarted,
)
from rocketmq_emulator.scenarios.plan.plan import ClusterPlan, ConsumersPlan, LoadPlan, Step
from rocketmq_emulator.scenarios.running.virtual_run import finished_run
from rocketmq_emulator.sync import Message, Producer, PushConsumer, SendError
from rocketmq_emulator.testing.rocketmq import NotConsumed, RocketMQ
from tests.support.scenarios.running_plans import a_plan

NO_HEARTBEAT = "billing has sent broker-b no heartbeat since its start "


@pytest.fixture(scope="module")
def cluster() -> Iterator[RocketMQ]:
    with RocketMQ(brokers=2, topics=["orders"]) as running:
        yield running


def of_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of *settings* that producers have, too."""
    return {name: ms for name, ms in settings.items() if name in ProducerConfig.__struct_fields__}


def consumed_again_s(release: str, seed: int, settings: Mapping[str, Any]) -> float:
    """How long after the restart of a broker the first message from it is consumed."""
    plan = a_plan(
        Step(does=Kill(node="broker-b"), at_ms=20_000, for_ms=2_000),
        consumers=(
            ConsumersPlan(
                group="billing", topics={"orders": "*"}, members=2, settings=dict(settings)
            ),
        ),
        load=(LoadPlan(topic="orders", rate=20, until_ms=60_000, settings=of_all(settings)),),
        lasts_ms=70_000,
        cluster=ClusterPlan(release=release),
    )
    _, entries = finished_run(plan, seed)
    started_us = max(
        entry.mono_us
        for entry in entries
        if isinstance(entry.fact, NodeStarted) and entry.node == "broker-b"
    )
    return min(
        (entry.mono_us - started_us) / 1_000_000
        for entry in entries
        if isinstance(entry.fact, MessageConsumed)
        and entry.fact.queue.broker == "broker-b"
        and entry.mono_us > started_us
    )


def test_with_quick_timers_a_restarted_broker_is_consumed_from_within_two_seconds() -> None:
    quick = [consumed_again_s("4.9.7", seed, QUICK_TIMERS) for seed in range(1, 4)]
    usual = [consumed_again_s("4.9.7", seed, {}) for seed in range(1, 4)]
    assert max(quick) < 2
    assert min(usual) > 5


def test_clients_of_5_3_3_send_a_heartbeat_as_soon_as_they_are_connected_again() -> None:
    for settings in (QUICK_TIMERS, {}):
        assert consumed_again_s("5.3.3", 1, settings) < 2


def test_client_settings_are_the_name_server_and_when_quick_the_timers(cluster: RocketMQ) -> None:
    assert cluster.client_settings() == {"namesrv": cluster.namesrv}
    assert cluster.client_settings(quick=True) == {"namesrv": cluster.namesrv, "quick": True}
    with pytest.raises(TypeError, match="client_settings has no fast=: did you mean quick=True"):
        cluster.client_settings(fast=True)  # type: ignore[arg-type]
    quick = {"group": "g", "quick": True, "rebalance_interval_ms": 7}
    producer = merged_config(ProducerConfig, None, dict(quick))
    consumer = merged_config(PushConsumerConfig, None, dict(quick))
    assert producer.heartbeat_interval_ms == QUICK_TIMERS["heartbeat_interval_ms"]
    assert consumer.pull_error_delay_ms == QUICK_TIMERS["pull_error_delay_ms"]
    assert consumer.rebalance_interval_ms == 7


def test_a_broadcasting_group_has_consumed_when_every_member_has(cluster: RocketMQ) -> None:
    release_second, seen = threading.Event(), [list[bytes](), list[bytes]()]

    def second(messages: Any) -> None:
        release_second.wait(30)
        seen[1].extend(message.body for message in messages)

    settings = {"group": "stock", "model": "BROADCASTING", **cluster.client_settings(quick=True)}
    first_only = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", **settings}
    with (
        PushConsumer(seen[0].extend, {"orders": "*"}, **first_only),
        PushConsumer(second, {"orders": "*"}, **first_only, instance_name="second"),
        Producer(group="shop", namesrv=cluster.namesrv) as producer,
    ):
        send_to_each_queue(producer)
        with pytest.raises(NotConsumed):
            cluster.wait_until_consumed("stock", timeout=1.5, topics=["orders"])
        assert len(seen[0]) == 8
        release_second.set()
        cluster.wait_until_consumed("stock", topics=["orders"])
        assert len(seen[1]) == 8


def test_one_topic_is_given_as_a_list(cluster: RocketMQ) -> None:
    with pytest.raises(ValueError, match=r"write topics=\['orders'\]"):
        RocketMQ(topics="orders")
    with pytest.raises(ValueError, match=r"write topics=\['orders'\]"):
        cluster.wait_until_consumed("stock", topics="orders")


def send_to_each_queue(producer: Producer) -> None:
    for number in range(8):
        producer.send(Message("orders", b"%d" % number))


def test_a_wait_that_ends_too_early_says_which_heartbeat_is_missing_and_when_it_comes(
    cluster: RocketMQ,
) -> None:
    cluster.reset()
    settings = cluster.client_settings()
    with (
        Producer(group="shop", **settings) as producer,
        PushConsumer(
            lambda _messages: None,
            {"orders": "*"},
            group="billing",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            heartbeat_first_ms=60_000,  # after those of its first rebalance none comes here
            **settings,
        ),
    ):
        send_to_each_queue(producer)
        cluster.wait_until_consumed("billing", timeout=30, topics=["orders"])
        cluster.kill("broker-b")
        cluster.start("broker-b")
        send_to_each_queue(producer)
        with pytest.raises(NotConsumed) as caught:
            cluster.wait_until_consumed("billing", timeout=0.3, topics=["orders"])
    told = str(caught.value)
    assert f"after 0.3 s: {NO_HEARTBEAT}" in told
    assert "the next one comes within 30 s" in told or "within 29 s" in told
    assert "quick=True" in told
    assert "; 1 member; " in told
    assert "orders@broker-b#" in told
    assert "broker-a no heartbeat" not in told


def test_a_group_that_nobody_joined_has_no_heartbeat_to_wait_for(cluster: RocketMQ) -> None:
    cluster.reset()
    cluster.restart("broker-b")
    with Producer(group="shop", **cluster.client_settings()) as producer:
        producer.send(Message("orders", b"one"))
    with pytest.raises(NotConsumed) as caught:
        cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders"])
    told = str(caught.value)
    assert told.endswith(
        "after 0.1 s: no member is connected, and none ever was: its consumer starts by with, or "
        "by start()"
    )
    assert "heartbeat" not in told


@pytest.mark.parametrize("queues", ["4", 0, -1, True, 2.5, None])
def test_a_number_of_queues_that_is_none_is_refused_before_anything_starts(queues: Any) -> None:
    with pytest.raises(ValueError, match=r"topics: the queues of orders are a number from 1, not"):
        RocketMQ(topics={"orders": queues})


def test_a_topic_that_no_broker_accepts_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"topics: 'two words': The specified topic contains ill"):
        RocketMQ(topics=["orders", "two words"])


@pytest.mark.parametrize(("name", "meant"), [("topic", "topics"), ("broker", "brokers")])
def test_an_argument_with_another_name_names_the_right_one(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"no setting '{name}': did you mean {meant}"):
        RocketMQ(**{name: 1})


def test_a_failure_is_refused_with_the_names_that_were_meant(cluster: RocketMQ) -> None:
    with pytest.raises(ValueError, match="'BUSY' is no response of RocketMQ; did you mean SYS"):
        cluster.fail_next("send", error="BUSY")
    with pytest.raises(TypeError, match="fail_next has no topc=: did you mean topic"):
        cluster.fail_next("send", topc="orders")  # type: ignore[arg-type]


def test_a_refusal_without_a_remark_ends_with_its_name(cluster: RocketMQ) -> None:
    cluster.reset()
    cluster.fail_next("send", 10)
    with (
        Producer(group="shop", **cluster.client_settings()) as producer,
        pytest.raises(BrokerRefused, match=r": SYSTEM_BUSY$"),
    ):
        producer.send(Message("orders", b"one"))


def test_the_public_cluster_is_the_class_of_the_fixture() -> None:
    assert rocketmq_emulator.Cluster is testing.RocketMQ is RocketMQ
    assert rocketmq_emulator.NotConsumed is testing.NotConsumed is NotConsumed
    for name in testing.__all__:
        assert getattr(testing, name)
    with pytest.raises(AttributeError, match="has no RocketMq"):
        _ = testing.RocketMq  # type: ignore[attr-defined]


def test_a_cluster_without_with_starts_with_its_topics_and_is_closed() -> None:
    cluster = rocketmq_emulator.Cluster(
        brokers=1, topics=["orders"], settings={"autoCreateTopicEnable": False}
    )
    cluster.close()  # it has not started: nothing happens
    cluster.start()
    with Producer(group="shop", **cluster.client_settings()) as producer:
        producer.send(Message("orders", b"one"))
        with pytest.raises(SendError):
            producer.send(Message("jobs", b"one"))
    assert [message.body for message in cluster.sent_to("orders")] == [b"one"]
    cluster.stop("broker-a")
    cluster.start()
    assert cluster.is_running("broker-a")
    cluster.close()
    assert not cluster.is_running("broker-a")
    cluster.close()


def left_at_us(error: BaseException) -> int:
    found: int = getattr(error, LEFT_AT)
    return found


def member_left_us(cluster: RocketMQ) -> int:
    return min(e.mono_us for e in cluster.entries if isinstance(e.fact, MemberLeft))


@pytest.mark.parametrize("kind", ["sync", "aio", "trio"])
def test_an_error_in_a_block_has_the_time_before_its_client_was_closed(
    cluster: RocketMQ, kind: str
) -> None:
    cluster.reset()
    settings: dict[str, Any] = {"group": "billing", "namesrv": cluster.namesrv}

    def consume() -> None:
        with PushConsumer(lambda _messages: None, {"orders": "*"}, **settings):
            raise ValueError("no price")

    async def consume_async(client: Any) -> None:
        async with client.PushConsumer(lambda _messages: None, {"orders": "*"}, **settings):
            raise ValueError("no price")

    run = {
        "sync": consume,
        "aio": lambda: asyncio.run(consume_async(aio)),
        "trio": lambda: trio.run(consume_async, rocketmq_emulator),
    }
    began_us = time.monotonic_ns() // 1_000
    with pytest.raises(ValueError, match="no price") as caught:
        run[kind]()
    assert began_us < left_at_us(caught.value) <= member_left_us(cluster)


def test_an_error_in_a_producer_s_block_has_the_time_at_which_it_left(cluster: RocketMQ) -> None:
    async def sell() -> None:
        async with rocketmq_emulator.Producer(group="shop", **cluster.client_settings()):
            raise ValueError("no price")

    began_us = time.monotonic_ns() // 1_000
    with pytest.raises(ValueError, match="no price") as caught:
        trio.run(sell)
    assert began_us <= left_at_us(caught.value) <= time.monotonic_ns() // 1_000


def test_an_error_in_a_fault_has_the_time_before_the_fault_ended(cluster: RocketMQ) -> None:
    cluster.reset()
    with (
        pytest.raises(ValueError, match="no price") as caught,
        cluster.under(Kill(node="broker-b")),
    ):
        raise ValueError("no price")
    ended_us = [e.mono_us for e in cluster.entries if isinstance(e.fact, FaultEnded)]
    assert left_at_us(caught.value) <= ended_us[0]


def test_an_error_in_a_pause_has_the_time_before_the_broker_was_resumed(
    cluster: RocketMQ,
) -> None:
    cluster.reset()
    with pytest.raises(ValueError, match="no price") as caught, cluster.pause("broker-b"):
        raise ValueError("no price")
    resumed_us = [e.mono_us for e in cluster.entries if isinstance(e.fact, NodeResumed)]
    assert left_at_us(caught.value) <= resumed_us[0]


def test_a_journal_has_the_clients_of_its_cluster_by_their_groups(cluster: RocketMQ) -> None:
    cluster.reset()
    came = threading.Event()
    with RocketMQ(brokers=1, topics=["orders"]) as other:
        first = {
            "consume_from": "CONSUME_FROM_FIRST_OFFSET",
            **cluster.client_settings(quick=True),
        }
        with (
            Producer(group="shop", **cluster.client_settings()) as producer,
            PushConsumer(lambda _: came.set(), {"orders": "*"}, group="billing", **first),
        ):
            producer.send(Message("orders", b"one"))
            assert came.wait(30)
            names = {entry.node for entry in cluster.journal()}
        assert {"billing-1", "producer-1", "broker-a"} <= names
        assert not {"billing-1", "producer-1"} & {entry.node for entry in other.journal()}
    seqs = [entry.seq for entry in cluster.journal() if entry.node == "broker-a"]
    assert seqs == list(range(1, len(seqs) + 1))

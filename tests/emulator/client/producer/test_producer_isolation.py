"""Latency awareness in an application: the brokers that its sends avoid, and how long."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.facts import BrokerIsolated
from rocketmq_emulator.faults.links_and_drives import Cut, Rule, between
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.setting_rules import BadField
from tests.support.client.client_cluster import a_message, producing


@pytest.mark.parametrize(("release", "for_ms"), [("4.9.8", 600_000), ("5.3.3", 10_000)])
def test_client_invariants_18_and_19_an_error_isolates_its_broker(release, for_ms) -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = 1
        for _ in range(8):
            assert (await producer.send(a_message())).queue.broker_name == "b"
        assert len(cluster.brokers["a"].sends) == 1
        assert cluster.facts_of(BrokerIsolated) == [BrokerIsolated("a", for_ms, for_ms)]
        cluster.brokers["a"].always = None
        await trio.sleep(for_ms / 1000 - 1)
        before = len(cluster.brokers["a"].sends)
        for _ in range(8):
            await producer.send(a_message())
        assert len(cluster.brokers["a"].sends) == before
        await trio.sleep(1)
        for _ in range(16):
            await producer.send(a_message())
        assert len(cluster.brokers["a"].sends) > before

    producing(main, release=release, send_latency_fault_enable=True)


def test_client_invariant_18_a_slow_broker_is_avoided_for_thirty_seconds() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].slow_ms = 600
        for _ in range(16):
            await producer.send(a_message())
        assert len(cluster.brokers["a"].sends) == 1
        await trio.sleep(30)
        for _ in range(8):
            await producer.send(a_message())
        assert len(cluster.brokers["a"].sends) == 2

    producing(main, release="4.9.8", send_latency_fault_enable=True)


def test_client_invariant_17_without_latency_awareness_nothing_is_isolated() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = 1
        for _ in range(8):
            await producer.send(a_message())
        assert cluster.facts_of(BrokerIsolated) == []
        assert len(cluster.brokers["a"].sends) == 2  # one send in four begins with its queues

    producing(main)


def test_the_detector_finds_out_that_a_broker_can_be_reached_again() -> None:
    async def main(cluster, producer):
        faults = producer.pipeline.kernel.strategy.faults
        await producer.send(a_message(), queue=MessageQueue("t", "a", 0))
        with cluster.world.network.under(Rule(between("app", "a"), Cut())):
            for _ in range(8):
                await producer.send(a_message())
            assert not faults.is_reachable("a")
            await trio.sleep(10)
            assert not faults.is_reachable("a")
        await trio.sleep(4)
        assert faults.is_reachable("a")

    producing(main, release="5.3.3", send_latency_fault_enable=True, start_detector_enable=True)


def test_a_producer_may_use_the_fault_table_that_articles_describe() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].slow_ms = 600
        for _ in range(4):
            await producer.send(a_message())
        assert cluster.facts_of(BrokerIsolated) == [BrokerIsolated("a", 3_000, 3_000)]

    producing(main, send_latency_fault_enable=True, fault_table="articles")


def test_a_fault_table_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadField, match="fault_table: it is 4"):
        ProducerConfig(group="g", fault_table="prose")

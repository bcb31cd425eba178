"""A cluster of a test may have slaves: topics are made at its masters."""

from __future__ import annotations

import pytest

from rocketmq_emulator.client import Message
from rocketmq_emulator.sync import Producer
from rocketmq_emulator.testing.clusters import OPTIONS
from rocketmq_emulator.testing.rocketmq import RocketMQ


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_topics_are_made_at_masters_alone_and_messages_are_sent_to_them(release: str) -> None:
    assert "slaves" in OPTIONS  # of the marker and the factory
    with RocketMQ(brokers=1, slaves=1, release=release, topics={"orders": 2}) as cluster:
        assert cluster.spec.slave_names == ("broker-a-1",)
        with Producer(namesrv=cluster.namesrv, group="shop") as producer:
            assert producer.send(Message("orders", b"one")).queue.broker_name == "broker-a"
        (message,) = cluster.sent_to("orders")
        assert message.body == b"one"

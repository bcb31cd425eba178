"""A cluster of a test may have slaves: topics are made at its masters."""

from __future__ import annotations

import pytest
import trio

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


class ADefect(Exception):
    """Ends the thread of a cluster."""


async def a_defect() -> None:
    raise ADefect


def test_a_wait_raises_the_error_that_ended_the_cluster() -> None:
    with RocketMQ(brokers=1, slaves=1) as cluster:
        assert cluster._nursery is not None
        begin, token = cluster._nursery.start_soon, cluster._token
        trio.from_thread.run_sync(begin, a_defect, trio_token=token)
        with pytest.raises(ADefect):
            cluster.wait_until_copied(timeout=1)
        with pytest.raises(ADefect):
            cluster.wait_for_master("broker-a", timeout=1)

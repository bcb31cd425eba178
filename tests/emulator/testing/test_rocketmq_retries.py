"""Waits for groups whose messages fail: retries that are to come, and dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.sync import Message, Producer, PushConsumer
from rocketmq_emulator.testing.rocketmq import NotConsumed, RocketMQ

FROM_FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
ORDERLY = {"orderly": True, "reconsume_times_max": 2, "suspend_queue_ms": 10}


@pytest.fixture(params=["4.9.7", "5.3.3"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RocketMQ]:
    with RocketMQ(brokers=1, topics={"orders": 1}, release=request.param) as running:
        yield running


class Bills:
    """A listener that fails *failures* times; ``tries`` has the retries before each call."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.tries: list[int] = []

    def __call__(self, messages: list[Any]) -> None:
        self.tries += [message.reconsume_times for message in messages]
        if len(self.tries) <= self._failures:
            raise ValueError("no price for two cups")


def test_advancing_delivers_the_dead_letter_of_an_orderly_consumer(cluster: RocketMQ) -> None:
    bills, settings = Bills(99), cluster.client_settings(quick=True)
    with (
        Producer(group="shop", **settings) as producer,
        PushConsumer(bills, {"orders": "*"}, group="billing", **ORDERLY, **FROM_FIRST, **settings),
    ):
        producer.send(Message("orders", b"two cups"))
        cluster.wait_until_consumed("billing", topics=["orders"])
        is_there = len(cluster.sent_to("%DLQ%billing"))
        assert is_there == (cluster.spec.release == "5.3.3")
        cluster.advance_until_consumed("billing", topics=["orders"])
    assert bills.tries == [0, 1, 2]
    assert [message.body for message in cluster.sent_to("%DLQ%billing")] == [b"two cups"]


@pytest.mark.parametrize("cluster", ["4.9.7"], indirect=True)
def test_a_retry_that_the_consumer_published_itself_is_waited_for(cluster: RocketMQ) -> None:
    bills, settings = Bills(1), cluster.client_settings(quick=True)
    cluster.fail_next("send_back")
    with (
        Producer(group="shop", **settings) as producer,
        PushConsumer(bills, {"orders": "*"}, group="billing", **FROM_FIRST, **settings),
    ):
        producer.send(Message("orders", b"two cups"))
        while not any(f.real_topic == "%RETRY%billing" for f in cluster.facts(MessageStored)):
            time.sleep(0.01)
        with pytest.raises(NotConsumed, match="retries not yet delivered: 1"):
            cluster.wait_until_consumed("billing", timeout=0.1, topics=["orders"])
        cluster.advance_until_consumed("billing", topics=["orders"])
    assert bills.tries == [0, 1]

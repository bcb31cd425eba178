"""The retry topic of a group is ordered, on 5.x, while the group consumes an ordered topic."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.requests.sending import ConsumerSendMsgBackRequest
from tests.support.broker.bench import Bench
from tests.support.broker.store_makers import LAST_4, LAST_5


def an_ordered_topic(bench: Bench) -> None:
    ordered = TopicConfig(topic_name="t", order=True)
    bench.broker.topics.update(ordered, bench.now_ms())


@pytest.mark.parametrize(("release", "order"), [(LAST_4, False), (LAST_5, True)])
async def test_since_5_0_the_retry_topic_of_who_consumes_an_ordered_topic_is_ordered(
    release: str, order: bool
) -> None:
    bench = Bench(release=release)
    an_ordered_topic(bench)
    bench.client().heartbeat("c", topics={"other": "*", "t": "*"})
    assert bench.broker.topics.is_order("%RETRY%g") is order
    assert not bench.broker.topics.is_order("other")


async def test_a_retry_topic_becomes_ordered_with_a_later_heartbeat() -> None:
    bench = Bench(release=LAST_5)
    client = bench.client()
    client.heartbeat("c", topics={"t": "*"})
    assert not bench.broker.topics.is_order("%RETRY%g")
    an_ordered_topic(bench)
    version = bench.broker.topics.data_version
    client.heartbeat("c", topics={"t": "*"})
    assert bench.broker.topics.is_order("%RETRY%g")
    assert bench.broker.topics.data_version.counter == version.counter + 1
    client.heartbeat("c", topics={"t": "*"})
    assert bench.broker.topics.data_version.counter == version.counter + 1


async def test_a_message_that_is_sent_back_ends_the_order_of_the_retry_topic() -> None:
    bench = Bench(release=LAST_5)
    an_ordered_topic(bench)
    client = bench.client()
    client.heartbeat("c", topics={"t": "*"})
    position = bench.broker.store.log.end_position
    client.sent("t")
    header = ConsumerSendMsgBackRequest(offset=position, group="g", delay_level=1)
    client.must(catalog.CONSUMER_SEND_MSG_BACK, header)
    assert not bench.broker.topics.is_order("%RETRY%g")  # as upstream, until the next heartbeat
    client.heartbeat("c", topics={"t": "*"})
    assert bench.broker.topics.is_order("%RETRY%g")

"""Likely mistakes that a consumer notices itself: warnings, or errors with ``strict``."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.errors.call_errors import BadSubscription, MessageIllegal
from rocketmq_emulator.facts import MisuseNoticed
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.whole_cluster import in_cluster


def noted(cluster) -> list[tuple[str, str]]:
    return [(fact.misuse, fact.topic) for fact in cluster.facts_of(MisuseNoticed)]


async def ignore(_messages) -> None:
    """A listener."""


def test_a_single_bar_is_noted_once_by_the_client_and_not_by_the_broker() -> None:
    async def main(cluster) -> None:
        topics = {"orders": "a | b"}
        async with cluster.process() as app, cluster.a_consumer(app, ignore, topics) as consumer:
            await consumer.subscribe("orders", "c | d")
            await trio.sleep(40)
        assert noted(cluster) == [("single_bar", "orders")]

    in_cluster(main, orders=4)


def test_a_topic_that_nobody_makes_is_noted_after_a_poll_and_only_once() -> None:
    async def main(cluster) -> None:
        topics = {"orders": "*", "nobody": "*"}
        async with cluster.process() as app, cluster.a_consumer(app, ignore, topics):
            await trio.sleep(20)
            assert noted(cluster) == []
            await trio.sleep(80)
        assert noted(cluster) == [("topic_nobody_made", "nobody")]

    in_cluster(main, orders=4)


def test_a_topic_that_is_made_soon_after_its_consumers_start_is_no_misuse() -> None:
    async def main(cluster) -> None:
        async with cluster.process() as app, cluster.a_consumer(app, ignore, {"later": "*"}):
            await trio.sleep(15)
            process = cluster.process("producer")
            async with process, cluster.a_producer(process) as producer:
                await producer.send(Message("later", b"x"))
            await trio.sleep(90)
        assert noted(cluster) == []

    in_cluster(main, orders=4)


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ({"orders": "a | b"}, "separate tags by two bars"),
        ({"orders": "price > 5"}, "SQL92"),
        ({"orders": "*", "nobody": "*"}, "nobody made the topic nobody, which is subscribed"),
    ],
)
def test_a_strict_consumer_does_not_start_with_a_mistake(topics, text) -> None:
    async def main(cluster) -> None:
        async with cluster.process() as app:
            with pytest.raises(BadSubscription, match=text):
                async with cluster.a_consumer(app, ignore, topics, strict=True):
                    pass
        assert noted(cluster) == []

    in_cluster(main, orders=4)


def test_a_strict_producer_refuses_a_level_beyond_the_table() -> None:
    async def main(cluster) -> None:
        process = cluster.process("producer")
        async with process, cluster.a_producer(process, strict=True) as producer:
            await producer.send(Message("orders", b"x", delay_level=18))
            with pytest.raises(MessageIllegal, match="delay_level=19 is beyond the table of 18"):
                await producer.send(Message("orders", b"x", delay_level=19))

    in_cluster(main, orders=4)

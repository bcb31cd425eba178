"""Consumers that subscribe by SQL92: pushed, polled and pulled, retried, and refused."""

from __future__ import annotations

import asyncio

import pytest
import trio

from rocketmq_emulator import BadSubscription, GroupCallRefused, aio, by_sql, sync
from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.whole_cluster import in_cluster

DEAR = by_sql("price > 5")
ON = {"property_filter": True}
RELEASES = ["4.9.7", "5.3.3"]
PRICES = (3, 7, 5, 9)


async def sell(cluster, prices=PRICES) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for price in prices:
            properties = {"price": str(price)}
            await producer.send(Message("orders", b"%d" % price, properties=properties))


def filtered(steps, release="4.9.7", settings=ON):
    return in_cluster(steps, release=release, broker_settings=settings, orders=1)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("filter_retries", [False, True])
def test_a_message_that_failed_comes_again_to_a_group_that_filters(
    release: str, filter_retries: bool
) -> None:
    seen = []

    def fail_once(messages) -> ConsumeResult:
        (message,) = messages
        seen.append((message.body, message.topic, message.reconsume_times))
        is_first = message.reconsume_times == 0 and message.body == b"7"
        return ConsumeResult.RECONSUME_LATER if is_first else ConsumeResult.SUCCESS

    async def main(cluster) -> None:
        await sell(cluster)
        async with cluster.process() as app, cluster.a_consumer(app, fail_once, {"orders": DEAR}):
            await trio.sleep(30)

    filtered(main, release, {**ON, "filter_retries": filter_retries})
    assert sorted(seen) == [(b"7", "orders", 0), (b"7", "orders", 1), (b"9", "orders", 0)]


def test_a_running_consumer_changes_its_expression() -> None:
    bodies: list[bytes] = []

    def keep(messages) -> None:
        bodies.extend(message.body for message in messages)

    async def main(cluster) -> None:
        async with cluster.process() as app, cluster.a_consumer(app, keep, {"orders": DEAR}) as it:
            await trio.sleep(3)
            await sell(cluster)
            await trio.sleep(3)
            await it.subscribe("orders", *by_sql("price < 5"))
            await trio.sleep(3)
            await sell(cluster)
            await trio.sleep(3)

    filtered(main)
    assert bodies == [b"7", b"9", b"3"]


@pytest.mark.parametrize("release", RELEASES)
def test_polls_and_pulls_get_what_matches(release: str) -> None:
    async def main(cluster):
        await sell(cluster)
        app = cluster.process()
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        async with app, cluster.a_lite_consumer(app, {"orders": DEAR}, **first) as lite:
            polled = []
            while len(polled) < 2:
                polled += [message.body for message in await lite.poll(30_000)]
        app = cluster.process("other")
        async with app, cluster.a_pull_consumer(app, group="pulls") as consumer:
            queue = MessageQueue("orders", "broker-a", 0)
            result = await consumer.pull(queue, 0, expression=DEAR)
        return polled, [message.body for message in result.messages], result.next_begin_offset

    assert filtered(main, release) == ([b"7", b"9"], [b"7", b"9"], 5)


def test_a_pull_with_a_wrong_expression_is_refused_before_it_is_sent() -> None:
    async def main(cluster) -> None:
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            queue = MessageQueue("orders", "broker-a", 0)
            for call in (consumer.pull, consumer.pull_block_if_not_found):
                with pytest.raises(BadSubscription, match=r"orders: .* at line 1, column 7"):
                    await call(queue, 0, expression=by_sql("price >"))

    filtered(main)


async def pull_once(cluster, app) -> None:
    async with app, cluster.a_pull_consumer(app) as consumer:
        await consumer.pull(MessageQueue("orders", "broker-a", 0), 0, expression=DEAR)


async def start_push(cluster, app) -> None:
    async with app, cluster.a_consumer(app, print, {"orders": DEAR}):
        pass


async def start_lite(cluster, app) -> None:
    async with app, cluster.a_lite_consumer(app, {"orders": DEAR}):
        pass


@pytest.mark.parametrize("use", [pull_once, start_push, start_lite])
def test_a_broker_that_does_not_filter_is_named_with_its_setting(use) -> None:
    async def main(cluster) -> None:
        with pytest.raises(GroupCallRefused, match="enablePropertyFilter=true"):
            await use(cluster, cluster.process())

    filtered(main, settings={})


# The other two faces ------------------------------------------------------------------


@pytest.fixture(scope="module")
def namesrv():
    with EmbeddedCluster(ClusterSpec(brokers=1, broker_settings=ON)) as cluster:
        with sync.Producer(
            group="pg", namesrv=cluster.namesrv, default_topic_queues=1
        ) as producer:
            for price in PRICES:
                producer.send(Message("orders", b"%d" % price, properties={"price": str(price)}))
        yield cluster.namesrv


def test_threads_pull_by_an_expression(namesrv: str) -> None:
    with sync.PullConsumer(group="threads", namesrv=namesrv) as consumer:
        (queue,) = consumer.fetch_subscribe_message_queues("orders")
        result = consumer.pull(queue, 0, expression=DEAR)
    assert [message.body for message in result.messages] == [b"7", b"9"]


def test_asyncio_pulls_by_an_expression(namesrv: str) -> None:
    async def main() -> list[bytes]:
        async with aio.PullConsumer(group="asyncio", namesrv=namesrv) as consumer:
            (queue,) = await consumer.fetch_subscribe_message_queues("orders")
            result = await consumer.pull(queue, 0, expression=DEAR)
            return [message.body for message in result.messages]

    assert asyncio.run(main()) == [b"7", b"9"]


def test_threads_are_called_for_what_an_expression_matches(namesrv: str) -> None:
    with sync.PushConsumer(
        None, {"orders": DEAR}, group="pushed", namesrv=namesrv,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
    ) as consumer:  # fmt: skip
        found = [message.body for message in consumer.messages(count=2, timeout_s=60)]
    assert sorted(found) == [b"7", b"9"]

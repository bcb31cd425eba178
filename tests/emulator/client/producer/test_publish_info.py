"""Publish queues: a producer's queues of a topic, and the next one to send to."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from rocketmq_emulator.client.producer.publish_info import (
    ThreadLocalIndex,
    TopicPublishInfo,
    TopicPublishInfoTable,
)
from rocketmq_emulator.client.settings.config import ProducerConfig
from rocketmq_emulator.errors.call_errors import ClientErrorCode, NoRoute
from rocketmq_emulator.protocol.bodies.routes import BrokerData, QueueData, TopicRouteData
from rocketmq_emulator.protocol.queues import MessageQueue

QUEUES = [MessageQueue("t", "a", number) for number in range(3)]


def a_route(queues=3, perm=6, broker="a") -> TopicRouteData:
    data = QueueData(broker_name=broker, read_queue_nums=9, write_queue_nums=queues, perm=perm)
    addresses = BrokerData(cluster="c", broker_name=broker, broker_addrs={0: "a:0"})
    return TopicRouteData(queue_datas=[data], broker_datas=[addresses])


class Routes:
    """Gives these routes to the table when it requests them."""

    def __init__(self, *, own=None, default=None) -> None:
        self.own, self.default = own, default
        self.table = {}
        self.asked = []

    async def refresh(self, topic):
        self.asked.append(("refresh", topic))
        if self.own is not None:
            self.table[topic] = self.own
            self.publish_table.take_route(topic, self.own)

    async def use_default_route(self, topic, default_topic, queues_max):
        self.asked.append(("borrow", topic, default_topic, queues_max))
        if self.default is not None:
            self.publish_table.take_route(topic, self.default)

    async def why_none(self, topic):
        return f"nobody knows {topic}"


def a_table(routes=None, **settings) -> TopicPublishInfoTable:
    routes = routes or Routes()
    config = ProducerConfig(
        **{"group": "pg", "namesrv": "n:9876", "create_topic_key": "MY_DEFAULT", **settings}
    )
    routes.publish_table = TopicPublishInfoTable(
        SimpleNamespace(routes=routes, rng=random.Random(1)), config
    )
    return routes.publish_table


def an_info(start=0) -> TopicPublishInfo:
    return TopicPublishInfo(QUEUES, index=ThreadLocalIndex(lambda: start))


@pytest.mark.parametrize(
    ("release", "default", "polled"),
    [("5.1.0", "MY_DEFAULT", ["MY_DEFAULT"]), ("5.1.1", "TBW102", [])],
)
async def test_since_5_1_1_the_default_topic_is_fixed_and_not_polled(
    release, default, polled
) -> None:
    routes = Routes(default=a_route())
    table = a_table(routes, release=release, default_topic_queues=5)
    assert table.topics() == polled
    assert (await table.find("t")).is_usable
    assert routes.asked == [("refresh", "t"), ("borrow", "t", default, 5)]
    assert table.topics() == [*polled, "t"]


async def test_an_own_route_is_used_without_the_default_one_and_asked_for_once() -> None:
    routes = Routes(own=a_route())
    table = a_table(routes)
    info = await table.find("t")
    assert info.queues == QUEUES
    assert await table.find("t") is info
    assert routes.asked == [("refresh", "t")]


async def test_an_own_route_without_a_queue_to_write_borrows_nothing() -> None:
    routes = Routes(own=a_route(perm=4), default=a_route())
    table = a_table(routes)
    with pytest.raises(NoRoute, match=r"nothing was sent: a has permission R--") as failed:
        await table.find("t")
    assert str(failed.value).startswith("no queue of t can be written")
    assert failed.value.code == ClientErrorCode.NOT_FOUND_TOPIC
    assert routes.asked == [("refresh", "t")]
    assert table.known("t") is None, "only usable queues are known"
    assert table.needs_route("t")


async def test_a_topic_that_was_asked_for_in_vain_is_polled_from_then_on() -> None:
    table = a_table()
    with pytest.raises(NoRoute, match=r"nothing was sent: nobody knows t$"):
        await table.find("t")
    assert "t" in table.topics()
    table.take_route("t", a_route())
    assert not table.needs_route("t")
    assert table.known("t") is not None


def test_a_route_says_how_many_queues_each_broker_writes() -> None:
    table = a_table()
    table.take_route("t", a_route(queues=3))
    info = table.known("t")
    assert info is not None
    assert (info.write_queues, info.has_route) == ({"a": 3}, True)


def test_the_round_of_a_new_route_begins_anywhere() -> None:
    table, starts = a_table(), set()
    for _ in range(30):
        table.take_route("t", a_route())
        info = table.known("t")
        assert info is not None
        starts.add(info.next_position())
    assert starts == {0, 1, 2}


def test_each_worker_has_its_own_round() -> None:
    info = an_info()
    assert [info.next_position() for _ in range(4)] == [1, 2, 0, 1]
    assert [info.next_position(worker=1) for _ in range(2)] == [1, 2]
    assert info.next_queue() == QUEUES[2]
    assert info.next_queue(worker=1) == QUEUES[0]


def test_a_walk_takes_a_step_for_each_queue_it_looks_at() -> None:
    info, seen = an_info(), []

    def wanted(queue):
        seen.append(queue.queue_id)
        return queue.queue_id == 0

    assert info.next_queue_where(wanted) == QUEUES[0]
    assert seen == [1, 2, 0]
    assert info.next_position() == 1
    assert info.next_queue_where(lambda queue: False) is None
    assert info.next_position() == 2, "one full round and one step"
    assert set(info.index._at) == {0}
    assert info.next_queue_where(lambda queue: True, worker=7) == QUEUES[1]


def test_a_round_from_an_index_overflows_as_java_s_does() -> None:
    info = an_info()
    assert info.queues_from(4) == [QUEUES[1], QUEUES[2], QUEUES[0]]
    # 2147483647 % 3, then the smallest int, which has no absolute value, then 2147483647 again
    assert info.queues_from(2**31 - 1) == [QUEUES[1], QUEUES[0], QUEUES[1]]
    assert info.next_position() == 1, "the shared counter is unchanged"


def test_a_counter_is_masked_to_31_bits_and_goes_on_from_zero() -> None:
    index = ThreadLocalIndex(lambda: 0x7FFF_FFFE)
    assert [index.step() for _ in range(3)] == [0x7FFF_FFFF, 0, 1]


def test_a_counter_that_is_restarted_begins_anew_for_that_worker() -> None:
    starts = iter([10, 20, 30])
    index = ThreadLocalIndex(lambda: next(starts))
    assert (index.step(), index.step(1)) == (11, 21)
    index.restart()
    assert (index.step(), index.step(1)) == (31, 22)

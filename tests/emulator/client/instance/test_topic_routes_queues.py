"""The queues and addresses of a route, for producers and for consumers."""

from __future__ import annotations

import random

import pytest

from rocketmq_emulator.client.instance.topic_routes import (
    BrokerAddresses,
    NameServerRing,
    check_route,
    default_topic_route,
    has_changed,
    publish_queues,
    subscribe_queues,
    write_queues,
)
from rocketmq_emulator.protocol.bodies.routes import BrokerData, QueueData, TopicRouteData
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.settings.releases import R_4_9_7, R_5_3_3


def a_queue_data(broker, read=4, write=4, perm=6) -> QueueData:
    return QueueData(broker_name=broker, read_queue_nums=read, write_queue_nums=write, perm=perm)


def a_route(*queue_datas, masters=None, slaves=(), **more) -> TopicRouteData:
    names = [data.broker_name for data in queue_datas]
    masters = names if masters is None else masters
    brokers = []
    for name in dict.fromkeys([*names, *slaves]):
        addresses = {0: f"{name}:1"} if name in masters else {}
        if name in slaves:
            addresses[1] = f"{name}:2"
        if addresses:
            brokers.append(BrokerData(cluster="c", broker_name=name, broker_addrs=addresses))
    return TopicRouteData(queue_datas=list(queue_datas), broker_datas=brokers, **more)


def pairs(queues) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in queues]


def test_publish_queues_go_by_broker_name_and_number() -> None:
    route = a_route(a_queue_data("b-2", write=2), a_queue_data("b-10", write=1))
    assert pairs(publish_queues("t", route)) == [("b-10", 0), ("b-2", 0), ("b-2", 1)]


@pytest.mark.parametrize("perm", range(8))
@pytest.mark.parametrize("has_master", [True, False])
def test_client_invariant_09_publish_queues_need_a_master_that_takes_writes(
    perm, has_master
) -> None:
    data = a_queue_data("b", read=3, write=2, perm=perm)
    route = a_route(data, masters=["b"] if has_master else [], slaves=["b"])
    may_write, may_read = bool(perm & 2), bool(perm & 4)
    assert len(publish_queues("t", route)) == (2 if may_write and has_master else 0)
    assert len(subscribe_queues("t", route)) == (3 if may_read else 0)


def test_subscribe_queues_need_no_registered_broker() -> None:
    route = a_route(a_queue_data("b", read=2), masters=[])
    assert route.broker_datas == []
    assert sorted(pairs(subscribe_queues("t", route))) == [("b", 0), ("b", 1)]


def test_an_order_configuration_is_used_without_checks() -> None:
    route = a_route(
        a_queue_data("a", perm=4), masters=[], order_topic_conf="broker-b:2;broker-a:1"
    )
    assert pairs(publish_queues("t", route)) == [
        ("broker-b", 0),
        ("broker-b", 1),
        ("broker-a", 0),
    ]


@pytest.mark.parametrize(
    "route",
    [
        TopicRouteData(order_topic_conf="broker-a"),
        TopicRouteData(order_topic_conf="broker-a:four"),
        TopicRouteData(order_topic_conf="broker:a:4"),
        TopicRouteData(order_topic_conf="broker-a:100001"),
        TopicRouteData(order_topic_conf="broker-a:" + "9" * 5_000),
        TopicRouteData(order_topic_conf="broker-a:2000000000"),
        TopicRouteData(queue_datas=[a_queue_data("b", read=2**31 - 1)]),
    ],
)
def test_an_invalid_route_is_refused(route) -> None:
    with pytest.raises(BadFields):
        check_route(route)


def test_as_many_queues_as_the_limit_says_are_taken_and_not_one_more() -> None:
    check_route(TopicRouteData(queue_datas=[a_queue_data("b", read=100_000)]))
    check_route(TopicRouteData(order_topic_conf="broker-a:100000;"))
    check_route(TopicRouteData())
    for data in (a_queue_data("b", read=100_001), a_queue_data("b", write=100_001)):
        with pytest.raises(BadFields, match=r"^100001 queues of one topic at one broker$"):
            check_route(TopicRouteData(queue_datas=[data]))


def test_an_order_configuration_that_cannot_be_read_is_shown() -> None:
    with pytest.raises(
        BadFields, match=r"^an order .* looks like broker-a:4, not 'broker-a:four'$"
    ):
        check_route(TopicRouteData(order_topic_conf="broker-a:four"))


def test_the_borrowed_default_route_is_no_wider_than_either_side_says() -> None:
    route = a_route(a_queue_data("a", read=8, write=8, perm=7), a_queue_data("b", read=2, write=9))
    lent = default_topic_route(route, queues_max=4)
    assert [(d.read_queue_nums, d.write_queue_nums) for d in lent.queue_datas] == [(4, 4), (2, 2)]
    assert [d.read_queue_nums for d in route.queue_datas] == [8, 2]


def test_the_write_counts_of_brokers_ignore_permissions() -> None:
    route = a_route(a_queue_data("a", write=3, perm=4), a_queue_data("b", write=2))
    assert write_queues(route) == {"a": 3, "b": 2}


def test_the_order_of_a_routes_entries_is_no_change() -> None:
    one = a_route(a_queue_data("a"), a_queue_data("b"))
    other = TopicRouteData(queue_datas=one.queue_datas[::-1], broker_datas=one.broker_datas[::-1])
    assert not has_changed(one, other)


@pytest.mark.parametrize(
    "other",
    [
        a_route(a_queue_data("a", perm=4)),
        a_route(a_queue_data("a", write=5)),
        a_route(a_queue_data("a"), slaves=["a"]),
        a_route(a_queue_data("a"), a_queue_data("b")),
        a_route(a_queue_data("a"), order_topic_conf="a:4"),
        a_route(a_queue_data("a"), filter_server_table={"a:1": ["f"]}),
    ],
)
def test_everything_else_is_a_change(other) -> None:
    assert has_changed(a_route(a_queue_data("a")), other)
    assert has_changed(None, other)


def a_table() -> BrokerAddresses:
    table = BrokerAddresses()
    table.put("a", {0: "a:0", 2: "a:2"})
    table.put("b", {1: "b:1", 3: "b:3"})
    return table


def test_messages_are_published_to_masters_only() -> None:
    assert a_table().to_publish("a") == "a:0"
    assert a_table().to_publish("b") is None
    assert a_table().to_publish("unknown") is None


@pytest.mark.parametrize(
    ("broker", "broker_id", "only_this", "found"),
    [
        ("a", 0, True, ("a:0", False)),
        ("a", 2, True, ("a:2", True)),
        ("a", 1, True, ("a:2", True)),  # the next slave
        ("a", 4, True, None),
        ("a", 4, False, ("a:0", False)),  # any replica
        ("b", 0, True, None),
        ("b", 0, False, ("b:1", True)),
        ("unknown", 0, False, None),
    ],
)
def test_reads_fall_back_to_the_next_slave_and_then_to_any_replica(
    broker, broker_id, only_this, found
) -> None:
    assert a_table().to_subscribe(broker, broker_id, only_this=only_this) == found


def test_client_invariant_04_addresses_in_no_route_are_forgotten() -> None:
    table = a_table()
    table.keep_only({"a:2"})
    assert list(table.all()) == [("a", 2, "a:2")]


def test_a_name_server_is_kept_while_it_is_connected() -> None:
    servers = NameServerRing(["a", "b", "c"], random.Random(3), R_4_9_7)
    first, second, third = servers.candidates(lambda _: False)
    assert {first, second, third} == {"a", "b", "c"}
    servers.choose(second)
    assert servers.candidates(lambda address: address == second) == [second]
    assert servers.candidates(lambda _: False) == [third, first, second]


def test_from_5_3_0_a_call_asks_one_name_server_and_the_next_call_the_next() -> None:
    servers = NameServerRing(["a", "b"], random.Random(3), R_5_3_3)
    (first,) = servers.candidates(lambda _: False)
    servers.choose(first)
    (second,) = servers.candidates(lambda _: False)
    assert {first, second} == {"a", "b"}

"""The sentences of errors about topics that have no queue to write or to read."""

from __future__ import annotations

import pytest

from rocketmq_emulator.errors.missing_routes import (
    TOPICS_COMPARED_MAX,
    RouteRefusal,
    nearest_topic,
    why_no_route,
    why_not_readable,
    why_not_writable,
)
from rocketmq_emulator.protocol.bodies.routes import BrokerData, QueueData, TopicRouteData
from rocketmq_emulator.protocol.codes import ResponseCode

UNKNOWN = RouteRefusal("n:9876", ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
SYSTEM = ["SELF_TEST_TOPIC", "%RETRY%order", "%DLQ%order", "broker-a"]


def a_route(*queues: QueueData, masters=("a", "b")) -> TopicRouteData:
    brokers = [BrokerData("c", name, {0: f"{name}:1"}) for name in masters]
    return TopicRouteData(queue_datas=list(queues), broker_datas=brokers)


@pytest.mark.parametrize(
    ("refusal", "topics", "text"),
    [
        (UNKNOWN, [], "no broker is registered at the NameServer n:9876: the brokers are dead"),
        (UNKNOWN, [*SYSTEM, "orders"], "does not know it; did you mean orders?"),
        (UNKNOWN, [*SYSTEM, "zebra"], "no broker creates topics (autoCreateTopicEnable is off)"),
        (UNKNOWN, [*SYSTEM, "TBW102"], "brokers create it when a message is sent to it"),
        (UNKNOWN, None, "no broker is registered there, or the name is wrong"),
        (RouteRefusal("b:10911", 3), None, "the server at b:10911 is no NameServer"),
        (RouteRefusal("n:9876", 1, "not ready"), None, "refused its route with SYSTEM_ERROR: not"),
        (RouteRefusal("n:9876", 999), None, "refused its route with 999"),
        (None, None, "no answer about its route has come yet"),
    ],
)
def test_each_situation_of_an_unknown_topic_has_its_own_sentence(refusal, topics, text) -> None:
    assert text in why_no_route("order", refusal, topics)


@pytest.mark.parametrize("topics", [[], ["orders"], ["zebra"], None])
def test_a_broker_in_place_of_a_name_server_is_named_whatever_else_is_known(topics) -> None:
    why = why_no_route("order", RouteRefusal("b:10911", 3), topics)
    assert why.startswith("the server at b:10911 is no NameServer")


def test_internal_topics_are_no_suggestions() -> None:
    assert nearest_topic("%RETRY%orders", SYSTEM) == ""
    assert nearest_topic("SELF_TEST_TOPICS", SYSTEM) == ""


def test_only_so_many_topics_are_compared() -> None:
    names = [f"{number:09}" for number in range(TOPICS_COMPARED_MAX)]
    assert nearest_topic("order", [*names[1:], "orders"]) == "orders"
    assert nearest_topic("order", [*names, "orders"]) == ""


def test_a_route_that_cannot_be_written_tells_why_for_each_broker() -> None:
    route = a_route(QueueData("a", 4, 4, 4), QueueData("b", 4, 0, 6), QueueData("s", 4, 4, 6))
    assert why_not_writable(route).split("; ") == [
        "a has permission R--, which allows no writes",
        "b has no write queues",
        "s has no master: it is dead, and only a slave is registered",
    ]


def test_a_route_that_cannot_be_read_tells_why_for_each_broker() -> None:
    route = a_route(QueueData("a", 4, 4, 2), QueueData("b", 0, 4, 6))
    assert why_not_readable(route).split("; ") == [
        "a has permission -W-, which allows no reads",
        "b has no read queues",
    ]

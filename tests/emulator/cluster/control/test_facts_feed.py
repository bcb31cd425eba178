"""GET /facts: new facts of many nodes, also after restarts, and no more than the client reads."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator

import pytest

from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.net import own_calls
from rocketmq_emulator.net.blocking_calls import call_blocking
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of

Facts = Callable[[str], Iterator[dict]]


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(control=0) as running:
        yield running


@pytest.fixture
def facts(cluster):
    """A function that opens a stream of facts; when it returns, nodes send new facts to it."""
    connections = []

    def opened(query: str = "") -> Iterator[dict]:
        connection = http.client.HTTPConnection(
            cluster.control.removeprefix("http://"), timeout=30
        )
        connections.append(connection)
        connection.request("GET", f"/facts{query}")
        response = connection.getresponse()
        assert response.status == 200
        assert response.getheader("content-type") == "application/x-ndjson"
        return (json.loads(line) for line in response)

    yield opened
    for connection in connections:
        connection.close()


def make_topic(cluster, name: str, broker: str = "broker-a") -> None:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1}
    fields |= {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    request = RemotingCommand(
        code=RequestCode.UPDATE_AND_CREATE_TOPIC,
        opaque=1,
        ext=ext_of(None, {key: str(value) for key, value in fields.items()}),
    )
    assert call_blocking(cluster.brokers[broker], request).code == 0


def test_facts_of_all_nodes_come_from_now_on(cluster, facts) -> None:
    make_topic(cluster, "before")
    lines = facts("?kinds=TopicCreated")
    make_topic(cluster, "orders")
    make_topic(cluster, "orders", "broker-b")
    found = [next(lines), next(lines)]
    assert {(line["node"], line["fact"]["topic"]) for line in found} == {
        ("broker-a", "orders"),
        ("broker-b", "orders"),
    }


def test_requests_are_noted_while_somebody_asks_for_that_kind(cluster, facts) -> None:
    lines = facts("?nodes=broker-a&kinds=RequestReceived,TopicCreated")
    make_topic(cluster, "asked-for")
    codes = [line["fact"].get("code") for line in (next(lines), next(lines))]
    assert codes == [RequestCode.UPDATE_AND_CREATE_TOPIC, None]


def test_only_the_nodes_that_are_wanted_are_listened_to(cluster, facts) -> None:
    lines = facts("?nodes=broker-b&kinds=TopicCreated,TopicChanged")
    make_topic(cluster, "letters")
    make_topic(cluster, "letters", "broker-b")
    assert next(lines)["node"] == "broker-b"


def test_a_node_that_is_restarted_is_followed_again(cluster, facts) -> None:
    lines = facts("?nodes=broker-b&kinds=TopicCreated")
    cluster.restart("broker-b")
    assert next(lines) == {"node": "broker-b", "followed_again": True}
    make_topic(cluster, "after", "broker-b")
    assert next(lines)["fact"]["topic"] == "after"


def test_a_node_that_stands_still_or_is_dead_holds_nobody_up(cluster, facts) -> None:
    cluster.kill("broker-b")
    lines = facts("?kinds=TopicCreated")
    make_topic(cluster, "while-b-is-dead")
    assert next(lines)["fact"]["topic"] == "while-b-is-dead"
    cluster.start("broker-b")
    assert next(lines) == {"node": "broker-b", "followed_again": True}


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        (
            "?kinds=TopicCreatd",
            400,
            "there is no kind of fact 'TopicCreatd'; did you mean TopicCr",
        ),
        ("?kinds=%F0", 400, "there is no kind of fact"),
        ("?nodes=nobody", 404, "there is no node named 'nobody'"),
        ("?kind=TopicCreated", 400, "there is no parameter kind: only kinds and nodes"),
    ],
)
def test_what_does_not_exist_is_refused_before_the_stream_begins(cluster, query, status, text):
    connection = http.client.HTTPConnection(cluster.control.removeprefix("http://"), timeout=20)
    connection.request("GET", f"/facts{query}")
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"].startswith(text)
    connection.close()


def test_the_stream_ends_in_order_when_the_cluster_does() -> None:
    with EmbeddedCluster(brokers=0, control=0) as cluster:
        address = cluster.control.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("GET", "/facts?kinds=BrokerExpired")
        response = connection.getresponse()
    assert response.read() == b""
    connection.close()


def test_where_nodes_allow_it_not_the_stream_says_so() -> None:
    settings = {"reply_rules_allowed": False}
    with EmbeddedCluster(brokers=0, name_server_settings=settings, control=0) as cluster:
        connection = http.client.HTTPConnection(
            cluster.control.removeprefix("http://"), timeout=30
        )
        connection.request("GET", "/facts")
        line = json.loads(connection.getresponse().readline())
        connection.close()
    assert line["node"] == "namesrv"
    assert "reply_rules_allowed=true" in line["error"]


def test_lines_that_a_node_has_dropped_are_counted_in_the_stream(
    cluster, facts, monkeypatch
) -> None:
    monkeypatch.setattr(own_calls, "LINES_MAX", 0)
    lines = facts("?nodes=broker-a&kinds=TopicCreated")
    make_topic(cluster, "dropped")
    assert next(lines) == {"node": "broker-a", "lost": 1}

"""Routes of the control address: requests and answers as values, with a fake cluster."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator.cluster.control.http_connection import HttpRequest
from rocketmq_emulator.cluster.control.routes import ROUTES, VERB_STATES, answer
from rocketmq_emulator.cluster.reply_rules import ReplyRuleRefused
from rocketmq_emulator.cluster.world import NotReady
from rocketmq_emulator.processes.node_process import NodeDied
from tests.support.cluster.fake_cluster import RESULTS, FakeCluster, rules_refused


def asked(cluster, method: str, path: str, body: bytes = b"", **query: str):
    """Status and JSON of the answer."""
    response = answer(cluster, HttpRequest(method, path, query, {}, body))
    return int(response.status), json.loads(response.body)


def error_of(cluster, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    status, found = asked(cluster, method, path, body)
    assert list(found) == ["error"], found
    assert "\n" not in found["error"]
    return status, found["error"]


def test_the_first_page_says_where_everything_is() -> None:
    status, about = asked(FakeCluster(), "GET", "/")
    assert status == 200
    assert about["namesrv"] == "127.0.0.1:9876"
    assert about["brokers"] == {"broker-a": "127.0.0.1:10911"}
    assert (about["release"], about["store"], about["world"]) == ("4.9.7", "", "processes")
    assert about["links"] == [f"{route.method} {route.path}" for route in ROUTES]
    assert about["version"]


def test_misuses_are_listed_with_their_cure() -> None:
    status, found = asked(FakeCluster(), "GET", "/misuses")
    (misuse,) = found["misuses"]
    assert (status, misuse["misuse"], misuse["group"]) == (200, "single_bar", "g")
    assert "separate tags by two bars" in misuse["text"]


def test_nodes_are_a_table_and_one_by_one() -> None:
    cluster = FakeCluster()
    cluster.kill("broker-a")
    _, table = asked(cluster, "GET", "/nodes/")
    assert [node["name"] for node in table["nodes"]] == ["namesrv", "broker-a"]
    status, node = asked(cluster, "GET", "/nodes/broker-a")
    assert status == 200
    assert node == table["nodes"][1]
    assert node["role"] == "broker"
    assert node["state"] == "dead"
    assert node["pid"] is None


@pytest.mark.parametrize("verb", VERB_STATES)
def test_a_verb_is_done_and_answered_with_the_node_as_it_is_then(verb) -> None:
    cluster = FakeCluster()
    cluster.states["broker-a"] = VERB_STATES[verb].possible[0]
    status, node = asked(cluster, "POST", f"/nodes/broker-a/{verb}")
    assert status == 200
    assert cluster.done == [(verb, "broker-a")]
    assert node["state"] == VERB_STATES[verb].result == RESULTS[verb]


@pytest.mark.parametrize(
    ("verb", "state", "text"),
    [
        ("kill", "dead", "broker-a is dead already"),
        ("start", "running", "broker-a is running already"),
        (
            "start",
            "paused",
            "broker-a is paused: only a node that is stopped or dead can be started",
        ),
        (
            "stop",
            "dead",
            "broker-a is dead: only a node that is starting, running or paused can be stopped",
        ),
        ("pause", "paused", "broker-a is paused already"),
        ("pause", "dead", "broker-a is dead: only a node that is running can be paused"),
        ("resume", "running", "broker-a is running already"),
        ("resume", "dead", "broker-a is dead: only a node that is paused can be resumed"),
    ],
)
def test_a_verb_that_makes_no_sense_is_one_clear_line(verb, state, text) -> None:
    cluster = FakeCluster()
    cluster.states["broker-a"] = state
    assert error_of(cluster, "POST", f"/nodes/broker-a/{verb}") == (409, text)
    assert cluster.done == []


@pytest.mark.parametrize("verb", VERB_STATES)
def test_an_unknown_node_is_named_with_those_that_are_known(verb) -> None:
    text = "there is no node named 'nobody'; there are broker-a, namesrv"
    assert error_of(FakeCluster(), "POST", f"/nodes/nobody/{verb}") == (404, text)


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nowhere", 404, "there is nothing at /nowhere: see GET /"),
        (
            "POST",
            "/nodes/broker-a/hurt",
            404,
            "there is nothing at /nodes/broker-a/hurt: see GET /",
        ),
        ("GET", "/" + "a" * 500, 404, f"there is nothing at /{'a' * 79}: see GET /"),
        ("DELETE", "/nodes", 405, "DELETE is not possible at /nodes: only GET"),
        (
            "GET",
            "/nodes/broker-a/kill",
            405,
            "GET is not possible at /nodes/broker-a/kill: only POST",
        ),
    ],
)
def test_what_is_not_there_is_refused_by_name(method, path, status, text) -> None:
    assert error_of(FakeCluster(), method, path) == (status, text)


def test_the_methods_that_are_possible_stand_in_a_header() -> None:
    response = answer(FakeCluster(), HttpRequest("PUT", "/links", {}, {}))
    assert response.headers == {"allow": "GET, POST"}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_links_say_where_their_faults_are_begun(method) -> None:
    status, text = error_of(FakeCluster(), method, "/links")
    assert status == 410
    assert text.startswith("faults of links are begun at /faults: POST")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            NodeDied("broker-a", 1, ["broker-a: the port is in use"]),
            "broker-a: the port is in use",
        ),
        (NodeDied("broker-a", -9, []), "broker-a was killed by signal 9"),
        (NotReady(30, ["broker-a"]), "not ready after 30 s: broker-a"),
    ],
    ids=str,
)
def test_a_start_that_fails_says_why(error, text) -> None:
    cluster = FakeCluster()
    cluster.states["broker-a"], cluster.fails = "dead", error
    assert error_of(cluster, "POST", "/nodes/broker-a/start") == (500, text)


def test_a_bug_is_not_answered_here() -> None:
    cluster = FakeCluster()
    cluster.fails = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        asked(cluster, "POST", "/nodes/broker-a/kill")


# Reply rules and clocks -------------------------------------------------------------------

RULES = "/nodes/broker-a/reply-rules"
BUSY = b'{"code": 310, "count": 5, "error_code": 2}'


def test_rules_are_set_listed_and_removed_one_by_one_or_all() -> None:
    cluster = FakeCluster()
    assert asked(cluster, "POST", RULES, BUSY) == (201, {"rule_id": 1})
    assert asked(cluster, "POST", RULES, b'{"no_answer": true}') == (201, {"rule_id": 2})
    status, found = asked(cluster, "GET", RULES)
    assert status == 200
    assert [rule["rule_id"] for rule in found["rules"]] == [1, 2]
    assert found["rules"][0]["rule"] == {"code": 310, "count": 5, "error_code": 2}
    assert asked(cluster, "DELETE", f"{RULES}/1") == (200, {"rule_ids": [1]})
    assert asked(cluster, "DELETE", RULES) == (200, {"rule_ids": [2]})
    assert asked(cluster, "GET", RULES) == (200, {"rules": []})


def test_a_rule_may_name_its_codes() -> None:
    cluster = FakeCluster()
    named = b'{"code": "SEND_MESSAGE_V2", "count": 5, "error_code": "SYSTEM_BUSY"}'
    assert asked(cluster, "POST", RULES, named) == (201, {"rule_id": 1})
    _, found = asked(cluster, "GET", RULES)
    assert found["rules"][0]["rule"] == {"code": 310, "count": 5, "error_code": 2}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "a rule has a verdict"),
        (b"{", "truncated"),
        (b'{"code": 310, "probability": 2, "no_answer": true}', "probability is a number from 0"),
        (b'{"kode": 310}', "there is no field kode; did you mean code?"),
        (b'{"code": "SEND_MESAGE", "delay_ms": 1}', "; did you mean SEND_MESSAGE?"),
        (b'{"code": "310"}', "code"),
        (b"\xff", "the body"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_field(body, text) -> None:
    status, error = error_of(FakeCluster(), "POST", RULES, body)
    assert status == 400
    assert error.startswith("the body: ")
    assert text in error


def test_what_a_node_refuses_is_refused() -> None:
    cluster = FakeCluster()
    cluster.fails = rules_refused()
    text = "broker-a: reply rules are not allowed here"
    assert error_of(cluster, "POST", RULES, BUSY) == (403, text)


def test_a_node_that_does_not_answer_is_named() -> None:
    cluster = FakeCluster()
    cluster.fails = TimeoutError("timed out")
    assert error_of(cluster, "POST", RULES, BUSY) == (502, "broker-a did not answer: timed out")


def test_only_a_node_that_runs_can_be_asked_about_its_rules() -> None:
    cluster = FakeCluster()
    cluster.states["broker-a"] = "dead"
    for method in ("GET", "DELETE"):
        status, text = error_of(cluster, method, RULES)
        assert status == 409
        assert text.startswith("broker-a is dead: only a node that is running")


@pytest.mark.parametrize(
    ("rule_id", "status", "text"),
    [
        ("7", 404, "there is no rule 7 at broker-a; it was removed, or has ended"),
        ("seven", 400, "seven is no id of a rule: it is a number"),
    ],
)
def test_a_rule_that_is_not_there_cannot_be_removed(rule_id, status, text) -> None:
    assert error_of(FakeCluster(), "DELETE", f"{RULES}/{rule_id}") == (status, text)


def test_a_clock_is_set_wrong_and_what_is_no_number_is_refused() -> None:
    cluster, path = FakeCluster(), "/nodes/broker-a/skew-clock"
    assert asked(cluster, "POST", path, b'{"ms": 3600000}') == (200, {"ms": 3_600_000})
    assert cluster.done == [("skew_clock", "broker-a", 3_600_000)]
    assert error_of(cluster, "POST", path)[0] == 400
    cluster.states["broker-a"] = "paused"
    status, text = error_of(cluster, "POST", path, b'{"ms": 1}')
    assert status == 409
    assert text.startswith("broker-a is paused")


# Topics -----------------------------------------------------------------------------------


def test_a_topic_is_made_with_its_queues_to_read_and_to_write() -> None:
    cluster = FakeCluster()
    status, made = asked(cluster, "POST", "/topics", b'{"topic": "orders"}')
    assert (status, made["brokers"], made["missing"]) == (201, ["broker-a"], {})
    assert made["warning"] == ""
    shrunk = b'{"topic": "orders", "queues": 8, "write_queues": 2}'
    assert asked(cluster, "POST", "/topics", shrunk)[0] == 201
    counts = [(config.read_queue_nums, config.write_queue_nums) for _, config in cluster.done]
    assert counts == [(4, 4), (8, 2)]


def test_brokers_on_which_a_topic_was_not_made_are_named_with_the_cure() -> None:
    cluster = FakeCluster()
    for name, state in (("broker-b", "dead"), ("broker-c", "paused")):
        cluster.brokers[name], cluster.states[name] = "127.0.0.1:1", state
    _, made = asked(cluster, "POST", "/topics", b'{"topic": "orders"}')
    assert made["missing"] == {"broker-b": "dead", "broker-c": "paused"}
    assert made["warning"] == (
        "orders was not made on broker-b, which is dead, and broker-c, which is paused: "
        "make it again when they run"
    )


def test_a_topic_that_no_broker_can_make_is_refused_with_their_states() -> None:
    cluster = FakeCluster()
    cluster.states["broker-a"] = "dead"
    status, text = error_of(cluster, "POST", "/topics", b'{"topic": "orders"}')
    assert (status, text) == (409, "no broker could make orders: there is broker-a, which is dead")
    cluster.brokers.clear()
    assert error_of(cluster, "POST", "/topics", b'{"topic": "orders"}')[0] == 409


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "topic"),
        (b'{"topic": "b@d"}', "topic: 'b@d': The specified topic contains illegal"),
        (b'{"topic": "orders", "queues": 0}', "queues"),
        (b'{"topic": "orders", "ques": 1}', "there is no field ques; did you mean queues?"),
    ],
)
def test_a_topic_that_makes_no_sense_is_refused_with_its_field(body, text) -> None:
    cluster = FakeCluster()
    status, error = error_of(cluster, "POST", "/topics", body)
    assert status == 400
    assert text in error
    assert cluster.done == []


def test_a_topic_that_a_broker_refuses_is_refused_with_its_reason() -> None:
    cluster = FakeCluster()
    cluster.fails = ReplyRuleRefused("broker-a", 1, "it is a system topic")
    error = error_of(cluster, "POST", "/topics", b'{"topic": "TBW102"}')
    assert error == (409, "broker-a: it is a system topic")

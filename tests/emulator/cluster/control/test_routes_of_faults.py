"""Faults over HTTP: begun, listed and ended; their facts in the stream; reasons of refusals."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator

import pytest

from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(brokers=1, control=0) as running:
        yield running


@pytest.fixture
def http_of(cluster):
    def call(method: str, path: str, body: object = None) -> tuple[int, dict]:
        address = cluster.control.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        found = json.loads(response.read())
        connection.close()
        return response.status, found

    yield call
    cluster.end_faults()


Http = Callable[..., tuple[int, dict]]


def test_a_fault_is_begun_listed_and_ended(cluster, http_of: Http) -> None:
    status, state = http_of("POST", "/faults", {"fault": "pause", "node": "broker-a", "for": "1m"})
    assert status == 201
    assert state["nodes"] == ["broker-a"]
    assert 0 < state["left_ms"] <= 60_000
    assert cluster.is_paused("broker-a")
    _, listed = http_of("GET", "/faults")
    assert [one["fault_id"] for one in listed["faults"]] == [state["fault_id"]]
    assert http_of("DELETE", f"/faults/{state['fault_id']}")[0] == 200
    assert not cluster.is_paused("broker-a")
    status, error = http_of("DELETE", f"/faults/{state['fault_id']}")
    assert (status, error["error"][:6]) == (404, "fault ")


def test_all_faults_end_at_once(http_of: Http) -> None:
    ids = [
        http_of("POST", "/faults", {"fault": "clock_jump", "node": "broker-a", "ms": ms})[1][
            "fault_id"
        ]
        for ms in (5, 7)
    ]
    assert sorted(http_of("DELETE", "/faults")[1]["fault_ids"]) == ids


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ([], 400, 'a fault is an object: {"fault": "kill", "node": "broker-a"}'),
        ({"node": "broker-a"}, 400, "the member fault must be one of kill, stop,"),
        ({"fault": "stal"}, 400, "there is no fault 'stal'; did you mean stall?"),
        ({"fault": "kill", "nod": 1}, 400, "kill has no field 'nod'; did you mean node?"),
        ({"fault": "kill"}, 400, "kill: the field node is missing"),
        ({"fault": "clock_jump", "node": "broker-a", "ms": "x"}, 400, "clock_jump: ms is a whole"),
        ({"fault": "kill", "node": "broker-a", "for": 20}, 400, "20 is no duration: write 200ms,"),
        ({"fault": "stall", "one_way": True}, 400, "stall: a fault of a link has either between"),
        ({"fault": "kill", "node": "broker-aa"}, 404, "there is no node named 'broker-aa'; there"),
        (
            {"fault": "power_off", "node": "broker-a"},
            501,
            "the embedded world cannot do power_off",
        ),
        (
            {"fault": "stall", "around": "broker-a"},
            501,
            "stall needs proxies in front of the nodes",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_has_happened(
    http_of: Http, body, status, text
) -> None:
    found, error = http_of("POST", "/faults", body)
    assert (found, error["error"][: len(text)]) == (status, text)
    assert http_of("GET", "/faults")[1] == {"faults": []}


def test_the_stream_of_facts_has_those_of_the_world(cluster, http_of: Http) -> None:
    connection = http.client.HTTPConnection(cluster.control.removeprefix("http://"), timeout=30)
    connection.request("GET", "/facts?kinds=FaultBegan,FaultEnded")
    lines: Iterator[dict] = (json.loads(line) for line in connection.getresponse())
    http_of("POST", "/faults", {"fault": "clock_jump", "node": "namesrv", "ms": 5, "for": "50ms"})
    began, ended = next(lines), next(lines)
    connection.close()
    assert (began["node"], began["fact"]["nodes"]) == ("world", ["namesrv"])
    assert (ended["fact"]["kind"], ended["fact"]["reason"]) == ("FaultEnded", "time is up")

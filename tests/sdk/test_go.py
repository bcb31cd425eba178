"""The official Go client: topics created at the same moment, and messages from and to Java."""

from __future__ import annotations

import time

import pytest

from tests.sdk.administration import ROUTE_S_MAX, routed_brokers
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess

pytestmark = pytest.mark.sdk


def test_topics_created_at_the_same_moment_are_all_in_the_route(
    go: SdkProcess, scenario: Scenario
) -> None:
    broker, address = next(iter(scenario.cluster.brokers.items()))
    topics = [f"{scenario.topic}-{n}" for n in range(5)]
    go.invoke("create topics", broker=address, topics=topics, queues=2)
    deadline = time.monotonic() + ROUTE_S_MAX
    while missing := [t for t in topics if routed_brokers(scenario.cluster, t) != {broker}]:
        assert time.monotonic() < deadline, f"not in the route: {missing}"
        time.sleep(0.02)
    sent = [{**m, "topic": topic} for m, topic in zip(scenario.messages(5), topics, strict=True)]
    results = scenario.producer(go).send(sent)
    assert [(r["status"], r["topic"]) for r in results] == [("SEND_OK", t) for t in topics]


def test_what_go_sends_java_consumes_and_the_other_way_round(
    go: SdkProcess, java: SdkProcess, scenario: Scenario
) -> None:
    sent = scenario.messages(24, tags="TagA", properties={"colour": "blau"})
    scenario.producer(java).send(sent[:12])
    in_go = scenario.consumer(go, "go", group=f"{scenario.group}-go")
    in_java = scenario.consumer(java, "java", group=f"{scenario.group}-java")
    wanted = {m["keys"]: (m["body"], "TagA", "blau") for m in sent}
    scenario.producer(go).send(sent[12:])
    for consumer in (in_go, in_java):
        events = consumer.wait_consumed(24)
        assert len(events) == 24
        assert wanted == {
            e["keys"]: (e["body"], e["tags"], e["properties"]["colour"]) for e in events
        }

"""The official Node client, which has no orderly listener."""

from __future__ import annotations

import pytest

from tests.sdk.administration import create_topic
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import SdkProcess

pytestmark = pytest.mark.sdk


def test_one_queue_is_consumed_in_the_order_it_was_filled(
    node: SdkProcess, scenario: Scenario
) -> None:
    topic = f"one-queue-{scenario.topic}"
    create_topic(scenario.cluster, topic, queues=1, brokers=1)
    sent = [{**message, "topic": topic} for message in scenario.messages(100)]
    results = scenario.producer(node).send(sent)
    consumed = scenario.consumer(node, topic=topic).wait_consumed(100)
    assert [result["offset"] for result in results] == list(range(100))
    assert [event["keys"] for event in consumed] == [message["keys"] for message in sent]


def test_what_java_sends_node_consumes_and_the_other_way_round(
    java: SdkProcess, node: SdkProcess, scenario: Scenario
) -> None:
    sent = scenario.messages(24, tags="TagA", properties={"colour": "blau"})
    scenario.producer(java).send(sent[:12])
    (in_node, in_java) = (
        scenario.consumer(node, "node", group=f"{scenario.group}-node"),
        scenario.consumer(java, "java", group=f"{scenario.group}-java"),
    )
    heard = {m["keys"]: (m["body"], "TagA", "blau") for m in sent}
    scenario.producer(node).send(sent[12:])
    for consumer in (in_node, in_java):
        events = consumer.wait_consumed(24)
        assert len(events) == 24
        assert heard == {
            e["keys"]: (e["body"], e["tags"], e["properties"]["colour"]) for e in events
        }

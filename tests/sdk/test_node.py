"""The stories of the official Node client, which knows no orderly listener."""

from __future__ import annotations

import pytest
from sdk.actors import Actor
from sdk.administration import create_topic
from sdk.stage import Stage

pytestmark = pytest.mark.sdk


def test_one_queue_is_consumed_in_the_order_it_was_filled(node: Actor, stage: Stage) -> None:
    topic = f"one-queue-{stage.topic}"
    create_topic(stage.cluster, topic, queues=1, brokers=1)
    sent = [{**message, "topic": topic} for message in stage.messages(100)]
    results = stage.producer(node).send(sent)
    consumed = stage.consumer(node, topic=topic).wait_consumed(100)
    assert [result["offset"] for result in results] == list(range(100))
    assert [event["keys"] for event in consumed] == [message["keys"] for message in sent]


def test_what_java_sends_node_consumes_and_the_other_way_round(
    java: Actor, node: Actor, stage: Stage
) -> None:
    sent = stage.messages(24, tags="TagA", properties={"colour": "blau"})
    stage.producer(java).send(sent[:12])
    (in_node, in_java) = (
        stage.consumer(node, "node", group=f"{stage.group}-node"),
        stage.consumer(java, "java", group=f"{stage.group}-java"),
    )
    heard = {m["keys"]: (m["body"], "TagA", "blau") for m in sent}
    stage.producer(node).send(sent[12:])
    for consumer in (in_node, in_java):
        events = consumer.wait_consumed(24)
        assert len(events) == 24
        assert heard == {
            e["keys"]: (e["body"], e["tags"], e["properties"]["colour"]) for e in events
        }

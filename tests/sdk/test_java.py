"""Tests of functions that only the official Java client has."""

from __future__ import annotations

import os
import re
from collections import defaultdict

import pytest

from rocketmq_emulator.protocol.bodies.extensions import (
    AdvanceTime,
    AdvanceTimeReply,
    decode_extension_body,
    encode_extension_body,
)
from rocketmq_emulator.protocol.codes import RequestCode
from tests.sdk.administration import ask
from tests.sdk.scenario import Scenario
from tests.sdk.sdk_process import Event, SdkError, SdkProcess
from tests.sdk.test_every_sdk import (
    HELD_PULL_LATENCY_MS_MAX,
    ends_of,
    keys_of,
    offset_ids_of,
    wait_consumed_by,
)

pytestmark = pytest.mark.sdk


def test_consumers_get_the_unique_ids_of_the_producer(
    java: SdkProcess, scenario: Scenario
) -> None:
    results = scenario.producer(java).send(scenario.messages(20))
    consumed = scenario.consumer(java).wait_consumed(20)
    assert all(
        re.fullmatch("[0-9A-F]{32}([0-9A-F]{24})?", result["unique_id"]) for result in results
    )
    assert sorted(e["unique_id"] for e in consumed) == sorted(r["unique_id"] for r in results)


def test_one_way_messages_are_stored_without_an_answer(
    java: SdkProcess, scenario: Scenario
) -> None:
    answers = scenario.producer(java).send(scenario.messages(50), way="one-way")
    consumed = scenario.consumer(java).wait_consumed(50)
    assert answers == []
    assert keys_of(consumed) == keys_of(scenario.messages(50))


def test_a_batch_is_stored_together_and_consumed_one_by_one(
    java: SdkProcess, scenario: Scenario
) -> None:
    (result,) = scenario.producer(java).send(scenario.messages(10, tags="TagB"), way="batch")
    consumed = scenario.consumer(java).wait_consumed(10)
    assert result["status"] == "SEND_OK"
    assert sorted(result["unique_id"].split(",")) == sorted(e["unique_id"] for e in consumed)
    assert sorted(result["offset_id"].split(",")) == offset_ids_of(consumed)
    assert {(e["broker"], e["queue"]) for e in consumed} == {(result["broker"], result["queue"])}
    assert [e["offset"] for e in sorted(consumed, key=lambda e: e["body"])] == list(range(10))
    assert keys_of(consumed) == keys_of(scenario.messages(10))


def test_an_unknown_topic_is_created_by_its_first_message(
    java: SdkProcess, scenario: Scenario
) -> None:
    topic = f"unheard-of-{scenario.topic}"
    sent = [{**message, "topic": topic} for message in scenario.messages(8)]
    results = scenario.producer(java).send(sent)
    consumed = scenario.consumer(java, topic=topic).wait_consumed(8)
    assert {result["status"] for result in results} == {"SEND_OK"}
    assert offset_ids_of(consumed) == offset_ids_of(results)


def test_a_topic_name_that_no_broker_takes_is_refused(
    java: SdkProcess, scenario: Scenario
) -> None:
    with pytest.raises(SdkError, match="illegal"):
        scenario.producer(java).send([{"topic": "no spaces please", "keys": "k", "body": "b"}])


def test_each_key_is_consumed_in_order_by_one_of_two(java: SdkProcess, scenario: Scenario) -> None:
    one, two = (
        scenario.consumer(java, "one", orderly=True),
        scenario.consumer(java, "two", orderly=True),
    )
    one.wait_assigned(4, locked=True)
    # The second member's first pass finds queues still locked by the first member; without a
    # nudge the next pass is 20 s later.
    two.wait_assigned(4, locked=True, nudge=True)
    messages = [
        {**message, "shard": f"order-{i % 10}"} for i, message in enumerate(scenario.messages(200))
    ]
    scenario.producer(java).send(messages, way="sharded")
    consumed = wait_consumed_by(one, two, count=200)
    assert keys_of(consumed) == keys_of(messages)
    shards = {message["keys"]: message["shard"] for message in messages}
    seen = defaultdict(list)
    for event in consumed:
        seen[shards[event["keys"]]].append(event["keys"])
    assert seen == {
        f"order-{n}": [m["keys"] for m in messages if m["shard"] == f"order-{n}"]
        for n in range(10)
    }
    owners = defaultdict(set)
    for name, events in (("one", one.consumed()), ("two", two.consumed())):
        for event in events:
            owners[event["broker"], event["queue"]].add(name)
    assert all(len(names) == 1 for names in owners.values())


def test_a_refusal_holds_up_its_queue_when_order_matters(
    java: SdkProcess, scenario: Scenario
) -> None:
    messages = scenario.messages(10, shard="one-key")
    scenario.producer(java).send(messages, way="sharded")
    refused = messages[4]["keys"]
    consumer = scenario.consumer(java, orderly=True, refuse={refused: 0})
    consumed = consumer.wait_consumed(11)
    keys = [message["keys"] for message in messages]
    assert [event["keys"] for event in consumed] == keys[:5] + keys[4:]
    assert [event["keys"] for event in consumed if event["refused"]] == [refused]


def test_a_refusal_may_choose_its_delay(java: SdkProcess, scenario: Scenario) -> None:
    sent = scenario.messages(4)
    refused = sent[1]["keys"]
    results = scenario.producer(java).send(sent)
    consumed = scenario.consumer(java, refuse={refused: 1}).wait_consumed(5)
    first, again = (event for event in consumed if event["keys"] == refused)
    assert again["reconsume_times"] == 1
    assert again["unique_id"] == first["unique_id"]
    assert first["offset_id"] in offset_ids_of(results)
    assert again["offset_id"] not in offset_ids_of(results)
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == first["offset_id"]
    assert 900 <= again["told_ms"] - first["told_ms"] < 9_000


def test_a_consumer_stopped_half_way_loses_nothing(java: SdkProcess, scenario: Scenario) -> None:
    scenario.commit_start()
    results = scenario.producer(java).send(scenario.messages(160))
    before = scenario.consumer(java, "before", pause_ms=5, cached_max=2)
    before.wait_consumed(40)
    before.stop()
    done = before.consumed()
    # The offset of the last message consumed before the stop may not be stored: one per queue.
    stored = scenario.wait_committed({queue: end - 1 for queue, end in ends_of(done).items()})
    unstored = [r for r in results if r["offset"] >= stored.get((r["broker"], r["queue"]), 0)]
    after = scenario.consumer(java, "after").wait_consumed(len(unstored))
    assert len(done) < 160
    assert offset_ids_of(after) == offset_ids_of(unstored)
    assert {*offset_ids_of(done), *offset_ids_of(after)} == {*offset_ids_of(results)}


def test_a_pull_is_held_until_a_message_comes(java: SdkProcess, scenario: Scenario) -> None:
    queues = java.invoke(
        "start puller", puller=scenario.topic, topic=scenario.topic, group=scenario.group
    )
    (first, *_) = queues
    pull = java.begin("pull", puller=scenario.topic, topic=scenario.topic, offset=0, **first)
    java.wait_events("pulling", 1, puller=scenario.topic)
    producer = scenario.producer(java)
    sent = producer.send(scenario.messages(16))
    result = java.answer(pull)
    java.invoke("stop puller", puller=scenario.topic)
    there = [r for r in sent if (r["broker"], r["queue"]) == (first["broker"], first["queue"])]
    assert len(queues) == 8
    assert (result["status"], result["min"]) == ("FOUND", 0)
    assert result["messages"][0]["offset_id"] == there[0]["offset_id"]
    assert result["next"] == len(result["messages"])
    assert result["began_ms"] <= result["messages"][0]["stored_ms"]
    assert result["ended_ms"] - result["messages"][0]["stored_ms"] <= HELD_PULL_LATENCY_MS_MAX


def test_an_offset_that_does_not_exist_is_corrected(java: SdkProcess, scenario: Scenario) -> None:
    queues = java.invoke(
        "start puller", puller=scenario.topic, topic=scenario.topic, group=scenario.group
    )
    sent = scenario.producer(java).send(scenario.messages(16))
    end = sum((r["broker"], r["queue"]) == tuple(queues[0].values()) for r in sent)

    def pull(offset: int) -> Event:
        where = {"puller": scenario.topic, "topic": scenario.topic, "offset": offset, **queues[0]}
        result: Event = java.invoke("pull", **where)
        return result

    java.wait_until(lambda: pull(0)["max"] == end, 10, "the queue shows all that was sent")
    result = pull(1_000)
    java.invoke("stop puller", puller=scenario.topic)
    assert result["status"] == "OFFSET_ILLEGAL"
    assert (result["min"], result["max"], result["next"]) == (0, end, end)


def test_a_lite_consumer_polls_and_commits_for_itself(
    java: SdkProcess, scenario: Scenario
) -> None:
    scenario.commit_start()
    producer = scenario.producer(java)
    first = producer.send(scenario.messages(40))
    before = scenario.consumer(java, "before", kind="lite")
    assert offset_ids_of(before.wait_consumed(40)) == offset_ids_of(first)
    before.stop()
    second = producer.send(scenario.messages(40, start=40))
    after = scenario.consumer(java, "after", kind="lite")
    assert offset_ids_of(after.wait_consumed(40)) == offset_ids_of(second)


def advanced(scenario: Scenario, hours: int) -> int:
    """Advance time on all brokers; return how many messages became due."""
    body = encode_extension_body(AdvanceTime(ms=hours * 3_600_000))
    answers = [
        ask(address, RequestCode.ADVANCE_TIME, {}, body)
        for address in scenario.cluster.brokers.values()
    ]
    return sum(
        decode_extension_body(answer.body, AdvanceTimeReply).due_count for answer in answers
    )


def dead_letters(scenario: Scenario) -> int:
    fields = {"topic": f"%DLQ%{scenario.group}", "queueId": "0"}
    answers = [
        ask(address, RequestCode.GET_MAX_OFFSET, fields)
        for address in scenario.cluster.brokers.values()
    ]
    return sum(int(answer.fields().get("offset") or 0) for answer in answers)


@pytest.mark.skipif(
    os.environ.get("STORY_CLUSTER", "ours") != "ours", reason="time is advanced by ours alone"
)
def test_a_message_that_always_fails_is_a_dead_letter_after_ten_advanced_hours(
    java: SdkProcess, scenario: Scenario
) -> None:
    scenario.consumer(java, "first").stop()  # creates the retry topic for the second one
    scenario.producer(java).send(scenario.messages(1))
    (key,) = keys_of(scenario.messages(1))
    failing = scenario.consumer(java, "failing", refuse={key: 0}, refuse_always=True)
    failing.wait_consumed(1)
    held = failing.assigned()
    java.wait_until(lambda: advanced(scenario, 10) > 0, 10.0, "it was sent back")
    failing.wait_consumed(17)
    java.wait_until(lambda: dead_letters(scenario) == 1, 10.0, "it is a dead letter")
    assert [event["reconsume_times"] for event in failing.consumed()] == list(range(17))
    assert failing.assigned() == held

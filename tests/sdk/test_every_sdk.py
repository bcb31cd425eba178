"""Tests that every official client must pass on our cluster."""

from __future__ import annotations

import statistics
import time

import pytest

from tests.sdk.scenario import Consumer, Scenario
from tests.sdk.sdk_process import Event, SdkProcess

pytestmark = pytest.mark.sdk

HELD_PULL_LATENCY_MS_MAX = 200
CONSUMED_S_MAX = 40.0
FIRST_RETRY_MS = 10_000  # the third delay level, which a broker chooses for a first retry


def keys_of(events: list[Event]) -> list[str]:
    return sorted(event["keys"] for event in events)


def offset_ids_of(events: list[Event]) -> list[str]:
    return sorted(event["offset_id"] for event in events)


def wait_consumed_by(*consumers: Consumer, count: int) -> list[Event]:
    """All messages that the consumers got, once there are at least *count*."""
    deadline = time.monotonic() + CONSUMED_S_MAX
    while len(found := [event for consumer in consumers for event in consumer.consumed()]) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} were consumed"
        time.sleep(0.02)
    return found


def ends_of(consumed: list[Event]) -> dict[tuple[str, int], int]:
    """The end of the offsets that were consumed without a gap from 0, of each queue."""
    ends: dict[tuple[str, int], int] = {}
    for event in sorted(consumed, key=lambda event: event["offset"]):
        queue = (event["broker"], event["queue"])
        if event["offset"] == ends.get(queue, 0):
            ends[queue] = event["offset"] + 1
    return ends


def test_what_is_sent_is_consumed_once_and_unchanged(sdk: SdkProcess, scenario: Scenario) -> None:
    properties = {"colour": "blau", "城市": "杭州"}
    sent = scenario.messages(24, tags="TagA", properties=properties)
    results = scenario.producer(sdk).send(sent)
    consumed = scenario.consumer(sdk).wait_consumed(24)
    assert {result["status"] for result in results} == {"SEND_OK"}
    assert len({(r["broker"], r["queue"], r["offset"]) for r in results}) == 24
    assert offset_ids_of(consumed) == offset_ids_of(results)
    by_key = {event["keys"]: event for event in consumed}
    for message in sent:
        event = by_key[message["keys"]]
        assert (event["topic"], event["body"], event["tags"]) == (
            scenario.topic,
            message["body"],
            "TagA",
        )
        assert event["properties"].items() >= properties.items()
        assert event["reconsume_times"] == 0


def test_sends_spread_over_every_queue_of_both_brokers(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    results = scenario.producer(sdk).send(scenario.messages(16))
    assert {(r["broker"], r["queue"]) for r in results} == {
        (broker, queue) for broker in scenario.cluster.brokers for queue in range(scenario.queues)
    }


def test_messages_in_flight_together_are_all_stored(sdk: SdkProcess, scenario: Scenario) -> None:
    results = scenario.producer(sdk).send(scenario.messages(200), way="async")
    consumed = scenario.consumer(sdk).wait_consumed(200)
    assert len(set(offset_ids_of(results))) == 200
    assert offset_ids_of(consumed) == offset_ids_of(results)


def test_a_large_body_arrives_as_it_was_sent(sdk: SdkProcess, scenario: Scenario) -> None:
    body = "".join(f"line {i} of a body that the client compresses\n" for i in range(500))
    scenario.producer(sdk).send([{**scenario.messages(1)[0], "body": body}])
    (event,) = scenario.consumer(sdk).wait_consumed(1)
    assert event["body"] == body


def test_a_subscription_to_tags_gets_those_tags_only(sdk: SdkProcess, scenario: Scenario) -> None:
    sent = [{**message, "tags": "ABC"[i % 3]} for i, message in enumerate(scenario.messages(30))]
    producer = scenario.producer(sdk)
    producer.send(sent)
    consumer = scenario.consumer(sdk, tags="A || C")
    consumer.wait_consumed(20)
    # These are the last messages of each queue: after them, no earlier one can be delivered.
    producer.send(scenario.messages(16, start=30, tags="C"))
    consumed = consumer.wait_consumed(36)
    wanted = [m["keys"] for m in sent if m["tags"] != "B"]
    assert keys_of(consumed) == sorted(
        wanted + [m["keys"] for m in scenario.messages(16, start=30)]
    )


def test_a_group_of_two_shares_all_messages_and_none_twice(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    one, two = scenario.consumer(sdk, "one"), scenario.consumer(sdk, "two")
    one.wait_assigned(4)
    two.wait_assigned(4)
    assert not one.assigned() & two.assigned()
    results = scenario.producer(sdk).send(scenario.messages(80))
    assert offset_ids_of(wait_consumed_by(one, two, count=80)) == offset_ids_of(results)
    assert {(e["broker"], e["queue"]) for e in one.consumed()} == one.assigned()
    assert {(e["broker"], e["queue"]) for e in two.consumed()} == two.assigned()


def test_remaining_members_take_over_from_one_that_stops(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    one, two = scenario.consumer(sdk, "one"), scenario.consumer(sdk, "two")
    one.wait_assigned(4)
    two.wait_assigned(4)
    producer = scenario.producer(sdk)
    producer.send(scenario.messages(16))
    before = wait_consumed_by(one, two, count=16)
    had = len(one.consumed())
    two.stop()
    one.wait_assigned(8)
    producer.send(scenario.messages(16, start=16))
    after = one.wait_consumed(had + 16)[had:]
    assert keys_of(before) == keys_of(scenario.messages(16))
    assert keys_of(after) == keys_of(scenario.messages(16, start=16))


def test_every_member_gets_a_broadcast(sdk: SdkProcess, scenario: Scenario) -> None:
    one = scenario.consumer(sdk, "one", broadcasting=True)
    two = scenario.consumer(sdk, "two", broadcasting=True)
    results = scenario.producer(sdk).send(scenario.messages(24))
    assert offset_ids_of(one.wait_consumed(24)) == offset_ids_of(results)
    assert offset_ids_of(two.wait_consumed(24)) == offset_ids_of(results)


def test_a_refused_message_comes_back_after_ten_seconds(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    sent = scenario.messages(4)
    refused = sent[2]["keys"]
    scenario.producer(sdk).send(sent)
    consumed = scenario.consumer(sdk, refuse={refused: 0}).wait_consumed(5)
    first, again = (event for event in consumed if event["keys"] == refused)
    assert keys_of(consumed) == sorted([*(message["keys"] for message in sent), refused])
    assert (first["refused"], first["reconsume_times"]) == (True, 0)
    assert (again["refused"], again["reconsume_times"]) == (False, 1)
    assert (again["topic"], again["body"]) == (scenario.topic, sent[2]["body"])
    assert again["told_ms"] - first["told_ms"] >= FIRST_RETRY_MS - 100


def test_a_restarted_consumer_goes_on_from_the_stored_offset(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    scenario.commit_start()
    producer = scenario.producer(sdk)
    first = producer.send(scenario.messages(40))
    before = scenario.consumer(sdk, "before")
    before.wait_consumed(40)
    if sdk.language == "go":  # its Shutdown may commit before it has the listener's last result
        scenario.wait_committed(ends_of(first))
    before.stop()
    scenario.wait_committed(ends_of(first))
    second = producer.send(scenario.messages(40, start=40))
    after = scenario.consumer(sdk, "after").wait_consumed(40)
    assert offset_ids_of(after) == offset_ids_of(second)


def test_a_delayed_message_comes_when_its_level_says(sdk: SdkProcess, scenario: Scenario) -> None:
    consumer = scenario.consumer(sdk)
    producer = scenario.producer(sdk)
    asked_ms = time.time() * 1_000
    producer.send(scenario.messages(1, delay_level=1))
    (event,) = consumer.wait_consumed(1)
    assert event["keys"] == scenario.messages(1)[0]["keys"]
    assert event["reconsume_times"] == 0
    assert event["told_ms"] - asked_ms >= 900


def test_a_message_sent_while_the_pull_is_held_comes_at_once(
    sdk: SdkProcess, scenario: Scenario
) -> None:
    consumer = scenario.consumer(sdk)
    consumer.wait_assigned(8)
    producer = scenario.producer(sdk)
    for count, message in enumerate(scenario.messages(9), start=1):
        producer.send([message])
        consumer.wait_consumed(count)
    events = consumer.consumed()
    latencies_ms = [event["told_ms"] - event["stored_ms"] for event in events]
    assert keys_of(events) == keys_of(scenario.messages(9))
    assert statistics.median(latencies_ms) <= HELD_PULL_LATENCY_MS_MAX, latencies_ms

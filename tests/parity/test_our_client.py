"""Our client tells its stories to our cluster and, unchanged, to a real RocketMQ."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict

import trio
from hearing import Ears
from sdk.stage import Stage

from emulator.client.consumer.listeners import Listener
from emulator.client.consumer.push_consumer import PushConsumer
from emulator.client.producer.producer import Producer
from emulator.client.producer.selectors import by_hash
from emulator.client.producer.send_result import SendResult
from protocol.message import Message, MessageExt
from protocol.queues import MessageQueue

ASSIGNED_S_MAX = 30.0
HELD_PULL_LATENCY_MS_MAX = 200


def a_producer(stage: Stage) -> Producer:
    return Producer(namesrv=stage.cluster.namesrv, group=f"producers-{stage.topic}")


def a_consumer(
    stage: Stage, listener: Listener, expression: str = "*", **settings: object
) -> PushConsumer:
    return PushConsumer(
        listener,
        {stage.topic: expression},
        namesrv=stage.cluster.namesrv,
        group=stage.group,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        **settings,
    )


def some_messages(stage: Stage, count: int, start: int = 0, **more: object) -> list[Message]:
    return [
        Message(stage.topic, b"body %d" % i, keys=f"{stage.topic}-{i}", **more)
        for i in range(start, start + count)
    ]


def keys_of(messages: list[Message] | list[MessageExt]) -> list[str | None]:
    return sorted(message.keys for message in messages)


async def send_all(stage: Stage, messages: list[Message]) -> list[SendResult]:
    async with a_producer(stage) as producer:
        return [await producer.send(message) for message in messages]


async def wait_holding(
    consumer: PushConsumer, topic: str, count: int, *, nudge: bool = False
) -> set[MessageQueue]:
    """Its queues of *topic* once they are *count*; a *nudge* asks for passes before their time."""
    with trio.fail_after(ASSIGNED_S_MAX):
        while True:
            held = {queue for queue in consumer.queues if queue.topic == topic}
            if len(held) == count:
                return held
            await trio.sleep(0.02)
            if nudge:
                await consumer.resume()


async def test_every_way_of_sending_stores_messages_that_are_consumed(stage: Stage) -> None:
    sent = some_messages(stage, 16, tags="TagA", properties={"colour": "blau", "城市": "杭州"})
    ears = Ears()
    async with a_producer(stage) as producer:
        results = [await producer.send(message) for message in sent[:4]]
        sendings = [producer.start_send(message) for message in sent[4:8]]
        results += [await sending.wait_sent() for sending in sendings]
        batch = await producer.send_batch(sent[8:12])
        for message in sent[12:]:
            await producer.send_one_way(message)
        async with a_consumer(stage, ears.listener("one")):
            consumed = await ears.wait_heard(16)
    assert all(result.is_ok for result in [*results, batch])
    by_key = {message.keys: message for message in consumed}
    for message in sent:
        got = by_key[message.keys]
        assert (got.body, got.tags, got.reconsume_times) == (message.body, "TagA", 0)
        assert got.properties.items() >= {("colour", "blau"), ("城市", "杭州")}
    ids = [result.msg_id for result in results] + batch.msg_id.split(",")
    assert sorted(ids) == sorted(by_key[message.keys].msg_id for message in sent[:12])
    offset_ids = [result.offset_msg_id for result in results] + batch.offset_msg_id.split(",")
    assert sorted(offset_ids) == sorted(by_key[m.keys].offset_msg_id for m in sent[:12])


async def test_a_large_body_arrives_as_it_was_sent(stage: Stage) -> None:
    body = b"".join(b"line %d of a body that is compressed\n" % i for i in range(500))
    ears = Ears()
    await send_all(stage, [Message(stage.topic, body)])
    async with a_consumer(stage, ears.listener("one")):
        (message,) = await ears.wait_heard(1)
    assert message.body == body


async def test_a_subscription_to_tags_gets_those_tags_only(stage: Stage) -> None:
    sent = some_messages(stage, 30)
    for number, message in enumerate(sent):
        message.tags = "ABC"[number % 3]
    last = some_messages(stage, 16, start=30, tags="C")
    ears = Ears()
    await send_all(stage, sent)
    async with a_consumer(stage, ears.listener("one"), "A || C"):
        await ears.wait_heard(20)
        await send_all(stage, last)
        consumed = await ears.wait_heard(36)
    assert keys_of(consumed) == keys_of([m for m in sent if m.tags != "B"] + last)


async def test_a_group_of_two_shares_all_messages_and_none_twice(stage: Stage) -> None:
    ears = Ears()
    async with a_consumer(stage, ears.listener("one")) as one:
        async with a_consumer(stage, ears.listener("two")) as two:
            queues = await wait_holding(one, stage.topic, 4)
            others = await wait_holding(two, stage.topic, 4)
            await send_all(stage, some_messages(stage, 80))
            shared = await ears.wait_heard(80)
        assert not queues & others
        assert keys_of(shared) == keys_of(some_messages(stage, 80))
        assert ears.by("one")
        assert ears.by("two")
        await wait_holding(one, stage.topic, 8)
        await send_all(stage, some_messages(stage, 16, start=80))
        alone = await ears.wait_heard(96)
    assert keys_of(alone) == keys_of(some_messages(stage, 96))
    assert ears.heard[80:] == [heard for heard in ears.heard[80:] if heard.by == "one"]


async def test_everybody_hears_a_broadcast(stage: Stage) -> None:
    ears = Ears()
    await send_all(stage, some_messages(stage, 24))
    broadcasting = {"model": "BROADCASTING"}
    async with (
        a_consumer(stage, ears.listener("one"), instance_name="one", **broadcasting),
        a_consumer(stage, ears.listener("two"), instance_name="two", **broadcasting),
    ):
        await ears.wait_heard(48)
    assert keys_of(ears.by("one")) == keys_of(some_messages(stage, 24))
    assert keys_of(ears.by("two")) == keys_of(some_messages(stage, 24))


async def test_a_refused_message_comes_back_at_the_level_its_listener_chose(stage: Stage) -> None:
    sent = some_messages(stage, 4)
    refused = sent[2].keys
    ears = Ears()
    listener = ears.listener("one", lambda m: m.keys == refused and m.reconsume_times == 0)
    await send_all(stage, sent)
    async with a_consumer(stage, listener):
        await ears.wait_heard(5)
    first, again = (heard for heard in ears.heard if heard.message.keys == refused)
    assert keys_of([heard.message for heard in ears.heard]) == sorted([*keys_of(sent), refused])
    assert (again.message.reconsume_times, again.message.topic) == (1, stage.topic)
    assert again.message.msg_id == first.message.msg_id
    assert again.at_ms - first.at_ms >= 900


async def test_each_key_is_consumed_in_order_by_one_of_two(stage: Stage) -> None:
    ears = Ears()
    orderly = {"orderly": True, "lock_interval_ms": 500}
    messages = some_messages(stage, 100)
    async with (
        a_consumer(stage, ears.listener("one"), **orderly) as one,
        a_consumer(stage, ears.listener("two"), **orderly) as two,
    ):
        await wait_holding(one, stage.topic, 4)
        # Its first pass finds the other's locks still held; without a nudge the next is 20 s away.
        await wait_holding(two, stage.topic, 4, nudge=True)
        async with a_producer(stage) as producer:
            for number, message in enumerate(messages):
                await producer.send_to_selected(message, by_hash, f"order-{number % 10}")
        await ears.wait_heard(100)
    seen = defaultdict(list)
    shard_of = {message.keys: number % 10 for number, message in enumerate(messages)}
    for heard in ears.heard:
        seen[shard_of[heard.message.keys]].append(heard.message.keys)
    assert seen == {n: [message.keys for message in messages[n::10]] for n in range(10)}
    assert ears.by("one")
    assert ears.by("two")


async def test_a_restarted_consumer_goes_on_from_the_stored_offset(stage: Stage) -> None:
    before, after = Ears(), Ears()
    await send_all(stage, some_messages(stage, 40))
    async with a_consumer(stage, before.listener("before")):
        consumed = await before.wait_heard(40)
    ends = {(m.broker_name, m.queue_id): m.queue_offset + 1 for m in consumed}
    await trio.to_thread.run_sync(stage.wait_committed, ends)
    await send_all(stage, some_messages(stage, 40, start=40))
    async with a_consumer(stage, after.listener("after")):
        consumed = await after.wait_heard(40)
    assert keys_of(consumed) == keys_of(some_messages(stage, 40, start=40))


async def test_a_delayed_message_comes_when_its_level_says(stage: Stage) -> None:
    ears = Ears()
    async with a_consumer(stage, ears.listener("one")):
        asked_ms = time.time() * 1_000
        await send_all(stage, some_messages(stage, 1, delay_level=1))
        (message,) = await ears.wait_heard(1)
    assert message.keys == f"{stage.topic}-0"
    assert ears.heard[0].at_ms - asked_ms >= 900


async def test_a_message_sent_while_the_pull_is_held_comes_at_once(stage: Stage) -> None:
    ears = Ears()
    async with a_consumer(stage, ears.listener("one")) as consumer, a_producer(stage) as producer:
        await wait_holding(consumer, stage.topic, 8)
        for count, message in enumerate(some_messages(stage, 9), start=1):
            await producer.send(message)
            await ears.wait_heard(count)
    latencies_ms = [heard.at_ms - heard.message.store_timestamp for heard in ears.heard]
    assert keys_of([h.message for h in ears.heard]) == keys_of(some_messages(stage, 9))
    assert statistics.median(latencies_ms) <= HELD_PULL_LATENCY_MS_MAX, latencies_ms

"""The pull consumer: its requests, its results, and the offsets that it stores."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client import (
    BadSubscription,
    GroupCallRefused,
    GroupTaken,
    LitePullConsumer,
    MessageIllegal,
    Misuse,
    NotRunning,
    PullConsumer,
    PullConsumerConfig,
    PullStatus,
)
from rocketmq_emulator.facts import MemberJoined, MemberLeft, OffsetCommitted
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import BACK, PULL, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster

UPDATE = 15
ENDS = {"commit_offset": 0, "suspend_timeout_millis": 20_000, "sub_version": 0}


async def send(cluster, *bodies, topic="orders", **more) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **more))


def bodies_of(result) -> list[bytes]:
    return [message.body for message in result.messages]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_all_messages_of_a_queue_are_pulled_by_their_offsets(release) -> None:
    async def main(cluster):
        await send(cluster, b"one", b"two", b"three")
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            ends = await consumer.min_offset(queue), await consumer.max_offset(queue)
            first = await consumer.pull(queue, 0, messages_max=3)
            rest = await consumer.pull(queue, first.next_begin_offset)
            nothing = await consumer.pull(queue, rest.next_begin_offset)
            return ends, first, rest, nothing, cluster.now_s()

    ends, first, rest, nothing, _ = in_cluster(main, release=release, orders=1)
    assert ends == (0, 4)
    assert (first.status, bodies_of(first)) == (PullStatus.FOUND, [b"first", b"one", b"two"])
    assert (rest.status, bodies_of(rest)) == (PullStatus.FOUND, [b"three"])
    assert (rest.next_begin_offset, rest.min_offset, rest.max_offset) == (4, 0, 4)
    assert (nothing.status, nothing.messages) == (PullStatus.NO_NEW_MSG, [])


def test_a_pull_that_may_wait_gets_the_message_that_comes_meanwhile() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            began_s = cluster.now_s()
            empty = await consumer.pull_block_if_not_found(queue, 1)
            waited_s = cluster.now_s() - began_s
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, cluster, b"late")
                found = await consumer.pull_block_if_not_found(queue, 1)
            return empty, waited_s, found

    empty, waited_s, found = in_cluster(main, orders=1)
    assert empty.status is PullStatus.NO_NEW_MSG
    assert 20 <= waited_s <= 25, "held for brokerSuspendMaxTimeMillis, checked every 5 s"
    assert bodies_of(found) == [b"late"]


@pytest.mark.parametrize(
    ("release", "size"), [("4.9.7", None), ("5.3.3", 2**31 - 1)], ids=["4.9.7", "5.3.3"]
)
def test_what_a_pull_says_is_what_upstream_says(release, size) -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app, release=release) as consumer:
            await consumer.pull(a_queue(), 0, expression="TagA || TagB", messages_max=7)
            with trio.move_on_after(1):
                await consumer.pull_block_if_not_found(a_queue(), 0)
            return broker.requests(PULL)

    asked = {"consumer_group": "cg", "topic": "T", "queue_id": 0, "queue_offset": 0, **ENDS}
    said = {**asked, "expression_type": "TAG", "max_msg_bytes": size}
    assert in_group(main) == [
        PullMessageRequest(max_msg_nums=7, sys_flag=4, subscription="TagA || TagB", **said),
        PullMessageRequest(max_msg_nums=32, sys_flag=6, subscription="*", **said),
    ]


def test_an_expression_of_another_type_goes_with_its_version() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            await consumer.pull(a_queue(), 0, expression=("price > 5", "SQL92"))
            (request,) = broker.requests(PULL)
            return request

    request = in_group(main)
    assert (request.subscription, request.expression_type) == ("price > 5", "SQL92")
    assert request.sub_version > 0


def test_tags_are_compared_again_so_other_messages_are_skipped() -> None:
    async def main(cluster, broker):
        broker.store(2, properties={"TAGS": "TagA"})
        broker.store(3, properties={"TAGS": "TagB"})
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            return await consumer.pull(a_queue(), 0, expression="TagB")

    result = in_group(main)
    assert [message.queue_offset for message in result.messages] == [2, 3, 4]
    assert (result.status, result.next_begin_offset) == (PullStatus.FOUND, 5)


def test_an_offset_the_broker_does_not_have_is_answered_with_one_it_has() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            return await consumer.pull(queue, 77)

    result = in_cluster(main, orders=1)
    assert (result.status, result.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 1)


def test_a_broker_that_refuses_or_is_silent_is_named_once() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        busy = Reply(code=ResponseCode.SYSTEM_BUSY, remark="too many")
        broker.replies[PULL] += [busy, SILENT]
        async with app, cluster.a_pull_consumer(app) as consumer:
            with pytest.raises(GroupCallRefused, match="answered 2: too many") as refused:
                await consumer.pull(a_queue(), 0)
            began_s = cluster.now_s()
            with pytest.raises(GroupCallRefused) as silent:
                await consumer.pull(a_queue(), 0, timeout_ms=2_000)
            took_s = cluster.now_s() - began_s
        return refused.value, silent.value, took_s, broker.address

    refused, silent, took_s, address = in_group(main)
    assert (refused.code, silent.code) == (2, 10002)
    assert str(silent).count(address) == 1
    assert took_s == pytest.approx(2)


def test_misuse_is_said_before_anything_leaves() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            with pytest.raises(Misuse, match="offset is at least 0"):
                await consumer.pull(a_queue(), -1)
            with pytest.raises(Misuse, match="messages_max is at least 1"):
                await consumer.pull(a_queue(), 0, messages_max=0)
            with pytest.raises(Misuse, match="queue is a MessageQueue"):
                await consumer.pull("T", 0)
            with pytest.raises(BadSubscription, match="T: "):
                await consumer.pull(a_queue(), 0, expression="||")
            with pytest.raises(Misuse, match="offset is at least 0"):
                consumer.update_consume_offset(a_queue(), -1)
        with pytest.raises(NotRunning):
            await consumer.pull(a_queue(), 0)
        return broker.requests(PULL)

    assert in_group(main) == []


def test_a_topic_that_nobody_knows_is_named() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            with pytest.raises(GroupCallRefused, match="no queue of Nowhere can be read"):
                await consumer.fetch_subscribe_message_queues("Nowhere")

    in_group(main)


def test_the_offsets_of_queues_that_fall_to_it_are_stored_and_found_again() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            await consumer.pull(queue, 0)
            unknown = await consumer.fetch_consume_offset(queue)
            await trio.sleep(2)  # for its heartbeat, the notice, and a pass
            mine = consumer.queues
            consumer.update_consume_offset(queue, 1)
            in_memory = await consumer.fetch_consume_offset(queue)
            stored = await consumer.fetch_consume_offset(queue, from_store=True)
            consumer.update_consume_offset(queue, 1)
        again = cluster.process("again")
        async with again, cluster.a_pull_consumer(again) as consumer:
            return (
                unknown,
                mine == [queue],
                in_memory,
                stored,
                (await consumer.fetch_consume_offset(queue)),
            )

    assert in_cluster(main, orders=1) == (0, True, 1, 0, 1)


def test_a_queue_that_falls_to_it_forgets_the_offset_set_before() -> None:
    """As upstream (rocketmq #7801): the first pass discards an offset that was set before it."""

    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            await consumer.pull(a_queue(), 0)
            consumer.update_consume_offset(a_queue(), 5)
            await trio.sleep(21)
            assert consumer.queues == [a_queue()]
            consumer.update_consume_offset(a_queue(), 6)
            await trio.sleep(5)
        return [request.commit_offset for request in broker.requests(UPDATE)]

    assert set(in_group(main)) == {6}


def test_persist_stores_any_queue_now() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            for queue in await consumer.fetch_subscribe_message_queues("orders"):
                await consumer.pull(queue, 0)
                consumer.update_consume_offset(queue, 1)
                consumer.persist(queue)
            await trio.sleep(0.1)
        return [fact.offset for fact in cluster.facts_of(OffsetCommitted)]

    assert in_cluster(main, orders=2) == [1, 1]


def test_two_members_share_what_both_pull_and_listeners_hear_of_it() -> None:
    heard = []

    async def main(cluster):
        one, two = cluster.process("one"), cluster.process("two")
        async with (
            one,
            two,
            cluster.a_pull_consumer(one, on_queues=lambda *told: heard.append(told)) as first,
            cluster.a_pull_consumer(two) as second,
        ):
            for consumer in (first, second):
                for queue in await consumer.fetch_subscribe_message_queues("orders"):
                    await consumer.pull(queue, 0)
            await trio.sleep(3)
            return first.queues, second.fetch_message_queues_in_balance("orders"), heard[-1]

    first, second, (topic, every, mine) = in_cluster(main, orders=4)
    assert sorted(queue.queue_id for queue in first + second) == [0, 1, 2, 3]
    assert (len(first), len(second)) == (2, 2)
    assert (topic, len(every), mine) == ("orders", 4, first)


def test_without_rebalance_no_queue_falls_to_it() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app, enable_rebalance=False) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            await consumer.pull(queue, 0)
            await trio.sleep(25)
            return consumer.queues

    assert in_cluster(main, release="5.3.3", orders=1) == []


@pytest.mark.parametrize(("release", "suffix"), [("4.9.3", ""), ("4.9.4", "@STREAM")])
def test_since_4_9_4_requests_and_client_id_say_that_they_are_a_streams(release, suffix) -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app, release=release) as consumer:
            await consumer.pull(a_queue(), 0)
            fields = {command.fields().get("ReqT") for command in broker.commands}
            return consumer.instance.client_id, fields

    client_id, fields = in_group(main)
    assert client_id.count("@STREAM") == (suffix != "")
    assert client_id.endswith(suffix)
    assert fields == {"0" if suffix else None}


def test_heartbeats_call_it_active_and_name_what_it_was_made_with() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        topics = {"subscriptions": {"T": "*"}}
        async with app, cluster.a_pull_consumer(app, **topics) as consumer:
            await consumer.pull(a_queue(), 0)
            await trio.sleep(1.5)
        (_, data), *_ = broker.heartbeats
        return data.consumer_data_set

    (data,) = in_group(main)
    assert (data.consume_type, data.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
    assert data.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert [(s.topic, s.sub_string, s.sub_version) for s in data.subscription_data_set] == [
        ("T", "*", 0)
    ]


def test_a_message_that_is_sent_back_waits_in_the_retry_topic() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            (message,) = (await consumer.pull(queue, 0)).messages
            await trio.sleep(2)
            await consumer.send_message_back(message, delay_level=1)
            await trio.sleep(2)
            [retry] = await consumer.fetch_subscribe_message_queues("%RETRY%cg")
            return await consumer.pull(retry, 0)

    (again,) = in_cluster(main, orders=1).messages
    assert (again.body, again.reconsume_times) == (b"first", 1)
    assert again.properties["RETRY_TOPIC"] == "orders"


def test_a_message_no_broker_takes_back_is_an_error() -> None:
    async def main(cluster, broker):
        broker.store(1)
        broker.replies[BACK].append(Reply(code=ResponseCode.SYSTEM_ERROR, remark="full"))
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            (message,) = (await consumer.pull(a_queue(), 0)).messages
            broker.always = ResponseCode.NO_PERMISSION
            with pytest.raises(GroupCallRefused, match="no broker stored"):
                await consumer.send_message_back(message)

    in_group(main)


def test_a_time_is_found_as_an_offset_and_the_first_message_as_a_time() -> None:
    async def main(cluster):
        await send(cluster, b"one")
        await trio.sleep(10)
        at_ms = cluster.clock.now_ms()
        await send(cluster, b"two")
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            (first,) = (await consumer.pull(queue, 0, messages_max=1)).messages
            earliest_ms = await consumer.earliest_msg_store_time(queue)
            return await consumer.search_offset(queue, at_ms), earliest_ms, first.store_timestamp

    offset, earliest_ms, stored_ms = in_cluster(main, release="5.3.3", orders=1)
    assert (offset, earliest_ms) == (2, stored_ms)


def test_with_a_broker_of_its_own_it_pulls_there_whatever_is_suggested() -> None:
    async def main(cluster, master):
        slave = await cluster.add_broker("broker-a", 1)
        cluster.namesrv.routes["T"] = cluster.route(1)
        app = cluster.process()
        wish = {"connect_broker_by_user": True, "default_broker_id": 1}
        async with app, cluster.a_pull_consumer(app, **wish) as consumer:
            await consumer.pull(a_queue(), 0)
            await consumer.pull(a_queue(), 0)
        return len(slave.requests(PULL)), len(master.requests(PULL))

    assert in_group(main) == (2, 0)


def test_at_the_end_it_has_left_its_group() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_pull_consumer(app) as consumer:
            [queue] = await consumer.fetch_subscribe_message_queues("orders")
            await consumer.pull(queue, 0)
            await trio.sleep(2)
            with pytest.raises(GroupTaken):
                consumer.instance.register_consumer(consumer.instance.consumers["cg"])
        joined, left = cluster.facts_of(MemberJoined), cluster.facts_of(MemberLeft)
        return [fact.group for fact in joined], [fact.group for fact in left]

    assert in_cluster(main, orders=1) == (["cg"], ["cg"])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"pull_hold_ms_max": 31_000}, "pull_held_timeout_ms"),
        ({"sync_retries": 1}, "sync_retries"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        PullConsumer(group="g", **settings)


def test_groups_that_cannot_be_are_refused() -> None:
    for group in ("", "DEFAULT_CONSUMER", "no spaces"):
        with pytest.raises(MessageIllegal):
            PullConsumer(group=group)
    assert PullConsumer(config=PullConsumerConfig(group="g")).config.retries_max == 16


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"auto_commit_interval_ms": 999}, "at least 1000"),
        ({"pull_hold_ms_max": 30_001}, "pull_held_timeout_ms"),
        ({"pull_batch_max": 0}, "between 1 and 1024"),
        ({"pull_threads_max": 0}, "between 1 and 1000"),
        ({"consume_from": "CONSUME_FROM_MAX_OFFSET"}, "CONSUME_FROM_FIRST_OFFSET"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        LitePullConsumer(group="g", **settings)

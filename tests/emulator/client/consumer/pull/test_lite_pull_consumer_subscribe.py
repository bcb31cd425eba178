"""A lite pull consumer of subscribed topics: shares, listeners, answers to tools."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client import GroupCallRefused, Misuse
from rocketmq_emulator.client.consumer.group.offsets import OffsetsInMemory
from rocketmq_emulator.facts import MemberLeft, PullFailed, QueuesClaimed, QueuesReleased
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.running import ConsumerRunningInfo
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import LIST, PULL, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster

QUERY, MAX = 14, 30
FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}


async def send(cluster, *bodies, topic="orders", **more) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **more))


async def polled(consumer, count, timeout_ms=30_000) -> list[bytes]:
    bodies = []
    while len(bodies) < count:
        messages = await consumer.poll(timeout_ms)
        assert messages, f"only {bodies}"
        bodies += [message.body for message in messages]
    return bodies


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_every_message_of_a_subscribed_topic_is_polled(release, when) -> None:
    async def main(cluster):
        await send(cluster, *numbers(20))
        app = cluster.process()
        topics = {"orders": "*"} if when == "before" else None
        async with app, cluster.a_lite_consumer(app, topics, **FIRST) as consumer:
            if topics is None:
                await consumer.subscribe("orders")
            return sorted(await polled(consumer, 21)), cluster.now_s()

    bodies, _ = in_cluster(main, release=release, orders=4)
    assert bodies == sorted([b"first", *numbers(20)])


def test_its_queues_come_with_its_first_heartbeat_one_second_after_the_start() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"orders": "*"}) as consumer:
            began_s = cluster.now_s()
            await trio.sleep(0.9)
            early = len(consumer.queues)
            await trio.sleep(0.2)
            return early, len(consumer.queues), cluster.now_s() - began_s

    assert in_cluster(main, orders=4) == (0, 4, pytest.approx(1.1))


def test_heartbeats_call_it_active_and_it_has_no_retry_topic() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "TagA"}, **FIRST):
            await trio.sleep(1.5)
        (_, data), *_ = broker.heartbeats
        return data.consumer_data_set

    (data,) = in_group(main)
    assert (data.consume_type, data.consume_from_where) == (
        "CONSUME_ACTIVELY",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert [(s.topic, s.sub_string) for s in data.subscription_data_set] == [("T", "TagA")]


def test_members_share_and_the_one_that_stays_gets_all_and_nothing_is_lost() -> None:
    async def main(cluster):
        one, two = cluster.process("one"), cluster.process("two")
        topics, bodies = {"orders": "*"}, []
        async with one, cluster.a_lite_consumer(one, topics, **FIRST) as first:
            await trio.sleep(2)
            async with two, cluster.a_lite_consumer(two, topics, **FIRST) as second:
                await trio.sleep(2)
                shares = first.queues, second.queues
                await send(cluster, *numbers(16))
                for consumer in (first, second):
                    while batch := await consumer.poll(500):
                        bodies += [message.body for message in batch]
                for consumer in (first, second):
                    consumer.commit()
            await trio.sleep(1)
            await send(cluster, b"last")
            bodies += await polled(first, 1)
            return *shares, first.queues, bodies

    mine, yours, all_again, bodies = in_cluster(main, orders=4)
    assert (len(mine), len(yours), len(all_again)) == (2, 2, 4)
    assert not set(mine) & set(yours)
    assert sorted(bodies) == sorted([b"first", *numbers(16), b"last"])


def test_a_queue_taken_away_drops_what_was_pulled_and_not_polled() -> None:
    async def main(cluster, broker):
        broker.store(5)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}, **FIRST) as consumer:
            await trio.sleep(21)
            assert consumer.queues == [a_queue()]
            broker.members = ["somebody else"]
            await trio.sleep(20)
            left = consumer.queues, await consumer.poll(1_000)
        released = [fact.reason for fact in cluster.facts_of(QueuesReleased)]
        return left, released, len(cluster.facts_of(QueuesClaimed))

    assert in_group(main) == (([], []), ["not mine"], 1)


def test_a_queue_that_nobody_polls_for_two_minutes_stays() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}, **FIRST) as consumer:
            await trio.sleep(21)
            consumer.pause(consumer.queues)
            await trio.sleep(300)
            return consumer.queues, cluster.facts_of(QueuesReleased)

    assert in_group(main) == ([a_queue()], [])


def test_listeners_hear_of_every_change_of_its_share() -> None:
    heard = []

    async def main(cluster):
        one, two = cluster.process("one"), cluster.process("two")
        topics = {"orders": "*"}
        async with one, cluster.a_lite_consumer(one, topics) as first:
            await first.subscribe("orders", on_queues=lambda *result_of: heard.append(result_of))
            await trio.sleep(2)
            async with two, cluster.a_lite_consumer(two, topics):
                await trio.sleep(3)

    in_cluster(main, orders=4)
    assert [(topic, len(every), len(mine)) for topic, every, mine in heard[:2]] == [
        ("orders", 4, 4),
        ("orders", 4, 2),
    ]


def test_a_listener_for_a_topics_queues_is_called_when_there_are_more() -> None:
    heard = []

    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:

            def listener(topic, queues) -> None:
                heard.append((cluster.now_s(), topic, [queue.queue_id for queue in queues]))

            await consumer.register_topic_message_queue_change_listener("T", listener)
            with pytest.raises(GroupCallRefused, match="no queue of U"):
                await consumer.register_topic_message_queue_change_listener("U", listener)
            await trio.sleep(15)
            cluster.namesrv.routes["T"] = cluster.route(3)
            await trio.sleep(60)

    in_group(main)
    assert heard == [(40, "T", [0, 1, 2])]


def test_a_new_route_is_its_share_with_the_next_pass() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}) as consumer:
            await trio.sleep(2)
            cluster.namesrv.routes["T"] = cluster.route(3)
            await trio.sleep(50)
            return len(consumer.queues)

    assert in_group(main) == 3


def test_unsubscribed_it_pulls_no_more_and_gives_its_queues_away() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}, **FIRST) as consumer:
            await trio.sleep(21)
            consumer.unsubscribe("T")
            assert consumer.queues == []
            await trio.sleep(25)
            pulls = len(broker.pulls())
            broker.store(1)
            assert await consumer.poll(1_000) == []
            assert len(broker.pulls()) == pulls
        return [fact.reason for fact in cluster.facts_of(QueuesReleased)]

    assert in_group(main) == ["unsubscribed"]


def test_only_the_tags_that_were_subscribed_are_polled() -> None:
    async def main(cluster):
        for tag in ("TagA", "TagB", "TagC"):
            await send(cluster, tag.encode(), tags=tag)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"orders": "TagA || TagC"}, **FIRST) as c:
            return sorted(await polled(c, 2)), await c.poll(1_000)

    assert in_cluster(main, orders=2) == ([b"TagA", b"TagC"], [])


def test_every_broadcasting_member_gets_every_message_and_goes_on_from_its_own_file() -> None:
    documents = OffsetsInMemory()

    async def main(cluster):
        settings = {"model": "BROADCASTING", "documents": documents, **FIRST}
        bodies = []
        for _ in range(2):
            app = cluster.process()
            async with app, cluster.a_lite_consumer(app, {"orders": "*"}, **settings) as consumer:
                await send(cluster, b"more")
                bodies.append(await polled(consumer, 1 if bodies else 2))
                consumer.commit()
        return bodies

    assert in_cluster(main, orders=1) == [[b"first", b"more"], [b"more"]]


@pytest.mark.parametrize(("release", "writes"), [("4.9.3", True), ("4.9.4", False)])
def test_until_4_9_3_a_broadcasting_members_commit_wrote_its_file(release, writes) -> None:
    documents = OffsetsInMemory()

    async def main(cluster, broker):
        broker.store(1)
        app = cluster.process()
        settings = {"model": "BROADCASTING", "documents": documents, "release": release, **FIRST}
        async with app, cluster.a_lite_consumer(app, {"T": "*"}, **settings) as consumer:
            await consumer.poll(30_000)
            [name] = [f"{consumer.instance.client_id}/cg/offsets.json"]
            before = documents.read(name)
            consumer.commit()
            return documents.read(name) != before

    assert in_group(main) == writes


def test_a_second_kind_of_use_and_a_topic_that_is_no_text_are_misuse() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}) as consumer:
            with pytest.raises(Misuse, match="mutually exclusive"):
                consumer.assign([a_queue()])
            for topic in ("", None, b"T"):
                with pytest.raises(Misuse, match="topic"):
                    await consumer.subscribe(topic)
            with pytest.raises(Misuse, match="it may be rebalancing"):
                await consumer.seek(a_queue(7), 0)

    in_group(main)


@pytest.mark.parametrize(
    ("release", "table"),
    [("4.9.7", set()), ("5.1.0", set()), ("5.1.1", {a_queue()})],
)
def test_tools_see_its_settings_and_since_5_1_1_its_queues(release, table) -> None:
    async def main(cluster, broker):
        broker.store(3)
        app = cluster.process()
        topics = {"T": "*"}
        async with app, cluster.a_lite_consumer(app, topics, release=release, **FIRST) as consumer:
            await consumer.poll(30_000)
            reply = consumer.instance.consumers["cg"].requests.running_info(None)
            return decode_unlimited_body(reply.body, ConsumerRunningInfo)

    info = in_group(main)
    assert set(info.mq_table) == table
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert info.properties["pullBatchSize"] == "10"
    assert info.properties["autoCommit"] == "true"
    assert ("pollNameServerInterval" in info.properties) == (release != "4.9.7")
    assert [subscription.topic for subscription in info.subscription_set] == ["T"]


def test_where_to_start_is_asked_again_after_three_seconds_and_an_offset_after_one() -> None:
    async def main(cluster, broker, code, release):
        refused = Reply(code=ResponseCode.SYSTEM_ERROR, remark="no")
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, release=release) as consumer:
            await consumer.instance.routes.refresh("T")
            broker.replies[code].append(refused)
            consumer.assign([a_queue()])
            began_s = cluster.now_s()
            await trio.sleep(4)
            failed = [fact.error for fact in cluster.facts_of(PullFailed)]
            return round(broker.times(PULL)[0] - began_s, 2), len(failed)

    def result_of(code, release):
        return in_group(lambda cluster, broker: main(cluster, broker, code, release))

    assert result_of(MAX, "4.9.1") == (3, 1)
    assert result_of(MAX, "4.9.0") == (1, 1)
    assert result_of(QUERY, "4.9.7") == (0, 0), "4.x reads an error as: no offset is stored"


def test_at_the_end_it_has_left_its_group_and_when_cancelled_it_has_not() -> None:
    async def main(cluster):
        app, other = cluster.process("one"), cluster.process("two")
        async with app, cluster.a_lite_consumer(app, {"orders": "*"}):
            await trio.sleep(2)
        left = [fact.reason for fact in cluster.facts_of(MemberLeft)]
        with trio.move_on_after(2):
            async with other, cluster.a_lite_consumer(other, {"orders": "*"}, group="cg2"):
                await trio.sleep_forever()
        return left

    assert in_cluster(main, orders=1) == ["unregistered"]


def test_a_group_list_that_does_not_come_changes_nothing() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, {"T": "*"}) as consumer:
            await trio.sleep(21)
            broker.replies[LIST] += [SILENT] * 3
            await trio.sleep(60)
            return consumer.queues

    assert in_group(main) == [a_queue()]

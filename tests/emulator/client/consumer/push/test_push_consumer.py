"""Whole consumers and brokers: shares, repeated deliveries, starts and ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.consumer.group.offsets import OffsetsInMemory
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.errors.call_errors import GroupCallRefused, GroupTaken, NotRunning, TimedOut
from rocketmq_emulator.facts import (
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessageStored,
    OffsetCommitted,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.flags import SUSPEND
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.messages.properties import CONSUME_START_TIME
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import BACK, UNLOCK, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster


async def send(cluster, *bodies, topic="orders") -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


class Bodies(list):
    def __call__(self, messages) -> None:
        self.extend(message.body for message in messages)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_every_message_reaches_the_listener(release) -> None:
    bodies = Bodies()

    async def main(cluster) -> None:
        await send(cluster, *numbers(20))
        async with cluster.process() as app, cluster.a_consumer(app, bodies, {"orders": "*"}):
            await trio.sleep(5)

    in_cluster(main, release=release, orders=4)
    assert sorted(bodies) == sorted([b"first", *numbers(20)])


def test_only_the_tags_that_were_subscribed() -> None:
    bodies = Bodies()

    async def main(cluster) -> None:
        process = cluster.process("producer")
        async with process, cluster.a_producer(process) as producer:
            for tag in ("TagA", "TagB", "TagC"):
                await producer.send(Message("orders", tag.encode(), tags=tag))
        topics = {"orders": "TagA || TagC"}
        async with cluster.process() as app, cluster.a_consumer(app, bodies, topics):
            await trio.sleep(5)

    in_cluster(main, orders=4)
    assert sorted(bodies) == [b"TagA", b"TagC"]


def test_two_members_share_the_queues_and_the_one_that_stays_gets_them_all() -> None:
    one, two = Bodies(), Bodies()

    async def main(cluster):
        topics = {"orders": "*"}
        first, second = cluster.process("one"), cluster.process("two")
        async with first, cluster.a_consumer(first, one, topics) as member:
            await trio.sleep(1)
            async with second, cluster.a_consumer(second, two, topics) as newcomer:
                await trio.sleep(3)
                shares = member.queues, newcomer.queues
                await send(cluster, *numbers(16))
                await trio.sleep(3)
            await trio.sleep(1)
            return *shares, member.queues

    mine, yours, all_again = in_cluster(main, orders=4)
    of_topic = [[q.queue_id for q in queues if q.topic == "orders"] for queues in (mine, yours)]
    assert sorted(of_topic[0] + of_topic[1]) == [0, 1, 2, 3]
    assert [len(ids) for ids in of_topic] == [2, 2]
    assert len([queue for queue in all_again if queue.topic == "orders"]) == 4
    assert sorted([*one, *two]) == sorted([b"first", *numbers(16)])
    assert two


def test_client_invariant_46_a_failing_message_comes_back_level_by_level_and_then_is_dead() -> (
    None
):
    times = []

    async def main(cluster) -> None:
        def fails(messages) -> ConsumeResult:
            times.append((cluster.now_s(), messages[0].reconsume_times, messages[0].topic))
            return ConsumeResult.RECONSUME_LATER

        async with cluster.process() as app, cluster.a_consumer(app, fails, {"orders": "*"}):
            await trio.sleep(5 * 3_600)

    async def run_with_dead_letters(cluster):
        await main(cluster)
        stored = cluster.facts_of(MessageStored)
        first = next(fact for fact in stored if fact.queue.topic == "orders")
        return first, [fact for fact in stored if fact.queue.topic == "%DLQ%cg"]

    first, dead = in_cluster(run_with_dead_letters, orders=1)
    assert [(fact.uniq_key, fact.queue.queue_id, fact.offset) for fact in dead] == [
        (first.uniq_key, 0, 0)
    ]
    assert [retries for _, retries, _ in times] == list(range(17))
    assert {topic for _, _, topic in times} == {"orders"}
    waits = [later - sooner for (sooner, *_), (later, *_) in pairwise(times)]
    minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120]
    levels = [10, 30, *(60 * minute for minute in minutes)]
    late = [wait - level for wait, level in zip(waits, levels, strict=True)]
    assert all(0 <= seconds < 21 for seconds in late), late  # the first waits for a rebalance
    assert all(seconds < 1.2 for seconds in late[1:])


def test_client_invariant_54_after_a_kill_only_what_was_not_yet_written_is_delivered_again() -> (
    None
):
    first, second = Bodies(), Bodies()

    async def main(cluster) -> None:
        topics = {"orders": "*"}
        await send(cluster, *numbers(10))
        with trio.CancelScope() as death:
            async with cluster.process("one") as app, cluster.a_consumer(app, first, topics):
                await trio.sleep(12)  # offsets were written at ten seconds
                await send(cluster, b"late")
                await trio.sleep(1)
                death.cancel()
                await trio.lowlevel.checkpoint()
        async with cluster.process("two") as app, cluster.a_consumer(app, second, topics):
            await trio.sleep(5)

    in_cluster(main, orders=1)
    assert first == [b"first", *numbers(10), b"late"]
    assert second in ([b"late"], [])  # its pull may have committed the offset


def test_client_invariant_55_a_clean_end_leaves_nothing_to_repeat() -> None:
    first, second = Bodies(), Bodies()

    async def slow(messages) -> None:  # the held pull did not commit the offset
        await trio.sleep(0.5)
        first(messages)

    async def main(cluster):
        topics = {"orders": "*"}
        await send(cluster, *numbers(10))
        async with cluster.process("one") as app, cluster.a_consumer(app, slow, topics):
            await trio.sleep(1)
        left = cluster.facts_of(MemberLeft)
        async with cluster.process("two") as app, cluster.a_consumer(app, second, topics):
            await trio.sleep(5)
        return left

    noted = []

    async def orderly_run(cluster):
        left = await main(cluster)
        kinds = (OffsetCommitted, MemberLeft)
        noted.extend(fact for fact in cluster.facts if isinstance(fact, kinds))
        return left

    (left,) = in_cluster(orderly_run, orders=1)
    assert len(first) == 11
    assert second == []
    assert (left.group, left.reason) == ("cg", "unregistered")
    before = noted[: noted.index(left)]
    assert max(f.offset for f in before if isinstance(f, OffsetCommitted)) == 11


def test_client_invariant_55_work_under_way_at_the_end_is_delivered_again() -> None:
    begun, again = [], Bodies()

    async def slow(messages) -> None:
        begun.extend(message.body for message in messages)
        await trio.sleep(60)

    async def main(cluster) -> None:
        async with cluster.process("one") as app, cluster.a_consumer(app, slow, {"orders": "*"}):
            await trio.sleep(1)
        async with cluster.process("two") as app, cluster.a_consumer(app, again, {"orders": "*"}):
            await trio.sleep(1)

    in_cluster(main, orders=1)
    assert begun == again == [b"first"]


def test_termination_ms_max_lets_listeners_finish() -> None:
    done, again = [], Bodies()

    async def slow(messages) -> None:
        await trio.sleep(5)
        done.extend(message.body for message in messages)

    async def main(cluster):
        topics = {"orders": "*"}
        patient = {"termination_ms_max": 10_000}
        async with cluster.process("one") as app, cluster.a_consumer(app, slow, topics, **patient):
            await trio.sleep(1)
        ended_s = cluster.now_s()
        async with cluster.process("two") as app, cluster.a_consumer(app, again, topics):
            await trio.sleep(1)
        return ended_s

    assert in_cluster(main, orders=1) > 4
    assert (done, again) == ([b"first"], [])


def test_broadcasting_members_all_get_everything_and_go_on_where_they_were() -> None:
    one, two, later = Bodies(), Bodies(), Bodies()
    documents = OffsetsInMemory()

    async def main(cluster) -> None:
        topics = {"orders": "*"}
        settings = {"model": "BROADCASTING", "consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        first, second = cluster.process("one"), cluster.process("two")
        async with (
            first,
            second,
            cluster.a_consumer(first, one, topics, documents=documents, **settings),
            cluster.a_consumer(second, two, topics, **settings),
        ):
            await send(cluster, *numbers(3))
            await trio.sleep(12)
        await send(cluster, b"later")
        again = cluster.process("one")
        async with (
            again,
            cluster.a_consumer(again, later, topics, documents=documents, **settings),
        ):
            await trio.sleep(5)

    in_cluster(main, orders=2)
    assert sorted(one) == sorted(two) == [b"0", b"1", b"2", b"first"]
    assert later == [b"later"]


def test_two_orderly_members_never_have_one_queue_at_once() -> None:
    busy, overlaps, seen = {}, [], []

    def listener(name):
        async def listen(messages) -> None:
            queue = messages[0].queue_id
            if queue in busy:
                overlaps.append((queue, busy[queue], name))
            busy[queue] = name
            await trio.sleep(0.05)
            seen.extend(message.body for message in messages)
            del busy[queue]

        return listen

    async def main(cluster) -> None:
        topics, first, second = {"orders": "*"}, cluster.process("one"), cluster.process("two")
        async with first, cluster.a_consumer(first, listener("one"), topics, orderly=True):
            await send(cluster, *numbers(400))
            async with second, cluster.a_consumer(second, listener("two"), topics, orderly=True):
                await trio.sleep(30)
            await trio.sleep(60)

    in_cluster(main, orders=4)
    assert overlaps == []
    assert set(seen) == {b"first", *numbers(400)}


def test_ownership_facts_balance() -> None:
    async def main(cluster):
        topics, first, second = {"orders": "*"}, cluster.process("one"), cluster.process("two")
        async with first, cluster.a_consumer(first, Bodies(), topics):
            await trio.sleep(1)
            async with second, cluster.a_consumer(second, Bodies(), topics):
                await trio.sleep(3)
        return cluster

    cluster = in_cluster(main, orders=4)
    claimed = [q for fact in cluster.facts_of(QueuesClaimed) for q in fact.queues]
    released = [q for fact in cluster.facts_of(QueuesReleased) for q in fact.queues]
    assert sorted(claimed) == sorted(released)
    assert cluster.facts_of(MessageConsumed)


# Starts and ends ------------------------------------------------------------------------


def test_a_group_has_one_consumer_an_instance() -> None:
    async def main(cluster, broker) -> None:
        process = cluster.process()
        shared = {"instance_name": "shared"}
        async with process, cluster.a_consumer(process, **shared):
            with pytest.raises(GroupTaken):
                async with cluster.a_consumer(process, **shared):
                    pass

    in_group(main)


def test_a_consumer_is_used_inside_its_block() -> None:
    consumer = PushConsumer(Bodies(), {"orders": "*"}, group="cg")
    with pytest.raises(NotRunning):
        _ = consumer.queues


def test_an_error_in_the_block_comes_out_as_itself_after_a_clean_end() -> None:
    async def main(cluster, broker):
        process = cluster.process()
        async with process, cluster.a_consumer(process):
            await trio.sleep(1)
            raise LookupError("mine")

    brokers = []

    async def keep(cluster, broker) -> None:
        brokers.append(broker)
        await main(cluster, broker)

    with pytest.raises(LookupError, match="mine"):
        in_group(keep)
    assert [request.consumer_group for request in brokers[0].unregistered] == ["cg"]


def test_an_expression_that_no_broker_reads_is_refused_at_the_start() -> None:
    async def main(cluster):
        process = cluster.process()
        async with process:
            with pytest.raises(GroupCallRefused, match="SQL92"):
                async with cluster.a_consumer(process, Bodies(), {"orders": ("a > 5", "SQL92")}):
                    pass
            return process.instances

    assert in_cluster(main, orders=1) == {}


def test_a_consumer_starts_without_its_name_server_and_finds_its_topic_later() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        cluster.namesrv.is_silent = True
        process = cluster.process()
        async with process, cluster.a_consumer(process) as consumer:
            early = consumer.queues
            cluster.namesrv.is_silent = False
            await trio.sleep(60)
            return early, consumer.queues

    assert in_group(main) == ([], [a_queue()])


def test_a_failed_listener_leaves_the_consumer_running() -> None:
    def fails(messages) -> None:
        raise RuntimeError("every time")

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(100)
        process = cluster.process()
        async with process, cluster.a_consumer(process, fails):
            await trio.sleep(2)
        return len(broker.received[BACK])

    assert in_group(main) == 100


def test_messages_that_arrive_while_the_consumer_unregisters_are_not_consumed() -> None:
    received = []

    async def main(cluster, broker) -> None:
        async def while_it_waits_for_the_unlock() -> None:
            await trio.sleep(5.5)
            broker.store(3)

        broker.offsets["T", 0] = 0
        broker.replies[UNLOCK] = [SILENT]
        cluster.world.nursery.start_soon(while_it_waits_for_the_unlock)
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, received.append, orderly=True),
        ):
            await trio.sleep(5)
        assert cluster.now_s() == 6
        assert broker.offsets["T", 0] == 0
        assert [request.consumer_group for request in broker.unregistered] == ["cg"]

    in_group(main)
    assert received == []


@pytest.mark.parametrize("began", ["", "soon", "9" * 5_000])
def test_no_property_of_a_message_can_end_its_consumer(began) -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1, properties={CONSUME_START_TIME: began}.items())
        settings = {"consume_timeout_ms": 1_000, "consume_threads_max": 1}
        broker.store(1, properties={CONSUME_START_TIME: began}.items())

        async def slow(_messages) -> None:
            await trio.sleep(10)

        async with cluster.process() as app, cluster.a_consumer(app, slow, **settings) as it:
            await trio.sleep(5)
            return it.offset(a_queue())

    assert in_group(main) is not None


def test_client_invariant_60_a_timeout_ends_the_membership_at_that_broker_until_a_heartbeat() -> (
    None
):
    async def main(cluster):
        changes = []
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, Bodies(), {"orders": "*"}) as consumer,
        ):
            await trio.sleep(2)
            (queue,) = [queue for queue in consumer.queues if queue.topic == "orders"]
            address = f"{cluster.world.network.host('broker-a').ip}:10911"
            held = PullMessageRequest(
                consumer_group="cg",
                topic="orders",
                queue_id=queue.queue_id,
                queue_offset=1,
                max_msg_nums=32,
                sys_flag=SUSPEND,
                commit_offset=0,
                suspend_timeout_millis=15_000,
                sub_version=0,
            )
            with pytest.raises(TimedOut):
                await consumer.instance.remoting.invoke(
                    address, catalog.PULL_MESSAGE, held, timeout_ms=1_000
                )
            await trio.sleep(35)
            for at_s, fact in cluster.entries:
                if isinstance(fact, MemberJoined | MemberLeft):
                    changes.append((round(at_s), type(fact).__name__))
        return changes

    joined, left, again = in_cluster(main, orders=1)
    assert (joined, left) == ((0, "MemberJoined"), (3, "MemberLeft"))
    assert again[1] == "MemberJoined"
    assert 3 < again[0] <= 33

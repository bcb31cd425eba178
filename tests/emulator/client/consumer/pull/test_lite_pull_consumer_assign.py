"""A lite pull consumer of chosen queues: polls, seeks, pauses and commits."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client import BadSubscription, GroupCallRefused, Misuse, NotRunning
from rocketmq_emulator.facts import MessagePolled, OffsetCommitted, OffsetRepaired, SeekRequested
from rocketmq_emulator.net.results import Reply
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import PULL, a_queue, in_group
from tests.support.client.whole_cluster import in_cluster

LITE_PULL, UPDATE, QUERY, MAX = 361, 15, 14, 30
FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
BY_HAND = {"auto_commit": False, **FIRST}


async def send(cluster, *bodies, topic="orders", **more) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **more))


async def polled(consumer, count, timeout_ms=30_000) -> list[bytes]:
    """Poll until there are *count* messages; return their bodies."""
    bodies = []
    while len(bodies) < count:
        messages = await consumer.poll(timeout_ms)
        assert messages, f"only {bodies}"
        bodies += [message.body for message in messages]
    return bodies


def offsets_of(messages) -> list[int]:
    return [message.queue_offset for message in messages]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_assigned_queues_are_polled_from_where_a_new_group_starts(release) -> None:
    async def main(cluster):
        await send(cluster, b"one", b"two")
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            queues = await consumer.fetch_message_queues("orders")
            consumer.assign(queues)
            assert consumer.queues == queues
            bodies = await polled(consumer, 3)
            nothing = await consumer.poll(100)
        told = [fact.offset for fact in cluster.facts_of(MessagePolled)]
        return bodies, nothing, told

    bodies, nothing, told = in_cluster(main, release=release, orders=1)
    assert (bodies, nothing) == ([b"first", b"one", b"two"], [])
    assert told == [], "MessagePolled is noted only on demand"


@pytest.mark.parametrize(
    ("release", "code", "size"), [("4.9.7", PULL, None), ("5.0.0", LITE_PULL, 2**31 - 1)]
)
def test_a_task_asks_as_upstream_and_the_broker_may_hold_the_pull(release, code, size) -> None:
    async def main(cluster, broker):
        app = cluster.process()
        tags = {"assign_expressions": {"T": "TagA"}}
        async with app, cluster.a_lite_consumer(app, release=release, **tags, **FIRST) as consumer:
            consumer.assign([a_queue()])
            assert await consumer.poll(1_000) == []
        return broker.requests(code)

    assert in_group(main) == [
        PullMessageRequest(
            consumer_group="cg",
            topic="T",
            queue_id=0,
            queue_offset=0,
            max_msg_nums=10,
            sys_flag=22,
            commit_offset=0,
            suspend_timeout_millis=20_000,
            sub_version=0,
            subscription="TagA",
            expression_type="TAG",
            max_msg_bytes=size,
        )
    ]


def test_poll_waits_as_long_as_it_is_told_and_five_seconds_if_it_is_not() -> None:
    async def main(cluster, _broker):
        app, waited = cluster.process(), []
        async with app, cluster.a_lite_consumer(app) as consumer:
            consumer.assign([a_queue()])
            for timeout in ((0,), (250,), ()):
                began_s = cluster.now_s()
                assert await consumer.poll(*timeout) == []
                waited.append(round(cluster.now_s() - began_s, 3))
            with pytest.raises(Misuse, match="timeout_ms"):
                await consumer.poll(-1)
        return waited

    assert in_group(main) == [0, 0.25, 5]


def test_a_poll_that_is_cancelled_takes_nothing() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            consumer.assign([a_queue()])
            with trio.move_on_after(1):
                await consumer.poll(10_000)
            broker.store(1)
            await trio.sleep(0.1)
            with trio.CancelScope() as scope:
                scope.cancel()
                await consumer.poll()
            return offsets_of(await consumer.poll(0))

    assert in_group(main) == [0]


def test_what_was_polled_is_committed_by_a_later_poll_and_stored_within_seconds() -> None:
    async def main(cluster, broker):
        broker.store(25)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            consumer.assign([a_queue()])
            assert offsets_of(await consumer.poll()) == list(range(10))
            in_hand = await consumer.committed(a_queue())
            assert offsets_of(await consumer.poll()) == list(range(10, 20))
            too_early = await consumer.committed(a_queue())
            await trio.sleep(5)
            assert offsets_of(await consumer.poll()) == list(range(20, 25))
            later = await consumer.committed(a_queue())
            assert broker.offsets == {}
            await trio.sleep(6)
            return in_hand, too_early, later, broker.offsets["T", 0]

    assert in_group(main) == (None, None, 20, 20)


def test_the_last_poll_is_not_committed_at_the_end_so_it_comes_again() -> None:
    async def main(cluster):
        await send(cluster, b"one")
        bodies = []
        for _ in range(2):
            async with cluster.process() as app, cluster.a_lite_consumer(app, **FIRST) as consumer:
                consumer.assign(await consumer.fetch_message_queues("orders"))
                bodies.append(await polled(consumer, 2))
        return bodies

    assert in_cluster(main, orders=1) == [[b"first", b"one"]] * 2


def test_commit_by_hand_all_some_or_given_offsets() -> None:
    async def main(cluster, broker):
        for number in range(3):
            broker.store(4, queue_id=number)
        queues = [a_queue(number) for number in range(3)]
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            consumer.assign(queues)
            await polled(consumer, 12)
            consumer.commit([queues[0]], persist=True)
            await trio.sleep(0.1)
            first = dict(broker.offsets)
            consumer.commit({queues[1]: 2}, persist=True)
            await trio.sleep(0.1)
            second = dict(broker.offsets)
            consumer.commit()
            in_memory = [await consumer.committed(queue) for queue in queues]
            consumer.commit({a_queue(9): 5, queues[2]: 1})
            given = await consumer.committed(queues[2])
            with pytest.raises(Misuse, match="offset is at least 0"):
                consumer.commit({queues[0]: -1})
        return first, second, in_memory, given, broker.offsets

    first, second, in_memory, given, at_the_end = in_group(main, queues=3)
    assert first == {("T", 0): 4}
    assert second == {("T", 0): 4, ("T", 1): 2}
    assert (in_memory, given) == ([4, 4, 4], 1)
    assert at_the_end == {("T", 0): 4, ("T", 1): 4, ("T", 2): 1}


def test_without_auto_commit_polls_commit_nothing() -> None:
    async def main(cluster):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            consumer.assign(await consumer.fetch_message_queues("orders"))
            await polled(consumer, 1)
            await trio.sleep(11)
            await consumer.poll(0)
            await trio.sleep(11)
        return {fact.offset for fact in cluster.facts_of(OffsetCommitted)}

    assert in_cluster(main, orders=1) <= {0}


def test_a_restarted_member_goes_on_after_what_was_committed() -> None:
    async def main(cluster):
        await send(cluster, *(b"%d" % number for number in range(15)))
        async with cluster.process() as app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            consumer.assign(await consumer.fetch_message_queues("orders"))
            await consumer.poll()
            consumer.commit()
            await consumer.poll()
        async with cluster.process() as app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            [queue] = await consumer.fetch_message_queues("orders")
            consumer.assign([queue])
            return await consumer.committed(queue), offsets_of(await consumer.poll())

    committed, offsets = in_cluster(main, orders=1)
    assert (committed, offsets) == (10, [10, 11, 12, 13, 14, 15])


@pytest.mark.parametrize(("release", "after_s"), [("4.9.1", 20), ("4.9.2", 0)])
def test_since_4_9_2_a_seek_does_not_wait_for_the_pull_under_way(release, after_s) -> None:
    async def main(cluster, broker):
        broker.store(5)
        app = cluster.process()
        settings = {"release": release, **FIRST}
        async with app, cluster.a_lite_consumer(app, **settings) as consumer:
            consumer.assign([a_queue()])
            await consumer.poll()
            await trio.sleep(1)
            began_s = cluster.now_s()
            await consumer.seek(a_queue(), 2)
            messages = await consumer.poll(60_000)
            took_s = cluster.now_s() - began_s
        sought = [(fact.queue.queue_id, fact.offset) for fact in cluster.facts_of(SeekRequested)]
        return offsets_of(messages), took_s, sought

    offsets, took_s, sought = in_group(main)
    assert offsets == [2, 3, 4]
    assert took_s == pytest.approx(after_s, abs=1.01)
    assert sought == [(0, 2)]


def test_a_seek_drops_what_was_pulled_and_not_polled() -> None:
    async def main(cluster, broker):
        broker.store(30)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            consumer.assign([a_queue()])
            await consumer.poll()
            await consumer.seek_to_end(a_queue())
            assert await consumer.poll(1_000) == []
            broker.store(1)
            newest = offsets_of(await consumer.poll())
            await consumer.seek_to_begin(a_queue())
            return newest, offsets_of(await consumer.poll())

    assert in_group(main) == ([30], list(range(10)))


def test_a_seek_that_cannot_be_is_refused() -> None:
    async def main(cluster, broker):
        broker.store(3)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            with pytest.raises(Misuse, match="does not have"):
                await consumer.seek(a_queue(), 0)
            consumer.assign([a_queue()])
            for offset, complaint in ((-1, "at least 0"), (4, "offsets 0 to 3")):
                with pytest.raises(Misuse, match=complaint):
                    await consumer.seek(a_queue(), offset)
            broker.replies[MAX].append(Reply(code=ResponseCode.SYSTEM_ERROR, remark="no"))
            with pytest.raises(GroupCallRefused, match="answered 1: no"):
                await consumer.seek_to_end(a_queue())

    in_group(main)


def test_a_seek_is_what_the_next_commit_stores() -> None:
    async def main(cluster, broker):
        broker.store(5)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            consumer.assign([a_queue()])
            await consumer.poll()
            await consumer.seek(a_queue(), 1)
            await trio.sleep(0.1)
            consumer.commit()
            return await consumer.committed(a_queue())

    assert in_group(main) == 1


def test_a_paused_queue_rests_and_goes_on_within_a_second() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            queues = [a_queue(0), a_queue(1)]
            consumer.assign(queues)
            consumer.pause([queues[0], a_queue(7)])
            for number in (0, 1):
                broker.store(1, queue_id=number)
            one = await consumer.poll(3_000)
            none = await consumer.poll(3_000)
            consumer.resume(queues)
            began_s = cluster.now_s()
            other = await consumer.poll(3_000)
            return [m.queue_id for m in one + none + other], cluster.now_s() - began_s

    ids, took_s = in_group(main, queues=2)
    assert ids == [1, 0]
    assert took_s <= 1


@pytest.mark.parametrize(
    ("limits", "last"),
    [
        ({"queue_messages_max": 50}, 50),
        ({"all_messages_max": 70}, 70),
        ({"queue_span_max": 80}, 80),
        ({"queue_messages_max": 20, "pull_batch_max": 5}, 20),
    ],
)
def test_one_batch_more_than_the_limits_is_pulled_ahead(limits, last) -> None:
    async def main(cluster, broker):
        broker.store(200)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST, **limits) as consumer:
            consumer.assign([a_queue()])
            await trio.sleep(0.4)
            pulls = broker.pulls()
            await consumer.poll()
            await trio.sleep(0.051)
            return pulls[-1][1], len(broker.pulls()) - len(pulls)

    assert in_group(main) == (last, 1)


def test_a_busy_broker_is_asked_again_soon_and_any_other_error_costs_a_second() -> None:
    async def main(cluster, broker):
        busy = Reply(code=ResponseCode.FLOW_CONTROL, remark="cold")
        broker.replies[PULL] += [busy, Reply(code=ResponseCode.SYSTEM_ERROR, remark="bad")]
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            consumer.assign([a_queue()])
            began_s = cluster.now_s()
            await trio.sleep(3)
            return [round(at_s - began_s, 3) for at_s in broker.times(PULL)]

    assert in_group(main) == [0, 0.02, 1.02]


def test_an_offset_the_broker_does_not_have_is_replaced_at_once() -> None:
    async def main(cluster, broker):
        broker.store(3)
        broker.offsets["T", 0] = 77
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:
            consumer.assign([a_queue()])
            await trio.sleep(0.5)
            broker.store(1)
            offsets = offsets_of(await consumer.poll(1_000))
        repaired = [(fact.asked, fact.corrected) for fact in cluster.facts_of(OffsetRepaired)]
        return offsets, repaired

    assert in_group(main) == ([3], [(77, 3)])


def test_only_so_many_queues_are_pulled_at_once_so_held_pulls_make_others_wait() -> None:
    async def main(cluster, broker):
        app = cluster.process()
        one = {"pull_threads_max": 1, **FIRST}
        async with app, cluster.a_lite_consumer(app, **one) as consumer:
            consumer.assign([a_queue(0), a_queue(1)])
            await trio.sleep(1)
            [(_, held)] = broker.received[PULL]
            broker.store(1, queue_id=1 - held.queue_id)
            began_s = cluster.now_s()
            assert await consumer.poll(60_000)
            return cluster.now_s() - began_s

    assert in_group(main, queues=2) == pytest.approx(19, abs=0.1)


def test_assigning_others_ends_the_first_and_keeps_the_rest() -> None:
    async def main(cluster, broker):
        for number in range(3):
            broker.store(2, queue_id=number)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, **FIRST) as consumer:
            consumer.assign([a_queue(0), a_queue(1)])
            await polled(consumer, 4)
            consumer.assign([a_queue(1), a_queue(2)])
            for number in range(3):
                broker.store(1, queue_id=number)
            more = [await consumer.poll(1_000) for _ in range(3)]
            return [[(m.queue_id, m.queue_offset) for m in batch] for batch in more]

    later = in_group(main, queues=3)
    assert sorted(later) == [[], [(1, 2)], [(2, 0), (2, 1), (2, 2)]]


def test_subscribe_and_assign_exclude_each_other() -> None:
    async def main(cluster, _broker):
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:
            with pytest.raises(Misuse, match="at least one queue"):
                consumer.assign([])
            with pytest.raises(Misuse, match="queue is a MessageQueue"):
                consumer.assign(["T"])
            consumer.assign([a_queue()])
            with pytest.raises(Misuse, match="mutually exclusive"):
                await consumer.subscribe("T")
        with pytest.raises(NotRunning):
            await consumer.poll()
        with pytest.raises(Misuse, match="mutually exclusive"):
            cluster.a_lite_consumer(app, {"T": "*"}, assign_expressions={"T": "A"})
        consumer = cluster.a_lite_consumer(app, assign_expressions={"T": "||"})
        async with app:
            with pytest.raises(BadSubscription):
                await consumer.__aenter__()

    in_group(main)


def test_a_loop_takes_message_after_message() -> None:
    async def main(cluster):
        await send(cluster, *(b"%d" % number for number in range(14)))
        app, offsets = cluster.process(), []
        async with app, cluster.a_lite_consumer(app, **BY_HAND) as consumer:
            consumer.assign(await consumer.fetch_message_queues("orders"))
            async for message in consumer:
                offsets.append(message.queue_offset)
                if len(offsets) == 12:
                    break
            rest = offsets_of(await consumer.poll(0))
        return offsets, rest

    assert in_cluster(main, orders=1) == (list(range(12)), [12, 13, 14])


def test_a_time_is_found_as_an_offset() -> None:
    async def main(cluster):
        await send(cluster, b"one")
        await trio.sleep(10)
        at_ms = cluster.clock.now_ms()
        await send(cluster, b"two")
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:
            [queue] = await consumer.fetch_message_queues("orders")
            return await consumer.offset_for_timestamp(queue, at_ms)

    assert in_cluster(main, release="5.3.3", orders=1) == 2


@pytest.mark.parametrize(("release", "asks"), [("4.7.0", 1), ("4.7.1", 0)])
def test_since_4_7_1_committed_looks_into_memory_first(release, asks) -> None:
    async def main(cluster, broker):
        broker.store(1)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app, release=release, **BY_HAND) as consumer:
            consumer.assign([a_queue()])
            await consumer.poll()
            consumer.commit()
            before = len(broker.requests(QUERY))
            await consumer.committed(a_queue())
            return len(broker.requests(QUERY)) - before

    assert in_group(main) == asks


def test_a_broker_that_does_not_say_what_is_committed_is_an_error() -> None:
    async def main(cluster, broker):
        broker.replies[QUERY].append(SILENT)
        app = cluster.process()
        async with app, cluster.a_lite_consumer(app) as consumer:
            await consumer.instance.routes.refresh("T")
            with pytest.raises(GroupCallRefused, match="no answer"):
                await consumer.committed(a_queue())

    in_group(main)

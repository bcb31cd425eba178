"""Loops over messages: acknowledged and repeated messages, and ends of loops."""

from __future__ import annotations

import itertools
from contextlib import nullcontext, suppress

import pytest
import trio
import trio.testing

from rocketmq_emulator.client.consumer.push.message_loop import HandOver, is_left_by_break
from rocketmq_emulator.errors.call_errors import Misuse, NotRunning
from rocketmq_emulator.facts import MessageConsumed
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.whole_cluster import in_cluster

LONG_S = 60.0


def a_loop_consumer(cluster, app, **settings):
    return cluster.a_consumer(app, None, {"orders": "*"}, **settings)


async def send(cluster, count) -> None:
    process = cluster.process("producer")
    async with process, cluster.a_producer(process) as producer:
        for number in range(count):
            await producer.send(Message("orders", b"%d" % number))


async def all_of(consumer) -> list[tuple[bytes, int]]:
    """Bodies of all messages, and how often each has failed before."""
    loop = consumer.messages(timeout_s=LONG_S)
    return [(message.body, message.reconsume_times) async for message in loop]


def refuse(message) -> None:
    raise ValueError(f"bad order {message.body!r}")


async def refusing_loop(consumer) -> None:
    async for message in consumer:
        if message.body == b"1":
            refuse(message)


def looping(body, *, sent=5, **settings):
    """Run ``body(consumer)``; return what a second consumer then gets, and the cluster."""

    async def main(cluster):
        await send(cluster, sent)
        again = []
        async with cluster.process() as app:
            async with a_loop_consumer(cluster, app, **settings) as consumer:
                await body(consumer)
            async with a_loop_consumer(cluster, app, **settings) as consumer:
                again += await all_of(consumer)
        return again, cluster

    return in_cluster(main, orders=1)


def bodies(*numbers) -> list[tuple[bytes, int]]:
    return [(b"%d" % number, 0) for number in numbers]


def test_a_loop_gets_every_message_in_turn_and_acknowledges_it() -> None:
    seen = []

    async def body(consumer):
        seen.extend(await all_of(consumer))

    again, cluster = looping(body)
    assert seen == [(b"first", 0), *bodies(0, 1, 2, 3, 4)]
    assert again == []
    assert all(fact.ok for fact in cluster.facts_of(MessageConsumed))


def test_a_message_is_acknowledged_when_the_next_is_asked_for() -> None:
    async def main(cluster):
        await send(cluster, 5)
        async with cluster.process() as app, a_loop_consumer(cluster, app) as consumer:
            async for message in consumer:
                acked = [fact.offset for fact in cluster.facts_of(MessageConsumed)]
                assert acked == list(range(message.queue_offset))
                if message.queue_offset == 3:
                    return

    in_cluster(main, orders=1)


@pytest.mark.parametrize("how", ["break", "return"])
def test_a_loop_left_by_break_or_return_has_done_its_message(how) -> None:
    async def body(consumer):
        async for message in consumer:
            if message.body == b"1":
                if how == "return":
                    return
                break

    again, _ = looping(body)
    assert again == bodies(2, 3, 4)


def test_an_exception_in_a_loop_brings_its_message_again_later() -> None:
    async def body(consumer):
        with pytest.raises(ValueError, match="bad order"):
            await refusing_loop(consumer)

    again, _ = looping(body)
    assert sorted(again) == sorted([*bodies(2, 3, 4), (b"1", 1)])


def test_an_exception_that_ends_the_block_brings_the_message_again_later() -> None:
    async def main(cluster):
        await send(cluster, 3)
        async with cluster.process() as app:
            consumer = a_loop_consumer(cluster, app)
            with pytest.raises(ValueError, match="bad order"):
                async with consumer:
                    await refusing_loop(consumer)
            async with a_loop_consumer(cluster, app) as consumer:
                return await all_of(consumer)

    assert in_cluster(main, orders=1) == [(b"2", 0), (b"1", 1)]


def test_a_failed_loop_may_be_followed_by_another() -> None:
    seen = []

    async def body(consumer):
        for _ in range(4):
            try:
                async for message in consumer.messages(timeout_s=LONG_S):
                    seen.append((message.body, message.reconsume_times))
                    if message.body == b"1" and message.reconsume_times < 2:
                        refuse(message)
            except ValueError:
                continue

    again, _ = looping(body, sent=3)
    assert seen == [(b"first", 0), (b"0", 0), (b"1", 0), (b"2", 0), (b"1", 1), (b"1", 2)]
    assert again == []


def test_a_loop_ends_after_its_count_and_acknowledges_the_last() -> None:
    seen = []

    async def body(consumer):
        for _ in range(2):
            seen.extend([message.body async for message in consumer.messages(count=2)])

    again, _ = looping(body)
    assert seen == [b"first", b"0", b"1", b"2"]
    assert again == bodies(3, 4)


def test_a_loop_without_messages_ends_when_its_time_is_over() -> None:
    took_s = []

    async def body(consumer):
        async for _ in consumer.messages(timeout_s=LONG_S):
            pass
        began_s = trio.current_time()
        async for _ in consumer.messages(timeout_s=2.5):
            pass
        took_s.append(trio.current_time() - began_s)

    looping(body)
    assert took_s == [2.5]


def test_a_cancelled_wait_loses_no_message() -> None:
    seen = []

    async def body(consumer):
        loop = consumer.messages()
        for wait_s in itertools.chain([0.0, 0.1, 0.5] * 10, [5.0] * 6):
            with trio.move_on_after(wait_s):
                seen.append((await anext(loop)).body)

    again, _ = looping(body)
    assert seen == [b"first", b"0", b"1", b"2", b"3", b"4"]
    assert again == []


def test_a_message_in_the_hands_of_a_loop_that_is_kept_comes_again() -> None:
    async def body(consumer):
        loop = consumer.messages()
        for _ in range(3):
            await anext(loop)
        body.loop = loop

    again, _ = looping(body)
    assert again == bodies(1, 2, 3, 4)


def test_a_loop_ends_when_its_consumer_does() -> None:
    seen = []

    async def read(consumer):
        seen.extend([message.body async for message in consumer])
        seen.append("over")

    async def main(cluster):
        async with (
            trio.open_nursery() as nursery,
            cluster.process() as app,
            a_loop_consumer(cluster, app) as consumer,
        ):
            nursery.start_soon(read, consumer)
            await trio.sleep(LONG_S)

    in_cluster(main, orders=1)
    assert seen == [b"first", "over"]


def test_two_loops_share_the_messages_when_there_are_threads_for_two() -> None:
    seen: dict[int, list[bytes]] = {1: [], 2: []}

    async def read(number, consumer):
        async for message in consumer.messages(timeout_s=LONG_S):
            seen[number].append(message.body)
            await trio.sleep(1)

    async def body(consumer):
        async with trio.open_nursery() as nursery:
            for number in seen:
                nursery.start_soon(read, number, consumer)

    again, _ = looping(body, consume_threads_max=2)
    assert len(seen[1]) == len(seen[2]) == 3
    assert len({*seen[1], *seen[2]}) == 6
    assert again == []


def test_an_orderly_loop_gets_a_failed_message_again_before_any_later_one() -> None:
    seen = []

    async def body(consumer):
        for _ in range(2):
            with trio.move_on_after(LONG_S), suppress(ValueError):  # it ends the first loop
                async for message in consumer:
                    seen.append(message.body)
                    if seen.count(b"1") == 1:
                        refuse(message)

    again, _ = looping(body, orderly=True)
    assert seen == [b"first", b"0", b"1", b"1", b"2", b"3", b"4"]
    assert again == []


def test_a_consumer_with_a_listener_has_no_loops() -> None:
    async def main(cluster):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, print, {"orders": "*"})
            with pytest.raises(NotRunning):
                consumer.messages()
            async with consumer:
                with pytest.raises(Misuse, match="has a listener"):
                    consumer.messages()

    in_cluster(main, orders=1)


def test_a_loop_takes_one_message_at_a_time() -> None:
    async def main(cluster):
        async with cluster.process() as app:
            with pytest.raises(Misuse, match="consume_batch_max"):
                a_loop_consumer(cluster, app, consume_batch_max=8)

    in_cluster(main, orders=1)


class Dropped:
    """An iterator that records how its loop was left."""

    def __init__(self, seen) -> None:
        self._seen = seen

    def __iter__(self):
        return self

    def __next__(self) -> int:
        return 1

    def __del__(self) -> None:
        self._seen.append(is_left_by_break(2))


def left_by_break(seen):
    for _ in Dropped(seen):
        break


def left_by_return(seen):
    for number in Dropped(seen):
        return number
    return None


def left_by_return_in_a_with(seen):
    for _ in Dropped(seen):
        with nullcontext():
            return


def left_by_raise(seen):
    for _ in Dropped(seen):
        raise ValueError("bad")


def left_by_a_call_that_raises(seen):
    for _ in Dropped(seen):
        int("bad")


@pytest.mark.parametrize("leave", [left_by_break, left_by_return, left_by_return_in_a_with])
def test_a_loop_that_is_left_by_break_or_return_is_known(leave) -> None:
    seen: list[bool] = []
    leave(seen)
    assert seen == [True]


@pytest.mark.parametrize("leave", [left_by_raise, left_by_a_call_that_raises])
def test_a_loop_that_is_left_by_an_exception_is_known(leave) -> None:
    seen: list[bool] = []
    with pytest.raises(ValueError, match="bad"):
        leave(seen)
    assert seen == [False]


def test_an_iterator_that_others_drop_counts_as_left_by_an_exception() -> None:
    seen: list[bool] = []
    for _ in itertools.islice(Dropped(seen), 3):
        pass
    assert seen == [False]


@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_message_whose_listener_was_cancelled_is_offered_no_more(is_taken) -> None:
    hand_over = HandOver()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hand_over.listen, ["a message"], None)
        await trio.testing.wait_all_tasks_blocked()
        taken = await hand_over.wait_pending(0) if is_taken else None
        nursery.cancel_scope.cancel()
    if taken is not None:
        hand_over.requeue(taken)
    assert await hand_over.wait_pending(0) is None

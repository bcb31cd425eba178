"""A bad argument that no check finds fails only one send or one call."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client import Message, NotStored, Strategy
from rocketmq_emulator.facts import CallbackRaised
from tests.support.client.whole_cluster import in_cluster


def a_broken_message() -> Message:
    message = Message("t", b"x")
    message.body = "text"
    return message


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_body_that_is_no_bytes_fails_its_own_send(is_connected) -> None:
    async def main(cluster):
        async with cluster.process() as process, cluster.a_producer(process) as producer:
            if is_connected:
                await producer.send(Message("t", b"x"))
            with pytest.raises(NotStored, match="bytes"):
                await producer.pipeline.send(a_broken_message())
            await producer.send(Message("t", b"x"))

    in_cluster(main, t=4)


@pytest.mark.parametrize("is_connected", [False, True])
def test_an_async_send_that_cannot_be_encoded_is_reported_once(is_connected) -> None:
    async def main(cluster):
        async with cluster.process() as process, cluster.a_producer(process) as producer:
            if is_connected:
                await producer.send(Message("t", b"x"))
            ended = []
            sending = producer.pipeline.start_send(a_broken_message(), ended.append)
            with pytest.raises(NotStored, match="bytes"):
                await sending.wait_sent()
            assert ended == [sending.result]
            await producer.send(Message("t", b"x"))

    in_cluster(main, t=4)


def test_a_callback_that_raises_is_noted_and_the_producer_goes_on() -> None:
    def broken(_result):
        raise ZeroDivisionError("callback")

    async def main(cluster):
        async with cluster.process() as process, cluster.a_producer(process) as producer:
            for _ in range(2):  # the first one waits for the route, the second one does not
                await producer.start_send(Message("t", b"x"), broken).wait_sent()
            await producer.send(Message("t", b"x"))
        raised = cluster.facts_of(CallbackRaised)
        assert [(fact.function, fact.error) for fact in raised] == [
            ("callback", "ZeroDivisionError: callback")
        ] * 2

    in_cluster(main, t=4)


@pytest.mark.parametrize("mine", [None, ["t-0"]])
def test_a_strategy_that_allocates_no_queues_is_noted_and_the_consumer_goes_on(mine) -> None:
    async def main(cluster):
        strategy = Strategy("BROKEN", lambda _queues, _members, _me: mine)
        process = cluster.process()
        async with process, cluster.a_consumer(process, print, {"t": "*"}, strategy=strategy):
            await trio.sleep(60)
        raised = cluster.facts_of(CallbackRaised)
        assert {fact.function for fact in raised} == {"strategy"}
        assert raised[0].error.startswith("TypeError: ")

    in_cluster(main, t=4)


def test_a_look_at_queues_that_raises_is_noted_and_they_are_consumed() -> None:
    def on_queues(_topic, _all_queues, _mine):
        raise ZeroDivisionError

    async def main(cluster):
        consumed = []
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "on_queues": on_queues}
        process = cluster.process()
        async with process, cluster.a_consumer(process, consumed.extend, {"t": "*"}, **first):
            await trio.sleep(60)
        assert len(consumed) == 1
        assert "on_queues" in {fact.function for fact in cluster.facts_of(CallbackRaised)}

    in_cluster(main, t=4)

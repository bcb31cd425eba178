"""Sends in the background."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.errors.call_errors import (
    BrokerRefused,
    MaybeStored,
    NoRoute,
    NotStored,
    TooManySends,
)
from rocketmq_emulator.facts import ConnectionOpened, MessageSent, SendAttempted
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.client_cluster import SILENT, a_message, in_world, producing, sends_of


def test_a_started_send_can_be_waited_for_or_called_back() -> None:
    async def main(cluster, producer):
        received = []
        first = producer.start_send(a_message(), received.append)
        assert (await first.wait_sent()).is_ok
        second = producer.start_send(a_message(), received.append)  # the route is known now
        third = producer.start_send(a_message(), received.append, queue=MessageQueue("t", "b", 3))
        await second.wait_sent()
        assert (await third.wait_sent()).queue == MessageQueue("t", "b", 3)
        assert received == [first.result, second.result, third.result]
        assert len(cluster.facts_of(MessageSent)) == 3

    producing(main)


def test_client_invariant_16_a_refusal_of_an_async_send_is_final() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.always = 14  # which a synchronous send would retry
        sending = producer.start_send(a_message())
        with pytest.raises(BrokerRefused) as caught:
            await sending.wait_sent()
        assert caught.value.attempts == 1
        assert sum(sends_of(cluster).values()) == 1

    producing(main)


def test_client_invariant_16_an_async_send_is_retried_twice_with_the_same_queue_number() -> None:
    async def main(cluster, producer):
        for n, broker in enumerate(cluster.brokers.values()):
            await producer.send(a_message(), queue=MessageQueue("t", broker.name, n))
        cluster.brokers["a"].stop()
        cluster.brokers["b"].stop()
        await trio.sleep(1)
        result = await producer.start_send(a_message()).wait_sent()
        tries = [fact.queue for fact in cluster.facts_of(SendAttempted)[3:]]
        assert [queue.broker for queue in tries][-1] == result.queue.broker_name == "c"
        assert len(tries) == 3
        assert {queue.queue_id for queue in tries} == {result.queue.queue_id}

    producing(main, "a", "b", "c")


def test_client_invariant_16_an_async_send_gives_up_after_three_attempts() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        for broker in cluster.brokers.values():
            broker.stop()
        with pytest.raises(NotStored) as caught:
            await producer.start_send(a_message()).wait_sent()
        first, second, third = caught.value.brokers
        assert first != second != third

    producing(main)


def test_an_async_send_to_a_given_queue_stays_with_its_broker() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].stop()
        with pytest.raises(NotStored) as caught:
            await producer.start_send(a_message(), queue=MessageQueue("t", "a", 0)).wait_sent()
        assert caught.value.brokers == ("a", "a", "a")

    producing(main)


def test_an_async_send_that_times_out_is_not_retried() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.always = SILENT
        with pytest.raises(MaybeStored) as caught:
            await producer.start_send(a_message()).wait_sent()
        assert caught.value.attempts == 1
        assert cluster.now_s() == pytest.approx(3.0)

    producing(main)


def test_client_invariant_60_a_synchronous_timeout_fails_every_other_call_on_its_connection() -> (
    None
):
    async def main(cluster, producer):
        await producer.publish_queues("t")
        cluster.brokers["a"].always = SILENT
        patient = producer.start_send(
            a_message(), queue=MessageQueue("t", "a", 0), timeout_ms=60_000
        )
        with pytest.raises(MaybeStored):
            await producer.send(a_message(), timeout_ms=1_000)
        await trio.sleep(0.001)
        assert len(cluster.brokers["a"].sends) == 3  # the first send was sent again
        assert patient.result is None

    producing(main, "a")


def test_client_invariant_60_an_async_send_that_times_out_leaves_its_connection_open() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        broker = cluster.brokers["a"]
        broker.answers = [SILENT, SILENT]
        patient = producer.start_send(
            a_message(), queue=MessageQueue("t", "a", 0), timeout_ms=60_000
        )
        with pytest.raises(MaybeStored):
            await producer.start_send(a_message(), timeout_ms=1_000).wait_sent()
        assert (await producer.send(a_message())).is_ok
        assert len(broker.sends) == 3
        assert patient.result is None
        opened = [fact.peer for fact in cluster.facts_of(ConnectionOpened)]
        assert opened.count(broker.address) == 1

    producing(main, "a")


def test_sends_under_way_end_with_their_producer() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.brokers["a"].always = SILENT
        received = []
        process = cluster.process()
        async with process, cluster.a_producer(process) as producer:
            await producer.publish_queues("t")
            sent = producer.start_send(a_message(), received.append)
            cluster.namesrv.is_silent = True
            unsent = producer.start_send(a_message(topic="new"), received.append)
            await trio.sleep(1)
        assert received == [sent.result, unsent.result]
        with pytest.raises(MaybeStored, match="closed"):
            await sent.wait_sent()
        with pytest.raises(NotStored, match="closed"):
            await unsent.wait_sent()

    in_world(main)


def test_too_many_sends_under_way_are_refused() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].always = SILENT
        for _ in range(3):
            producer.start_send(a_message())
        with pytest.raises(TooManySends):
            producer.start_send(a_message())

    producing(main, "a", async_sends_max=3)


def test_an_async_send_without_a_route_fails_through_its_callback() -> None:
    async def main(cluster, producer):
        received = []
        sending = producer.start_send(a_message(topic="unknown"), received.append)
        with pytest.raises(NoRoute):
            await sending.wait_sent()
        assert received == [sending.result]

    producing(main)

"""The facts about single attempts: one for each, whatever the form of sending."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.errors.call_errors import MaybeStored, NotStored
from rocketmq_emulator.facts import MessageSent, Queue, SendAttempted, SendFailed
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.client.client_cluster import SILENT, a_message, in_world, producing


def attempts_of(cluster) -> list[tuple[int, str, int, str]]:
    """(number, broker, milliseconds, outcome) of each attempt that was noted."""
    return [
        (fact.attempt, fact.queue.broker, fact.took_ms, fact.outcome.split(":")[0])
        for fact in cluster.facts_of(SendAttempted)
    ]


def test_each_attempt_of_a_retried_send_is_a_fact() -> None:
    async def main(cluster, producer):
        for broker in cluster.brokers.values():
            broker.answers, broker.slow_ms = [14, 14], 40
        with pytest.raises(NotStored) as caught:
            await producer.send(a_message())
        noted = attempts_of(cluster)
        assert [number for number, *_ in noted] == [1, 2, 3]
        assert tuple(broker for _, broker, *_ in noted) == caught.value.brokers
        assert {(took_ms, outcome) for *_, took_ms, outcome in noted} == {(40, "ErrorReply")}

    producing(main)


def test_an_attempt_that_stored_the_message_has_its_queue_and_key() -> None:
    async def main(cluster, producer):
        result = await producer.send(a_message())
        (attempt,) = cluster.facts_of(SendAttempted)
        assert attempt.queue == Queue("t", "a", result.queue.queue_id)
        assert (attempt.uniq_key, attempt.outcome) == (result.msg_id, "SEND_OK")
        (sent,) = cluster.facts_of(MessageSent)
        assert cluster.facts.index(attempt) < cluster.facts.index(sent)

    producing(main, "a")


def test_the_outcome_names_the_error_and_its_text() -> None:
    async def main(cluster, producer):
        cluster.brokers["a"].answers = [14, SILENT]
        with pytest.raises(NotStored):
            await producer.send(a_message(), queue=MessageQueue("t", "a", 0))
        with pytest.raises(MaybeStored):
            await producer.send(a_message(), queue=MessageQueue("t", "a", 0), timeout_ms=500)
        with pytest.raises(NotStored):
            await producer.send(a_message(), queue=MessageQueue("t", "nowhere", 0))
        refused, silent, masterless = cluster.facts_of(SendAttempted)
        assert refused.outcome == "ErrorReply: SERVICE_NOT_AVAILABLE: as scripted"
        assert (silent.outcome.split(":")[0], silent.took_ms) == ("TimedOut", 500)
        assert masterless.outcome == "NoMaster: nowhere has no master"

    producing(main, "a")


def test_each_attempt_of_an_async_send_is_a_fact() -> None:
    async def main(cluster, producer):
        await producer.publish_queues("t")
        for broker in cluster.brokers.values():
            broker.stop()
        with pytest.raises(NotStored) as caught:
            await producer.start_send(a_message()).wait_sent()
        noted = attempts_of(cluster)
        assert [number for number, *_ in noted] == [1, 2, 3]
        assert tuple(broker for _, broker, *_ in noted) == caught.value.brokers
        assert {outcome for *_, outcome in noted} == {"NeverSent"}

    producing(main)


def test_an_async_send_that_its_producer_abandons_has_an_attempt_without_an_answer() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.brokers["a"].always = SILENT
        async with cluster.process() as process:
            async with cluster.a_producer(process) as producer:
                await producer.publish_queues("t")
                producer.start_send(a_message())
                await trio.sleep(1)
            assert attempts_of(cluster) == [(1, "a", 1000, "NoAnswer")]
            assert cluster.facts_of(SendFailed)[0].maybe_stored

    in_world(main)


def test_a_one_way_send_is_an_attempt_without_an_outcome() -> None:
    async def main(cluster, producer):
        await producer.send_oneway(a_message())
        assert attempts_of(cluster) == [(1, "a", 0, "ONE_WAY")]

    producing(main, "a")


def test_attempts_are_no_facts_where_they_are_not_wanted() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        process = cluster.process()
        process.wants = lambda kind: kind is not SendAttempted
        async with process, cluster.a_producer(process) as producer:
            await producer.send(a_message())
        assert attempts_of(cluster) == []
        assert len(cluster.facts_of(MessageSent)) == 1

    in_world(main)

"""A consumer as its instance uses it: heartbeats, pauses, the start and the end."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.facts import QueuesReleased
from tests.support.client.client_cluster import SILENT
from tests.support.client.pulled_broker import LIST, LOCK, PULL, UNLOCK, a_queue, in_group


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("CLUSTERING", "CONSUME_FROM_LAST_OFFSET", False)),
        (
            {
                "model": "BROADCASTING",
                "consume_from": "CONSUME_FROM_FIRST_OFFSET",
                "unit_mode": True,
            },
            ("BROADCASTING", "CONSUME_FROM_FIRST_OFFSET", True),
        ),
    ],
)
def test_a_heartbeat_says_how_a_group_consumes(settings, expected) -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app, **settings):
            await trio.sleep(1)
        return broker.heartbeats[0][1].consumer_data_set

    (data,) = in_group(main)
    assert (data.group_name, data.consume_type) == ("cg", "CONSUME_PASSIVELY")
    assert (data.message_model, data.consume_from_where, data.unit_mode) == expected
    topics = {s.topic for s in data.subscription_data_set}
    assert "T" in topics


@pytest.mark.parametrize(("release", "passes"), [("5.1.4", 2), ("5.2.0", 20)])
def test_since_5_2_a_paused_consumer_counts_as_out_of_balance(release, passes) -> None:
    async def main(cluster, broker):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, release=release)
            async with consumer:
                await trio.sleep(1)
                consumer.suspend()
                asked = []
                pipeline = consumer._pipeline
                run = pipeline.rebalance

                async def counted(cause):
                    asked.append(cause)
                    return await run(cause)

                pipeline.rebalance = counted
                await trio.sleep(39.5)
                return len(asked), broker.times(LIST)

    asked, lists = in_group(main)
    assert asked == passes, "every 20 seconds, or one second after a pass that was not balanced"
    assert [at for at in lists if at > 1] == [], "a paused consumer sends no requests"


@pytest.mark.parametrize(("release", "causes"), [("5.1.4", ["started"]), ("5.2.0", [])])
def test_since_5_2_the_first_pass_waits_for_a_broker_that_heard_a_heartbeat(
    release, causes
) -> None:
    asked = []

    async def main(cluster, broker):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, topics={"Nowhere": "*"}, release=release)

            async def counted(cause):
                asked.append(cause)
                return True

            async with consumer:
                await trio.sleep(0.5)
                consumer._pipeline.rebalance = counted
                await consumer._pipeline.join_group()
                await trio.sleep(2)  # passes are a second apart since 5.2

    in_group(main)
    assert [cause for cause in asked if cause == "started"] == causes


def test_a_pause_keeps_the_queues_and_its_end_runs_the_missed_pass() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            consumer.suspend()
            broker.members = ["somebody@else"]
            await trio.sleep(30)
            kept = consumer.queues
            await consumer.resume()
            return kept, consumer.queues

    assert in_group(main) == ([a_queue()], [])


def test_on_queues_is_told_all_queues_and_its_own_in_order() -> None:
    told = []

    async def main(cluster, broker):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, on_queues=lambda *news: told.append(news))
            async with consumer:
                broker.members = [consumer.instance.client_id, "~another@one"]
                await trio.sleep(25)

    in_group(main, queues=3)
    assert [news for news in told if news[0] == "T"][-1] == (
        "T",
        [a_queue(0), a_queue(1), a_queue(2)],
        [a_queue(0), a_queue(1)],
    )


def test_limits_of_a_topic_follow_the_number_of_held_queues() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app:
            consumer = cluster.a_consumer(app, topic_messages_max=100)
            async with consumer:
                await trio.sleep(1)
                return len(consumer.queues), consumer._pipeline._flow.messages_max

    held, messages_max = in_group(main, queues=4)
    assert messages_max == 100 // held


@pytest.mark.parametrize(("settings", "unlocks"), [({}, 1), ({"model": "BROADCASTING"}, 0)])
def test_an_orderly_consumer_unlocks_its_queues_at_the_end_unless_it_broadcasts(
    settings, unlocks
) -> None:
    async def main(cluster, broker):
        async with (
            cluster.process() as app,
            cluster.a_consumer(app, orderly=True, **settings),
        ):
            await trio.sleep(2)
        return broker.times(LOCK), broker.times(UNLOCK)

    locks, unlocked = in_group(main)
    assert locks
    assert len(unlocked) == unlocks


def test_the_end_writes_offsets_unregisters_and_then_drops_the_queues() -> None:
    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(3)
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            pipeline = consumer._pipeline
            await trio.sleep(1)
            broker.offsets.clear()
        assert [request.consumer_group for request in broker.unregistered] == ["cg"]
        assert broker.offsets == {("T", 0): 3}
        assert pipeline.group not in pipeline.member.instance.consumers
        assert (pipeline.member.is_running, pipeline.member.process_queue_table) == (False, {})
        (released,) = cluster.facts_of(QueuesReleased)
        return released.reason

    assert in_group(main) == "shutdown"


def test_after_its_end_a_consumer_writes_no_offsets_and_runs_no_pass() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app:
            for release, balanced in (("5.1.4", True), ("5.2.0", False)):
                async with cluster.a_consumer(app, release=release) as consumer:
                    pipeline = consumer._pipeline
                    await trio.sleep(1)
                asked = len(broker.times(LIST))
                pipeline.member.process_queue_table[a_queue()] = object()
                pipeline.member.offsets.table.update(a_queue(), 99)
                await pipeline.persist_offsets()
                assert await pipeline.rebalance("timer") is balanced
                assert len(broker.times(LIST)) == asked
        return broker.offsets

    assert 99 not in in_group(main).values()


def test_a_topic_lacks_its_route_while_it_is_subscribed_and_none_has_come() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app, cluster.a_consumer(app) as consumer:
            await trio.sleep(1)
            pipeline = consumer._pipeline
            await consumer.subscribe("U")
            return [pipeline.needs_route(topic) for topic in ("T", "U", "V")]

    assert in_group(main) == [False, True, False]


def test_listeners_are_waited_for_as_long_as_the_settings_say() -> None:
    ends = []

    async def listen(messages):
        await trio.sleep(10)

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(1)
        async with cluster.process() as app:
            async with cluster.a_consumer(app, listen, termination_ms_max=3_000):
                await trio.sleep(1)
            ends.append(cluster.now_s())

    in_group(main)
    assert ends[0] == pytest.approx(4, abs=0.1)


def test_pulls_stop_with_the_consumer() -> None:
    async def main(cluster, broker):
        async with cluster.process() as app:
            async with cluster.a_consumer(app):
                await trio.sleep(1)
                broker.replies[PULL].append(SILENT)
            before = len(broker.times(PULL))
            await trio.sleep(60)
            return len(broker.times(PULL)) - before

    assert in_group(main) == 0

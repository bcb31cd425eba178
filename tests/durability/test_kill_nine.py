"""``kill -9`` under load: each acknowledged message stays at its acknowledged queue offset."""

from __future__ import annotations

import os
import random

from rocketmq_emulator.facts import DelayedDelivered, LogRecovered
from tests.durability.killed_cluster import (
    SMALL,
    WHOLE_JOURNAL,
    a_cluster,
    facts_of,
    kill_now,
    questions_to,
    wait_restarted,
)
from tests.durability.load import QUEUES, TOPICS, Place, a_load
from tests.durability.recording_consumer import a_recording_consumer

KILLS = int(os.environ.get("KILLS", "20"))  # make torture: 200
LONG_LIVES = 5  # one of so many waits until delayed messages were delivered
RECEIVED_S_MAX = 30.0


async def everything_in(ask):
    """All messages by place; the offsets of a queue must have no gap."""
    found = {}
    for topic in TOPICS:
        for queue_id in range(QUEUES):
            messages = await ask.messages(topic, queue_id)
            offsets = [message.queue_offset for message in messages]
            assert offsets == list(range(await ask.max_offset(topic, queue_id)))
            for message in messages:
                found[Place(topic, queue_id, message.queue_offset)] = message
    return found


async def check_consumed(cluster, consumer, bodies) -> None:
    missing = await consumer.wait_received(bodies, RECEIVED_S_MAX)
    cluster.check_alive()
    assert not missing, f"{len(missing)} of {len(bodies)} acknowledged messages were not consumed"


async def kill_it_again_and_again(cluster, load, consumer, chance) -> None:
    """Kill and restart the broker, each time while sends are in flight."""
    for life in range(KILLS):
        if life % LONG_LIVES == 0:
            await check_consumed(cluster, consumer, set(load.ledger.delayed))
        await load.ledger.wait_more(chance.choice((1, 100, 500, 3_000)) + chance.randrange(100))
        kill_now(cluster)
        load.pause()
        await wait_restarted(cluster)
        load.go_on()
    await load.ledger.wait_more(100)


async def test_many_kills_under_load_lose_nothing_that_was_acknowledged(tmp_path) -> None:
    chance = random.Random(9)
    with a_cluster(tmp_path, **SMALL, **WHOLE_JOURNAL) as cluster:
        async with questions_to(cluster) as ask, a_recording_consumer(cluster, TOPICS) as consumer:
            for topic in TOPICS:
                await ask.create_topic(topic, QUEUES)
            async with a_load(cluster, chance) as load:
                await kill_it_again_and_again(cluster, load, consumer, chance)
            ledger = load.ledger
            await check_consumed(cluster, consumer, ledger.bodies())
            assert set(TOPICS) <= await ask.topics()
            assert "recorder" in await ask.groups()
            found = await everything_in(ask)
    there = {place: (found[place].msg_id, found[place].body) for place in ledger.placed}
    assert there == ledger.placed
    assert ledger.delayed.keys() <= {message.body for message in found.values()}
    assert len(facts_of(tmp_path, LogRecovered)) >= KILLS
    assert facts_of(tmp_path, DelayedDelivered)


async def test_facts_of_all_lives_are_found_when_the_journal_begins_anew(tmp_path) -> None:
    kills, few_bytes = 3, {"journal_bytes_max": 2_000, "journal_files_max": 1_000}
    with a_cluster(tmp_path, **few_bytes) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders", QUEUES)
            for n in range(kills):
                for _ in range(10):
                    await ask.stored("orders", 0, b"%d" % n)
                kill_now(cluster)
                await wait_restarted(cluster)
    recovered = [fact["message_count"] for fact in facts_of(tmp_path, LogRecovered)]
    assert recovered[-kills:] == [10, 20, 30]
    assert len(list((tmp_path / "journal").glob("*.jsonl.*"))) > kills

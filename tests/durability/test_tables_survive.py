"""Topics, groups, offsets and delayed messages survive a restart, as far as each is guaranteed."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import trio

from rocketmq_emulator.admin.calls import ClusterUnreachable
from rocketmq_emulator.facts import DelayedDelivered
from tests.durability.killed_cluster import (
    a_cluster,
    facts_of,
    kill_now,
    questions_to,
    saved_offsets,
    store_of,
    wait_ended_in_order,
    wait_restarted,
)

GROUPS = ("one", "two", "three")
LIVES = 6
A_LOT = 1_000_000  # each life commits higher offsets than the life before
FIRST_WRITE_S_MAX = 15.0  # offsets reach the disk ten seconds after the start, then every five


async def test_topics_and_groups_are_there_when_their_creation_was_answered(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            for n in range(4):
                await ask.create_topic(f"topic-{n}", queues=n + 1)
                await ask.create_group(f"group-{n}")
                kill_now(cluster)
                await wait_restarted(cluster)
            assert {f"topic-{n}" for n in range(4)} <= await ask.topics()
            assert {f"group-{n}" for n in range(4)} <= await ask.groups()
            route = await ask.admin.route("topic-3")
    assert [queue.write_queue_nums for queue in route.queue_datas] == [4]


async def test_a_topic_that_its_first_message_made_is_there_with_the_message(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            for n in range(4):
                await ask.stored(f"topic-{n}", 1, b"first")
                kill_now(cluster)
                await wait_restarted(cluster)
            for n in range(4):
                assert [m.body for m in await ask.messages(f"topic-{n}", 1)] == [b"first"]


# Offsets ----------------------------------------------------------------------------------


class Life:
    """Concurrent commits, new topics and new groups; the last commit kills the broker."""

    def __init__(self, cluster, ask, number, commits) -> None:
        self.acknowledged: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        self._cluster = cluster
        self._ask = ask
        self._number = number
        self._commits_left = commits

    async def run(self) -> None:
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._create)
                for group in GROUPS:
                    nursery.start_soon(self._commit, group)

    async def _commit(self, group) -> None:
        with suppress(ClusterUnreachable):
            for offset in itertools.count(self._number * A_LOT):
                self.begun[group] = offset
                await self._ask.commit(group, "orders", 0, offset)
                self.acknowledged[group] = offset
                self._commits_left -= 1
                if self._commits_left == 0:
                    kill_now(self._cluster)

    async def _create(self) -> None:
        with suppress(ClusterUnreachable):
            for n in itertools.count():
                name = f"made-{self._number}-{n}"
                await self._ask.create_topic(name, 1)
                self.topics.add(name)
                await self._ask.create_group(name)
                self.groups.add(name)


async def test_durable_offsets_are_there_as_soon_as_they_were_acknowledged(tmp_path) -> None:
    chance = random.Random(5)
    topics, groups = set(), set()
    with a_cluster(tmp_path, durable_offsets=True) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders")
            for number in range(LIVES):
                life = Life(cluster, ask, number, commits=chance.randint(1, 300))
                await life.run()
                await wait_restarted(cluster)
                assert not list(store_of(tmp_path).rglob("*.tmp"))
                for group, acknowledged in life.acknowledged.items():
                    found = await ask.committed(group, "orders", 0)
                    assert acknowledged <= found <= life.begun[group]
                topics |= life.topics
                groups |= life.groups
            assert topics <= await ask.topics()
            assert groups <= await ask.groups()
            assert len(topics) > LIVES


async def wait_saved(folder, expected) -> None:
    """Wait until the offset table on disk is *expected*: a timer writes it, as in upstream."""
    with trio.fail_after(FIRST_WRITE_S_MAX):
        while saved_offsets(folder) != expected:  # noqa: ASYNC110  # another process writes it
            await trio.sleep(0.05)


async def test_offsets_that_upstreams_clock_has_written_survive_a_kill(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders")
            await ask.commit("readers", "orders", 2, 700)
            await wait_saved(tmp_path, {"orders@readers": {2: 700}})
            await ask.commit("readers", "orders", 2, 800)
            kill_now(cluster)
            await wait_restarted(cluster)
            assert await ask.committed("readers", "orders", 2) in (700, 800)


async def test_a_clean_end_keeps_every_offset_exactly(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders", queues=4)
            for queue_id in range(4):
                await ask.commit("readers", "orders", queue_id, 100 + queue_id)
            assert await wait_ended_in_order(cluster) == 0
            await wait_restarted(cluster)
            found = [await ask.committed("readers", "orders", n) for n in range(4)]
    assert found == [100, 101, 102, 103]


# Delayed messages -------------------------------------------------------------------------


async def test_delayed_messages_are_delivered_by_the_broker_that_comes_after(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("later", 1)
            for n in range(10):
                await ask.stored("later", 0, b"%d" % n, properties="DELAY\x011")
            kill_now(cluster)
            await wait_restarted(cluster)
            await ask.wait_messages("later", 0, 10)
            bodies = [message.body for message in await ask.messages("later", 0)]
    assert bodies == [b"%d" % n for n in range(10)]


async def test_a_clean_end_knows_what_was_delivered(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("later", 1)
            await ask.stored("later", 0, b"once", properties="DELAY\x011")
            await ask.wait_messages("later", 0, 1)
            assert await wait_ended_in_order(cluster) == 0
            await wait_restarted(cluster)
            await ask.stored("later", 0, b"twice", properties="DELAY\x011")
            await ask.wait_messages("later", 0, 2)
            bodies = [message.body for message in await ask.messages("later", 0)]
    assert bodies == [b"once", b"twice"]
    assert len(facts_of(tmp_path, DelayedDelivered)) == 2


# Timer messages ---------------------------------------------------------------------------


async def test_timer_messages_are_delivered_once_by_the_broker_that_comes_after(tmp_path) -> None:
    with a_cluster(tmp_path, release="5.3.3") as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("later", 1)
            for n in range(10):
                await ask.stored("later", 0, b"%d" % n, properties="TIMER_DELAY_MS\x011500")
            kill_now(cluster)
            await wait_restarted(cluster)
            await ask.wait_messages("later", 0, 10)
            assert await wait_ended_in_order(cluster) == 0
            await wait_restarted(cluster)
            await ask.stored("later", 0, b"last", properties="TIMER_DELAY_MS\x011")
            await ask.wait_messages("later", 0, 11)
            bodies = [message.body for message in await ask.messages("later", 0)]
    assert bodies == [*(b"%d" % n for n in range(10)), b"last"]

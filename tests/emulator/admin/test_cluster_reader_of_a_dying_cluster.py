"""Watching a cluster whose nodes hang and die: each is reported, and the watch continues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.admin.overview import ClusterSnapshot
from rocketmq_emulator.cli.screens import live
from rocketmq_emulator.cli.screens.live import ClusterWatch
from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.bodies.topics import TopicConfig

PATIENCE_S = 30


@pytest.fixture
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        trio.run(make_orders, running.namesrv)
        yield running


async def make_orders(namesrv: str) -> None:
    async with admin_over_tcp(namesrv) as admin:
        topic = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)
        await admin.create_topic_everywhere(topic)


@asynccontextmanager
async def watched(cluster) -> AsyncIterator[ClusterWatch]:
    async with trio.open_nursery() as nursery:
        watch = ClusterWatch(cluster)
        watch.period_s = 0.05
        nursery.start_soon(watch.run)
        await watch.wait_first_answers()
        yield watch
        nursery.cancel_scope.cancel()


async def wait_seen(
    watch: ClusterWatch, wanted: Callable[[ClusterSnapshot], bool]
) -> ClusterSnapshot:
    with trio.fail_after(PATIENCE_S):
        while not wanted(snapshot := watch.snapshot()):  # noqa: ASYNC110  # brokers send no event
            await trio.sleep(watch.period_s / 5)
    return snapshot


def state_of(name: str, state: str) -> Callable[[ClusterSnapshot], bool]:
    return lambda snapshot: {node.name: node.state for node in snapshot.nodes}[name] == state


async def send(cluster, count: int) -> None:
    async with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        for number in range(count):
            await producer.send(Message("orders", f"order {number}".encode()))


async def test_what_a_dead_broker_had_is_still_there_and_it_comes_back(cluster) -> None:
    await send(cluster, 8)
    async with watched(cluster) as watch:
        whole = await wait_seen(watch, lambda snapshot: snapshot.overview.topics[0].messages == 8)
        (orders,) = whole.overview.topics
        assert orders.brokers == ("broker-a", "broker-b")
        await trio.to_thread.run_sync(cluster.kill, "broker-b")
        snapshot = await wait_seen(watch, state_of("broker-b", "dead"))
        assert snapshot.overview.topics == whole.overview.topics
        assert {node.name: node.messages for node in snapshot.nodes}["broker-b"] == 4
        assert "broker-b" not in snapshot.rates.brokers
        await trio.to_thread.run_sync(cluster.start, "broker-b")
        await wait_seen(watch, state_of("broker-b", "running"))


async def test_a_broker_that_does_not_answer_is_silent_since_it_was_asked_and_stops_no_other(
    cluster, monkeypatch
) -> None:
    hidden = {"paused": "running"}  # as on a system that does not report paused processes
    condition = cluster._condition
    monkeypatch.setattr(
        cluster,
        "_condition",
        lambda name: (seen := condition(name))._replace(state=hidden.get(seen.state, seen.state)),
    )
    monkeypatch.setattr(live, "SILENT_AFTER_S", 0.3)
    monkeypatch.setattr(live, "CALL_MS_MAX", 500)
    async with watched(cluster) as watch:
        await wait_seen(watch, state_of("broker-b", "running"))
        cluster.pause("broker-b")
        first = await wait_seen(watch, state_of("broker-b", "silent"))
        async with admin_over_tcp(cluster.namesrv) as admin:
            topic = TopicConfig(topic_name="meanwhile")
            await admin.create_topic(cluster.brokers["broker-a"], topic)
        later = await wait_seen(watch, lambda snapshot: len(snapshot.overview.topics) == 2)
        assert state_of("broker-b", "silent")(later)
        assert first.nodes[2].since_ms == later.nodes[2].since_ms
        cluster.resume("broker-b")
        await wait_seen(watch, state_of("broker-b", "running"))


async def test_the_members_of_groups_that_are_shown_say_which_queues_they_have(
    cluster, monkeypatch
) -> None:
    monkeypatch.setattr(live, "MEMBERS_EVERY_S", 0.05)
    await send(cluster, 8)

    async def consume(_messages, _context) -> None:
        """Every message succeeds."""

    async with (
        PushConsumer(consume, {"orders": "*"}, namesrv=cluster.namesrv, group="billing"),
        watched(cluster) as watch,
    ):
        await wait_seen(watch, lambda snapshot: bool(snapshot.overview.groups))
        assert watch.snapshot().owned == {}
        watch.shown_groups = ("billing",)
        snapshot = await wait_seen(
            watch,
            lambda snapshot: any(len(queues or ()) >= 8 for queues in snapshot.owned.values()),
        )
        ((group, client),) = snapshot.owned
        assert group == "billing"
        assert [member.client for member in snapshot.overview.groups[0].members] == [client]
        watch.shown_groups = ()
        await wait_seen(watch, lambda snapshot: snapshot.owned == {})


async def test_a_broker_that_no_name_server_lists_is_named_unless_it_has_just_started(
    cluster, monkeypatch
) -> None:
    async with watched(cluster) as watch:
        await wait_seen(watch, state_of("broker-b", "running"))
        cluster.pause("namesrv")
        await wait_seen(watch, state_of("namesrv", "paused"))
        watch._listed["namesrv"] = frozenset({("broker-a", 0)})
        assert state_of("broker-b", "running")(watch.snapshot())
        monkeypatch.setattr(live, "UNLISTED_AFTER_S", 0.0)
        assert state_of("broker-b", "unlisted")(watch.snapshot())
        assert state_of("broker-a", "running")(watch.snapshot())
        cluster.resume("namesrv")


async def test_a_slave_is_listed_and_the_broker_elected_after_its_master_died_is_named() -> None:
    spec = ClusterSpec(release="5.3.3", brokers=1, slaves=1, controllers=1)
    with EmbeddedCluster(spec) as cluster:
        await make_orders(cluster.namesrv)
        async with watched(cluster) as watch:
            snapshot = await wait_seen(watch, roles_are("master", "slave"))
            assert [topic.queues for topic in snapshot.overview.topics] == [4]
            assert {node.state for node in snapshot.nodes} == {"running"}
            await wait_seen(watch, has_an_in_sync_slave)  # else nobody is elected
            cluster.kill("broker-a")
            await wait_seen(watch, roles_are("master", "master"))
            assert state_of("broker-a", "dead")(watch.snapshot())
            assert state_of("broker-a-1", "running")(watch.snapshot())


def has_an_in_sync_slave(snapshot: ClusterSnapshot) -> bool:
    return any(broker.is_in_sync for broker in snapshot.overview.brokers)


def roles_are(*roles: str) -> Callable[[ClusterSnapshot], bool]:
    """The roles that the brokers had in their last answers."""

    def are(snapshot: ClusterSnapshot) -> bool:
        seen = [node.replica and node.replica.role for node in snapshot.nodes]
        return [role for role in seen if role] == [*roles]

    return are

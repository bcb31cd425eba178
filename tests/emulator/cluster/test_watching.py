"""A cluster that is watched: what hangs and dies is known, and stops nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from emulator.client import Message, Producer, PushConsumer
from emulator.cluster import watching
from emulator.cluster.admin import admin_over_tcp
from emulator.cluster.embedded import EmbeddedCluster
from emulator.cluster.sight import Sight
from emulator.cluster.spec import ClusterSpec
from emulator.cluster.watching import ClusterWatch
from protocol.bodies.topics import TopicConfig

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
        await watch.wait_first_look()
        yield watch
        nursery.cancel_scope.cancel()


async def wait_seen(watch: ClusterWatch, wanted: Callable[[Sight], bool]) -> Sight:
    with trio.fail_after(PATIENCE_S):
        while not wanted(sight := watch.sight()):  # noqa: ASYNC110  # brokers ring no bell here
            await trio.sleep(watch.period_s / 5)
    return sight


def state_of(name: str, state: str) -> Callable[[Sight], bool]:
    return lambda sight: {node.name: node.state for node in sight.nodes}[name] == state


async def send(cluster, count: int) -> None:
    async with Producer(namesrv=cluster.namesrv, group="shop") as producer:
        for number in range(count):
            await producer.send(Message("orders", f"order {number}".encode()))


async def test_what_a_dead_broker_had_is_still_there_and_it_comes_back(cluster) -> None:
    await send(cluster, 8)
    async with watched(cluster) as watch:
        whole = await wait_seen(watch, lambda sight: sight.overview.topics[0].messages == 8)
        (orders,) = whole.overview.topics
        assert orders.brokers == ("broker-a", "broker-b")
        await trio.to_thread.run_sync(cluster.kill, "broker-b")
        sight = await wait_seen(watch, state_of("broker-b", "dead"))
        assert sight.overview.topics == whole.overview.topics
        assert {node.name: node.messages for node in sight.nodes}["broker-b"] == 4
        assert "broker-b" not in sight.rates.brokers
        await trio.to_thread.run_sync(cluster.start, "broker-b")
        await wait_seen(watch, state_of("broker-b", "running"))


async def test_a_broker_that_does_not_answer_is_silent_since_it_was_asked_and_stops_no_other(
    cluster, monkeypatch
) -> None:
    hidden = {"paused": "running"}  # as where the system does not say who stands still
    condition = cluster._condition
    monkeypatch.setattr(
        cluster,
        "_condition",
        lambda name: (seen := condition(name))._replace(state=hidden.get(seen.state, seen.state)),
    )
    monkeypatch.setattr(watching, "SILENT_AFTER_S", 0.3)
    monkeypatch.setattr(watching, "CALL_MS_MAX", 500)
    async with watched(cluster) as watch:
        await wait_seen(watch, state_of("broker-b", "running"))
        cluster.pause("broker-b")
        first = await wait_seen(watch, state_of("broker-b", "silent"))
        async with admin_over_tcp(cluster.namesrv) as admin:
            topic = TopicConfig(topic_name="meanwhile")
            await admin.create_topic(cluster.brokers["broker-a"], topic)
        later = await wait_seen(watch, lambda sight: len(sight.overview.topics) == 2)
        assert state_of("broker-b", "silent")(later)
        assert first.nodes[2].since_ms == later.nodes[2].since_ms
        cluster.resume("broker-b")
        await wait_seen(watch, state_of("broker-b", "running"))


async def test_the_members_of_groups_that_are_shown_say_which_queues_they_have(
    cluster, monkeypatch
) -> None:
    monkeypatch.setattr(watching, "MEMBERS_EVERY_S", 0.05)
    await send(cluster, 8)

    async def consume(_messages, _context) -> None:
        """All is well."""

    async with (
        PushConsumer(consume, {"orders": "*"}, namesrv=cluster.namesrv, group="billing"),
        watched(cluster) as watch,
    ):
        await wait_seen(watch, lambda sight: bool(sight.overview.groups))
        assert watch.sight().owned == {}
        watch.shown_groups = ("billing",)
        sight = await wait_seen(
            watch, lambda sight: any(len(queues or ()) >= 8 for queues in sight.owned.values())
        )
        ((group, client),) = sight.owned
        assert group == "billing"
        assert [member.client for member in sight.overview.groups[0].members] == [client]
        watch.shown_groups = ()
        await wait_seen(watch, lambda sight: sight.owned == {})


async def test_a_broker_that_no_name_server_lists_is_named_unless_it_has_just_started(
    cluster, monkeypatch
) -> None:
    async with watched(cluster) as watch:
        await wait_seen(watch, state_of("broker-b", "running"))
        cluster.pause("namesrv")
        await wait_seen(watch, state_of("namesrv", "paused"))
        watch._listed["namesrv"] = frozenset({"broker-a"})
        assert state_of("broker-b", "running")(watch.sight())
        monkeypatch.setattr(watching, "UNLISTED_AFTER_S", 0.0)
        assert state_of("broker-b", "unlisted")(watch.sight())
        assert state_of("broker-a", "running")(watch.sight())
        cluster.resume("namesrv")

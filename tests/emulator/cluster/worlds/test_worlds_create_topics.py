"""Topics that are created at the same moment are all in the route, in every release and world."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, NotFound, admin_over_tcp
from rocketmq_emulator.client import ClientConfig
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import run_virtual

RELEASES = ["4.9.7", "5.3.3"]
TOPICS = [f"T{number}" for number in range(5)]


async def routed_after_creating_all_at_once(admins: list[Admin]) -> list[str]:
    """Create all topics at once; return those with a route after the last answer."""
    (address,) = (await admins[0].masters()).values()
    async with trio.open_nursery() as nursery:
        for number, name in enumerate(TOPICS):
            admin = admins[number % len(admins)]
            nursery.start_soon(admin.create_topic, address, TopicConfig(topic_name=name))
    return [name for name in TOPICS if await is_routed(admins[0], name)]


async def is_routed(admin: Admin, topic: str) -> bool:
    try:
        await admin.route(topic)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("connections", [1, 5])
@pytest.mark.parametrize("release", RELEASES)
def test_invariant_21_topics_created_at_once_are_all_in_the_route(
    release: str, connections: int
) -> None:
    routed: list[Iterable[str]] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1, release=release))
        await cluster.start()

        async def program(process) -> None:
            admins = []
            for number in range(connections):
                config = ClientConfig(namesrv=cluster.namesrv, instance_name=f"tool-{number}")
                instance = await process.instance(config)
                admins.append(Admin(cluster.namesrv, instance.remoting))
            routed.append(await routed_after_creating_all_at_once(admins))

        await cluster.start_client("tool", program).wait_ended()

    run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))
    assert routed == [TOPICS]


def test_a_topic_is_made_at_brokers_that_run_and_the_others_are_named() -> None:
    async def brokers_of_route(namesrv: str) -> list[str]:
        async with admin_over_tcp(namesrv) as admin:
            return list(await admin.brokers_of("T"))

    config = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
    with EmbeddedCluster(ClusterSpec(brokers=3)) as cluster:
        cluster.kill("broker-b")
        cluster.pause("broker-c")
        made = cluster.make_topic(config)
        assert made.brokers == ("broker-a",)
        assert made.missing == {"broker-b": "dead", "broker-c": "paused"}
        assert trio.run(brokers_of_route, cluster.namesrv) == ["broker-a"]
        cluster.start("broker-b")
        cluster.resume("broker-c")
        cluster.set_reply_rule("broker-c", ReplyRule(code=17, cut_connection=True))
        made = cluster.make_topic(config)
        assert made.brokers == ("broker-a", "broker-b")
        assert made.missing == {"broker-c": "silent"}
        assert "broker-c, which does not answer" in made.warning
        assert trio.run(brokers_of_route, cluster.namesrv) == ["broker-a", "broker-b"]


@pytest.mark.parametrize("connections", [1, 5])
@pytest.mark.parametrize("release", RELEASES)
def test_invariant_21_so_they_are_over_tcp(release: str, connections: int) -> None:
    async def main(namesrv: str) -> list[str]:
        async with AsyncExitStack() as stack:
            tools = [admin_over_tcp(namesrv) for _ in range(connections)]
            admins = [await stack.enter_async_context(tool) for tool in tools]
            return await routed_after_creating_all_at_once(admins)

    with EmbeddedCluster(ClusterSpec(brokers=1, release=release)) as cluster:
        assert trio.run(main, cluster.namesrv) == TOPICS

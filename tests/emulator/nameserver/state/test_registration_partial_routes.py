"""A registration of all topics with a new version ends a partial route (rocketmq #4522).

A NameServer that had lost a broker received one changed topic, and took it for the whole table,
at the newest version.  Upstream: RouteInfoManager.registerBroker (4.9.8),
BrokerController.registerIncrementBrokerData and registerBrokerAll.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, NotFound
from rocketmq_emulator.client import ClientConfig, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.requests.nameserver import UnregisterBrokerRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import run_virtual

ROUND_S = 30
LAST_4 = "4.9.8"
FIRST_SEND = SendMessageRequestV2(
    producer_group="shop",
    topic="fresh",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
)


class RouteBench:
    """A cluster with one broker and topics ``orders`` and ``invoices``, and an admin client."""

    def __init__(self, cluster: VirtualCluster, process, admin: Admin, broker: str) -> None:
        self.cluster, self.process, self.admin, self.broker = cluster, process, admin, broker
        self.namesrv = {"process": process, "namesrv": cluster.namesrv}

    async def is_routed(self, topic: str = "orders") -> bool:
        await trio.sleep(0.1)  # one-way registrations arrive meanwhile
        try:
            await self.admin.route(topic)
        except NotFound:
            return False
        return True

    async def lose_the_broker(self) -> None:
        header = UnregisterBrokerRequest(
            broker_name="broker-a",
            broker_addr=self.broker,
            cluster_name="DefaultCluster",
            broker_id=0,
        )
        await self.admin.call_namesrv(catalog.UNREGISTER_BROKER, header)

    async def update(self, topic: str, queues: int) -> None:
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        await self.admin.create_topic(self.broker, config)


def with_a_partial_route(steps: Callable[[RouteBench], Awaitable[None]], release: str) -> None:
    ended = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1, release=release))
        await cluster.start()

        async def program(process) -> None:
            config = ClientConfig(namesrv=cluster.namesrv)
            admin = Admin(cluster.namesrv, (await process.instance(config)).remoting)
            (broker,) = (await admin.masters()).values()
            bench = RouteBench(cluster, process, admin, broker)
            await bench.update("orders", 4)
            await bench.update("invoices", 1)
            await trio.sleep_until(75)  # rounds of registration begin at 10, 40, 70, 100 …
            await bench.lose_the_broker()
            await bench.update("invoices", 2)
            await steps(bench)
            ended.append(True)

        await cluster.start_client("tool", program).wait_ended()

    run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))
    assert ended == [True]


async def nothing(bench: RouteBench) -> None:
    del bench


async def update_another_topic(bench: RouteBench) -> None:
    await bench.update("receipts", 1)


async def send_to_a_new_topic(bench: RouteBench) -> None:
    """Send as a producer that has the broker's address from another or an earlier route."""
    await bench.admin.call(bench.broker, catalog.SEND_MESSAGE_V2, FIRST_SEND, b"first")


async def begin_a_new_group(bench: RouteBench) -> None:
    async def listen(_messages) -> None:
        """Accept all messages."""

    async with PushConsumer(listen, {"invoices": "*"}, **bench.namesrv, group="new"):
        await trio.sleep(1)


async def delete_a_topic(bench: RouteBench) -> None:
    await bench.admin.delete_topic(bench.broker, "invoices")


async def lose_the_broker_again(bench: RouteBench) -> None:
    await bench.lose_the_broker()


@pytest.mark.parametrize(
    ("act", "at_once", "by_the_next_round"),
    [
        (nothing, False, False),
        (update_another_topic, False, False),
        (send_to_a_new_topic, True, True),
        (begin_a_new_group, True, True),
        (delete_a_topic, False, True),
        (lose_the_broker_again, False, True),
    ],
)
def test_before_5_0_a_partial_route_ends_with_the_next_whole_registration_of_a_new_version(
    act, at_once, by_the_next_round
) -> None:
    async def steps(bench: RouteBench) -> None:
        assert (await bench.is_routed("invoices"), await bench.is_routed()) == (True, False)
        await act(bench)
        assert await bench.is_routed() is at_once
        await trio.sleep(ROUND_S)
        assert await bench.is_routed() is by_the_next_round
        await trio.sleep(3 * ROUND_S)
        assert await bench.is_routed() is by_the_next_round

    with_a_partial_route(steps, LAST_4)


def test_since_5_0_there_is_none_as_a_broker_is_taken_with_all_its_topics_only() -> None:
    async def steps(bench: RouteBench) -> None:
        assert not await bench.is_routed("invoices"), "a new broker with one topic is refused"
        await trio.sleep(ROUND_S)
        assert await bench.is_routed("invoices")
        assert await bench.is_routed()

    with_a_partial_route(steps, "5.0.0")

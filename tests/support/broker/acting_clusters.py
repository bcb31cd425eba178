"""Virtual clusters whose slaves may act as their masters, and what their nodes recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from rocketmq_emulator.admin.calls import Admin, admin_on
from rocketmq_emulator.client import Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.flags import TRANSACTION_PREPARED
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import OffsetReply, QueryConsumerOffsetRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual
from tests.support.broker.store_makers import LAST_5

ACTING = {"slave_acting_master": True}
READERS, QUEUE = "readers", MessageQueue("orders", "broker-a", 0)


class ActingCluster(VirtualCluster):
    """A virtual cluster with an ``admin``, for one group that consumes from one queue."""

    admin: Admin

    async def create_readers(self) -> None:
        group = SubscriptionGroupConfig(group_name=READERS)
        await self.admin.create_group(self.addresses["broker-a"], group)

    async def create_orders(self, node: str) -> None:
        config = TopicConfig(topic_name=QUEUE.topic, read_queue_nums=2, write_queue_nums=2)
        await self.admin.create_topic(self.addresses[node], config)

    async def send_half(self, node: str) -> None:
        """Send a half message whose producer, of the group ``shop``, never ends it."""
        header = SendMessageRequestV2(
            producer_group="shop",
            topic=QUEUE.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=TRANSACTION_PREPARED,
            born_timestamp=EPOCH_MS + self.world.clock.passed_ns() // 1_000_000,
            flag=0,
            properties="TRAN_MSG\x01true\x02PGROUP\x01shop\x02UNIQ_KEY\x01HALF\x02",
        )
        await self.admin.call(self.addresses[node], catalog.SEND_MESSAGE_V2, header, b"half")

    async def commit(self, node: str, offset: int) -> None:
        await self.admin.commit(self.addresses[node], READERS, QUEUE, offset)

    async def committed(self, node: str) -> int | None:
        header = QueryConsumerOffsetRequest(
            consumer_group=READERS, topic=QUEUE.topic, queue_id=QUEUE.queue_id
        )
        reply = await self.admin.call(self.addresses[node], catalog.QUERY_CONSUMER_OFFSET, header)
        return reply.decode(OffsetReply).offset


Script = Callable[[Any, Producer], Awaitable[None]]  # of a cluster and a producer


class ActingRun:
    """The entries of a run's journal."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def line(self, line: bytes) -> None:
        self.entries.append(msgspec.json.decode(line))

    def of(self, node: str, kind: str) -> list[dict[str, Any]]:
        found = [entry for entry in self.entries if entry["node"].startswith(node)]
        if node.startswith("broker"):
            found = [entry for entry in found if entry["node"] == node]
        return [entry for entry in found if entry["fact"]["kind"] == kind]

    def facts(self, node: str, kind: str) -> list[dict[str, Any]]:
        return [entry["fact"] for entry in self.of(node, kind)]

    def times_of(self, node: str, kind: str) -> list[int]:
        return [entry["at_ms"] for entry in self.of(node, kind)]

    def killed_ms(self, node: str) -> int:
        (at_ms,) = (
            entry["at_ms"]
            for entry in self.entries
            if entry["fact"]["kind"] == "NodeKilled"
            and node in (entry["node"], *entry["fact"].values())
        )
        return int(at_ms)


def run_acting(
    script: Script,
    *,
    brokers: int = 1,
    slaves: int = 1,
    release: str = LAST_5,
    name_server_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> ActingRun:
    """Run *script* in a cluster of pairs of 5.3.3 that prepare before they are online."""
    ran = ActingRun()
    own = {**ACTING, "total_replicas": 1 + slaves, **settings}
    spec = ClusterSpec(
        brokers=brokers,
        slaves=slaves,
        release=release,
        broker_settings=own,
        name_server_settings=name_server_settings or {},
    )

    async def main(world: Any) -> None:
        cluster = ActingCluster(world, spec, ran.line)
        await cluster.start()

        async def program(process: Any) -> None:
            producing = Producer(
                process=process, namesrv=cluster.namesrv, group="shop", send_timeout_ms=9_000
            )
            network, clock = process.network, process.clock
            async with producing as producer, admin_on(network, clock, cluster.namesrv) as admin:
                cluster.admin = admin
                await script(cluster, producer)

        await cluster.start_client("client", program).wait_ended()

    run_virtual(main, seed=1)
    return ran

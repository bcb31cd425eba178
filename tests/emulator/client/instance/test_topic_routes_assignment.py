"""A broker assigns the queues of all brokers: it asks the NameServer for the topic's route."""

from __future__ import annotations

import trio

from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.running import (
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
)
from rocketmq_emulator.settings.releases import R_5_3_3
from tests.support.client.whole_cluster import in_cluster


def test_a_broker_looks_the_route_of_a_topic_up_once_it_is_asked_for() -> None:
    async def assigned(cluster, consumer, topic):
        body = QueryAssignmentRequestBody(
            topic=topic,
            consumer_group="cg",
            client_id=consumer.instance.client_id,
            strategy_name="AVG",
            message_model="CLUSTERING",
        )
        address = f"{cluster.world.network.host('broker-a').ip}:10911"
        reply = await consumer.instance.remoting.invoke(
            address,
            catalog.QUERY_ASSIGNMENT,
            None,
            encode_body(body, R_5_3_3),
            timeout_ms=3_000,
        )
        found = decode_body(reply.body, QueryAssignmentReply).message_queue_assignments
        return None if found is None else len(found)

    async def main(cluster):
        process = cluster.process()
        async with process, cluster.a_consumer(process, lambda _: None, {"T": "*"}) as consumer:
            await trio.sleep(2)
            before = await assigned(cluster, consumer, "T")
            nowhere = await assigned(cluster, consumer, "Nowhere")
            await cluster.create_topic("Later", 6)
            await trio.sleep(60)
            return before, nowhere, await assigned(cluster, consumer, "Later")

    assert in_cluster(main, release="5.3.3", T=4) == (4, None, 6)

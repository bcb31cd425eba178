"""A changed brokerPermission is in the routes before the tool gets its answer."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import RegisteredWith
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from tests.support.client.whole_cluster import in_cluster


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_changed_permission_registers_every_topic_again_at_once(release) -> None:
    async def main(cluster) -> list[int]:
        broker = f"{cluster.world.network.host('broker-a').ip}:10911"
        process = cluster.process("tool")
        found = []
        async with process, cluster.a_producer(process) as producer:
            invoke = producer.instance.remoting.invoke
            rounds = len(cluster.facts_of(RegisteredWith))
            for perm in (4, 6):
                text = b"brokerPermission=%d\n" % perm
                reply = await invoke(
                    broker, catalog.UPDATE_BROKER_CONFIG, body=text, timeout_ms=5_000
                )
                assert reply.code == 0
                request = GetRouteInfoRequest(topic="orders")
                reply = await invoke(
                    cluster.namesrv, catalog.GET_ROUTEINFO_BY_TOPIC, request, timeout_ms=5_000
                )
                found += [q.perm for q in decode_body(reply.body, TopicRouteData).queue_datas]
            assert len(cluster.facts_of(RegisteredWith)) == rounds + 2
        return found

    assert in_cluster(main, release=release, orders=2) == [4, 6]

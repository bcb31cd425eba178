"""A tool resets a group while its members are online: they consume again from there."""

from __future__ import annotations

import pytest
import trio

from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest
from tests.support.client.whole_cluster import in_cluster


async def reset_to_the_begin(producer: Producer, broker: str, topic: str) -> int:
    """Reset the group to the first offset; return the code of the broker's answer."""
    request = ResetOffsetRequest(topic=topic, group="cg", timestamp=0, is_force=True)
    reply = await producer.instance.remoting.invoke(
        broker, catalog.INVOKE_BROKER_TO_RESET_OFFSET, request, timeout_ms=5_000
    )
    return reply.code


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_a_reset_group_consumes_everything_again(release) -> None:
    bodies = []

    def listen(messages) -> None:
        bodies.extend(message.body for message in messages)

    async def main(cluster) -> int:
        broker = f"{cluster.world.network.host('broker-a').ip}:10911"
        process = cluster.process("tool")
        async with process, cluster.a_producer(process) as producer:
            await producer.send(Message("orders", b"second"))
            async with cluster.process() as app, cluster.a_consumer(app, listen, {"orders": "*"}):
                await trio.sleep(10)
                assert bodies == [b"first", b"second"]
                code = await reset_to_the_begin(producer, broker, "orders")
                await trio.sleep(40)
        return code

    assert in_cluster(main, release=release, orders=1) == 0
    assert bodies == [b"first", b"second"] * 2

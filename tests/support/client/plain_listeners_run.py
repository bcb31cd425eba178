"""Two consumers with plain functions as listeners in the virtual world; prints the journal.

python tests/support/client/plain_listeners_run.py SEED
"""

from __future__ import annotations

import sys
from typing import Any

import trio

from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import ClientProgram, VirtualCluster
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

MESSAGES = 100


def a_producer(namesrv: str) -> ClientProgram:
    async def program(process: ClientProcess) -> None:
        async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
            for number in range(MESSAGES):
                await producer.send(Message("orders", b"%d" % number))
                await trio.sleep(process.rng.uniform(0, 0.05))
        await trio.sleep_forever()

    return program


def a_consumer(namesrv: str, group: str, **settings: Any) -> ClientProgram:
    def on_orders(messages: list[MessageExt]) -> None:
        if messages[0].queue_offset % 10 == 3 and not messages[0].reconsume_times:
            raise ValueError(f"not {messages[0].body.decode()}")

    async def program(process: ClientProcess) -> None:
        consumer = PushConsumer(
            on_orders,
            {"orders": "*"},
            process=process,
            namesrv=namesrv,
            group=group,
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            listener_ms=7,
            **settings,
        )
        async with consumer:
            await trio.sleep_forever()

    return program


async def main(world: VirtualWorld) -> None:
    cluster = VirtualCluster(world, ClusterSpec(brokers=1), sys.stdout.buffer.write)
    await cluster.start()
    namesrv = cluster.namesrv
    cluster.start_client("concurrent", a_consumer(namesrv, "cg"))
    cluster.start_client("orderly", a_consumer(namesrv, "og", orderly=True))
    cluster.start_client("producer", a_producer(namesrv))
    await trio.sleep_until(40)


if __name__ == "__main__":
    run_virtual(main, seed=int(sys.argv[1]))

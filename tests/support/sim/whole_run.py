"""Ten virtual minutes of a cluster that loses a broker for one of them; prints its journal.

python tests/support/sim/whole_run.py SEED
"""

from __future__ import annotations

import sys

import trio

from rocketmq_emulator.admin.calls import Admin
from rocketmq_emulator.client import ClientConfig, Message, Producer, SendError
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import ClientProgram, VirtualCluster
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

TOPIC, GROUP = "orders", "billing"
KILLED_S, RESTARTED_S, SENDS_END_S, END_S = 190, 250, 540, 600


def a_tool(namesrv: str) -> ClientProgram:
    async def program(process: ClientProcess) -> None:
        instance = await process.instance(ClientConfig(namesrv=namesrv))
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4)
        await Admin(namesrv, instance.remoting).create_topic_everywhere(topic)

    return program


def a_producer(namesrv: str, sends_end_s: float = SENDS_END_S) -> ClientProgram:
    async def program(process: ClientProcess) -> None:
        async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
            number = 0
            while trio.current_time() < sends_end_s:
                number += 1
                try:
                    await producer.send(Message(TOPIC, f"order {number}".encode()))
                except SendError:
                    await trio.sleep(1)  # the journal has the failure
                await trio.sleep(process.rng.uniform(0.1, 0.5))
        await trio.sleep_forever()

    return program


def a_consumer(namesrv: str) -> ClientProgram:
    async def on_orders(messages: list[MessageExt]) -> None:
        await trio.sleep(0.01)

    async def program(process: ClientProcess) -> None:
        async with PushConsumer(
            on_orders, {TOPIC: "*"}, process=process, namesrv=namesrv, group=GROUP
        ):
            await trio.sleep_forever()

    return program


async def main(world: VirtualWorld) -> None:
    cluster = VirtualCluster(world, ClusterSpec(brokers=2), sys.stdout.buffer.write)
    await cluster.start()
    await cluster.start_client("tool", a_tool(cluster.namesrv)).wait_ended()
    for name in ("consumer-a", "consumer-b", "consumer-c"):
        cluster.start_client(name, a_consumer(cluster.namesrv))
    cluster.start_client("producer", a_producer(cluster.namesrv))
    await trio.sleep_until(KILLED_S)
    cluster.kill("broker-b")
    await trio.sleep_until(RESTARTED_S)
    await cluster.restart("broker-b")
    await trio.sleep_until(END_S)


if __name__ == "__main__":
    run_virtual(main, seed=int(sys.argv[1]))

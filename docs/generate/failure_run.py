"""Eleven virtual minutes in which consumers and a broker die or fall silent; prints a journal.

    python -m docs.generate.failure_run > journal.jsonl

The tables of docs/failures.md are from this run, which is the same each time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.admin.calls import Admin
from rocketmq_emulator.client import ClientConfig, Message, Producer, PushConsumer, SendError
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

if TYPE_CHECKING:
    from rocketmq_emulator.client import ClientProcess
    from rocketmq_emulator.protocol.messages.message import MessageExt

SEED = 1
TOPIC, GROUP = "orders", "billing"
SEND_EVERY_S = 0.2
CONSUMERS = ("consumer-a", "consumer-b", "consumer-c")

CONSUMER_KILLED_S, CONSUMER_BACK_S = 60, 100
CONSUMER_SILENT_S = 150
BROKER_KILLED_S, BROKER_BACK_S = 330, 375
BROKER_SILENT_S = 450
END_S = 660


async def main(world: VirtualWorld) -> None:
    cluster = VirtualCluster(world, ClusterSpec(brokers=2), sys.stdout.buffer.write)
    namesrv = await _started(cluster)
    for name in CONSUMERS:
        cluster.start_client(name, lambda process: _consume(process, namesrv))
    cluster.start_client("producer", lambda process: _produce(process, namesrv))

    await trio.sleep_until(CONSUMER_KILLED_S)
    cluster.kill("consumer-b")
    await trio.sleep_until(CONSUMER_BACK_S)
    await cluster.restart("consumer-b")

    await trio.sleep_until(CONSUMER_SILENT_S)
    cluster.power_off("consumer-c")

    await trio.sleep_until(BROKER_KILLED_S)
    cluster.kill("broker-b")
    await trio.sleep_until(BROKER_BACK_S)
    await cluster.restart("broker-b")

    await trio.sleep_until(BROKER_SILENT_S)
    cluster.power_off("broker-b")
    await trio.sleep_until(END_S)


async def _started(cluster: VirtualCluster) -> str:
    await cluster.start()
    namesrv = cluster.namesrv

    async def make_topic(process: ClientProcess) -> None:
        instance = await process.instance(ClientConfig(namesrv=namesrv))
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4)
        await Admin(namesrv, instance.remoting).create_topic_everywhere(topic)

    await cluster.start_client("tool", make_topic).wait_ended()
    return namesrv


async def _produce(process: ClientProcess, namesrv: str) -> None:
    """Start a send every SEND_EVERY_S, without waiting for the previous sends."""
    async with (
        Producer(process=process, namesrv=namesrv, group="shop") as producer,
        trio.open_nursery() as nursery,
    ):
        while True:
            nursery.start_soon(_send, producer)
            await trio.sleep(SEND_EVERY_S)


async def _send(producer: Producer) -> None:
    try:
        await producer.send(Message(TOPIC, b"an order"))
    except SendError:
        return  # the journal has a SendFailed


async def _consume(process: ClientProcess, namesrv: str) -> None:
    async def on_orders(_messages: list[MessageExt]) -> None:
        await trio.sleep(0.01)

    async with PushConsumer(
        on_orders, {TOPIC: "*"}, process=process, namesrv=namesrv, group=GROUP
    ):
        await trio.sleep_forever()


if __name__ == "__main__":
    run_virtual(main, seed=SEED)

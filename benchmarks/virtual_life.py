"""The speed of an idle cluster in virtual time: three brokers, ten consumers, no load.

    python -m benchmarks.virtual_life VIRTUAL_SECONDS   # prints virtual seconds per real second

It runs in its own process because a virtual world needs one.
"""

from __future__ import annotations

import json
import sys
import time

import trio

from rocketmq_emulator.client import ClientProcess, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import ClientProgram, VirtualCluster
from rocketmq_emulator.protocol.messages.message import Message, MessageExt
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

CONSUMERS = 10
TOPIC = "idle"
SETTLED_S = 120.0  # all clients are registered, queues are allocated


def nothing(messages: list[MessageExt]) -> None:
    """A listener without effect: no messages are sent while it listens."""


def a_sender(namesrv: str) -> ClientProgram:
    """A program that creates the topic on every broker by sending messages."""

    async def program(process: ClientProcess) -> None:
        async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
            for _ in range(24):
                await producer.send(Message(TOPIC, b"one"))

    return program


def a_consumer(namesrv: str) -> ClientProgram:
    async def program(process: ClientProcess) -> None:
        async with PushConsumer(
            nothing,
            {TOPIC: "*"},
            process=process,
            namesrv=namesrv,
            group="idlers",
            listeners_inline=True,
        ):
            await trio.sleep_forever()

    return program


async def live(world: VirtualWorld, seconds: float) -> dict[str, float]:
    cluster = VirtualCluster(world, ClusterSpec(brokers=3))
    await cluster.start()
    await cluster.start_client("sender", a_sender(cluster.namesrv)).wait_ended()
    for number in range(CONSUMERS):
        cluster.start_client(f"consumer-{number}", a_consumer(cluster.namesrv))
    await trio.sleep_until(SETTLED_S)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await trio.sleep(seconds)
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return {
        "virtual_s": seconds,
        "virtual_per_real_s": seconds / took_s,
        "virtual_per_cpu_s": seconds / cpu_s,
    }


async def main(world: VirtualWorld) -> dict[str, float]:
    return await live(world, float(sys.argv[1]))


if __name__ == "__main__":
    print(json.dumps(run_virtual(main, seed=1)))

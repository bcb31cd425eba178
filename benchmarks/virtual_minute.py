"""CPU seconds of a virtual minute with 0, 10 and 100 messages/s, also of older commits.

    python -m benchmarks.virtual_minute
    PYTHONPATH=OTHER_CHECKOUT python -P benchmarks/virtual_minute.py   # the code of another commit

Three brokers, five consumers, one producer, no scenario.  Compare two commits in turns.
"""

from __future__ import annotations

import json
import time

import trio

from rocketmq_emulator.client import ClientProcess, Message, MessageExt, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

VIRTUAL_S = 60
RATES = (0, 10, 100)


def main() -> dict[str, float]:
    live(10)  # imports the modules
    return {str(rate): round(cpu_s(rate), 3) for rate in RATES}


def cpu_s(rate: int) -> float:
    began_s = time.process_time()
    sent, came = live(rate)
    took_s = time.process_time() - began_s
    if came < sent - 1:  # the last one may still be in flight
        raise RuntimeError(f"{sent} messages were sent, {came} were consumed")
    return took_s


def live(rate: int) -> tuple[int, int]:
    """The numbers of sent and of consumed messages."""
    counts = {"sent": 0, "came": 0}

    async def life(world: VirtualWorld) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=3))
        await cluster.start()

        async def listen(messages: list[MessageExt]) -> None:
            counts["came"] += len(messages)

        async def consume(process: ClientProcess) -> None:
            topics, namesrv = {"orders": "*"}, cluster.namesrv
            async with PushConsumer(
                listen, topics, process=process, namesrv=namesrv, group="billing"
            ):
                await trio.sleep_forever()

        async def produce(process: ClientProcess) -> None:
            namesrv = cluster.namesrv
            async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
                while True:
                    await producer.send(Message("orders", b"x" * 100))
                    counts["sent"] += 1
                    await trio.sleep(1 / rate)

        for number in range(5):
            cluster.start_client(f"consumer-{number}", consume)
        if rate:
            cluster.start_client("producer", produce)
        await trio.sleep(VIRTUAL_S)

    run_virtual(life, seed=1)
    return counts["sent"], counts["came"]


if __name__ == "__main__":
    print(json.dumps(main()))

"""Kills and restarts consumers and brokers and cuts links, at random; prints the outcome.

python tests/durability/random_kills_run.py SEED [eager]   # eager: commits before it consumes
"""

from __future__ import annotations

import json
import sys
from random import Random

import trio

from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
from rocketmq_emulator.client.consumer.push.consume_concurrently import ConsumeConcurrently
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import ClientProgram, VirtualCluster
from rocketmq_emulator.facts import HandlerFailed, MessageConsumed, MessageSent
from rocketmq_emulator.faults.links_and_drives import Cut, Rule, Stall, between
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual
from tests.support.sim.whole_run import GROUP, TOPIC, a_producer, a_tool

SENDS_END_S, END_S = 200, 400
CONSUMERS = ["consumer-a", "consumer-b", "consumer-c"]


def a_slow_consumer(namesrv: str) -> ClientProgram:
    """Each message takes up to four seconds, so that a killed consumer has unfinished ones."""

    async def program(process: ClientProcess) -> None:
        async def on_orders(messages: list[MessageExt]) -> None:
            await trio.sleep(process.rng.uniform(0.1, 4))

        async with PushConsumer(
            on_orders, {TOPIC: "*"}, process=process, namesrv=namesrv, group=GROUP
        ):
            await trio.sleep_forever()

    return program


def commit_when_pulled() -> None:
    """Break the client: it commits messages as soon as it has pulled them."""
    submit = ConsumeConcurrently.submit

    def eager(
        service: ConsumeConcurrently,
        messages: list[MessageExt],
        process_queue: ProcessQueue,
        queue: MessageQueue,
        *more: bool,
    ) -> None:
        if messages:
            service._member.offsets.table.raise_to(queue, messages[-1].queue_offset + 1)
        submit(service, messages, process_queue, queue, *more)

    ConsumeConcurrently.submit = eager  # type: ignore[method-assign,assignment]


async def main(world: VirtualWorld) -> list[bytes]:
    lines: list[bytes] = []
    rng = world.rng("kills")
    cluster = VirtualCluster(world, ClusterSpec(brokers=2), lines.append)
    await cluster.start()
    await cluster.start_client("tool", a_tool(cluster.namesrv)).wait_ended()
    for name in CONSUMERS:
        cluster.start_client(name, a_slow_consumer(cluster.namesrv))
        await trio.sleep(rng.uniform(0, 3))
    cluster.start_client("producer", a_producer(cluster.namesrv, SENDS_END_S))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill_consumers, cluster, rng)
        nursery.start_soon(kill_brokers, cluster, rng)
        nursery.start_soon(cut_off, cluster, rng)
    await trio.sleep_until(END_S)
    return lines


async def kill_consumers(cluster: VirtualCluster, rng: Random) -> None:
    for name in rng.sample(CONSUMERS, 2):
        await trio.sleep(rng.uniform(8, 40))
        cluster.kill(name)
        await trio.sleep(rng.uniform(0.001, 30))
        cluster.start_client(f"{name}-again", a_slow_consumer(cluster.namesrv))


async def kill_brokers(cluster: VirtualCluster, rng: Random) -> None:
    for _ in range(3):
        await trio.sleep(rng.uniform(5, 40))
        broker = rng.choice(["broker-a", "broker-b"])
        cluster.kill(broker)
        await trio.sleep(rng.uniform(0.001, 12))
        await cluster.restart(broker)


async def cut_off(cluster: VirtualCluster, rng: Random) -> None:
    """Block the link between a random consumer and a random broker, twice."""
    for verdict in (Cut(), Stall()):
        await trio.sleep(rng.uniform(1, 50))
        broker = rng.choice(["broker-a", "broker-b"])
        with cluster.link(Rule(between(rng.choice(CONSUMERS), broker), verdict)):
            await trio.sleep(rng.uniform(1, 45))


def came_through(lines: list[bytes]) -> dict[str, object]:
    """The number of acknowledged messages, the keys never consumed, and errors of handlers."""
    facts = [json.loads(line)["fact"] for line in lines]
    keys = {
        kind: {fact["uniq_key"] for fact in facts if fact["kind"] == kind}
        for kind in (MessageSent.__name__, MessageConsumed.__name__)
    }
    lost = keys[MessageSent.__name__] - keys[MessageConsumed.__name__]
    bugs = [fact["error"] for fact in facts if fact["kind"] == HandlerFailed.__name__]
    return {"sent": len(keys[MessageSent.__name__]), "lost": sorted(lost), "bugs": bugs}


if __name__ == "__main__":
    if "eager" in sys.argv:
        commit_when_pulled()
    sys.stdout.write(json.dumps(came_through(run_virtual(main, seed=int(sys.argv[1])))))

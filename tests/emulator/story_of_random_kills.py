"""A consumer dies, then brokers die and come back, when the seed says; prints what came through.

python story_of_random_kills.py SEED
"""

from __future__ import annotations

import json
import sys

import trio
from story_of_two_worlds import a_consumer, a_producer, a_tool

from emulator.cluster.spec import ClusterSpec
from emulator.cluster.virtual import VirtualCluster
from emulator.facts import HandlerFailed, MessageConsumed, MessageSent
from emulator.sim.world import VirtualWorld, run_virtual

SENDS_END_S, END_S = 200, 330


async def main(world: VirtualWorld) -> list[bytes]:
    lines: list[bytes] = []
    rng = world.rng("kills")
    cluster = VirtualCluster(world, ClusterSpec(brokers=2), lines.append)
    await cluster.start()
    await cluster.start_client("tool", a_tool(cluster.namesrv)).wait_ended()
    for name in ("consumer-a", "consumer-b", "consumer-c"):
        cluster.start_client(name, a_consumer(cluster.namesrv))
        await trio.sleep(rng.uniform(0, 3))
    cluster.start_client("producer", a_producer(cluster.namesrv, SENDS_END_S))
    await trio.sleep(rng.uniform(3, 8))
    cluster.kill("consumer-b")
    for _ in range(3):
        await trio.sleep(rng.uniform(2, 30))
        broker = rng.choice(["broker-a", "broker-b"])
        cluster.kill(broker)
        await trio.sleep(rng.uniform(0.001, 12))
        await cluster.restart(broker)
    await trio.sleep_until(END_S)
    return lines


def came_through(lines: list[bytes]) -> dict[str, object]:
    """What was acknowledged, what of it was never consumed, and bugs that surfaced."""
    facts = [json.loads(line)["fact"] for line in lines]
    keys = {
        kind: {fact["uniq_key"] for fact in facts if fact["kind"] == kind}
        for kind in (MessageSent.__name__, MessageConsumed.__name__)
    }
    lost = keys[MessageSent.__name__] - keys[MessageConsumed.__name__]
    bugs = [fact["error"] for fact in facts if fact["kind"] == HandlerFailed.__name__]
    return {"sent": len(keys[MessageSent.__name__]), "lost": sorted(lost), "bugs": bugs}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(came_through(run_virtual(main, seed=int(sys.argv[1])))))

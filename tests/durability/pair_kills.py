"""``kill -9`` of masters and slaves under load: what a replica is promised to have, it has.

    python -m tests.durability.pair_kills MODE RELEASE SEED KILLS FOLDER

A pair is a broker name with two replicas, in processes.  With fixed roles, sends that ended with
SEND_OK are promised to both: after the death of the master the other one has all of them.  With a
controller they are promised to whoever is the master then.  Prints one line of JSON: the kills,
the promised messages, and the missing ones.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import trio

from rocketmq_emulator.client import Message, Producer, SendStatus
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.tasks import cancelling_nursery
from tests.durability.killed_cluster import SMALL, Questions, questions_to

TOPIC, QUEUES, SENDERS = "orders", 2, 4
SEND_MS_MAX = 2_000
MASTER, SLAVE, CONTROLLER = "broker-a", "broker-a-1", "controller"
PROMISED_S_MAX = 150.0  # until a send is promised again after a kill
SETTLED_S_MAX = 60.0
TOPIC_S_MAX = 150.0
QUICK = {  # so that a slave is back in less than a second
    "ha_heartbeat_interval_ms": 200,
    "ha_connect_interval_ms": 100,
    "slave_ack_ms_max": 1_000,
    "slave_read": True,
}


class Mode(msgspec.Struct, frozen=True):
    """How a pair replicates and flushes."""

    settings: Mapping[str, Any]
    controllers: int = 0


FLUSHED = {"broker_role": "SYNC_MASTER", "flush_disk_type": "SYNC_FLUSH"}
MODES: Mapping[tuple[str, str], Mode] = MappingProxyType(
    {
        ("sync", "4.9.7"): Mode(FLUSHED),
        ("sync", "5.3.3"): Mode({**FLUSHED, "in_sync_replicas": 2}),
        ("controller", "5.3.3"): Mode(
            {"all_ack_in_sync_state_set": True, "flush_disk_type": "SYNC_FLUSH"}, controllers=1
        ),
    }
)


@dataclasses.dataclass
class Ledger:
    """What was promised: bodies by queue and offset; and how often a message was missing."""

    promised: dict[tuple[int, int], bytes] = dataclasses.field(default_factory=dict)
    missing: list[str] = dataclasses.field(default_factory=list)
    kills: int = 0
    more: trio.Event = dataclasses.field(default_factory=trio.Event)

    def promise(self, place: tuple[int, int], body: bytes) -> None:
        self.promised[place] = body
        self.more.set()
        self.more = trio.Event()

    async def wait_more(self, count: int) -> None:
        """Wait until *count* more messages are promised."""
        wanted = len(self.promised) + count
        with trio.fail_after(PROMISED_S_MAX):
            while len(self.promised) < wanted:
                await self.more.wait()


class Asked(Questions):
    """Requests to one replica."""

    def __init__(self, cluster: ProcessCluster, node: str, remoting: RemotingClient) -> None:
        super().__init__(cluster, remoting)
        self.address = cluster.brokers[node]

    async def bodies(self) -> dict[tuple[int, int], bytes]:
        """All messages by queue and offset."""
        return {
            (queue_id, message.queue_offset): message.body
            for queue_id in range(QUEUES)
            for message in await self.messages(TOPIC, queue_id)
        }


async def kill_again_and_again(
    mode: Mode, release: str, seed: int, kills: int, folder: Path
) -> Ledger:
    """Kill a replica *kills* times under load, and look for what was promised each time."""
    chance, ledger = random.Random(seed), Ledger()
    with a_pair(mode, release, folder) as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic(TOPIC, QUEUES)
            await have_topic(Asked(cluster, SLAVE, ask._remoting), release)
            async with (
                Producer(namesrv=cluster.namesrv, group="load") as producer,
                cancelling_nursery() as nursery,
            ):
                for number in range(SENDERS):
                    nursery.start_soon(send_on, producer, ledger, number)
                kill = kill_any if mode.controllers else kill_one
                for _ in range(kills):
                    await ledger.wait_more(chance.randint(1, 60))
                    await kill(cluster, chance, ask, ledger)
                await ledger.wait_more(20)
                nursery.cancel_scope.cancel()
            await look_for_all(cluster, MASTER, ask, ledger)
            await look_for_all(cluster, SLAVE, ask, ledger)
    return ledger


async def have_topic(slave: Questions, release: str) -> None:
    """A slave copies topics after 10 s (4.x) or 60 s (5.x); one of 5.x also creates them."""
    if release >= "5":
        await slave.create_topic(TOPIC, QUEUES)
    with trio.fail_after(TOPIC_S_MAX):
        while TOPIC not in await slave.topics():  # noqa: ASYNC110  # another process copies it
            await trio.sleep(0.2)


@contextmanager
def a_pair(mode: Mode, release: str, folder: Path) -> Iterator[ProcessCluster]:
    spec = ClusterSpec(
        brokers=1,
        slaves=1,
        controllers=mode.controllers,
        release=release,
        store=str(folder / "store"),
        broker_settings={**SMALL, **QUICK, **mode.settings},
    )
    with ProcessCluster(spec) as cluster:
        yield cluster


async def send_on(producer: Producer, ledger: Ledger, sender: int) -> None:
    """Send without end; only what ended with SEND_OK is promised."""
    number = 0
    while True:
        number += 1
        body = b"%d-%d " % (sender, number) + b"x" * (number % 700)
        try:
            result = await producer.send(Message(TOPIC, body), timeout_ms=SEND_MS_MAX)
        except SendError:
            await trio.sleep(0.02)  # nobody is there
        else:
            if result.status is SendStatus.SEND_OK:
                ledger.promise((result.queue.queue_id, result.queue_offset), body)


async def kill_one(
    cluster: ProcessCluster, chance: random.Random, ask: Questions, ledger: Ledger
) -> None:
    """Kill one of both in the middle of sends, look at the other one, start it again."""
    killed = chance.choice((MASTER, SLAVE))
    other = SLAVE if killed == MASTER else MASTER
    os.kill(cluster.pids[killed], signal.SIGKILL)
    ledger.kills += 1
    if killed == MASTER:
        await look_for_all(cluster, other, ask, ledger)
    await trio.to_thread.run_sync(cluster.restart, killed)


async def kill_any(
    cluster: ProcessCluster, chance: random.Random, ask: Questions, ledger: Ledger
) -> None:
    """Kill a replica, or now and then the controller, start it again, look at the master."""
    killed = chance.choice((MASTER, SLAVE, MASTER, SLAVE, CONTROLLER))
    os.kill(cluster.pids[killed], signal.SIGKILL)
    ledger.kills += 1
    await trio.to_thread.run_sync(cluster.restart, killed)
    await look_for_all(cluster, await master_of(cluster, ask), ask, ledger)


async def master_of(cluster: ProcessCluster, ask: Questions) -> str:
    """The node that the NameServer has as the master, once it has one."""
    with trio.fail_after(PROMISED_S_MAX):
        while True:
            address = (await ask.admin.masters()).get(MASTER)
            for node in (MASTER, SLAVE):
                if cluster.brokers[node] == address:
                    return node
            await trio.sleep(0.1)


async def look_for_all(cluster: ProcessCluster, node: str, ask: Questions, ledger: Ledger) -> None:
    """Note what was promised until now and is not at *node*."""
    promised = dict(ledger.promised)
    asked = Asked(cluster, node, ask._remoting)
    missing = set(promised)
    with trio.move_on_after(SETTLED_S_MAX):  # a slave reads its last bytes a moment later
        while True:
            found = await asked.bodies()
            missing = {place for place, body in promised.items() if found.get(place) != body}
            if not missing:
                return
            await trio.sleep(0.1)
    ledger.missing += [f"{node} lacks {place} after {ledger.kills} kills" for place in missing]


def main() -> None:
    name, release, seed, kills, folder = sys.argv[1:]
    mode = MODES[name, release]
    run = functools.partial(
        kill_again_and_again, mode, release, int(seed), int(kills), Path(folder)
    )
    ledger = trio.run(run)
    found = {"kills": ledger.kills, "promised": len(ledger.promised), "missing": ledger.missing}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

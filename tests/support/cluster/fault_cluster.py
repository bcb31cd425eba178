"""A cluster of any world, and clients that call it: for tests of faults."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from rocketmq_emulator.admin.calls import Admin, AdminError
from rocketmq_emulator.client import ClientConfig, Message, Producer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import World, perform
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import ClientError
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.sim.world import run_virtual

REAL_WORLDS = {"embedded": EmbeddedCluster, "processes": ProcessCluster}
BROKER, TOPIC = "broker-a", "orders"
ANSWER_S_MAX, SETTLE_S_MAX = 1.0, 10.0
FLUSHED = {"flush_disk_type": "SYNC_FLUSH"}


class FaultBench:
    def __init__(self, world: World, journal: Callable[[str], list[dict[str, Any]]]) -> None:
        self.world = world
        self._journal = journal
        self._clients = self._topics = 0

    async def begin(self, fault: Any, *more: Any) -> int:
        return await perform(self.world, self.world.begin_fault, fault, *more)

    async def end(self, fault_id: int) -> bool:
        return await perform(self.world, self.world.end_fault, fault_id)

    async def ask(self, question: Callable[[ClientProcess], Awaitable[Any]]) -> Any:
        """The result of *question*, run in a client process of this world."""
        answers: list[Any] = []

        async def program(process: ClientProcess) -> None:
            answers.append(await question(process))

        if isinstance(self.world, VirtualCluster):
            self._clients += 1
            await self.world.start_client(f"looker-{self._clients}", program).wait_ended()
        else:
            async with ClientProcess() as process:
                await program(process)
        return answers[0]

    async def admin(self, question: Callable[[Admin], Awaitable[Any]]) -> Any:
        """The result of *question*; None after an error, or without an answer within a second."""

        async def asked(process: ClientProcess) -> Any:
            instance = await process.instance(ClientConfig(namesrv=self.world.namesrv))
            with trio.move_on_after(ANSWER_S_MAX):
                try:
                    return await question(Admin(self.world.namesrv, instance.remoting))
                except AdminError:
                    return None
            return None

        return await self.ask(asked)

    async def answers(self) -> bool:
        address = self.world.brokers[BROKER]
        return await self.admin(lambda admin: admin.topics(address)) is not None

    async def make_topic(self, name: str = TOPIC) -> None:
        topic = TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
        await self.admin(lambda admin: admin.create_topic(self.world.brokers[BROKER], topic))

    async def perms(self, topic: str = TOPIC) -> list[int]:
        """The permissions of the topic's queues in its route."""
        route = await self.admin(lambda admin: admin.route(topic))
        return [data.perm for data in route.queue_datas]

    async def is_routed(self) -> bool:
        masters = await self.admin(lambda admin: admin.masters())
        return BROKER in (masters or ())

    async def until(self, question: Callable[[], Awaitable[bool]]) -> None:
        with trio.fail_after(SETTLE_S_MAX):
            while not await question():  # noqa: ASYNC110  # another process changes it
                await trio.sleep(0.05)

    async def send(self) -> tuple[str, float]:
        """Send a message; return its status or the error's name, and the milliseconds it took."""
        queue = MessageQueue(TOPIC, BROKER, 0)

        async def sent(process: ClientProcess) -> tuple[str, float]:
            namesrv = self.world.namesrv
            async with Producer(process=process, namesrv=namesrv, group="shop") as producer:
                began_s = trio.current_time()
                try:
                    result = await producer.send(Message(TOPIC, b"an order"), queue=queue)
                    status = result.status.name
                except ClientError as error:
                    status = type(error).__name__
                return status, (trio.current_time() - began_s) * 1_000

        found: tuple[str, float] = await self.ask(sent)
        return found

    async def ahead_ms(self) -> int:
        """How far the broker's clock is ahead, by the time of a new fact."""
        self._topics += 1
        await self.make_topic(f"topic-{self._topics}")
        ours_ms = time.time_ns() // 1_000_000
        if isinstance(self.world, VirtualCluster):
            ours_ms = self.world.world.now_ms()
        theirs_ms: int = self._journal(BROKER)[-1]["at_ms"]
        return theirs_ms - ours_ms

    def facts(self, *kinds: str) -> list[dict[str, Any]]:
        """The world's facts of these *kinds*."""
        return [
            entry["fact"] for entry in self._journal("world") if entry["fact"]["kind"] in kinds
        ]


Check = Callable[[FaultBench], Awaitable[None]]


def play(steps: Check, kind: str = "virtual", journal: Path | None = None, **fields: Any) -> None:
    """Run *steps* in a world of *kind*, with one broker and a topic."""
    spec = ClusterSpec(**{"brokers": 1, "store": "drive", "broker_settings": FLUSHED, **fields})

    async def run_check(bench: FaultBench) -> None:
        await bench.make_topic()
        await steps(bench)

    if kind == "virtual":

        async def main(world: Any) -> None:
            lines: list[bytes] = []

            def read(node: str) -> list[dict[str, Any]]:
                return [e for e in map(msgspec.json.decode, lines) if e["node"] == node]

            cluster = VirtualCluster(world, spec, lines.append)
            await cluster.start()
            await run_check(FaultBench(cluster, read))

        run_virtual(main, seed=1)
        return
    assert journal is not None
    with REAL_WORLDS[kind](spec, journal=str(journal)) as cluster:
        trio.run(run_check, bench_of(cluster, journal))


def bench_of(cluster: World, journal: Path) -> FaultBench:
    def read(node: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (journal / f"{node}.jsonl").read_text().splitlines()]

    return FaultBench(cluster, read)

"""A NameServer, brokers, producers and consumers, all real ones, on the virtual network.

def test_…() -> None:
    async def main(cluster): …
    in_cluster(main)
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import trio

from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.client.consumer.pull.lite_pull_consumer import LitePullConsumer
from rocketmq_emulator.client.consumer.pull.pull_consumer import PullConsumer
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.client.instance.process import ClientProcess
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import EPOCH_MS, run_virtual


def in_cluster(steps, *, seed=1, release="4.9.7", broker_settings=None, **topics):
    """Run ``main(cluster)``; *topics* are created with that many queues on one broker."""

    async def main(world):
        cluster = WholeCluster(world, release)
        await cluster.start_name_server()
        await cluster.start_broker("broker-a", **(broker_settings or {}))
        for topic, queues in topics.items():
            await cluster.create_topic(topic, queues)
        return await steps(cluster)

    return run_virtual(main, seed=seed, latency=Latency(us_min=0, us_max=0))


class WholeCluster:
    def __init__(self, world, release) -> None:
        self.world = world
        self.release = release
        self.facts: list[Fact] = []
        self.entries: list[tuple[float, Fact]] = []
        self.clock = WallClock(EPOCH_MS, 0.0)
        self.namesrv = f"{world.network.host('namesrv').ip}:9876"
        self.stops: dict[str, Any] = {}

    def now_s(self) -> float:
        return (self.world.now_ms() - EPOCH_MS) / 1000

    def note(self, fact) -> None:
        self.facts.append(fact)
        self.entries.append((self.now_s(), fact))

    async def start_name_server(self) -> None:
        config = NameServerConfig(release=self.release, listen_address=self.namesrv)
        await self._serve("namesrv", partial(serve_name_server, config))

    async def start_broker(self, name, **settings) -> None:
        config = BrokerConfig(
            release=self.release,
            name=name,
            namesrv=(self.namesrv,),
            listen_address=f"{self.world.network.host(name).ip}:10911",
            **settings,
        )
        await self._serve(name, partial(serve_broker, config))

    async def _serve(self, name, serve) -> None:
        stop = self.stops[name] = trio.Event()
        arguments = {
            "network": self.world.network.host(name),
            "disk": MemoryDisk(),
            "clock": self.clock,
            "stop": stop,
            "rng": random.Random(name),
            "journal": Journal(name, self.clock, listeners=[lambda e: self.note(e.fact)]),
        }
        await self.world.nursery.start(partial(serve, **arguments))

    async def create_topic(self, topic, queues=4) -> None:
        """Send a first message: it creates the topic, and then the route is registered."""
        process = self.process("creator")
        async with process, self.a_producer(process, default_topic_queues=queues) as producer:
            await producer.send(Message(topic, b"first"))

    def process(self, name="app") -> ClientProcess:
        host = self.world.network.host(name)
        return ClientProcess(
            network=host,
            clock=self.clock,
            rng=random.Random(name),
            note=self.note,
            ip=host.ip,
            pid=7,
        )

    def a_producer(self, process, **settings) -> Producer:
        named = {"group": "pg", "namesrv": self.namesrv, "release": self.release, **settings}
        return Producer(process=process, **named)

    def a_consumer(self, process, listener, topics, **settings) -> PushConsumer:
        named = {
            "group": "cg",
            "namesrv": self.namesrv,
            "release": self.release,
            "listeners_inline": True,
            "client_ip": process.ip,
            **settings,
        }
        return PushConsumer(listener, topics, process=process, **named)

    def a_pull_consumer(self, process, **settings) -> PullConsumer:
        return PullConsumer(process=process, **self._of_member(process, settings))

    def a_lite_consumer(self, process, topics=None, **settings) -> LitePullConsumer:
        return LitePullConsumer(topics, process=process, **self._of_member(process, settings))

    def _of_member(self, process, settings):
        named = {"group": "cg", "namesrv": self.namesrv, "release": self.release}
        return {**named, "client_ip": process.ip, **settings}

    def facts_of(self, kind):
        return [fact for fact in self.facts if isinstance(fact, kind)]

"""One broker and its NameServers in virtual time; they keep its registrations."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import trio

from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import (
    DelayedDelivered,
    MetadataSynced,
    MetadataSyncFailed,
    RegisteredWith,
    RegistrationFailing,
    RegistrationRecovered,
    StartedWithoutNameServer,
)
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import Call, Reply, Result, Wait
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    decode_register_broker,
)
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerReply
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.config import BrokerConfig, NetConfig
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import EPOCH_MS, VirtualWorld, run_virtual

LAST_4, LAST_5 = "4.9.7", "5.3.3"
T = TypeVar("T")
FIRST_SEND = SendMessageRequestV2(
    producer_group="pg",
    topic="New",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
)


class FakeNameServer:
    """Keeps times and topics of the registrations, and answers *late_ms* later."""

    def __init__(self, bench: RegistrationBench, late_ms: int) -> None:
        self._bench = bench
        self._late_ms = late_ms
        self.times_s: list[float] = []
        self.registered: list[RegisterBrokerBody] = []
        self.one_ways: list[bool] = []
        self.goodbyes_s: list[float] = []
        self.addresses: list[str] = []  # of the broker, in each request
        self.ordered = b""
        self.master: str | None = None  # of the broker, in each answer
        self.refusal: str | None = None
        self.server = RemotingServer(
            bench.clock,
            NetConfig(),
            bench.release,
            lambda _fact: None,
            {
                RequestCode.REGISTER_BROKER: (catalog.REGISTER_BROKER, self.register),
                RequestCode.UNREGISTER_BROKER: (catalog.UNREGISTER_BROKER, self.unregister),
            },
        )

    def register(self, call: Call[Any]) -> Result:
        self.times_s.append(self._bench.now_s())
        self.addresses.append(call.request.broker_addr)
        self.registered.append(decode_register_broker(call.body, call.command.version))
        self.one_ways.append(call.command.is_one_way)
        until_ms = call.now_ms + self._late_ms
        done = Reply(RegisterBrokerReply(master_addr=self.master), self.ordered)
        if self.refusal is not None:
            done = Reply(code=ResponseCode.SYSTEM_ERROR, remark=self.refusal)
        return Wait(object(), until_ms, lambda _now_ms, _expired: done)

    def unregister(self, call: Call[Any]) -> Result:
        self.addresses.append(call.request.broker_addr)
        self.goodbyes_s.append(self._bench.now_s())
        return Reply()

    def topics(self, turn: int) -> set[str]:
        return set(self.registered[turn].topic_config_serialize_wrapper.topic_config_table)


class RegistrationBench:
    """One broker, its NameServers, and a client."""

    def __init__(self, world: VirtualWorld, release: str) -> None:
        self.world = world
        self.release = Release.parse(release)
        self.clock = WallClock(EPOCH_MS, 0.0)
        self.stop = trio.Event()
        self.rounds: list[RegisteredWith] = []
        self.troubles: list[RegistrationFailing | RegistrationRecovered] = []
        self.alone: list[StartedWithoutNameServer] = []
        self.synced: list[MetadataSynced | MetadataSyncFailed] = []
        self.delivered_s: list[float] = []  # when, of delayed messages
        self.disk = MemoryDisk()  # of the broker
        self.namesrv: list[str] = []
        host = world.network.host("client")
        self._client = RemotingClient(
            host,
            world.nursery,
            clock=self.clock,
            config=NetConfig(),
            release=self.release,
            note=lambda _fact: None,
            handlers={},
        )

    def now_s(self) -> float:
        return (self.clock.now_ms() - EPOCH_MS) / 1_000

    async def name_server(self, name: str, late_ms: int = 0) -> FakeNameServer:
        host = self.world.network.host(name)
        address = f"{host.ip}:9876"
        if address not in self.namesrv:
            self.namesrv.append(address)
        fake = FakeNameServer(self, late_ms)
        await fake.server.serve(host, address, self.world.nursery)
        return fake

    async def broker(self, **settings: Any) -> None:
        host = self.world.network.host("broker")
        self._address = f"{host.ip}:10911"
        config = BrokerConfig(
            release=str(self.release),
            namesrv=tuple(self.namesrv),
            listen_address=self._address,
            **settings,
        )
        serve = partial(
            serve_broker,
            config,
            network=host,
            disk=self.disk,
            clock=self.clock,
            rng=random.Random(7),
            journal=Journal("broker-a", self.clock, listeners=[self._heard]),
            stop=self.stop,
        )
        await self.world.nursery.start(serve)

    async def ask(self, rpc: AnyRpc, header: Header, body: bytes = b"x") -> int:
        reply = await self._client.invoke(self._address, rpc, header, body, timeout_ms=60_000)
        return reply.code

    def _heard(self, entry: object) -> None:
        fact = getattr(entry, "fact", None)
        if isinstance(fact, DelayedDelivered):
            self.delivered_s.append(self.now_s())
        if isinstance(fact, RegisteredWith):
            self.rounds.append(fact)
        if isinstance(fact, RegistrationFailing | RegistrationRecovered):
            self.troubles.append(fact)
        if isinstance(fact, StartedWithoutNameServer):
            self.alone.append(fact)
        if isinstance(fact, MetadataSynced | MetadataSyncFailed):
            self.synced.append(fact)


def with_bench(steps: Callable[[RegistrationBench], Awaitable[T]], release: str = LAST_4) -> T:
    async def main(world: VirtualWorld) -> T:
        return await steps(RegistrationBench(world, release))

    return run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))

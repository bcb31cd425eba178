"""When a broker tells the NameServers of itself and of its topics, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec
import pytest
import trio

from emulator.broker.broker import Broker
from emulator.broker.registration import NameServerRegistration
from emulator.broker.service import serve_broker
from emulator.clock import WallClock
from emulator.config import BrokerConfig, NetConfig
from emulator.disk.memory import MemoryDisk
from emulator.facts import RegisteredWith, RegistrationFailing, RegistrationRecovered
from emulator.journal import Journal
from emulator.net.remoting_client import RemotingClient
from emulator.net.remoting_server import RemotingServer
from emulator.net.results import Call, Reply, Result, Wait
from emulator.releases import Release
from emulator.sim.path import Latency
from emulator.sim.world import EPOCH_MS, VirtualWorld, run_virtual
from protocol import catalog
from protocol.bodies.registration import RegisterBrokerBody, decode_register_broker
from protocol.bodies.topics import TopicConfig
from protocol.codes import RequestCode, ResponseCode
from protocol.fields import Header
from protocol.requests.admin import CreateTopicRequest
from protocol.requests.registration import RegisterBrokerReply
from protocol.requests.sending import SendMessageRequestV2
from protocol.rpc import Rpc

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
NEW_TOPIC = CreateTopicRequest(
    topic="New",
    default_topic="TBW102",
    read_queue_nums=4,
    write_queue_nums=4,
    perm=6,
    topic_filter_type="SINGLE_TAG",
)


class FakeNameServer:
    """Remembers when it was told of which topics, and answers *late_ms* later."""

    def __init__(self, stage: Stage, late_ms: int) -> None:
        self._stage = stage
        self._late_ms = late_ms
        self.times_s: list[float] = []
        self.told: list[RegisterBrokerBody] = []
        self.one_ways: list[bool] = []
        self.goodbyes_s: list[float] = []
        self.ordered = b""
        self.refusal: str | None = None
        self.server = RemotingServer(
            stage.clock,
            NetConfig(),
            stage.release,
            lambda _fact: None,
            {
                RequestCode.REGISTER_BROKER: (catalog.REGISTER_BROKER, self.register),
                RequestCode.UNREGISTER_BROKER: (catalog.UNREGISTER_BROKER, self.unregister),
            },
        )

    def register(self, call: Call) -> Result:
        self.times_s.append(self._stage.now_s())
        self.told.append(decode_register_broker(call.body, call.command.version))
        self.one_ways.append(call.command.is_one_way)
        until_ms = call.now_ms + self._late_ms
        done = Reply(RegisterBrokerReply(), self.ordered)
        if self.refusal is not None:
            done = Reply(code=ResponseCode.SYSTEM_ERROR, remark=self.refusal)
        return Wait(object(), until_ms, lambda _now_ms, _expired: done)

    def unregister(self, _call: Call) -> Result:
        self.goodbyes_s.append(self._stage.now_s())
        return Reply()

    def topics(self, turn: int) -> set[str]:
        return set(self.told[turn].topic_config_serialize_wrapper.topic_config_table)


class Stage:
    """One broker, its NameServers, and somebody who asks it things."""

    def __init__(self, world: VirtualWorld, release: str) -> None:
        self.world = world
        self.release = Release.parse(release)
        self.clock = WallClock(EPOCH_MS, 0.0)
        self.stop = trio.Event()
        self.rounds: list[RegisteredWith] = []
        self.troubles: list[RegistrationFailing | RegistrationRecovered] = []
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
        self.namesrv.append(f"{host.ip}:9876")
        fake = FakeNameServer(self, late_ms)
        await fake.server.serve(host, self.namesrv[-1], self.world.nursery)
        return fake

    async def broker(self, **settings: int) -> None:
        host = self.world.network.host("broker")
        config = BrokerConfig(
            release=str(self.release),
            namesrv=tuple(self.namesrv),
            listen_address=f"{host.ip}:10911",
            **settings,
        )
        serve = partial(
            serve_broker,
            config,
            network=host,
            disk=MemoryDisk(),
            clock=self.clock,
            rng=random.Random(7),
            journal=Journal("broker-a", self.clock, listeners=[self._heard]),
            stop=self.stop,
        )
        self._address = await self.world.nursery.start(serve)

    async def ask(self, rpc: Rpc, header: Header, body: bytes = b"x") -> int:
        reply = await self._client.invoke(self._address, rpc, header, body, timeout_ms=60_000)
        return reply.code

    def _heard(self, entry: object) -> None:
        fact = getattr(entry, "fact", None)
        if isinstance(fact, RegisteredWith):
            self.rounds.append(fact)
        if isinstance(fact, RegistrationFailing | RegistrationRecovered):
            self.troubles.append(fact)


def on_stage(story: Callable[[Stage], Awaitable[T]], release: str = LAST_4) -> T:
    async def main(world: VirtualWorld) -> T:
        return await story(Stage(world, release))

    return run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))


@pytest.mark.parametrize(
    ("interval_ms", "times_s"),
    [
        (30_000, [0, 10, 40, 70, 100]),
        (5_000, [0, 10, 20, 30, 40]),
        (110_000, [0, 10, 70, 130, 190]),
    ],
)
def test_invariant_16_a_broker_registers_at_start_after_ten_seconds_and_then_every_thirty(
    interval_ms: int, times_s: list[int]
) -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker(register_interval_ms=interval_ms)
        await trio.sleep_until(times_s[-1] + 1)
        assert fake.times_s == times_s
        assert not any(fake.one_ways)
        assert {"TBW102", "BenchmarkTest"} <= fake.topics(0) == fake.topics(-1)

    on_stage(story)


def test_a_broker_marks_the_topics_as_ordered_that_its_name_server_calls_so() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker()
        fake.ordered = b'{"table":{"BenchmarkTest":"broker-a:4","Unknown":"broker-a:4"}}'
        await trio.sleep_until(41)
        before, _, after = (
            told.topic_config_serialize_wrapper.topic_config_table for told in fake.told
        )
        assert [name for name in after if after[name].order] == ["BenchmarkTest"]
        assert not any(topic.order for topic in before.values())
        fake.ordered = b"no table"
        await trio.sleep_until(71)
        assert fake.topics(-1) == set(after)

    on_stage(story)


def test_a_broker_is_up_when_every_name_server_that_answers_has_been_told() -> None:
    async def story(stage: Stage) -> None:
        await stage.name_server("quick")
        await stage.name_server("slow", late_ms=2_000)
        stage.namesrv.append(f"{stage.world.network.host('nobody').ip}:9876")
        await stage.broker()
        assert stage.now_s() == pytest.approx(2, abs=0.01)
        [first] = stage.rounds
        assert (len(first.accepted), len(first.failed)) == (2, 1)

    on_stage(story)


def test_a_registration_that_fails_is_told_once_when_it_begins_and_once_when_it_ends() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker()
        fake.refusal = "no more brokers here"
        await trio.sleep_until(75)  # at 10, 40 and 70 s
        address = stage.namesrv[0]
        text = "SYSTEM_ERROR: no more brokers here"
        assert stage.troubles == [RegistrationFailing(address, text, EPOCH_MS + 10_000)]
        fake.refusal = None
        await trio.sleep_until(135)  # at 100 and 130 s
        assert stage.troubles[1:] == [RegistrationRecovered(address, failing_for_ms=90_000)]

    on_stage(story)


def test_a_name_server_that_does_not_answer_is_named_with_the_error() -> None:
    async def story(stage: Stage) -> None:
        stage.namesrv.append(f"{stage.world.network.host('nobody').ip}:9876")
        await stage.broker()
        (failing,) = stage.troubles
        assert failing.address == stage.namesrv[0]
        assert failing.error.startswith("NeverSent: ")

    on_stage(story)


@pytest.mark.parametrize(("release", "waits_s"), [(LAST_4, 6), (LAST_5, 24)])
def test_a_silent_name_server_holds_a_round_up_for_as_long_as_the_release_says(
    release: str, waits_s: int
) -> None:
    async def story(stage: Stage) -> None:
        await stage.name_server("silent", late_ms=10**6)
        await stage.broker()
        assert stage.now_s() == pytest.approx(waits_s, abs=0.01)

    on_stage(story, release)


def test_invariant_21_when_a_first_send_is_answered_every_name_server_knows_the_topic() -> None:
    async def story(stage: Stage) -> None:
        quick = await stage.name_server("quick")
        slow = await stage.name_server("slow", late_ms=500)
        await stage.broker()
        asked_s = stage.now_s()
        assert await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert stage.now_s() - asked_s == pytest.approx(0.5, abs=0.01)
        assert quick.topics(-1) == slow.topics(-1) == {"New"}
        assert quick.one_ways[-1] is False
        asked_s = stage.now_s()
        assert await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert stage.now_s() == asked_s

    on_stage(story, LAST_5)


def test_invariant_21_a_name_server_that_is_down_does_not_lose_the_message() -> None:
    async def story(stage: Stage) -> None:
        stage.namesrv.append(f"{stage.world.network.host('nobody').ip}:9876")
        await stage.broker()
        assert await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0

    on_stage(story, LAST_5)


def test_a_topic_deleted_while_its_first_send_waits_is_made_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.name_server("slow", late_ms=500)
        await stage.broker()
        codes: list[int] = []

        async def send() -> None:
            codes.append(await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.1)
            header = catalog.DELETE_TOPIC_IN_BROKER.request(topic="New")
            codes.append(await stage.ask(catalog.DELETE_TOPIC_IN_BROKER, header))
        assert codes == [0, 0]

    on_stage(story, LAST_5)


def test_before_5_1_4_a_first_send_waits_for_nobody_and_the_whole_table_is_told() -> None:
    async def story(stage: Stage) -> None:
        slow = await stage.name_server("slow", late_ms=500)
        await stage.broker()
        asked_s = stage.now_s()
        assert await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert stage.now_s() == asked_s
        await trio.sleep(0.1)
        assert {"New", "TBW102"} <= slow.topics(-1)
        assert slow.one_ways[-1] is True

    on_stage(story)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_invariant_21_an_administrator_s_topic_is_known_when_he_is_answered(release: str) -> None:
    async def story(stage: Stage) -> None:
        slow = await stage.name_server("slow", late_ms=500)
        await stage.broker()
        asked_s = stage.now_s()
        assert await stage.ask(catalog.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC) == 0
        assert stage.now_s() - asked_s == pytest.approx(0.5, abs=0.01)
        assert slow.topics(-1) == {"New"}

    on_stage(story, release)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_invariant_21_each_change_is_registered_once_with_its_own_version(release: str) -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("slow", late_ms=500)
        await stage.broker()
        fake.told.clear()
        async with trio.open_nursery() as nursery:
            for queues in (1, 2, 3):
                topic = msgspec.structs.replace(NEW_TOPIC, read_queue_nums=queues)
                nursery.start_soon(stage.ask, catalog.UPDATE_AND_CREATE_TOPIC, topic)
        told = [body.topic_config_serialize_wrapper for body in fake.told]
        queues_told = [wrapper.topic_config_table["New"].read_queue_nums for wrapper in told]
        versions = [wrapper.data_version.counter for wrapper in told]
        assert sorted(queues_told) == [1, 2, 3]
        assert versions == [versions[0] + step for step in range(3)]

    on_stage(story, release)


def test_a_change_of_a_topic_is_not_answered_with_the_registration_before_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.name_server("slow", late_ms=500)
        await stage.broker()
        began_s = stage.now_s()
        answered_s: list[float] = []

        async def change_after(delay_s: float, queues: int) -> None:
            await trio.sleep(delay_s)
            topic = msgspec.structs.replace(NEW_TOPIC, read_queue_nums=queues)
            await stage.ask(catalog.UPDATE_AND_CREATE_TOPIC, topic)
            answered_s.append(stage.now_s() - began_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change_after, 0.0, 1)
            nursery.start_soon(change_after, 0.3, 2)
        assert answered_s == pytest.approx([0.5, 0.8], abs=0.01)

    on_stage(story)


def test_a_round_ends_with_the_answers_of_those_it_asked_though_the_list_has_changed() -> None:
    async def story(stage: Stage) -> None:
        await stage.name_server("first", late_ms=100)
        other = await stage.name_server("second", late_ms=100)
        network = stage.world.network.host("broker")
        config = BrokerConfig(namesrv=(stage.namesrv[0],), listen_address=f"{network.ip}:10911")
        journal = Journal("broker-a", stage.clock, listeners=[stage._heard])
        broker = Broker(config, disk=MemoryDisk(), journal=journal, now_ms=stage.clock.now_ms())
        registration = NameServerRegistration(broker, stage._client, stage.world.nursery)
        broker.connect(broker._ring, broker._push, registration.announce, broker._later)
        topic = TopicConfig(topic_name="New")
        assert broker.update_topic(topic, stage.clock.now_ms()) is not None
        registration.use(tuple(stage.namesrv))
        await trio.sleep(1)
        assert broker.registering("New") is None
        assert [fact.accepted for fact in stage.rounds] == [(stage.namesrv[0],)]
        assert other.told == []

    on_stage(story)


def test_a_deleted_topic_is_not_told_before_the_next_round() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker()
        await stage.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND)
        told = len(fake.told)
        header = catalog.DELETE_TOPIC_IN_BROKER.request(topic="New")
        assert await stage.ask(catalog.DELETE_TOPIC_IN_BROKER, header) == 0
        assert len(fake.told) == told
        await trio.sleep(11)
        assert "New" not in fake.topics(-1)

    on_stage(story)


@pytest.mark.parametrize(
    ("release", "topic", "perm"),
    [
        (LAST_4, "DefaultCluster", 4),
        (LAST_5, "DefaultCluster", 4),
        (LAST_5, "rmq_sys_SYNC_BROKER_MEMBER_broker-a", 0),
    ],
)
def test_a_restricted_broker_tells_restricted_permissions(
    release: str, topic: str, perm: int
) -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker(perm=4)
        table = fake.told[0].topic_config_serialize_wrapper.topic_config_table
        assert table[topic].perm == perm

    on_stage(story, release)


def test_who_leaves_says_goodbye() -> None:
    async def story(stage: Stage) -> None:
        fake = await stage.name_server("namesrv")
        await stage.broker()
        await trio.sleep(1)
        stage.stop.set()
        await trio.sleep(1)
        assert len(fake.goodbyes_s) == 1
        await trio.sleep(60)
        assert fake.times_s == [0]

    on_stage(story)

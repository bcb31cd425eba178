"""A slave copies the tables of its master: when, in which order, and what is replaced."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.broker.replication.scheduling import Scheduling
from rocketmq_emulator.broker.replication.slave_synchronize import (
    STEPS,
    TIMER_CHECKPOINT,
    TIMER_METRICS,
    SlaveSynchronize,
    SyncStep,
)
from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.broker.store.timer_wheel import DOCUMENT as TIMER_CHECK
from rocketmq_emulator.broker.store.timer_wheel import decode_checkpoint, decode_sent_checkpoint
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import MetadataSynced, MetadataSyncFailed
from rocketmq_emulator.facts.journal import Entry, Journal
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import RemotingServer
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.offsets import TimerMetricsSerializeWrapper
from rocketmq_emulator.protocol.bodies.running import (
    MessageRequestModeTable,
    SetMessageRequestModeBody,
)
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.rpc import AnyRpc
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig, NetConfig
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.sim.stream import Latency
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual
from tests.support.broker.bench import EPOCH_MS, Bench
from tests.support.broker.registrations import (
    FIRST_SEND,
    LAST_4,
    LAST_5,
    RegistrationBench,
    with_bench,
)

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
BEFORE_ONE_BY_ONE, ONE_BY_ONE = "5.3.1", "5.3.2"
OF_EACH = (
    catalog.GET_ALL_TOPIC_CONFIG,
    catalog.GET_ALL_CONSUMER_OFFSET,
    catalog.GET_ALL_DELAY_OFFSET,
    catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
)
OF_5 = (
    catalog.GET_ALL_MESSAGE_REQUEST_MODE,
    catalog.GET_TIMER_METRICS,
    catalog.GET_TIMER_CHECK_POINT,
)
VIP_PORT, MAIN_PORT = 20_909, 20_911


# When a slave asks --------------------------------------------------------------------


class FakeMaster:
    """Refuses every request of a slave, and keeps (seconds, code, port) of each."""

    def __init__(self, bench: RegistrationBench) -> None:
        self.asked: list[tuple[float, int, int]] = []
        self._bench = bench
        self._servers = [self._server(port) for port in (MAIN_PORT, VIP_PORT)]
        self._host = bench.world.network.host("master")
        self.address = f"{self._host.ip}:{MAIN_PORT}"

    def _server(self, port: int) -> RemotingServer:
        def refuse(call: Call[Any]) -> Result:
            self.asked.append((self._bench.now_s(), call.command.code, port))
            return Reply(code=1, remark="not today")

        handlers: dict[int, tuple[AnyRpc, Any]] = {
            rpc.code: (rpc, refuse) for rpc in (*OF_EACH, *OF_5)
        }
        bench = self._bench
        return RemotingServer(bench.clock, NetConfig(), bench.release, lambda _: None, handlers)

    async def start(self) -> None:
        for server, port in zip(self._servers, (MAIN_PORT, VIP_PORT), strict=True):
            address = f"{self._host.ip}:{port}"
            await server.serve(self._host, address, self._bench.world.nursery)

    def times_s(self, rpc: AnyRpc) -> list[float]:
        return [round(at_s) for at_s, code, _ in self.asked if code == rpc.code]


def requests_of_a_slave(release: str, until_s: int, **settings: Any) -> FakeMaster:
    """The requests of a slave whose master is registered all the time."""

    async def main(bench: RegistrationBench) -> FakeMaster:
        names, master = await bench.name_server("namesrv"), FakeMaster(bench)
        names.master = master.address
        await master.start()
        await bench.broker(broker_role="SLAVE", broker_id=1, **settings)
        await trio.sleep_until(until_s)
        return master

    return with_bench(main, release)


@pytest.mark.parametrize(
    ("release", "times_s"),
    [
        ("4.4.0", [10, 70]),
        ("4.5.0", [3, 13, 23, 33, 43, 53, 63, 73, 83, 93, 103, 113, 123]),
        (LAST_4, [3, 13, 23, 33, 43, 53, 63, 73, 83, 93, 103, 113, 123]),
        ("5.0.0", [61, 124]),
        (LAST_5, [61, 124]),
    ],
)
def test_r16_tables_are_copied_at_the_times_of_the_release(
    release: str, times_s: list[int]
) -> None:
    assert requests_of_a_slave(release, 125).times_s(catalog.GET_ALL_TOPIC_CONFIG) == times_s


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_a_test_may_have_all_tables_copied_more_often(release: str) -> None:
    master = requests_of_a_slave(release, 9, slave_sync_interval_ms=2_000)
    for rpc in (catalog.GET_ALL_TOPIC_CONFIG, catalog.GET_ALL_CONSUMER_OFFSET):
        assert master.times_s(rpc) == [2, 4, 6, 8]


def test_r16_a_slave_of_5_copies_the_timer_checkpoint_every_three_seconds() -> None:
    master = requests_of_a_slave(LAST_5, 30)
    times_s = [10, 13, 16, 19, 22, 25, 28]
    assert [(at_s, code) for at_s, code, _ in master.asked] == [(at_s, 60) for at_s in times_s]


@pytest.mark.parametrize(
    ("release", "order"),
    [
        (
            LAST_4,
            [(21, VIP_PORT), (43, MAIN_PORT), (45, MAIN_PORT), (201, MAIN_PORT)],
        ),
        (
            LAST_5,
            [
                (21, VIP_PORT),
                (43, MAIN_PORT),
                (45, MAIN_PORT),
                (201, MAIN_PORT),
                (402, MAIN_PORT),
                (61, VIP_PORT),
                (60, VIP_PORT),
            ],
        ),
    ],
)
def test_r17_a_slave_asks_for_topics_and_timers_on_the_vip_port(
    release: str, order: list[tuple[int, int]]
) -> None:
    master = requests_of_a_slave(release, 62)
    began = max(place for place, asked in enumerate(master.asked) if asked[1] == 21)
    assert [(code, port) for _, code, port in master.asked[began:]] == order


@BOTH
def test_a_step_that_fails_is_noted_once_and_the_next_one_follows(release: str) -> None:
    async def main(bench: RegistrationBench) -> None:
        names, master = await bench.name_server("namesrv"), FakeMaster(bench)
        names.master = master.address
        await bench.broker(broker_role="SLAVE", broker_id=1)
        await trio.sleep_until(130)
        tables = [fact.table for fact in bench.synced]
        assert all(isinstance(fact, MetadataSyncFailed) for fact in bench.synced)
        assert tables == sorted(set(tables), key=tables.index)
        assert {"topics", "consumer offsets", "delay offsets", "groups"} <= set(tables)

    with_bench(main, release)


@pytest.mark.parametrize(
    ("release", "registered_s", "times_s"),
    [(LAST_4, 40, [43, 53]), (LAST_5, 70, [124])],
)
def test_r16_without_a_master_a_round_is_left_out_but_in_5_it_counts(
    release: str, registered_s: int, times_s: list[int]
) -> None:
    async def main(bench: RegistrationBench) -> None:
        names, master = await bench.name_server("namesrv"), FakeMaster(bench)
        await master.start()
        await bench.broker(broker_role="SLAVE", broker_id=1)
        await trio.sleep_until(registered_s - 1)
        names.master = master.address  # the next registration is a second later
        await trio.sleep_until(times_s[-1] + 1)
        assert master.times_s(catalog.GET_ALL_TOPIC_CONFIG) == times_s

    with_bench(main, release)


@BOTH
def test_r20_a_master_that_is_no_longer_registered_is_not_asked(release: str) -> None:
    async def main(bench: RegistrationBench) -> None:
        names, master = await bench.name_server("namesrv"), FakeMaster(bench)
        names.master = master.address
        await master.start()
        await bench.broker(broker_role="SLAVE", broker_id=1)
        await trio.sleep_until(65)
        names.master = None
        await trio.sleep_until(71)  # registered at 70 s
        count = len(master.asked)
        await trio.sleep_until(200)
        assert count
        assert len(master.asked) == count

    with_bench(main, release)


async def test_a_slave_does_not_ask_itself() -> None:
    slave = a_slave(LAST_4)
    slave.master_address = "127.0.0.1:10911"
    assert slave.address_for(STEPS[0], "127.0.0.1:10911") is None
    assert slave.address_for(STEPS[0], "127.0.0.2:10911") == "127.0.0.1:10909"


@BOTH
def test_a_topic_of_the_master_comes_to_its_slave(release: str) -> None:
    async def main(world: VirtualWorld) -> None:
        entries: list[Entry] = []
        names = world.network.host("names")
        namesrv = f"{names.ip}:9876"
        clock = WallClock(EPOCH_MS, 0.0)
        server = NameServerConfig(release=release, listen_address=namesrv)
        common: dict[str, Any] = {"clock": clock, "stop": trio.Event(), "rng": random.Random(7)}
        serve = partial(serve_name_server, server, network=names, disk=MemoryDisk(), **common)
        await world.nursery.start(partial(serve, journal=Journal("names", clock)))
        disks = {}
        for broker_id, name in enumerate(("master", "slave")):
            host, disks[name] = world.network.host(name), MemoryDisk()
            config = BrokerConfig(
                release=release,
                broker_role="SLAVE" if broker_id else "ASYNC_MASTER",
                broker_id=broker_id,
                namesrv=(namesrv,),
                listen_address=f"{host.ip}:10911",
            )
            journal = Journal(name, clock, listeners=[entries.append])
            serve_one = partial(serve_broker, config, network=host, disk=disks[name], **common)
            address = await world.nursery.start(partial(serve_one, journal=journal))
            if name == "master":
                client = RemotingClient(
                    world.network.host("client"),
                    world.nursery,
                    clock=clock,
                    config=NetConfig(),
                    release=Release.parse(release),
                    note=lambda _fact: None,
                    handlers={},
                )
                await client.invoke(
                    address, catalog.SEND_MESSAGE_V2, FIRST_SEND, b"x", timeout_ms=3_000
                )
        await trio.sleep_until(64)
        assert not [entry for entry in entries if isinstance(entry.fact, MetadataSyncFailed)]
        saved = {
            name: decode_body(disk.read("topics.json") or b"", TopicConfigSerializeWrapper)
            for name, disk in disks.items()
        }
        assert saved["slave"].topic_config_table == saved["master"].topic_config_table
        assert FIRST_SEND.topic in saved["slave"].topic_config_table

    run_virtual(main, seed=1, latency=Latency(us_min=0, us_max=0))


# What is replaced ---------------------------------------------------------------------


def a_slave_bench(release: str) -> tuple[Bench, SlaveSynchronize]:
    bench = Bench(release=release, broker_role="SLAVE", broker_id=1)
    no_timers: Any = Scheduling(bench.now_ms, lambda _due_ms, _action: None)
    bench.broker.connect_replicas(no_timers)
    slave = bench.broker.slave_synchronize
    assert slave is not None
    slave.master_address = "10.0.0.1:10911"
    return bench, slave


def a_slave(release: str) -> SlaveSynchronize:
    return a_slave_bench(release)[1]


def copy(slave: SlaveSynchronize, master: Bench, *steps: SyncStep, later_ms: int = 0) -> None:
    """Run *steps* with the answers of *master*, whose code is its own."""
    client = master.client(version=453)
    for step in steps:
        slave.take(step, client.must(step.rpc), EPOCH_MS + later_ms)


def answer(body: bytes) -> RemotingCommand:
    return RemotingCommand(code=0, body=body)


def topics_of(bench: Bench) -> dict[str, TopicConfig]:
    return dict(bench.broker.topics.topic_config_table)


@BOTH
async def test_topics_and_groups_become_the_masters(release: str) -> None:
    master = Bench(release=release)
    client = master.client()
    client.sent("Orders")
    for group in ("readers", "writers"):
        client.heartbeat("c@1", group=group, topics={"Orders": "*"})
    bench, slave = a_slave_bench(release)
    bench.client().heartbeat("c@1", group="only-here", topics={"Orders": "*"})
    copy(slave, master, *STEPS)
    assert topics_of(bench) == topics_of(master)
    own, masters = (each.broker.groups.subscription_group_table for each in (bench, master))
    assert dict(own) == dict(masters)
    assert bench.facts(MetadataSyncFailed) == []
    tables = [fact.table for fact in bench.facts(MetadataSynced)]
    assert tables == ["topics", "delay offsets", "groups"]


@BOTH
async def test_copied_tables_survive_a_restart_of_the_slave(release: str) -> None:
    master = Bench(release=release)
    master.client().sent("Orders")
    master.broker.offsets.commit("readers", "Orders", 0, 7, EPOCH_MS)
    bench, slave = a_slave_bench(release)
    copy(slave, master, *STEPS)
    again = Bench(bench.disk, release=release, broker_role="SLAVE", broker_id=1)
    assert again.broker.topics.get("Orders") == master.broker.topics.get("Orders")
    assert again.broker.offsets.query("readers", "Orders", 0) == 7


@BOTH
async def test_r18_offsets_that_the_master_has_are_replaced_and_others_stay(release: str) -> None:
    master = Bench(release=release)
    master.broker.offsets.commit("readers", "Orders", 0, 7, EPOCH_MS)
    bench, slave = a_slave_bench(release)
    own = bench.broker.offsets
    own.commit("readers", "Orders", 0, 9, EPOCH_MS)
    own.commit("readers", "Orders", 1, 9, EPOCH_MS)
    own.commit("only-here", "Orders", 0, 3, EPOCH_MS)
    copy(slave, master, STEPS[1])
    assert own.offset_table == {"Orders@readers": {0: 7}, "Orders@only-here": {0: 3}}


@BOTH
async def test_r19_an_equal_version_leaves_a_differing_table_as_it_is(release: str) -> None:
    master = Bench(release=release)
    master.client().sent("Orders")
    bench, slave = a_slave_bench(release)
    before = topics_of(bench)
    bench.broker.topics.data_version = master.broker.topics.data_version
    copy(slave, master, STEPS[0])
    assert topics_of(bench) == before
    assert "Orders" not in before


@BOTH
async def test_r21_the_file_of_delay_offsets_has_the_text_of_the_master(release: str) -> None:
    master = Bench(release=release)
    master.broker.delays.offset_table = {3: 17}
    bench, slave = a_slave_bench(release)
    copy(slave, master, STEPS[2])
    text = encode_body(master.broker.delays.wrapper(), master.broker.release)
    assert bench.disk.read("delayOffset.json") == text
    # The slave's log has no such message yet, and a slave of 4.x reads the file when it starts.
    assert bench.broker.delays.offset_table == ({3: 17} if release == LAST_5 else {})
    assert bench.broker.delays.first_due_ms(EPOCH_MS) is None


async def test_a_log_that_is_behind_the_copied_delay_offset_has_no_delayed_message_due() -> None:
    bench = Bench(release=LAST_5)
    bench.client().sent("Orders", properties=properties_text({"DELAY": "3"}, trailing=True))
    assert bench.broker.delays.first_due_ms(EPOCH_MS) == EPOCH_MS + 10_000
    bench.broker.delays.copy(b'{"offsetTable":{"3":17}}')
    assert bench.broker.delays.first_due_ms(EPOCH_MS) is None


@pytest.mark.parametrize("release", [LAST_4, "5.0.0", BEFORE_ONE_BY_ONE])
async def test_before_5_3_2_the_version_of_the_master_is_copied_too(release: str) -> None:
    master = Bench(release=release)
    master.client().sent("Orders")
    bench, slave = a_slave_bench(release)
    copy(slave, master, STEPS[0], STEPS[0], later_ms=5)
    assert bench.broker.topics.data_version == master.broker.topics.data_version
    assert len(bench.facts(MetadataSynced)) == 1


@pytest.mark.parametrize("release", [ONE_BY_ONE, LAST_5])
async def test_since_5_3_2_the_version_never_equals_the_masters(release: str) -> None:
    master = Bench(release=release)
    master.client().sent("Orders")
    bench, slave = a_slave_bench(release)
    common = len(topics_of(bench))
    bench.broker.topics.update(TopicConfig(topic_name="OnlyHere"), EPOCH_MS + 1)
    masters = master.broker.topics.data_version.counter
    # Each round deletes the topics that both have, and adds every topic of the master.
    for deleted in (common, common + 1):
        copy(slave, master, STEPS[0], later_ms=5)
        counter = masters + deleted + common + 1
        version = DataVersion(timestamp=EPOCH_MS + 5, counter=counter)
        assert bench.broker.topics.data_version == version
    assert len(bench.facts(MetadataSynced)) == 2


def with_attributes() -> bytes:
    names = ("First", "Queued", "Last")
    table = {name: TopicConfig(topic_name=name) for name in names}
    attributes = {"message.type": "FIFO"}
    table["Queued"] = msgspec.structs.replace(table["Queued"], attributes=attributes)
    version = DataVersion(timestamp=1, counter=9)
    body = TopicConfigSerializeWrapper(topic_config_table=table, data_version=version)
    return msgspec.json.encode(body)


async def test_since_5_3_2_a_topic_with_attributes_hides_itself_and_later_ones() -> None:
    bench, slave = a_slave_bench(LAST_5)
    for _ in range(2):
        slave.take(STEPS[0], answer(with_attributes()), EPOCH_MS)
        assert list(topics_of(bench)) == ["First"]
    [failed] = bench.facts(MetadataSyncFailed)
    assert (failed.table, failed.reason) == (
        "topics",
        "Queued has attributes, so it and the entries after it are missing here",
    )
    again = Bench(bench.disk, release=LAST_5, broker_role="SLAVE", broker_id=1)
    assert again.broker.topics.get("First") is None  # it was not saved


async def test_before_5_3_2_attributes_are_copied() -> None:
    bench, slave = a_slave_bench(BEFORE_ONE_BY_ONE)
    slave.take(STEPS[0], answer(with_attributes()), EPOCH_MS)
    assert list(topics_of(bench)) == ["First", "Queued", "Last"]
    assert topics_of(bench)["Queued"].attributes == {"message.type": "FIFO"}


async def test_an_answer_that_is_no_table_changes_nothing() -> None:
    bench, slave = a_slave_bench(LAST_5)
    before = topics_of(bench)
    for step in (*STEPS, TIMER_METRICS, TIMER_CHECKPOINT):
        slave.take(step, answer(b"no table"), EPOCH_MS)
    assert topics_of(bench) == before
    assert len(bench.facts(MetadataSyncFailed)) == 6


# Request modes and timers -------------------------------------------------------------


async def test_request_modes_of_topics_that_the_master_lacks_are_removed() -> None:
    master = Bench(release=LAST_5)
    mode = SetMessageRequestModeBody(topic="Orders", consumer_group="readers")
    master.broker.request_modes.set("Orders", "readers", mode)
    bench, slave = a_slave_bench(LAST_5)
    bench.broker.request_modes.set("Old", "readers", mode)
    [step] = [each for each in due_of_5(slave) if each.table == "request modes"]
    copy(slave, master, step)
    expected = MessageRequestModeTable(message_request_mode_map={"Orders": {"readers": mode}})
    assert bench.broker.request_modes.table() == expected


def due_of_5(slave: SlaveSynchronize) -> list[SyncStep]:
    return list(slave.due_steps(EPOCH_MS + 61_000))


async def test_without_a_timer_wheel_timers_are_refused_and_not_asked_for() -> None:
    client = Bench(release=LAST_5, timer_wheel=False).client()
    for rpc, remark in (
        (catalog.GET_TIMER_CHECK_POINT, "The checkpoint is null"),
        (catalog.GET_TIMER_METRICS, "The timer message store is null"),
    ):
        refused = client.must(rpc)
        assert (refused.code, refused.remark) == (1, remark)
    bench = Bench(release=LAST_5, timer_wheel=False, broker_role="SLAVE", broker_id=1)
    no_timers: Any = Scheduling(bench.now_ms, lambda _due_ms, _action: None)
    bench.broker.connect_replicas(no_timers)
    slave = bench.broker.slave_synchronize
    assert slave is not None
    assert [step.rpc.code for step in due_of_5(slave)] == [21, 43, 45, 201, 402]


def a_master_with_a_timer(release: str) -> Bench:
    """A master with one waiting message of Orders, due in ten seconds."""
    master = Bench(release=release)
    text = properties_text({"TIMER_DELAY_MS": "10000"}, trailing=True)
    master.client().sent("Orders", properties=text)
    return master


def waiting_by_topic(bench: Bench) -> dict[str, int]:
    body = bench.client().must(catalog.GET_TIMER_METRICS).body
    counts = decode_body(body, TimerMetricsSerializeWrapper).timing_count
    return {topic: metric.count for topic, metric in counts.items()}


async def test_timer_metrics_count_the_waiting_messages_of_each_topic() -> None:
    master = a_master_with_a_timer(LAST_5)
    assert waiting_by_topic(master) == {"Orders": 1}
    bench, slave = a_slave_bench(LAST_5)
    copy(slave, master, TIMER_METRICS, TIMER_METRICS)
    assert waiting_by_topic(bench) == {"Orders": 1}
    assert len(bench.facts(MetadataSynced)) == 1  # the versions are equal then
    timers = master.broker.timers
    assert timers is not None
    timers.run_due(EPOCH_MS + 20_000)
    assert waiting_by_topic(master) == {"Orders": 0}


@pytest.mark.parametrize(("release", "is_copied"), [("5.1.4", False), ("5.2.0", True)])
async def test_the_data_version_of_timers_is_copied_since_5_2(
    release: str, is_copied: bool
) -> None:
    master = a_master_with_a_timer(release)
    timers = master.broker.timers
    assert timers is not None
    timers.run_due(EPOCH_MS + 20_000)
    timers.persist(EPOCH_MS + 20_000)
    bench, slave = a_slave_bench(release)
    copy(slave, master, TIMER_CHECKPOINT)
    saved = decode_checkpoint(bench.disk.read(TIMER_CHECK))
    sent = decode_sent_checkpoint(master.client().must(catalog.GET_TIMER_CHECK_POINT).body)
    assert (saved.read_ms, saved.master_queue_offset) == (sent.read_ms, 1)
    assert saved.queue_offset == 0  # the slave's own
    assert (saved.counter == sent.counter > 0) == is_copied


async def test_the_timer_checkpoint_goes_with_the_time_to_the_first_waiting_slot() -> None:
    master = a_master_with_a_timer(LAST_5)
    timers = master.broker.timers
    assert timers is not None
    assert timers.checkpoint(EPOCH_MS + 4_999).read_ms == EPOCH_MS + 4_000
    assert timers.checkpoint(EPOCH_MS + 15_000).read_ms == EPOCH_MS + 9_000
    timers.run_due(EPOCH_MS + 15_000)
    assert timers.checkpoint(EPOCH_MS + 15_000).read_ms == EPOCH_MS + 15_000


@pytest.mark.parametrize(("release", "counts"), [("5.3.2", {"Orders": 1}), ("5.3.3", {})])
async def test_a_deleted_topic_is_no_longer_counted_since_5_3_3(
    release: str, counts: dict[str, int]
) -> None:
    master = a_master_with_a_timer(release)
    master.broker.delete_topic("Orders", EPOCH_MS)
    assert waiting_by_topic(master) == counts


async def test_waiting_messages_are_counted_after_a_restart_too() -> None:
    master = a_master_with_a_timer(LAST_5)
    master.broker.close(EPOCH_MS + 1)
    assert waiting_by_topic(Bench(master.disk, release=LAST_5)) == {"Orders": 1}

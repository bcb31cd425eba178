"""When a broker registers itself and its topics with NameServers, in virtual time."""

from __future__ import annotations

import msgspec
import pytest
import trio

from rocketmq_emulator.broker.registration import NameServerRegistration
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.store.delays import DOCUMENT
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import RegistrationFailing, RegistrationRecovered
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.offsets import DelayOffsetSerializeWrapper
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.sim.world import EPOCH_MS
from tests.support.broker.registrations import (
    FIRST_SEND,
    LAST_4,
    LAST_5,
    RegistrationBench,
    with_bench,
)

LEVEL_1 = "DELAY\x011"  # 1 s
NEW_TOPIC = CreateTopicRequest(
    topic="New",
    default_topic="TBW102",
    read_queue_nums=4,
    write_queue_nums=4,
    perm=6,
    topic_filter_type="SINGLE_TAG",
)


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
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker(register_interval_ms=interval_ms)
        await trio.sleep_until(times_s[-1] + 1)
        assert fake.times_s == times_s
        assert not any(fake.one_ways)
        assert {"TBW102", "BenchmarkTest"} <= fake.topics(0) == fake.topics(-1)

    with_bench(main)


def test_a_broker_marks_the_topics_as_ordered_that_its_name_server_calls_so() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker()
        fake.ordered = b'{"table":{"BenchmarkTest":"broker-a:4","Unknown":"broker-a:4"}}'
        await trio.sleep_until(41)
        before, _, after = (
            registered.topic_config_serialize_wrapper.topic_config_table
            for registered in fake.registered
        )
        assert [name for name in after if after[name].order] == ["BenchmarkTest"]
        assert not any(topic.order for topic in before.values())
        fake.ordered = b"no table"
        await trio.sleep_until(71)
        assert fake.topics(-1) == set(after)

    with_bench(main)


def test_a_broker_is_up_when_every_name_server_that_answers_has_been_told() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("quick")
        await bench.name_server("slow", late_ms=2_000)
        bench.namesrv.append(f"{bench.world.network.host('nobody').ip}:9876")
        await bench.broker()
        assert bench.now_s() == pytest.approx(2, abs=0.01)
        [first] = bench.rounds
        assert (len(first.accepted), len(first.failed)) == (2, 1)

    with_bench(main)


def test_a_registration_that_fails_is_told_once_when_it_begins_and_once_when_it_ends() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker()
        fake.refusal = "no more brokers here"
        await trio.sleep_until(75)  # rounds at 10, 40 and 70 s
        address = bench.namesrv[0]
        text = "SYSTEM_ERROR: no more brokers here"
        assert bench.troubles == [RegistrationFailing(address, text, EPOCH_MS + 10_000, 30_000)]
        fake.refusal = None
        await trio.sleep_until(135)  # rounds at 100 and 130 s
        assert bench.troubles[1:] == [RegistrationRecovered(address, failing_for_ms=90_000)]

    with_bench(main)


def test_a_name_server_that_does_not_answer_is_named_with_the_error() -> None:
    async def main(bench: RegistrationBench) -> None:
        bench.namesrv.append(f"{bench.world.network.host('nobody').ip}:9876")
        await bench.broker()
        (failing,) = bench.troubles
        assert isinstance(failing, RegistrationFailing)
        assert failing.address == bench.namesrv[0]
        assert failing.error.startswith("no connection: ")
        said = failing.sentence()
        assert said.startswith(f"the NameServer at {failing.address} does not register this")
        assert failing.error in said
        assert "tried again within 0.2 s" in said

    with_bench(main)


@pytest.mark.parametrize(("release", "waits_s"), [(LAST_4, 6), (LAST_5, 24)])
def test_a_silent_name_server_holds_a_round_up_for_as_long_as_the_release_says(
    release: str, waits_s: int
) -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("silent", late_ms=10**6)
        await bench.broker()
        assert bench.now_s() == pytest.approx(waits_s, abs=0.01)

    with_bench(main, release)


def test_a_silent_name_server_holds_up_no_delayed_message_and_no_write_of_progress() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("silent", late_ms=10**6)
        delayed = msgspec.structs.replace(FIRST_SEND, topic="BenchmarkTest", properties=LEVEL_1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.broker)
            await trio.sleep_until(2)
            assert await bench.ask(catalog.SEND_MESSAGE_V2, delayed) == 0
            await trio.sleep_until(11)
            assert bench.delivered_s == pytest.approx([3], abs=0.2)
            text = bench.disk.read(DOCUMENT) or b""
            progress = decode_unlimited_body(text, DelayOffsetSerializeWrapper)
            assert progress.offset_table == {1: 1}
            assert bench.rounds == []  # it still waits for its registration

    with_bench(main, LAST_5)


def test_a_registration_that_times_out_closes_its_connection_and_no_other() -> None:
    async def main(bench: RegistrationBench) -> None:
        silent = await bench.name_server("silent", late_ms=10**6)
        quick = await bench.name_server("quick")
        lost: list[float] = []
        silent.server.on_closed = lambda _peer, _now_ms: lost.append(bench.now_s())
        quick.server.on_closed = lambda _peer, _now_ms: lost.append(bench.now_s())
        await bench.broker(register_retry_ms=0)
        await trio.sleep(1)
        assert lost == pytest.approx([6], abs=0.01)
        assert (len(silent.server.connections), len(quick.server.connections)) == (0, 1)

    with_bench(main)


def test_invariant_21_when_a_first_send_is_answered_every_name_server_knows_the_topic() -> None:
    async def main(bench: RegistrationBench) -> None:
        quick = await bench.name_server("quick")
        slow = await bench.name_server("slow", late_ms=500)
        await bench.broker()
        asked_s = bench.now_s()
        assert await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert bench.now_s() - asked_s == pytest.approx(0.5, abs=0.01)
        assert quick.topics(-1) == slow.topics(-1) == {"New"}
        assert quick.one_ways[-1] is False
        asked_s = bench.now_s()
        assert await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert bench.now_s() == asked_s

    with_bench(main, LAST_5)


def test_invariant_21_a_name_server_that_is_down_does_not_lose_the_message() -> None:
    async def main(bench: RegistrationBench) -> None:
        bench.namesrv.append(f"{bench.world.network.host('nobody').ip}:9876")
        await bench.broker()
        assert await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0

    with_bench(main, LAST_5)


def test_a_topic_deleted_while_its_first_send_waits_is_made_again() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("slow", late_ms=500)
        await bench.broker()
        codes: list[int] = []

        async def send() -> None:
            codes.append(await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.1)
            header = catalog.DELETE_TOPIC_IN_BROKER.request(topic="New")
            codes.append(await bench.ask(catalog.DELETE_TOPIC_IN_BROKER, header))
        assert codes == [0, 0]

    with_bench(main, LAST_5)


def test_before_5_1_4_a_first_send_waits_for_nobody_and_the_whole_table_is_told() -> None:
    async def main(bench: RegistrationBench) -> None:
        slow = await bench.name_server("slow", late_ms=500)
        await bench.broker()
        asked_s = bench.now_s()
        assert await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND) == 0
        assert bench.now_s() == asked_s
        await trio.sleep(0.1)
        assert {"New", "TBW102"} <= slow.topics(-1)
        assert slow.one_ways[-1] is True

    with_bench(main)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_invariant_21_an_administrator_s_topic_is_known_when_he_is_answered(release: str) -> None:
    async def main(bench: RegistrationBench) -> None:
        slow = await bench.name_server("slow", late_ms=500)
        await bench.broker()
        asked_s = bench.now_s()
        assert await bench.ask(catalog.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC) == 0
        assert bench.now_s() - asked_s == pytest.approx(0.5, abs=0.01)
        assert slow.topics(-1) == {"New"}

    with_bench(main, release)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_invariant_21_each_change_is_registered_once_with_its_own_version(release: str) -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("slow", late_ms=500)
        await bench.broker()
        fake.registered.clear()
        async with trio.open_nursery() as nursery:
            for queues in (1, 2, 3):
                topic = msgspec.structs.replace(NEW_TOPIC, read_queue_nums=queues)
                nursery.start_soon(bench.ask, catalog.UPDATE_AND_CREATE_TOPIC, topic)
        registered = [body.topic_config_serialize_wrapper for body in fake.registered]
        queues_told = [wrapper.topic_config_table["New"].read_queue_nums for wrapper in registered]
        versions = [wrapper.data_version.counter for wrapper in registered]
        assert sorted(queues_told) == [1, 2, 3]
        assert versions == [versions[0] + step for step in range(3)]

    with_bench(main, release)


def test_a_change_of_a_topic_is_not_answered_with_the_registration_before_it() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("slow", late_ms=500)
        await bench.broker()
        began_s = bench.now_s()
        answered_s: list[float] = []

        async def change_after(delay_s: float, queues: int) -> None:
            await trio.sleep(delay_s)
            topic = msgspec.structs.replace(NEW_TOPIC, read_queue_nums=queues)
            await bench.ask(catalog.UPDATE_AND_CREATE_TOPIC, topic)
            answered_s.append(bench.now_s() - began_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change_after, 0.0, 1)
            nursery.start_soon(change_after, 0.3, 2)
        assert answered_s == pytest.approx([0.5, 0.8], abs=0.01)

    with_bench(main)


def test_a_round_ends_with_the_answers_of_those_it_asked_though_the_list_has_changed() -> None:
    async def main(bench: RegistrationBench) -> None:
        await bench.name_server("first", late_ms=100)
        other = await bench.name_server("second", late_ms=100)
        network = bench.world.network.host("broker")
        config = BrokerConfig(namesrv=(bench.namesrv[0],), listen_address=f"{network.ip}:10911")
        journal = Journal("broker-a", bench.clock, listeners=[bench._heard])
        broker = Broker(config, disk=MemoryDisk(), journal=journal, now_ms=bench.clock.now_ms())
        registration = NameServerRegistration(broker, bench._client, bench.world.nursery)
        broker.connect(broker._ring, broker._push, registration.announce, broker._later)
        topic = TopicConfig(topic_name="New")
        assert broker.update_topic(topic, bench.clock.now_ms()) is not None
        registration.use(tuple(bench.namesrv))
        await trio.sleep(1)
        assert broker.registering("New") is None
        assert [fact.accepted for fact in bench.rounds] == [(bench.namesrv[0],)]
        assert other.registered == []

    with_bench(main)


def test_a_deleted_topic_is_not_told_before_the_next_round() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker()
        await bench.ask(catalog.SEND_MESSAGE_V2, FIRST_SEND)
        registered = len(fake.registered)
        header = catalog.DELETE_TOPIC_IN_BROKER.request(topic="New")
        assert await bench.ask(catalog.DELETE_TOPIC_IN_BROKER, header) == 0
        assert len(fake.registered) == registered
        await trio.sleep(11)
        assert "New" not in fake.topics(-1)

    with_bench(main)


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
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker(perm=4)
        table = fake.registered[0].topic_config_serialize_wrapper.topic_config_table
        assert table[topic].perm == perm

    with_bench(main, release)


def test_who_leaves_says_goodbye() -> None:
    async def main(bench: RegistrationBench) -> None:
        fake = await bench.name_server("namesrv")
        await bench.broker()
        await trio.sleep(1)
        bench.stop.set()
        await trio.sleep(1)
        assert len(fake.goodbyes_s) == 1
        await trio.sleep(60)
        assert fake.times_s == [0]

    with_bench(main)


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
def test_a_name_server_is_told_the_address_that_its_own_clients_reach(release: str) -> None:
    async def main(bench: RegistrationBench) -> None:
        inside, outside = await bench.name_server("inside"), await bench.name_server("outside")
        registered = {bench.namesrv[1]: "10.9.8.7:1"}
        await bench.broker(advertised_address="10.1.2.3:2", advertised_to=registered)
        await bench.ask(catalog.UPDATE_AND_CREATE_TOPIC, NEW_TOPIC)
        await trio.sleep(11)
        bench.stop.set()
        await trio.sleep(1)
        assert len(outside.addresses) >= 4, (
            "at start, for the topic, after ten seconds, at the end"
        )
        assert set(outside.addresses) == {"10.9.8.7:1"}
        assert set(inside.addresses) == {"10.1.2.3:2"}

    with_bench(main, release)

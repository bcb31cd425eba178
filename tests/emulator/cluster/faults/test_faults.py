"""Each fault has its effect in each world that supports it by the table, until it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from docs.generate import faults
from docs.generate.sections import with_section
from rocketmq_emulator.cluster.fault_values import (
    FAULTS,
    Answer,
    Bandwidth,
    Busy,
    ClockDrift,
    ClockJump,
    CutLink,
    FailingFlush,
    FullDisk,
    Kill,
    Lag,
    Partition,
    Pause,
    PowerOff,
    ReadOnly,
    RefuseConnections,
    SlowDisk,
    SlowLink,
    StallLink,
    Stop,
    Unregistered,
)
from rocketmq_emulator.cluster.faults.register import TABLE, WORLDS, CannotBegin, refusal_of
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from tests.support.cluster.fault_cluster import (
    BROKER,
    REAL_WORLDS,
    TOPIC,
    Check,
    FaultBench,
    bench_of,
    play,
)

SLAVE = "broker-a-1"
HOUR_MS = 3_600_000
REFUSED = ReplyRule(code=RequestCode.GET_ALL_TOPIC_CONFIG, error_code=ResponseCode.SYSTEM_BUSY)


def silences(fault: Any) -> Check:
    """The broker does not answer while the fault holds."""

    async def main(bench: FaultBench) -> None:
        fault_id = await bench.begin(fault)
        assert not await bench.answers()
        await bench.end(fault_id)
        assert await bench.answers()

    return main


def delays(fault: Any, least_ms: float) -> Check:
    """A send takes at least *least_ms* while the fault holds."""

    async def main(bench: FaultBench) -> None:
        fault_id = await bench.begin(fault)
        status, took_ms = await bench.send()
        assert (status, took_ms >= least_ms) == ("SEND_OK", True), took_ms
        await bench.end(fault_id)
        status, took_ms = await bench.send()
        assert (status, took_ms < least_ms) == ("SEND_OK", True), took_ms

    return main


def spoils(fault: Any, *statuses: str) -> Check:
    """A send ends with one of *statuses* while the fault holds."""

    async def main(bench: FaultBench) -> None:
        fault_id = await bench.begin(fault)
        assert (await bench.send())[0] in statuses
        await bench.end(fault_id)
        assert (await bench.send())[0] == "SEND_OK"

    return main


async def the_clock_jumps(bench: FaultBench) -> None:
    fault_id = await bench.begin(ClockJump(node=BROKER, ms=HOUR_MS))
    assert await bench.ahead_ms() == pytest.approx(HOUR_MS, abs=60_000)
    await bench.end(fault_id)
    assert await bench.ahead_ms() == pytest.approx(0, abs=60_000)


async def the_clock_drifts(bench: FaultBench) -> None:
    fault_id = await bench.begin(ClockDrift(node=BROKER, ppm=500_000))
    await trio.sleep(1)
    assert await bench.ahead_ms() > 300
    await bench.end(fault_id)
    assert await bench.ahead_ms() < 200


async def routes_show_read_only(bench: FaultBench) -> None:
    await bench.make_topic("other")
    topic_id = await bench.begin(ReadOnly(broker=BROKER, topic=TOPIC))
    assert (await bench.perms(), await bench.perms("other")) == ([4], [6])
    broker_id = await bench.begin(ReadOnly(broker=BROKER))
    assert (await bench.perms(), await bench.perms("other")) == ([4], [4])
    await bench.end(topic_id)
    await bench.end(broker_id)
    assert (await bench.perms(), await bench.perms("other")) == ([6], [6])


async def a_name_server_forgets_the_broker(bench: FaultBench) -> None:
    fault_id = await bench.begin(Unregistered(broker=BROKER, name_server="namesrv"))
    assert not await bench.is_routed()
    await bench.make_topic("other")  # the broker registers it and is refused
    assert not await bench.is_routed()
    await bench.end(fault_id)
    await bench.make_topic("another")
    await bench.until(bench.is_routed)


async def a_slave_gets_the_log_late(bench: FaultBench) -> None:
    fault_id = await bench.begin(Lag(node=SLAVE, ms=50))

    async def has_acted() -> bool:
        return any(state.acted_count for state in bench.world.faults())

    await bench.send()
    await bench.until(has_acted)
    await bench.end(fault_id)


CHECKS: Mapping[str, Check] = {
    "kill": silences(Kill(node=BROKER)),
    "stop": silences(Stop(node=BROKER)),
    "pause": silences(Pause(node=BROKER)),
    "power_off": silences(PowerOff(node=BROKER)),
    "busy": silences(Busy(node=BROKER, pool="admin", service_ms=HOUR_MS, queue_max=0)),
    "clock_jump": the_clock_jumps,
    "clock_drift": the_clock_drifts,
    "full_disk": spoils(FullDisk(node=BROKER), "BrokerRefused"),
    "slow_disk": delays(SlowDisk(node=BROKER), 500),
    "failing_flush": spoils(FailingFlush(node=BROKER), "FLUSH_DISK_TIMEOUT"),
    "slow_link": delays(SlowLink(between=("clients", BROKER), ms=100), 200),
    "bandwidth": delays(Bandwidth(around=BROKER, bytes_per_s=1_000), 150),
    "partition": silences(Partition(around=BROKER)),
    "stall": silences(StallLink(around=BROKER)),
    "refuse": silences(RefuseConnections(around=BROKER)),
    "cut": silences(CutLink(around=BROKER)),
    "lag": a_slave_gets_the_log_late,
    "read_only": routes_show_read_only,
    "unregistered": a_name_server_forgets_the_broker,
    "answer": silences(Answer(node=BROKER, rule=REFUSED)),
}


def test_every_fault_has_a_row_and_a_story() -> None:
    assert set(TABLE) == set(CHECKS) == set(FAULTS)


@pytest.mark.parametrize("word", TABLE)
def test_the_virtual_world_does_every_fault(word) -> None:
    last: list[dict[str, Any]] = []

    async def program(bench: FaultBench) -> None:
        await CHECKS[word](bench)
        last.extend(bench.facts(kind)[-1] for kind in ("FaultBegan", "FaultEnded"))

    play(program, slaves=int(word == "lag"))
    assert_noted(word, *last)


def assert_noted(word: str, began: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    """The world's facts show that the fault began and ended."""
    assert f'"fault":"{word}"' in began["fault"]
    assert ended["fault_id"] <= began["fault_id"]


@pytest.fixture(scope="module", params=REAL_WORLDS)
def bench(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    world = REAL_WORLDS[request.param]
    with world(
        ClusterSpec(brokers=1, store=str(folder / "store")), journal=str(folder)
    ) as cluster:
        yield bench_of(cluster, folder)


@pytest.mark.parametrize("word", [word for word, row in TABLE.items() if row.embedded == "yes"])
def test_a_world_of_real_time_does_what_the_table_says(bench, word) -> None:
    assert TABLE[word].processes == "yes"

    async def program() -> None:
        await bench.make_topic()
        await CHECKS[word](bench)

    trio.run(program)
    ended = bench.facts("FaultEnded")[-1]
    assert_noted(word, bench.facts("FaultBegan")[-1], ended)
    assert ended["acted_count"] >= 1


@pytest.mark.parametrize("kind", REAL_WORLDS)
@pytest.mark.parametrize("word", [word for word, row in TABLE.items() if row.embedded != "yes"])
def test_what_a_world_cannot_do_is_refused_and_nothing_has_happened(kind, word, tmp_path) -> None:
    world = REAL_WORLDS[kind](ClusterSpec(brokers=1), journal=str(tmp_path))
    with pytest.raises(CannotBegin, match=r"use virtual|up --with-links"):
        trio.run(CHECKS[word], bench_of(world, tmp_path))
    assert world.faults() == ()
    assert not (tmp_path / "world.jsonl").exists()


def test_a_refusal_is_known_before_anything_runs() -> None:
    spec = ClusterSpec(brokers=2)
    power = PowerOff(node=BROKER)
    assert refusal_of(power, "virtual", spec) is None
    text = "the processes world cannot do power_off: use virtual"
    assert refusal_of(power, "processes", spec) == text
    slow = SlowLink(between=("broker-a", "broker-b"), ms=5)
    assert "rmqemu up --with-links" in (refusal_of(slow, "embedded", spec) or "")
    assert refusal_of(slow, "embedded", spec, has_links=True) is None
    wrong = ReadOnly(broker="broker-bb")
    text = "read_only: there is no broker named 'broker-bb'; did you mean broker-b?"
    assert refusal_of(wrong, "virtual", spec) == text


@pytest.mark.parametrize(
    "ends", [{"around": "controller"}, {"between": ("brokers", "controllers")}]
)
def test_links_of_controllers_are_hurt_in_the_virtual_world_only(ends) -> None:
    spec = ClusterSpec(brokers=1, slaves=1, controllers=1, release="5.3.3")
    fault = CutLink(**ends)
    assert refusal_of(fault, "virtual", spec) is None
    assert "no proxies" in (refusal_of(fault, "processes", spec, has_links=True) or "")
    among_brokers = CutLink(between=("broker-a", "broker-a-1"))
    assert refusal_of(among_brokers, "processes", spec, has_links=True) is None


@pytest.mark.parametrize("kind", WORLDS)
def test_every_world_has_an_answer_for_every_fault(kind) -> None:
    assert {row.can(kind) for row in TABLE.values()} <= {"yes", "no", "with_links"}


def test_the_page_of_faults_says_what_the_table_says() -> None:
    page = faults.PAGE.read_text()
    assert with_section(page, "faults", faults.faults_text()) == page, "run make page"


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linked")
    fields = {"slaves": 1, "settings": {"ha_heartbeat_interval_ms": 100}}
    with EmbeddedCluster(brokers=1, with_links=True, journal=str(folder), **fields) as cluster:
        yield bench_of(cluster, folder)


@pytest.mark.parametrize(
    "word", [word for word, row in TABLE.items() if row.embedded == "with_links"]
)
def test_behind_proxies_real_links_do_what_the_table_says(linked, word) -> None:
    async def program() -> None:
        await linked.make_topic()
        await CHECKS[word](linked)

    trio.run(program)
    assert linked.facts("FaultEnded")[-1]["acted_count"] >= 1

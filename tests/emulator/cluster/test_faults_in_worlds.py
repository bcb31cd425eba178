"""Whatever the table of faults says a world can do is seen to be done there, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from fault_scene import BROKER, REAL_WORLDS, TOPIC, Scene, Story, play, scene_of

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

HOUR_MS = 3_600_000
REFUSED = ReplyRule(code=RequestCode.GET_ALL_TOPIC_CONFIG, error_code=ResponseCode.SYSTEM_BUSY)


def silences(fault: Any) -> Story:
    """The broker does not answer while it holds."""

    async def story(scene: Scene) -> None:
        fault_id = await scene.begin(fault)
        assert not await scene.answers()
        await scene.end(fault_id)
        assert await scene.answers()

    return story


def delays(fault: Any, least_ms: float) -> Story:
    """A send takes longer while it holds."""

    async def story(scene: Scene) -> None:
        fault_id = await scene.begin(fault)
        status, took_ms = await scene.send()
        assert (status, took_ms >= least_ms) == ("SEND_OK", True), took_ms
        await scene.end(fault_id)
        status, took_ms = await scene.send()
        assert (status, took_ms < least_ms) == ("SEND_OK", True), took_ms

    return story


def spoils(fault: Any, *statuses: str) -> Story:
    """A send ends otherwise while it holds."""

    async def story(scene: Scene) -> None:
        fault_id = await scene.begin(fault)
        assert (await scene.send())[0] in statuses
        await scene.end(fault_id)
        assert (await scene.send())[0] == "SEND_OK"

    return story


async def the_clock_jumps(scene: Scene) -> None:
    fault_id = await scene.begin(ClockJump(node=BROKER, ms=HOUR_MS))
    assert await scene.ahead_ms() == pytest.approx(HOUR_MS, abs=60_000)
    await scene.end(fault_id)
    assert await scene.ahead_ms() == pytest.approx(0, abs=60_000)


async def the_clock_drifts(scene: Scene) -> None:
    fault_id = await scene.begin(ClockDrift(node=BROKER, ppm=500_000))
    await trio.sleep(1)
    assert await scene.ahead_ms() > 300
    await scene.end(fault_id)
    assert await scene.ahead_ms() < 200


async def routes_show_read_only(scene: Scene) -> None:
    await scene.make_topic("other")
    topic_id = await scene.begin(ReadOnly(broker=BROKER, topic=TOPIC))
    assert (await scene.perms(), await scene.perms("other")) == ([4], [6])
    broker_id = await scene.begin(ReadOnly(broker=BROKER))
    assert (await scene.perms(), await scene.perms("other")) == ([4], [4])
    await scene.end(topic_id)
    await scene.end(broker_id)
    assert (await scene.perms(), await scene.perms("other")) == ([6], [6])


async def a_name_server_forgets_the_broker(scene: Scene) -> None:
    fault_id = await scene.begin(Unregistered(broker=BROKER, name_server="namesrv"))
    assert not await scene.is_routed()
    await scene.make_topic("other")  # the broker registers it, and is refused
    assert not await scene.is_routed()
    await scene.end(fault_id)
    await scene.make_topic("another")
    await scene.until(scene.is_routed)


STORIES: Mapping[str, Story] = {
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
    "read_only": routes_show_read_only,
    "unregistered": a_name_server_forgets_the_broker,
    "answer": silences(Answer(node=BROKER, rule=REFUSED)),
}


def test_every_fault_has_a_row_and_a_story() -> None:
    assert set(TABLE) == set(STORIES) == set(FAULTS)


@pytest.mark.parametrize("word", TABLE)
def test_the_virtual_world_does_every_fault(word) -> None:
    last: list[dict[str, Any]] = []

    async def told(scene: Scene) -> None:
        await STORIES[word](scene)
        last.extend(scene.facts(kind)[-1] for kind in ("FaultBegan", "FaultEnded"))

    play(told)
    assert_noted(word, *last)


def assert_noted(word: str, began: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    """The world's own facts say that the fault held, and is over."""
    assert f'"fault":"{word}"' in began["fault"]
    assert ended["fault_id"] <= began["fault_id"]


@pytest.fixture(scope="module", params=REAL_WORLDS)
def scene(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    world = REAL_WORLDS[request.param]
    with world(
        ClusterSpec(brokers=1, store=str(folder / "store")), journal=str(folder)
    ) as cluster:
        yield scene_of(cluster, folder)


@pytest.mark.parametrize("word", [word for word, row in TABLE.items() if row.embedded == "yes"])
def test_a_world_of_real_time_does_what_the_table_says(scene, word) -> None:
    assert TABLE[word].processes == "yes"

    async def told() -> None:
        await scene.make_topic()
        await STORIES[word](scene)

    trio.run(told)
    ended = scene.facts("FaultEnded")[-1]
    assert_noted(word, scene.facts("FaultBegan")[-1], ended)
    assert ended["acted_count"] >= 1


@pytest.mark.parametrize("kind", REAL_WORLDS)
@pytest.mark.parametrize("word", [word for word, row in TABLE.items() if row.embedded != "yes"])
def test_what_a_world_cannot_do_is_refused_and_nothing_has_happened(kind, word, tmp_path) -> None:
    world = REAL_WORLDS[kind](ClusterSpec(brokers=1), journal=str(tmp_path))
    with pytest.raises(CannotBegin, match=r"use virtual|with links"):
        trio.run(STORIES[word], scene_of(world, tmp_path))
    assert world.faults() == ()
    assert not (tmp_path / "world.jsonl").exists()


def test_a_refusal_is_known_before_anything_runs() -> None:
    spec = ClusterSpec(brokers=2)
    power = PowerOff(node=BROKER)
    assert refusal_of(power, "virtual", spec) is None
    text = "the processes world cannot do power_off: use virtual"
    assert refusal_of(power, "processes", spec) == text
    slow = SlowLink(between=("broker-a", "broker-b"), ms=5)
    assert "start the cluster with links" in (refusal_of(slow, "embedded", spec) or "")
    assert refusal_of(slow, "embedded", spec, has_links=True) is None
    wrong = ReadOnly(broker="broker-bb")
    text = "read_only: there is no broker named 'broker-bb'; did you mean broker-b?"
    assert refusal_of(wrong, "virtual", spec) == text


@pytest.mark.parametrize("kind", WORLDS)
def test_every_world_has_an_answer_for_every_fault(kind) -> None:
    assert {row.can(kind) for row in TABLE.values()} <= {"yes", "no", "with_links"}


def test_the_page_of_faults_says_what_the_table_says() -> None:
    page = faults.PAGE.read_text()
    assert with_section(page, "faults", faults.faults_text()) == page, "run make page"


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linked")
    with EmbeddedCluster(brokers=1, with_links=True, journal=str(folder)) as cluster:
        yield scene_of(cluster, folder)


@pytest.mark.parametrize(
    "word", [word for word, row in TABLE.items() if row.embedded == "with_links"]
)
def test_behind_proxies_real_links_do_what_the_table_says(linked, word) -> None:
    async def told() -> None:
        await linked.make_topic()
        await STORIES[word](linked)

    trio.run(told)
    assert linked.facts("FaultEnded")[-1]["acted_count"] >= 1

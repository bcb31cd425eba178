"""Masters with slaves: what is copied, what a send waits for, what a dead slave changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
import trio

from rocketmq_emulator.client import Message, Producer, SendStatus
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.sim.world import run_virtual
from rocketmq_emulator.sync import Producer as SyncProducer

SYNC = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}
BOTH = pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])


class SlaveRun:
    """The statuses of sends, and the facts, of a run with slaves."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.entries: list[dict] = []

    def line(self, line: bytes) -> None:
        self.entries.append(msgspec.json.decode(line))

    def facts(self, node: str, kind: str) -> list[dict]:
        found = (entry for entry in self.entries if entry["node"] == node)
        return [entry["fact"] for entry in found if entry["fact"]["kind"] == kind]


def run(spec: ClusterSpec, script) -> SlaveRun:
    """Run ``script(cluster, send)``; ``send()`` sends one message."""
    ran = SlaveRun()

    async def main(world) -> None:
        cluster = VirtualCluster(world, spec, ran.line)
        await cluster.start()

        async def program(process) -> None:
            async with Producer(
                process=process, namesrv=cluster.namesrv, group="shop", send_timeout_ms=9_000
            ) as producer:

                async def send() -> None:
                    result = await producer.send(Message("orders", b"one"))
                    ran.statuses.append(result.status.name)

                await script(cluster, send)

        await cluster.start_client("client", program).wait_ended()

    run_virtual(main, seed=1)
    return ran


@BOTH
def test_each_master_has_slaves_of_its_own_name(release: str) -> None:
    spec = ClusterSpec(brokers=2, slaves=2, release=release, port=9876)
    assert spec.broker_names == (
        *("broker-a", "broker-b"),
        *("broker-a-1", "broker-b-1"),
        *("broker-a-2", "broker-b-2"),
    )
    found = spec.broker_config("broker-b-2")
    assert (found.name, found.broker_id, found.broker_role) == ("broker-b", 2, "SLAVE")
    assert found.listen_address == "127.0.0.1:11031"
    assert spec.broker_config("broker-b").broker_role == "ASYNC_MASTER"


@BOTH
def test_slaves_have_what_a_sync_master_acknowledged(release: str) -> None:
    async def script(_cluster, send) -> None:
        await trio.sleep(12)
        for _ in range(5):
            await send()

    spec = ClusterSpec(brokers=1, slaves=1, release=release, broker_settings=SYNC)
    ran = run(spec, script)
    assert ran.statuses == ["SEND_OK"] * 5
    copied = ran.facts("broker-a-1", "LogCopied")
    stored = ran.facts("broker-a", "MessageStored")
    assert sum(fact["message_count"] for fact in copied) == len(stored) >= 5


@pytest.mark.parametrize(
    ("release", "first"), [("4.9.7", "SLAVE_NOT_AVAILABLE"), ("5.3.3", "FLUSH_SLAVE_TIMEOUT")]
)
def test_r11_r13_without_its_slave_a_sync_master_says_so_and_stores(
    release: str, first: str
) -> None:
    async def script(cluster, send) -> None:
        await trio.sleep(12)
        cluster.kill("broker-a-1")
        await trio.sleep(1)
        await send()
        await cluster.restart("broker-a-1")
        await trio.sleep(20)
        await send()

    spec = ClusterSpec(brokers=1, slaves=1, release=release, broker_settings=SYNC)
    ran = run(spec, script)
    assert ran.statuses == [first, "SEND_OK"]


@BOTH
def test_a_slave_that_is_paused_holds_a_send_for_three_seconds(release: str) -> None:
    took_s: list[float] = []

    async def script(cluster, send) -> None:
        await trio.sleep(12)
        await send()
        cluster.pause("broker-a-1")
        began_s = trio.current_time()
        await send()
        took_s.append(trio.current_time() - began_s)

    spec = ClusterSpec(brokers=1, slaves=1, release=release, broker_settings=SYNC)
    ran = run(spec, script)
    assert ran.statuses == ["SEND_OK", "FLUSH_SLAVE_TIMEOUT"]
    assert 2.99 < took_s[0] < 3.1  # wall times are whole milliseconds


@BOTH
def test_an_async_master_waits_for_nobody_and_its_slave_is_100_ms_behind(release: str) -> None:
    async def script(cluster, send) -> None:
        await trio.sleep(12)
        cluster.pause("broker-a-1")
        await send()

    ran = run(ClusterSpec(brokers=1, slaves=1, release=release), script)
    assert ran.statuses == ["SEND_OK"]
    assert ran.facts("broker-a-1", "LogCopied") == []


@BOTH
def test_after_a_reset_slaves_copy_the_new_log(release: str) -> None:
    quick = {"ha_heartbeat_interval_ms": 100, "ha_connect_interval_ms": 50}
    settings = {**SYNC, **quick, "slave_ack_ms_max": 500}
    with EmbeddedCluster(brokers=1, slaves=1, release=release, settings=settings) as cluster:
        for _ in range(2):
            assert SendStatus.SEND_OK in statuses_of_sends(cluster.namesrv)
            cluster.reset()


def statuses_of_sends(namesrv: str) -> Iterator[SendStatus]:
    """Sends one after another: each waits for the slave for half a second."""
    with SyncProducer(namesrv=namesrv, group="shop") as producer:
        for _ in range(60):
            yield producer.send(Message("orders", b"one")).status


def test_each_process_writes_its_own_name_into_its_journal(tmp_path) -> None:
    spec = ClusterSpec(name_servers=2, brokers=1, slaves=1)
    with ProcessCluster(spec, journal=str(tmp_path)):
        pass
    written = {path.stem: path.read_bytes().splitlines() for path in tmp_path.glob("*.jsonl")}
    names = {
        stem: {msgspec.json.decode(line)["node"] for line in lines}
        for stem, lines in written.items()
    }
    nodes = (*spec.name_server_names, *spec.broker_names)
    assert {node: names[node] for node in nodes} == {node: {node} for node in nodes}

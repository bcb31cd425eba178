"""SYNC_FLUSH in every world, and with faults of drives in the virtual world."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.client import Message, Producer, SendStatus
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.faults.links_and_drives import DriveFault, NoRoom
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.sim.world import run_virtual

BROKER = "broker-a"
SYNC = {"flush_disk_type": "SYNC_FLUSH"}


def facts(lines: list[bytes], kind: str) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line)["fact"] for line in lines]
    return [fact for fact in found if fact["kind"] == kind]


@pytest.mark.parametrize("world", [EmbeddedCluster, ProcessCluster])
def test_a_send_is_acknowledged_when_it_was_flushed(world: Any, tmp_path: Path) -> None:
    async def send(namesrv: str) -> SendStatus:
        async with Producer(namesrv=namesrv, group="shop") as producer:
            return (await producer.send(Message("orders", b"hello"))).status

    spec = ClusterSpec(brokers=1, store=str(tmp_path / "store"), broker_settings=SYNC)
    with world(spec, journal=str(tmp_path)) as cluster:
        assert trio.run(send, cluster.namesrv) is SendStatus.SEND_OK
        lines = (tmp_path / f"{BROKER}.jsonl").read_bytes().splitlines()
        assert [fact["message_count"] for fact in facts(lines, "LogFlushed")] == [1]


def in_the_virtual_world(
    hurt: Any, **settings: Any
) -> tuple[list[SendStatus], list[dict[str, Any]]]:
    """Statuses of three sends, the second inside ``hurt(drive)``, and failures of flushes."""
    lines: list[bytes] = []
    statuses: list[SendStatus] = []

    async def main(world: Any) -> None:
        spec = ClusterSpec(brokers=1, store="drive", broker_settings={**SYNC, **settings})
        cluster = VirtualCluster(world, spec, lines.append)
        await cluster.start()
        drive = world.machines.machine(BROKER).drive

        async def shop(process: Any) -> None:
            producer = Producer(process=process, namesrv=cluster.namesrv, group="shop")
            async with producer:
                for number in range(3):
                    message = Message("orders", b"%d" % number)
                    if number == 1:
                        with hurt(drive):
                            statuses.append((await producer.send(message)).status)
                    else:
                        statuses.append((await producer.send(message)).status)

        await cluster.start_client("shop", shop).wait_ended()
        await trio.sleep(2)
        cluster.power_off(BROKER)
        await cluster.power_on(BROKER)
        await trio.sleep(1)

    run_virtual(main, seed=1)
    (recovered,) = facts(lines, "LogRecovered")
    assert recovered["message_count"] == 3  # a later flush included the others
    return statuses, facts(lines, "FlushFailed")


def test_a_drive_that_refuses_a_flush_is_told_to_the_sender_and_noted_once() -> None:
    statuses, failures = in_the_virtual_world(lambda drive: drive.failing())
    late = SendStatus.FLUSH_DISK_TIMEOUT
    assert statuses == [SendStatus.SEND_OK, late, SendStatus.SEND_OK]
    assert len(failures) == 1


def test_a_slow_drive_makes_its_senders_wait_no_longer_than_they_were_promised() -> None:
    statuses, failures = in_the_virtual_world(
        lambda drive: drive.slow(seek_ms=1_200), sync_flush_ms_max=500
    )
    late = SendStatus.FLUSH_DISK_TIMEOUT
    # The flush that was running when the drive became quick again ended at once.
    assert statuses == [SendStatus.SEND_OK, late, SendStatus.SEND_OK]
    assert failures == []


def test_a_full_drive_takes_what_its_open_segment_has_room_for_and_recovers() -> None:
    """Bodies of 30 kB, segments of 200 kB: no room for another segment while the fault holds."""
    lines: list[bytes] = []
    outcomes: list[str] = []

    async def main(world: Any) -> None:
        settings = {"segment_bytes": 200_000, "message_bytes_max": 40_000}
        cluster = VirtualCluster(
            world, ClusterSpec(brokers=1, store="drive", broker_settings=settings), lines.append
        )
        await cluster.start()
        fault = DriveFault(NoRoom(free_bytes=5_000))

        async def shop(process: Any) -> None:
            drive = world.machines.machine(BROKER).drive
            async with Producer(
                process=process, namesrv=cluster.namesrv, group="shop"
            ) as producer:
                await producer.send(Message("orders", b"the topic is made"))
                with drive.under(fault):
                    outcomes.extend([await outcome(producer) for _ in range(10)])
                outcomes.append(await outcome(producer))

        await cluster.start_client("shop", shop).wait_ended()
        assert fault.tally.count >= 4

    run_virtual(main, seed=1)
    assert outcomes == ["stored"] * 6 + [
        f"refused with {ResponseCode.SERVICE_NOT_AVAILABLE}"
    ] * 4 + ["stored"]
    assert any("do not fit" in fact["reason"] for fact in facts(lines, "StoreRefused"))


async def outcome(producer: Producer) -> str:
    try:
        await producer.send(Message("orders", random.Random(1).randbytes(30_000)))
    except SendError as error:
        return f"refused with {error.code}"
    return "stored"

"""How a broker of several replicas prepares before it registers: R36, R37."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rocketmq_emulator.client import Message
from tests.support.broker.acting_clusters import ActingRun, run_acting

BROKER_HEARTBEAT = 904
KILL_S = 70  # the slave has copied the tables by then


async def stay(_cluster: Any, _producer: Any) -> None:
    await trio.sleep(30)


def first_registration_ms(ran: ActingRun, node: str) -> int:
    return ran.times_of(node, "RegisteredWith")[0] - ran.entries[0]["at_ms"]


def test_r36_a_lone_broker_of_two_replicas_registers_within_two_seconds() -> None:
    ran = run_acting(stay, slaves=0, total_replicas=2)
    assert len(ran.facts("broker-a", "PreOnlineBegan")) == 1
    assert first_registration_ms(ran, "broker-a") <= 2_000


def test_r36_with_one_replica_or_skip_pre_online_no_broker_is_isolated() -> None:
    for settings in ({"total_replicas": 1}, {"skip_pre_online": True}):
        ran = run_acting(stay, **settings)
        assert ran.facts("broker-a", "PreOnlineBegan") == []
        assert first_registration_ms(ran, "broker-a-1") <= 100


def test_a_slave_registers_only_when_it_copies_from_its_master() -> None:
    ran = run_acting(stay)
    (copying_ms,) = ran.times_of("broker-a-1", "MasterConnected")
    (ended,) = ran.facts("broker-a-1", "PreOnlineEnded")
    assert ran.times_of("broker-a-1", "RegisteredWith")[0] >= copying_ms
    assert ended["min_broker_id"] == 0


def test_r37_a_returning_master_waits_for_its_slave_and_sends_no_heartbeat_until_then() -> None:
    async def return_without_copies(cluster: Any, _producer: Any) -> None:
        await trio.sleep(KILL_S)
        cluster.kill("broker-a")
        await trio.sleep(5)
        cluster.pause("broker-a-1")
        restarting_s = trio.current_time()
        await cluster.restart("broker-a")
        assert trio.current_time() - restarting_s >= 14
        cluster.resume("broker-a-1")
        await trio.sleep(30)

    ran = run_acting(
        return_without_copies,
        name_server_settings={"facts_on_demand": ("RequestReceived",)},
        compatible_with_old_namesrv=False,
    )
    (waiting, *_) = ran.facts("broker-a", "PreOnlineWaiting")
    assert waiting["step"] == "HA address"
    back_ms = ran.times_of("broker-a", "PreOnlineBegan")[-1]
    online_ms = ran.times_of("broker-a", "PreOnlineEnded")[-1]
    copied_ms = ran.times_of("broker-a", "SlaveConnected")[-1]
    registered = [at_ms for at_ms in ran.times_of("broker-a", "RegisteredWith") if at_ms > back_ms]
    assert back_ms < copied_ms <= online_ms <= registered[0]
    masters_host = ran.facts("broker-a", "NodeStarted")[0]["address"].partition(":")[0]
    beats_ms = [
        entry["at_ms"]
        for entry in ran.of("namesrv", "RequestReceived")
        if entry["fact"]["code"] == BROKER_HEARTBEAT
        and entry["fact"]["peer"].startswith(f"{masters_host}:")
    ]
    assert any(at_ms > online_ms for at_ms in beats_ms)
    assert not any(back_ms < at_ms < online_ms for at_ms in beats_ms)


def test_r37_the_returned_master_has_the_offsets_committed_at_the_acting_master() -> None:
    found: list[int | None] = []

    async def commit_at_the_slave(cluster: Any, producer: Any) -> None:
        await trio.sleep(6)
        await producer.send(Message("orders", b"one"))
        await cluster.create_readers()
        await cluster.commit("broker-a", 3)
        await trio.sleep(KILL_S)
        cluster.kill("broker-a")
        await trio.sleep(5)
        await cluster.commit("broker-a-1", 17)
        await trio.sleep(5)
        await cluster.restart("broker-a")
        await trio.sleep(5)
        found.append(await cluster.committed("broker-a"))

    ran = run_acting(commit_at_the_slave)
    assert found == [17]
    taken = {
        fact["table"]: fact["is_taken"] for fact in ran.facts("broker-a", "MetadataTakenBack")
    }
    assert taken == {"consumer offsets": True, "delay offsets": True, "timer checkpoint": True}


def test_a_master_with_newer_offsets_keeps_them() -> None:
    found: list[int | None] = []

    async def commit_often_after_the_copy(cluster: Any, producer: Any) -> None:
        await trio.sleep(6)
        await producer.send(Message("orders", b"one"))
        await cluster.create_readers()
        await cluster.commit("broker-a", 3)
        await trio.sleep(KILL_S)
        for offset in range(501):  # so the version of the table counts up
            await cluster.commit("broker-a", offset)
        await trio.sleep(6)
        cluster.kill("broker-a")
        await trio.sleep(5)
        await cluster.commit("broker-a-1", 17)
        await cluster.restart("broker-a")
        await trio.sleep(5)
        found.append(await cluster.committed("broker-a"))

    ran = run_acting(commit_often_after_the_copy)
    taken = {
        fact["table"]: fact["is_taken"] for fact in ran.facts("broker-a", "MetadataTakenBack")
    }
    assert (found, taken["consumer offsets"]) == ([500], False)


def test_a_broker_that_finds_no_name_server_prepares_until_it_does() -> None:
    async def without_name_server(cluster: Any, _producer: Any) -> None:
        await trio.sleep(20)
        cluster.kill("broker-a")
        cluster.kill("namesrv")
        restarted = trio.current_time()
        await cluster.restart("broker-a")
        assert trio.current_time() - restarted == pytest.approx(15, abs=1)
        await cluster.restart("namesrv")
        await trio.sleep(10)

    ran = run_acting(without_name_server)
    (waiting,) = ran.facts("broker-a", "PreOnlineWaiting")
    assert waiting["reason"] == "no NameServer answers"
    assert len(ran.facts("broker-a", "PreOnlineEnded")) == 2

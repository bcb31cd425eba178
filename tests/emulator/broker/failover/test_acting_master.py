"""A slave that acts as its master, in whole clusters: R33, R38, R40."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rocketmq_emulator.client import Message, PushConsumer
from tests.support.broker.acting_clusters import run_acting

OLD_REQUESTS = pytest.mark.parametrize("old", [True, False])


async def fail_over(cluster: Any, _producer: Any) -> None:
    await trio.sleep(20)
    cluster.kill("broker-a")
    await trio.sleep(20)
    await cluster.restart("broker-a")
    await trio.sleep(20)


@OLD_REQUESTS
def test_r38_the_smallest_live_id_acts_two_seconds_after_the_loss_until_the_master_is_back(
    old: bool,
) -> None:
    ran = run_acting(fail_over, slaves=2, compatible_with_old_namesrv=old)
    killed_ms = ran.killed_ms("broker-a")
    lost_ms, back_ms = ran.times_of("broker-a-1", "MinBrokerChanged")
    assert 0 <= lost_ms - killed_ms <= 2_000
    assert ran.times_of("broker-a-1", "ActingMasterBegan") == [lost_ms]
    assert ran.times_of("broker-a-1", "ActingMasterEnded") == [back_ms]
    assert ran.facts("broker-a-2", "ActingMasterBegan") == []
    online_ms = ran.times_of("broker-a", "PreOnlineEnded")[-1]
    assert 0 <= back_ms - online_ms <= 2_000
    lost, back = ran.facts("broker-a-2", "MinBrokerChanged")
    assert (lost["min_broker_id"], back["min_broker_id"]) == (1, 0)
    assert lost["offline_address"] == back["address"] != ""


@OLD_REQUESTS
def test_heartbeats_keep_a_broker_that_may_be_silent_for_ten_seconds_only(old: bool) -> None:
    async def wait(_cluster: Any, _producer: Any) -> None:
        await trio.sleep(60)

    ran = run_acting(wait, compatible_with_old_namesrv=old)
    assert ran.facts("namesrv", "BrokerExpired") == []

    async def silence(cluster: Any, _producer: Any) -> None:
        await trio.sleep(20)
        cluster.pause("broker-a")
        await trio.sleep(20)
        cluster.resume("broker-a")

    ran = run_acting(silence, compatible_with_old_namesrv=old)
    (expired,) = ran.facts("namesrv", "BrokerExpired")
    assert 10_000 <= expired["silent_for_ms"] <= 15_000
    assert len(ran.facts("broker-a-1", "ActingMasterBegan")) == 1


def test_without_the_setting_a_slave_never_acts_and_no_broker_asks_for_members() -> None:
    ran = run_acting(fail_over, slave_acting_master=False)
    assert ran.facts("broker-a-1", "MinBrokerChanged") == []
    assert ran.facts("broker-a", "PreOnlineBegan") == []


def test_a_slave_that_loses_its_master_asks_it_for_nothing_until_it_is_back() -> None:
    async def long_fail_over(cluster: Any, _producer: Any) -> None:
        await trio.sleep(50)
        cluster.kill("broker-a")  # the slave copies the tables 6 s later, and registers 15 s later
        await trio.sleep(100)
        await cluster.restart("broker-a")
        await trio.sleep(100)

    ran = run_acting(long_fail_over)
    killed_ms = ran.killed_ms("broker-a")
    failing = ran.times_of("broker-a-1", "MetadataSyncFailed")
    assert all(at_ms - killed_ms <= 3_000 for at_ms in failing)
    back_ms = ran.times_of("broker-a", "PreOnlineEnded")[-1]
    assert any(at_ms > back_ms for at_ms in ran.times_of("broker-a-1", "MetadataSynced"))


def test_a_notice_of_the_name_server_makes_it_act_before_its_own_look() -> None:
    ran = run_acting(
        fail_over,
        name_server_settings={"notify_min_broker_id_changed": True},
        member_group_interval_ms=9_000,
    )
    killed_ms = ran.killed_ms("broker-a")
    (began_ms,) = ran.times_of("broker-a-1", "ActingMasterBegan")
    assert began_ms - killed_ms <= 100


def test_r33_consumers_read_from_the_acting_master_if_it_may_be_read() -> None:
    bodies: list[bytes] = []

    async def consume_through(cluster: Any, producer: Any) -> None:
        await trio.sleep(6)
        for number in range(4):
            await producer.send(Message("orders", b"%d" % number))
        await trio.sleep(60)
        cluster.kill("broker-a")
        await trio.sleep(1)
        bodies.extend(await consumed(cluster))

    ran = run_acting(
        consume_through,
        brokers=1,
        slave_read=True,
        name_server_settings={"support_acting_master": True},
    )
    assert sorted(bodies) == [b"0", b"1", b"2", b"3"]
    pulls = ran.facts("broker-a-1", "PullAnswered")
    assert sum(pull["message_count"] for pull in pulls) == 4


async def consumed(cluster: Any) -> list[bytes]:
    """The bodies of what a new group gets in 40 s."""
    bodies: list[bytes] = []

    async def listener(messages: Any) -> None:
        bodies.extend(message.body for message in messages)

    async def program(process: Any) -> None:
        async with PushConsumer(
            listener,
            {"orders": "*"},
            process=process,
            namesrv=cluster.namesrv,
            group="readers",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
        ):
            await trio.sleep(40)

    await cluster.start_client("reader", program).wait_ended()
    return bodies

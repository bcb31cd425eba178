"""Queries and waits of a test in virtual time, and clients that cannot work there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from rocketmq_emulator import sync
from rocketmq_emulator.client import BadArgument, BrokerRefused, Message, Producer, PushConsumer
from rocketmq_emulator.testing import ClusterUnreachable, NotBalanced, NotConsumed, VirtualRocketMQ
from rocketmq_emulator.testing.virtual_tests import NotAwaited, checking_awaits
from rocketmq_emulator.virtual import ClusterSpec, VirtualWorld, run_virtual


def play(test: Callable[[VirtualRocketMQ], Awaitable[None]]) -> None:
    async def main(world: VirtualWorld) -> None:
        lines: list[bytes] = []
        cluster = VirtualRocketMQ(world, ClusterSpec(brokers=2), lines.append)
        await cluster.start()
        await cluster.create_topic("orders")
        with cluster.refusing_tcp_clients():
            await test(cluster)

    run_virtual(main, seed=1)


def start_members(cluster: VirtualRocketMQ, listener: Any, **settings: Any) -> None:
    """Two members of billing."""

    async def consume(process: Any) -> None:
        settings.setdefault("consume_from", "CONSUME_FROM_FIRST_OFFSET")
        where = {"process": process, "namesrv": cluster.namesrv, "group": "billing"}
        async with PushConsumer(listener, {"orders": "*"}, **where, **settings):
            await trio.sleep_forever()

    for name in ("billing-1", "billing-2"):
        cluster.start_client(name, consume)


async def sell(cluster: VirtualRocketMQ, count: int = 1) -> None:
    async def program(process: Any) -> None:
        async with Producer(process=process, namesrv=cluster.namesrv, group="shop") as producer:
            for _ in range(count):
                await producer.send(Message("orders", b"two cups"))

    await cluster.start_client("shop", program).wait_ended()


def test_retries_are_waited_for_or_come_at_once_in_virtual_time() -> None:
    tries: list[int] = []

    async def bill(messages: Any) -> None:
        tries.append(messages[0].reconsume_times)
        if len(tries) < 3:
            raise ValueError("no price for two cups")

    async def test(cluster: VirtualRocketMQ) -> None:
        start_members(cluster, bill)
        await cluster.wait_until_balanced("billing", members=2)
        await sell(cluster)
        with pytest.raises(NotConsumed, match="retries not yet delivered: 1"):
            await cluster.wait_until_consumed("billing", timeout=5, topics=["orders"])
        await cluster.advance_until_consumed("billing", topics=["orders"])
        assert tries == [0, 1, 2]
        await sell(cluster)
        await cluster.wait_until_consumed("billing", topics=["orders"])
        assert [message.body for message in await cluster.sent_to("orders")] == [b"two cups"] * 2
        assert len(await cluster.consumed_by("billing")) == 4  # with two retries
        assert cluster.queried_groups == {"billing": ("orders",)}

    play(test)


def test_orderly_members_are_waited_for_as_long_as_their_timers_need() -> None:
    async def bill(_messages: Any) -> None: ...

    async def test(cluster: VirtualRocketMQ) -> None:
        start_members(cluster, bill, orderly=True)
        await cluster.wait_until_balanced("billing", members=2)
        with pytest.raises(NotBalanced, match="2 of 3 members, after 1 s: billing-1, billing-2"):
            await cluster.wait_until_balanced("billing", members=3, timeout=1)

    play(test)


def test_a_client_over_tcp_is_refused_with_what_to_do() -> None:
    told = r"no process= and would use TCP.*start_client.*process=process.*the fixture rocketmq"

    async def test(cluster: VirtualRocketMQ) -> None:
        with pytest.raises(BadArgument, match=told):
            async with Producer(namesrv=cluster.namesrv, group="shop"):
                pass
        with pytest.raises(BadArgument, match=told):
            sync.Producer(namesrv=cluster.namesrv, group="shop").start()

    play(test)


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("kill", "broker-b was killed and holds 4 messages of orders that billing has not"),
        ("power_off", "broker-b has lost power and holds 4 messages of orders"),
        ("pause", "broker-b is paused and holds 4 messages of orders .*: resume it, or"),
    ],
)
def test_what_a_broker_holds_that_does_not_run_is_waited_for(verb: str, told: str) -> None:
    got: list[Any] = []

    async def bill(messages: Any) -> None:
        got.extend(messages)

    async def test(cluster: VirtualRocketMQ) -> None:
        await sell(cluster, 8)
        await trio.sleep(10)  # flushed
        getattr(cluster, verb)("broker-b")
        await trio.sleep(200)  # its registration at the NameServer has expired
        start_members(cluster, bill)
        await cluster.wait_until_consumed("billing", topics=["orders"], brokers=["broker-a"])
        assert len(got) == 4
        with pytest.raises(NotConsumed, match=told):
            await cluster.wait_until_consumed("billing", timeout=5, topics=["orders"])
        await cluster.start("broker-b")
        cluster.resume("broker-b")
        await cluster.wait_until_consumed("billing", topics=["orders"])
        assert len(got) == 8

    play(test)


def test_a_query_beside_a_paused_broker_names_it() -> None:
    async def test(cluster: VirtualRocketMQ) -> None:
        with cluster.pause("broker-b"), pytest.raises(ClusterUnreachable, match="broker-b is pau"):
            await cluster.sent_to("orders")
        assert await cluster.sent_to("orders") == []

    play(test)


def test_the_next_requests_of_a_client_with_the_settings_of_its_process_fail() -> None:
    async def program(cluster: VirtualRocketMQ, process: Any) -> None:
        settings = cluster.client_settings(process, quick=True)
        async with Producer(group="shop", sync_retries=0, **settings) as producer:
            with pytest.raises(BrokerRefused, match="SYSTEM_BUSY"):
                await producer.send(Message("orders", b"two cups"))
            assert producer.config.heartbeat_interval_ms == 300

    async def test(cluster: VirtualRocketMQ) -> None:
        await cluster.fail_next("send")
        await cluster.start_client("shop", partial(program, cluster)).wait_ended()
        with pytest.raises(BadArgument, match="needs the process of the client's program"):
            cluster.client_settings(None)  # type: ignore[arg-type]

    play(test)


def test_a_verb_without_await_fails_the_test_with_its_name() -> None:
    async def test(cluster: VirtualRocketMQ) -> None:
        cluster.kill("broker-b")
        cluster.start("broker-b")  # type: ignore[unused-coroutine]

    with (
        pytest.raises(NotAwaited, match=r"start was called without await at test_virtual_rock.*:"),
        checking_awaits(),
    ):
        play(test)

    async def failing(cluster: VirtualRocketMQ) -> None:
        await test(cluster)
        assert cluster.is_running("broker-b"), "it was started"

    with pytest.raises(AssertionError, match="it was started") as caught, checking_awaits():
        play(failing)
    assert any("start was called without await" in note for note in caught.value.__notes__)

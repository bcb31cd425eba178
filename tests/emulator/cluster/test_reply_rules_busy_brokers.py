"""Clients of brokers with busy pools: refused sends, retries elsewhere, expired members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.admin.calls import Admin
from rocketmq_emulator.client import ClientConfig, Message, Producer, PushConsumer
from rocketmq_emulator.cluster.fault_values import Busy
from rocketmq_emulator.cluster.faults.effects import OPERATOR
from rocketmq_emulator.cluster.reply_rules import (
    ReplyRuleRefused,
    call_from,
    call_server_blocking,
    set_busy_pool,
)
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import SendError
from rocketmq_emulator.net.blocking_calls import call_blocking
from rocketmq_emulator.protocol.bodies.extensions import BusyPool, BusyPoolState, PoolName
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.sim.world import run_virtual

BUSY, OTHER = "broker-a", "broker-b"


class BusyBench:
    """A virtual cluster, calls that set its pools, and the facts of all its machines."""

    def __init__(self, world: Any, brokers: int, release: str) -> None:
        self.world = world
        self.lines: list[bytes] = []
        spec = ClusterSpec(brokers=brokers, release=release)
        self.cluster = VirtualCluster(world, spec, self.lines.append)

    async def set(self, pool: PoolName, **how: Any) -> BusyPoolState:
        operator = self.world.machines.machine(OPERATOR)
        call = set_busy_pool(BusyPool(pool=pool, **how))
        address, release = self.cluster.addresses[BUSY], self.cluster.spec.release
        return await call_from(operator, BUSY, address, call, release)

    def facts(self, *kinds: str) -> list[dict[str, Any]]:
        entries = [msgspec.json.decode(line) for line in self.lines]
        return [
            {"at_ms": entry["at_ms"], "node": entry["node"], **entry["fact"]}
            for entry in entries
            if entry["fact"]["kind"] in kinds
        ]

    def producer(self, process: Any) -> Producer:
        release, namesrv = self.cluster.spec.release, self.cluster.namesrv
        return Producer(process=process, namesrv=namesrv, group="shop", release=release)

    def consumer(self, process: Any, listen: Any) -> PushConsumer:
        namesrv = self.cluster.namesrv
        return PushConsumer(
            listen, {"orders": "*"}, process=process, namesrv=namesrv, group="billing"
        )


def with_bench(
    play: Callable[[BusyBench], Awaitable[None]], *, brokers: int = 1, release: str = "4.9.7"
) -> BusyBench:
    async def main(world: Any) -> BusyBench:
        bench = BusyBench(world, brokers, release)
        await bench.cluster.start()
        await play(bench)
        return bench

    return run_virtual(main, seed=1)


class Sales:
    """Sends at a fixed rate, without waiting for earlier sends; records how each ended."""

    def __init__(self, bench: BusyBench, rate: int, seconds: int) -> None:
        self._bench = bench
        self._rate = rate
        self._seconds = seconds
        self.stored_at: list[str] = []
        self.refused_with: list[int | None] = []

    async def __call__(self, process: Any) -> None:
        async with self._bench.producer(process) as producer, trio.open_nursery() as nursery:
            await producer.send(Message("orders", b"the topic is made"))
            for _ in range(self._rate * self._seconds):
                nursery.start_soon(self._send, producer)
                await trio.sleep(1 / self._rate)

    async def _send(self, producer: Producer) -> None:
        try:
            result = await producer.send(Message("orders", b"an order"))
            self.stored_at.append(result.queue.broker_name)
        except SendError as error:
            self.refused_with.append(error.code)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_sends_that_wait_200_ms_are_refused_and_retried_elsewhere_where_upstream_does(
    release: str,
) -> None:
    """One thread with 50 ms a send serves 20 of the 40 sends a second; see issue S12, too."""
    sales: list[Sales] = []

    async def play(bench: BusyBench) -> None:
        await trio.sleep(1)  # upstream does not check its queues earlier
        sales.append(Sales(bench, rate=80, seconds=5))
        await bench.set("send", threads=1, service_ms=50)
        await bench.cluster.start_client("shop", sales[0]).wait_ended()

    bench = with_bench(play, brokers=2, release=release)
    shed = bench.facts("RequestShed")
    assert {fact["node"] for fact in shed} == {BUSY}
    assert 80 < len(shed) < 110  # 200 came in five seconds, 100 were served, a few wait
    assert {fact["reason"] for fact in shed} == {"waited too long"}
    assert all(200 <= fact["waited_ms"] < 215 for fact in shed)
    if release == "5.3.3":
        assert sales[0].refused_with == []
        assert sales[0].stored_at.count(OTHER) > 250
    else:
        assert sales[0].refused_with == [ResponseCode.SYSTEM_BUSY] * len(shed)


def test_a_broker_that_is_not_busy_any_more_does_what_waits_at_once() -> None:
    states: list[BusyPoolState] = []
    ended_at: list[float] = []

    async def play(bench: BusyBench) -> None:
        async def shop(process: Any) -> None:
            async with bench.producer(process) as producer, trio.open_nursery() as nursery:
                await producer.send(Message("orders", b"the topic is made"))
                await bench.set("send", threads=1, service_ms=60_000, queue_max=5)
                for _ in range(8):
                    nursery.start_soon(send, producer)
                await trio.sleep(0.1)
                states.append(await bench.set("send"))
                states.append(await bench.set("send"))

        async def send(producer: Producer) -> None:
            try:
                await producer.send(Message("orders", b"x"))
            except SendError as error:
                assert error.code == ResponseCode.SYSTEM_BUSY  # noqa: PT017 - each ends its way
                return
            ended_at.append(trio.current_time())

        await bench.cluster.start_client("shop", shop).wait_ended()

    bench = with_bench(play)
    first, second = states
    assert (first.waiting_count, first.overload_count, first.shed_count) == (5, 2, 0)
    assert (second.waiting_count, second.overload_count) == (0, 0)
    assert len(ended_at) == 6
    assert max(ended_at) - min(ended_at) < 0.01
    assert [fact["service_us"] for fact in bench.facts("BusyPoolSet")] == [60_000_000, 0, 0]
    assert [fact["reason"] for fact in bench.facts("RequestShed")] == ["queue is full"] * 2


def test_a_broker_deaf_to_heartbeats_forgets_its_members_although_they_pull() -> None:
    received: list[float] = []

    async def play(bench: BusyBench) -> None:
        async def bill(process: Any) -> None:
            async def listen(messages: Any) -> None:
                received.extend(trio.current_time() for _ in messages)

            async with bench.consumer(process, listen):
                await trio.sleep_forever()

        async def shop(process: Any) -> None:
            async with bench.producer(process) as producer:
                while True:
                    await producer.send(Message("orders", b"x"))
                    await trio.sleep(1)

        bench.cluster.start_client("shop", shop)
        await trio.sleep(1)
        bench.cluster.start_client("billing-1", bill)
        await trio.sleep(40)
        # One request occupies the only thread for an hour, and the queue takes no others.
        await bench.set("heartbeat", threads=1, service_ms=3_600_000, queue_max=0)
        await trio.sleep(200)

    bench = with_bench(play)
    [left] = bench.facts("MemberLeft")
    assert left["reason"] == "expired"
    expired_s = (left["at_ms"] - bench.world.epoch_ms) / 1000
    assert 32 + 120 < expired_s < 32 + 120 + 10.1  # its last heartbeat was at 32 s
    assert len([at_s for at_s in received if at_s > 41]) == pytest.approx(expired_s - 41, abs=2)
    # Upstream refuses the pulls of a group that it does not know.
    failures = [fact["error"] for fact in bench.facts("PullFailed")][-100:]
    assert all(error.startswith("code 24: the consumer's group info not") for error in failures)
    heartbeats = [fact for fact in bench.facts("RequestShed") if fact["pool"] == "heartbeat"]
    assert {fact["code"] for fact in heartbeats} == {RequestCode.HEART_BEAT}


def test_held_pulls_do_not_hold_the_threads_of_their_pool() -> None:
    """Four queues are pulled, each pull is held for 15 s, and one thread serves all of them."""
    received: list[float] = []

    async def play(bench: BusyBench) -> None:
        async def bill(process: Any) -> None:
            async def listen(_messages: Any) -> None:
                received.append(trio.current_time())

            async with bench.producer(process) as producer:
                await producer.send(Message("orders", b"the topic is made"))
                async with bench.consumer(process, listen):
                    await trio.sleep(30)
                    received.clear()
                    for _ in range(4):
                        await producer.send(Message("orders", b"x"))
                        sent_at.append(trio.current_time())
                        await trio.sleep(1)

        sent_at: list[float] = []
        await bench.set("pull", threads=1, service_ms=100)
        await bench.cluster.start_client("billing-1", bill).wait_ended()
        assert len(received) == 4
        assert all(abs(got - sent) < 0.01 for sent, got in zip(sent_at, received, strict=True))

    bench = with_bench(play)
    assert bench.facts("RequestShed") == []


def test_a_pool_is_set_at_a_broker_that_runs_over_tcp() -> None:
    async def send_twice(namesrv: str) -> list[int | None]:
        codes: list[int | None] = []
        producer = Producer(namesrv=namesrv, group="shop")
        async with producer, trio.open_nursery() as nursery:

            async def send() -> None:
                try:
                    await producer.send(Message("orders", b"x"))
                except SendError as error:
                    codes.append(error.code)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(send)
            nursery.start_soon(send)
        return codes

    with EmbeddedCluster(ClusterSpec(brokers=1)) as cluster:
        address = cluster.addresses[BUSY]
        busy = BusyPool(pool="send", threads=1, service_ms=3_600_000, queue_max=0)
        call_server_blocking(BUSY, address, set_busy_pool(busy))
        assert trio.run(send_twice, cluster.namesrv)[0] == ResponseCode.SYSTEM_BUSY
        state = call_server_blocking(BUSY, address, set_busy_pool(busy))
        assert state.overload_count >= 1
        assert call_blocking(address, RemotingCommand(code=RequestCode.RESET_SERVER)).code == 0
        state = call_server_blocking(BUSY, address, set_busy_pool(busy))
        assert state.overload_count == 0  # as if the broker had just started


def test_pools_are_not_set_where_reply_rules_are_not_allowed() -> None:
    spec = ClusterSpec(brokers=1, broker_settings={"reply_rules_allowed": False})
    call = set_busy_pool(BusyPool(pool="send"))
    with (
        EmbeddedCluster(spec) as cluster,
        pytest.raises(ReplyRuleRefused, match="busy pools are not allowed"),
    ):
        call_server_blocking(BUSY, cluster.addresses[BUSY], call)


def test_a_pool_that_is_set_otherwise_decides_anew_about_those_who_wait() -> None:
    began_at: list[float] = []
    answered_at: list[float] = []

    async def play(bench: BusyBench) -> None:
        async def look(process: Any) -> None:
            instance = await process.instance(ClientConfig(namesrv=bench.cluster.namesrv))
            admin = Admin(bench.cluster.namesrv, instance.remoting)

            async def ask() -> None:
                await admin.topics(bench.cluster.addresses[BUSY])
                answered_at.append(trio.current_time())

            async with trio.open_nursery() as nursery:
                await ask()
                answered_at.clear()
                await bench.set("admin", threads=1, service_ms=60_000)
                began_at.append(trio.current_time())
                for _ in range(3):
                    nursery.start_soon(ask)
                await trio.sleep(0.5)
                await bench.set("admin", threads=2, service_ms=1_000)
                await trio.sleep(2.5)
                await bench.set("admin")

        await bench.cluster.start_client("looker", look).wait_ended()

    with_bench(play)
    # Two requests use the second thread in turn; the first keeps its thread until the end.
    took_s = [round(at_s - began_at[0], 2) for at_s in answered_at]
    assert took_s == [1.5, 2.5, 3.0]


def test_of_several_faults_at_one_pool_the_last_decides_and_each_counts_what_it_did() -> None:
    """One request a second: each takes 100 ms, then 300 ms, then 100 ms again."""

    async def play(bench: BusyBench) -> None:
        cluster, took_s = bench.cluster, []

        async def look(process: Any) -> None:
            instance = await process.instance(ClientConfig(namesrv=cluster.namesrv))
            admin = Admin(cluster.namesrv, instance.remoting)
            while True:
                began_s = trio.current_time()
                await admin.topics(cluster.addresses[BUSY])
                took_s.append(round(trio.current_time() - began_s, 2))
                await trio.sleep(1)

        cluster.start_client("looker", look)
        await trio.sleep(2.5)
        quick_id = await cluster.begin_fault(Busy(node=BUSY, pool="admin", service_ms=100))
        await trio.sleep(4)
        slow_id = await cluster.begin_fault(Busy(node=BUSY, pool="admin", service_ms=300))
        await trio.sleep(4)
        cluster.pause(BUSY)
        await cluster.end_fault(slow_id)  # a paused broker gets the change when it is resumed
        cluster.resume(BUSY)
        await trio.sleep(4)
        await cluster.restart(BUSY)  # the fault sets the pool again
        await trio.sleep(4)
        await cluster.end_fault(quick_id)
        await trio.sleep(3)
        assert [seconds for seconds, _ in groupby(took_s)] == [0.0, 0.1, 0.3, 0.1, 0.0]

    bench = with_bench(play)
    # The counts of a broker that was paused or killed are unknown.
    assert [fact["acted_count"] for fact in bench.facts("FaultEnded")] == [0, 4 + 4]


def test_two_faults_at_one_pool_may_end_at_the_same_moment() -> None:
    """The end of the first sets the pool for the second, which ends before the broker answers."""

    async def play(bench: BusyBench) -> None:
        cluster = bench.cluster
        held = [
            await cluster.begin_fault(Busy(node=BUSY, pool="admin", service_ms=each))
            for each in (100, 300)
        ]
        async with trio.open_nursery() as nursery:
            for fault_id in reversed(held):
                nursery.start_soon(cluster.end_fault, fault_id)
        assert cluster.faults() == ()

    bench = with_bench(play)
    assert [fact["acted_count"] for fact in bench.facts("FaultEnded")] == [0, 0]
    assert bench.facts("BusyPoolSet")[-1]["service_us"] == 0  # no request is delayed any more

"""Machines whose wall clocks drift and jump, also backwards, in a virtual cluster under load."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
import trio

from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.clocks.clock import ClockError
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.sim.world import run_virtual

SENDS_S = 0.5
JUMPS_MS = (1, 50, 3_000, 60_000, 600_000, 86_400_000)


class Received(NamedTuple):
    body: bytes
    born_ms: int
    stored_ms: int


class Shop:
    """Two brokers, a producer and two members of a group; the sent and the received messages."""

    def __init__(self, world: Any, release: str) -> None:
        self.lines: list[bytes] = []
        self.sent: list[bytes] = []
        self.received: list[Received] = []
        self.is_closing = False
        spec = ClusterSpec(brokers=2, release=release)
        self.cluster = VirtualCluster(world, spec, self.lines.append)

    async def open(self) -> None:
        await self.cluster.start()
        self.cluster.start_client("shop", self._sell)
        for name in ("billing-1", "billing-2"):
            self.cluster.start_client(name, self._bill)

    async def _sell(self, process: Any) -> None:
        producer = Producer(process=process, namesrv=self.cluster.namesrv, group="shop")
        async with producer:
            while not self.is_closing:
                body = b"%d" % len(self.sent)
                level = 2 if len(self.sent) % 3 == 0 else 0
                await producer.send(Message("orders", body, delay_level=level))
                self.sent.append(body)
                await trio.sleep(SENDS_S)

    async def _bill(self, process: Any) -> None:
        async def listen(messages: Any) -> None:
            for m in messages:
                self.received.append(Received(m.body, m.born_timestamp, m.store_timestamp))

        async with PushConsumer(
            listen, {"orders": "*"}, process=process, namesrv=self.cluster.namesrv, group="billing"
        ):
            await trio.sleep_forever()


def in_a_shop(steps: Callable[[Any, Shop], Any], *, seed: int = 1, release: str = "4.9.7") -> Shop:
    async def main(world: Any) -> Shop:
        shop = Shop(world, release)
        await shop.open()
        await steps(world, shop)
        shop.is_closing = True
        await trio.sleep(30)
        return shop

    return run_virtual(main, seed=seed)


def test_a_drifting_broker_changes_stored_timestamps_only() -> None:
    def stored_by(drift_ppm: int) -> dict[bytes, Received]:
        async def steps(world: Any, shop: Shop) -> None:
            for name in shop.cluster.spec.broker_names:
                clock = world.machines.machine(name).clock
                clock.error = ClockError(0, drift_ppm, clock.true_ms())
            await trio.sleep(100)

        shop = in_a_shop(steps)
        assert sorted(message.body for message in shop.received) == sorted(shop.sent)
        return {message.body: message for message in shop.received}

    right, wrong = stored_by(0), stored_by(10_000)
    assert right.keys() == wrong.keys()
    for number in range(10, len(right), 30):
        body = b"%d" % number
        assert abs(wrong[body].born_ms - right[body].born_ms) <= 10
        gained_ms = wrong[body].stored_ms - right[body].stored_ms
        assert gained_ms == pytest.approx(number * SENDS_S * 10, abs=110)  # 1 %


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_clocks_that_jump_and_drift_either_way_break_nothing(release: str) -> None:
    async def steps(world: Any, shop: Shop) -> None:
        rng = random.Random(1)
        names = [*shop.cluster.node_names, "shop", "billing-1", "billing-2"]
        clocks = [world.machines.machine(name).clock for name in names]
        for _ in range(25):
            clock = rng.choice(clocks)
            jump = ClockError(rng.choice((-1, 1)) * rng.choice(JUMPS_MS))
            drift = ClockError(0, rng.choice((-100_000, 100_000)), clock.true_ms())
            clock.error = rng.choice((ClockError(), jump, jump, drift, jump.plus(drift)))
            await trio.sleep(rng.uniform(0, 8))
        for clock in clocks:
            clock.error = ClockError()
        await trio.sleep(60)

    shop = in_a_shop(steps, release=release)
    received = {message.body for message in shop.received}
    assert received == set(shop.sent)
    assert len(shop.sent) > 200
    kinds = {msgspec.json.decode(line)["fact"]["kind"] for line in shop.lines}
    assert not kinds & {"HandlerFailed", "ListenerRaised", "SendFailed"}

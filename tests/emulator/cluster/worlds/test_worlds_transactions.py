"""Transactions in a whole cluster whose broker is killed and loses power, in virtual time."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
import trio

from rocketmq_emulator.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    PushConsumer,
    SendError,
    TransactionProducer,
)
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.sim.world import run_virtual

BROKER, TOPIC, COUNT = "broker-a", "orders", 40
COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
OFTEN = {"transaction_check_interval_ms": 2_000, "transaction_immunity_ms": 1_000}


class Shop:
    """Listener of transactions: the outcome of each, and how often each was consumed."""

    def __init__(self, cluster: VirtualCluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.decided: dict[str, LocalTransactionState] = {}
        self.consumed: Counter[str] = Counter()

    async def execute_local_transaction(
        self, message: Message, _argument: Any
    ) -> LocalTransactionState:
        key = message.transaction_id
        assert key is not None
        self.decided[key] = self.rng.choice((COMMIT, ROLLBACK))
        await trio.sleep(self.rng.uniform(0, 0.3))
        return self.rng.choice((self.decided[key], UNKNOW))

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return self.decided.get(message.transaction_id or "", ROLLBACK)

    async def produce(self, process: Any) -> None:
        # After a restart the broker can ask it from its next heartbeat on.
        quick = {"send_timeout_ms": 300, "heartbeat_interval_ms": 3_000}
        settings = {"namesrv": self.cluster.namesrv, "group": "shop", **quick}
        async with TransactionProducer(self, process=process, **settings) as producer:
            while len(self.decided) < COUNT:
                try:
                    await producer.send_in_transaction(Message(TOPIC, b"paid"))
                except SendError:
                    await trio.sleep(0.2)
                await trio.sleep(self.rng.uniform(0, 0.2))
            await trio.sleep_forever()  # it answers checks

    async def consume(self, process: Any) -> None:
        def on_message(messages: Any) -> None:
            self.consumed.update(message.msg_id for message in messages)

        settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "listener_ms": 0, "group": "g"}
        namesrv = self.cluster.namesrv
        async with PushConsumer(
            on_message, {TOPIC: "*"}, process=process, namesrv=namesrv, **settings
        ):
            await trio.sleep_forever()

    async def end(self, how: str) -> None:
        """The broker is killed or loses its power, and is started again."""
        cluster = self.cluster
        (cluster.power_off if how == "power" else cluster.kill)(BROKER)
        await trio.sleep(0.2)
        await (cluster.power_on if how == "power" else cluster.restart)(BROKER)


def a_shop(seed: int, release: str, how: str, **settings: Any) -> tuple[Shop, Counter[str]]:
    """Transactions while the broker ends four times; also how often each fact was noted."""
    lines: list[bytes] = []
    shops: list[Shop] = []

    async def main(world: Any) -> None:
        settings_of_all = {**OFTEN, **settings}
        spec = ClusterSpec(
            brokers=1, release=release, store="drive", broker_settings=settings_of_all
        )
        cluster = VirtualCluster(world, spec, lines.append)
        await cluster.start()
        rng = world.rng("shop")
        shops.append(shop := Shop(cluster, rng))
        cluster.start_client("consumer", shop.consume)
        cluster.start_client("producer", shop.produce)
        for _ in range(4):
            await trio.sleep(rng.uniform(0.5, 4))
            await shop.end(how)
        await trio.sleep(40)
        assert len(shop.decided) == COUNT

    run_virtual(main, seed=seed)
    noted = Counter(json.loads(line)["fact"]["kind"] for line in lines)
    return shops[0], noted


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("how", "flush_disk_type"), [("power", "SYNC_FLUSH"), ("kill", "ASYNC_FLUSH")]
)
def test_no_answered_transaction_is_lost_and_none_that_was_rolled_back_is_consumed(
    seed: int, release: str, how: str, flush_disk_type: str
) -> None:
    shop, noted = a_shop(seed, release, how, flush_disk_type=flush_disk_type)
    wanted = {key for key, state in shop.decided.items() if state is COMMIT}
    assert set(shop.consumed) == wanted
    assert noted["TransactionChecked"] > 5
    assert noted["HandlerFailed"] == noted["TransactionGivenUp"] == 0


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_with_asynchronous_flushes_some_are_lost_and_none_is_consumed_that_was_not_committed(
    release: str,
) -> None:
    lost = 0
    for seed in range(3):
        shop, noted = a_shop(seed, release, "power")
        wanted = {key for key, state in shop.decided.items() if state is COMMIT}
        assert set(shop.consumed) <= wanted
        lost += len(wanted - set(shop.consumed))
        assert noted["HandlerFailed"] == noted["TransactionGivenUp"] == 0
    assert lost > 0

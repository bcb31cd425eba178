"""Timer messages in whole clusters: recalls by our client, kills, losses of power."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
import trio

from rocketmq_emulator.client import (
    Message,
    MessageIllegal,
    Producer,
    PushConsumer,
    RecallFailed,
    SendError,
)
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.messages.message_ids import RecallHandle, decode_handle
from rocketmq_emulator.sim.world import run_virtual

BROKER, TOPIC = "broker-a", "orders"
SETTINGS = {"recall_message": True}


class Shop:
    """By unique key: when each sent message is due, and when it was received."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.due_ms: dict[str, int] = {}
        self.recalled: set[str] = set()
        self.came_ms: dict[str, list[int]] = {}

    def producing(self, messages: Any) -> Any:
        """The program that calls ``messages(producer, process)``."""

        async def program(process: Any) -> None:
            settings = {"namesrv": self.cluster.namesrv, "group": "shop", "release": "5.3.3"}
            async with Producer(process=process, **settings) as producer:
                await messages(producer, process)

        return program

    async def consume(self, process: Any) -> None:
        def on_message(messages: Any) -> None:
            for message in messages:
                self.came_ms.setdefault(message.msg_id, []).append(process.clock.now_ms())

        settings = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "listener_ms": 0}
        namesrv = self.cluster.namesrv
        async with PushConsumer(
            on_message, {TOPIC: "*"}, process=process, namesrv=namesrv, group="g", **settings
        ):
            await trio.sleep_forever()


def in_a_shop(steps: Any, seed: int = 1, **settings: Any) -> Counter[str]:
    """Run ``steps(shop, rng)`` in virtual time; return how often each kind of fact was noted."""
    lines: list[bytes] = []

    async def main(world: Any) -> None:
        spec = ClusterSpec(
            brokers=1, release="5.3.3", store="drive", broker_settings={**SETTINGS, **settings}
        )
        cluster = VirtualCluster(world, spec, lines.append)
        await cluster.start()
        await steps(Shop(cluster), world.rng("story"))

    run_virtual(main, seed=seed)
    return Counter(msgspec.json.decode(line)["fact"]["kind"] for line in lines)


def test_a_timer_message_outlives_a_kill_and_a_loss_of_power_and_comes_on_time() -> None:
    async def steps(shop: Shop, _rng: Any) -> None:
        cluster, handles = shop.cluster, []

        async def messages(producer: Producer, process: Any) -> None:
            for delay_ms in (20_000, 20_000, 190_000):
                message = Message(TOPIC, b"later", delay_ms=delay_ms)
                due_ms = process.clock.now_ms() + delay_ms
                result = await producer.send(message)
                shop.due_ms[result.msg_id] = due_ms
                handles.append(result.recall_handle)
            key = await producer.recall_message(TOPIC, handles[1])
            shop.recalled.add(key)
            with pytest.raises(RecallFailed, match="topic not match") as refused:
                await producer.recall_message("TBW102", handles[2])
            assert refused.value.code == 604

        await cluster.start_client("shop", shop.producing(messages)).wait_ended()
        await trio.sleep(2)
        cluster.kill(BROKER)
        await trio.sleep(3)
        await cluster.restart(BROKER)
        cluster.start_client("consumer", shop.consume)
        await trio.sleep(60)
        cluster.power_off(BROKER)
        await cluster.power_on(BROKER)
        await trio.sleep(180)
        assert len(shop.recalled) == 1
        assert set(shop.came_ms) == set(shop.due_ms) - shop.recalled
        for key, times in shop.came_ms.items():
            assert len(times) == 1
            assert 0 <= times[0] - shop.due_ms[key] < 2_000

    noted = in_a_shop(steps, timer_roll_window_slots=100)
    assert noted["TimerMessagePutAside"] == 3  # not the recall: the broker handles it at once
    assert noted["TimerMessageDelivered"] == 2
    assert noted["TimerMessageRecalled"] == noted["TimerMessageRolled"] == 1


@pytest.mark.parametrize("seed", range(6))
def test_with_synchronous_flushes_no_loss_of_power_loses_a_timer_message(seed: int) -> None:
    async def steps(shop: Shop, rng: Any) -> None:
        cluster = shop.cluster

        async def messages(producer: Producer, process: Any) -> None:
            while len(shop.due_ms) < 60:
                delay_ms = rng.randrange(500, 9_000)
                due_ms = process.clock.now_ms() + delay_ms
                try:
                    result = await producer.send(Message(TOPIC, b"later", delay_ms=delay_ms))
                except SendError:
                    await trio.sleep(0.2)
                else:
                    shop.due_ms[result.msg_id] = due_ms
                await trio.sleep(rng.uniform(0, 0.2))

        cluster.start_client("consumer", shop.consume)
        producing = cluster.start_client("shop", shop.producing(messages))
        for _ in range(6):
            await trio.sleep(rng.uniform(0.5, 2.5))
            cluster.power_off(BROKER)
            await trio.sleep(0.2)
            await cluster.power_on(BROKER)
        await producing.wait_ended()
        await trio.sleep(60)
        assert set(shop.due_ms) <= set(shop.came_ms)
        for key, due_ms in shop.due_ms.items():
            assert min(shop.came_ms[key]) >= due_ms

    noted = in_a_shop(steps, seed, flush_disk_type="SYNC_FLUSH")
    assert noted["TimerMessageDropped"] == noted["HandlerFailed"] == 0


def test_orderly_restarts_under_load_repeat_no_timer_message() -> None:
    async def steps(shop: Shop, rng: Any) -> None:
        cluster = shop.cluster

        async def messages(producer: Producer, _process: Any) -> None:
            for _ in range(100):
                result = await producer.send(
                    Message(TOPIC, b"later", delay_ms=rng.randrange(1_000, 30_000))
                )
                shop.due_ms[result.msg_id] = 0

        await cluster.start_client("shop", shop.producing(messages)).wait_ended()
        for _ in range(8):
            await trio.sleep(rng.uniform(0.5, 4))
            await cluster.stop(BROKER)
            await cluster.start(BROKER)
        await trio.sleep(40)

    noted = in_a_shop(steps)
    assert noted["TimerMessageDelivered"] == 100
    assert noted["MessageStored"] == 200


def test_a_recall_of_nonsense_never_leaves_the_client_and_one_to_4_9_7_fails() -> None:
    async def ask(namesrv: str) -> None:
        async with Producer(namesrv=namesrv, group="shop") as producer:
            result = await producer.send(Message(TOPIC, b"now", deliver_at_ms=5))
            assert result.recall_handle is None
            handle = RecallHandle(TOPIC, BROKER, "1", "K").encode()
            for topic, text in ((TOPIC, "nonsense"), ("%RETRY%g", handle), ("", handle)):
                with pytest.raises(MessageIllegal):
                    await producer.recall_message(topic, text)
            with pytest.raises(RecallFailed) as failed:
                await producer.recall_message(TOPIC, handle)
            assert failed.value.code == 3
            assert not failed.value.maybe_recalled

    with EmbeddedCluster(ClusterSpec(brokers=1)) as cluster:
        trio.run(ask, cluster.namesrv)


def test_over_tcp_a_timer_message_comes_and_its_handle_names_its_time() -> None:
    came: list[Any] = []

    async def ask(namesrv: str) -> None:
        done = trio.Event()

        async def on_message(messages: Any) -> None:
            came.extend(messages)
            done.set()

        async with (
            PushConsumer(on_message, {TOPIC: "*"}, namesrv=namesrv, group="g"),
            Producer(namesrv=namesrv, group="shop", release="5.3.3") as producer,
        ):
            result = await producer.send(Message(TOPIC, b"soon", delay_ms=1))
            assert result.recall_handle is not None
            assert decode_handle(result.recall_handle).uniq_key == result.msg_id
            with trio.fail_after(20):
                await done.wait()

    spec = ClusterSpec(brokers=1, release="5.3.3")
    with EmbeddedCluster(spec) as cluster:
        trio.run(ask, cluster.namesrv)
    [message] = came
    assert (message.body, message.delay_ms) == (b"soon", 1)

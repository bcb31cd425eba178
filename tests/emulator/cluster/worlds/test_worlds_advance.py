"""Time is advanced by hours in every world: a message that always fails becomes a dead letter."""

from __future__ import annotations

import http.client
import json

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, NotFound, admin_over_tcp
from rocketmq_emulator.client import ConsumeResult, Message, Producer, PushConsumer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.sim.world import run_virtual
from rocketmq_emulator.text.values import parse_duration_ms

PATIENCE_S = 30.0
DLQ = "%DLQ%billing"


class Billing:
    """A consumer whose listener always fails, and how often it was called."""

    def __init__(self, namesrv: str) -> None:
        self._where = {"namesrv": namesrv, "group": "billing"}
        self.times: list[int] = []
        self._called = trio.Event()

    async def __call__(self, messages) -> ConsumeResult:
        self.times += [message.reconsume_times for message in messages]
        self._called.set()
        return ConsumeResult.RECONSUME_LATER

    def consumer(self) -> PushConsumer:
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        return PushConsumer(self, {"orders": "*"}, **self._where, **first)

    async def wait_called(self, times: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while len(self.times) < times:
                self._called = trio.Event()
                await self._called.wait()


async def make_orders(admin: Admin) -> None:
    await admin.create_topic_everywhere(
        TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1)
    )


async def dead_letters(admin: Admin, address: str) -> int:
    try:
        stats = await admin.topic_stats(address, DLQ)
    except NotFound:  # the last retry has not failed yet
        return 0
    return sum(offset.max_offset for offset in stats.offset_table.values())


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("world", [EmbeddedCluster, ProcessCluster])
def test_a_message_that_always_fails_is_retried_sixteen_times_in_ten_hours(
    world: type[EmbeddedCluster | ProcessCluster], steps: int
) -> None:
    async def run_steps() -> None:
        billing = Billing(cluster.namesrv)
        async with admin_over_tcp(cluster.namesrv) as admin:
            await make_orders(admin)
            async with billing.consumer():
                pass  # its first heartbeat creates the retry topic for the next start
            async with Producer(namesrv=cluster.namesrv, group="shop") as producer:
                await producer.send(Message("orders", b"never"))
            async with billing.consumer() as consumer:
                await billing.wait_called(1)
                queues = set(consumer.queues)
                step_ms = parse_duration_ms("10h") // steps
                with trio.fail_after(PATIENCE_S):  # this thread sends it back
                    while not await trio.to_thread.run_sync(cluster.advance, step_ms):
                        pass
                for _ in range(steps - 1):
                    await trio.to_thread.run_sync(cluster.advance, step_ms)
                await billing.wait_called(17)
                with trio.fail_after(PATIENCE_S):
                    while await dead_letters(admin, cluster.brokers["broker-a"]) == 0:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                assert billing.times == list(range(17))
                assert queues <= set(consumer.queues)
                found = await admin.connections(cluster.brokers["broker-a"], "billing")
                assert len(found.connection_set) == 1

    with world(brokers=1) as cluster:
        trio.run(run_steps)


def test_the_control_address_advances_time_and_names_what_it_cannot_read() -> None:
    def asked(body: object) -> tuple[int, dict]:
        connection = http.client.HTTPConnection(cluster.control.removeprefix("http://"))
        connection.request("POST", "/advance", json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    with EmbeddedCluster(brokers=2, control=0) as cluster:
        assert asked({"time": "10m"}) == (200, {"due_count": 0})
        assert asked({"time": 5}) == (200, {"due_count": 0})
        for body in ({"time": "soon"}, {"time": -1}, {"times": 1}, {}):
            status, answer = asked(body)
            assert status == 400
            assert "time" in answer["error"]


def test_in_the_virtual_world_messages_move_and_the_clock_does_not() -> None:
    seen: list[object] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        await cluster.start()

        async def program(process) -> None:
            where = {"process": process, "namesrv": cluster.namesrv}
            async with Producer(group="shop", **where) as producer:
                await producer.send(Message("orders", b"late", delay_level=18))

        await cluster.start_client("shop", program).wait_ended()
        began_s = trio.current_time()
        seen.append(await cluster.advance("1h"))
        seen.append(await cluster.advance("1h"))
        seen.append(trio.current_time() - began_s < 1)

    run_virtual(main, seed=1)
    assert seen == [0, 1, True]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("200ms", 200),
        ("30s", 30_000),
        ("1h30m", 5_400_000),
        ("1.5 h", 5_400_000),
        ("2d", 172_800_000),
    ],
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "m", "10 minutes", "-5s", "1e3s"])
def test_a_text_that_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='written as "200ms", "30s" or "10m"'):
        parse_duration_ms(text)

"""The master of a broker name dies, its slave lives: what clients of it see, until it returns."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, admin_on
from rocketmq_emulator.client import Message, Producer, PushConsumer
from rocketmq_emulator.client.producer.send_kernel import SendResult
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.errors.call_errors import ClientError, ClientErrorCode
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import OffsetReply, QueryConsumerOffsetRequest
from rocketmq_emulator.sim.world import run_virtual

TOPIC, GROUP = "orders", "shop"
ROUTE_POLL_S = 30
LOCK_S = 30
# The first registration that names the master, and the copying of tables after it.
SYNCHRONIZED_S = {"4.9.7": 45, "5.3.3": 150}
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


class MasterDies:
    """One program beside a master with a slave, and what it can do."""

    def __init__(self, cluster: VirtualCluster, process, stack: AsyncExitStack) -> None:
        self.cluster, self._process, self._stack = cluster, process, stack
        self._producer: Producer | None = None
        self.received: dict[str, list[tuple[float, bytes]]] = {}

    async def send(self, *numbers: int) -> list[SendResult]:
        if self._producer is None:
            producer = Producer(process=self._process, namesrv=self.cluster.namesrv, group="sends")
            self._producer = await self._stack.enter_async_context(producer)
        return [
            await self._producer.send(Message(TOPIC, b"%d" % number), queue=QUEUE)
            for number in numbers
        ]

    async def find_route(self) -> None:
        """A send to any queue, unlike one to a chosen queue, requests the topic's route."""
        assert self._producer is not None
        await self._producer.publish_queues(TOPIC)

    async def send_error(self) -> int | None:
        """The code with which a send to any queue fails."""
        assert self._producer is not None
        with pytest.raises(ClientError) as failed:
            await self._producer.send(Message(TOPIC, b"too late"))
        return failed.value.code

    async def consumer(self, name: str, **settings: object) -> PushConsumer:
        """A consumer of its own group *name*, from the first message on, that records."""
        received = self.received.setdefault(name, [])

        async def listen(messages) -> None:
            await trio.sleep(0.05)
            received.extend((trio.current_time(), message.body) for message in messages)

        consumer = PushConsumer(
            listen,
            {TOPIC: "*"},
            process=self._process,
            namesrv=self.cluster.namesrv,
            group=name,
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            consume_threads_max=1,
            **settings,
        )
        return await self._stack.enter_async_context(consumer)

    def bodies(self, name: str) -> list[bytes]:
        return [body for _, body in self.received[name]]

    async def addresses(self) -> dict[int, str]:
        async with self._admin() as admin:
            (data,) = (await admin.route(TOPIC)).broker_datas
            return dict(data.broker_addrs)

    async def create_group(self, node: str, group: str) -> None:
        async with self._admin() as admin:
            config = SubscriptionGroupConfig(group_name=group)
            await admin.create_group(self.cluster.addresses[node], config)

    async def commit(self, node: str, group: str, offset: int) -> None:
        async with self._admin() as admin:
            await admin.commit(self.cluster.addresses[node], group, QUEUE, offset)

    async def committed(self, node: str, group: str) -> int:
        header = QueryConsumerOffsetRequest(consumer_group=group, topic=TOPIC, queue_id=0)
        async with self._admin() as admin:
            address = self.cluster.addresses[node]
            reply = await admin.call(address, catalog.QUERY_CONSUMER_OFFSET, header)
            return reply.decode(OffsetReply).offset

    def _admin(self) -> AbstractAsyncContextManager[Admin]:
        return admin_on(self._process.network, self._process.clock, self.cluster.namesrv)


def run_beside_a_pair(script, release: str, **settings: object) -> None:
    """Run ``script(run)`` beside broker-a with one slave, synchronized."""
    spec = ClusterSpec(brokers=1, slaves=1, release=release, broker_settings=settings)

    async def main(world) -> None:
        cluster = VirtualCluster(world, spec, lambda _line: None)
        await cluster.start()

        async def program(process) -> None:
            async with AsyncExitStack() as stack:
                await script(MasterDies(cluster, process, stack))

        await cluster.start_client("client", program).wait_ended()

    run_virtual(main, seed=1)


def numbers(*counts: int) -> list[bytes]:
    return [b"%d" % number for number in range(*counts)]


READS_SLAVES = [
    ("4.9.7", {}, True),
    ("5.3.3", {}, False),
    ("5.3.3", {"slave_read": True}, True),
]


@pytest.mark.parametrize(("release", "settings", "is_read"), READS_SLAVES)
def test_invariant_71_consumers_go_on_from_the_slave_if_it_may_be_read(
    release, settings, is_read
) -> None:
    async def script(run: MasterDies) -> None:
        await run.send(*range(10))
        running = await run.consumer("running")
        await trio.sleep(SYNCHRONIZED_S[release])
        running.suspend()
        await trio.sleep(30)  # its held pulls are over
        await run.send(*range(10, 20))
        await trio.sleep(1)
        run.cluster.kill("broker-a")
        await trio.sleep(0.01)
        assert set(await run.addresses()) == {1}
        await run.consumer("new")
        await running.resume()
        await trio.sleep(3)
        assert run.bodies("new") == (numbers(20) if is_read else [])
        await trio.sleep(ROUTE_POLL_S)
        assert run.bodies("running") == numbers(20 if is_read else 10)
        await run.cluster.restart("broker-a")
        await trio.sleep(2 * ROUTE_POLL_S)
        assert run.bodies("running") == run.bodies("new") == numbers(20)

    run_beside_a_pair(script, release, **settings)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_invariant_71_producers_cannot_connect_and_then_have_no_route(release) -> None:
    async def script(run: MasterDies) -> None:
        await run.send(0)
        await run.find_route()
        await trio.sleep(1)  # the first route poll is over
        run.cluster.kill("broker-a")
        await trio.sleep(0.01)
        began_s = trio.current_time()
        assert await run.send_error() == ClientErrorCode.CONNECT_BROKER
        assert trio.current_time() - began_s < 1
        await trio.sleep(ROUTE_POLL_S)
        assert await run.send_error() == ClientErrorCode.NOT_FOUND_TOPIC
        assert set(await run.addresses()) == {1}

    run_beside_a_pair(script, release)


@pytest.mark.parametrize(("release", "settings"), [("4.9.7", {}), ("5.3.3", {"slave_read": True})])
def test_invariant_72_an_ordered_consumer_reads_a_slave_until_its_locks_are_old(
    release, settings
) -> None:
    async def script(run: MasterDies) -> None:
        await run.send(*range(1_200))
        await trio.sleep(SYNCHRONIZED_S[release])
        await run.consumer("running", orderly=True, pull_batch_max=1, consume_batch_max=1)
        await trio.sleep(5)
        run.cluster.kill("broker-a")
        killed_s = trio.current_time()
        await run.consumer("new", orderly=True)
        await trio.sleep(3 * ROUTE_POLL_S)
        last_s, _ = run.received["running"][-1]
        assert killed_s + LOCK_S - 20 <= last_s <= killed_s + LOCK_S + 1
        assert len(run.received["running"]) < 1_200
        assert run.bodies("new") == []
        await run.cluster.restart("broker-a")
        await trio.sleep(2 * ROUTE_POLL_S + 60)
        assert run.bodies("running") == run.bodies("new") == numbers(1_200)

    run_beside_a_pair(script, release, **settings)


@pytest.mark.parametrize(("release", "settings"), [("4.9.7", {}), ("5.3.3", {"slave_read": True})])
def test_invariant_73_the_returned_masters_offsets_replace_the_slaves(release, settings) -> None:
    async def script(run: MasterDies) -> None:
        await run.send(*range(10))
        await run.consumer(GROUP)
        await trio.sleep(1)
        await run.create_group("broker-a", "still")
        await run.commit("broker-a", "still", 7)
        await trio.sleep(SYNCHRONIZED_S[release])
        assert await run.committed("broker-a-1", "still") == 7
        run.cluster.kill("broker-a")
        await trio.sleep(ROUTE_POLL_S + 5)
        await run.commit("broker-a-1", "still", 3)
        await run.cluster.restart("broker-a")
        assert await run.committed("broker-a-1", "still") == 3
        await trio.sleep(SYNCHRONIZED_S[release])
        assert await run.committed("broker-a-1", "still") == 7
        assert await run.committed("broker-a", GROUP) == 10
        assert Counter(run.bodies(GROUP)) == Counter(numbers(10)), "none was repeated"

    run_beside_a_pair(script, release, **settings)

"""Clusters behind proxy ports: without faults they work as others; faults affect their links."""

from __future__ import annotations

import socket

import pytest
import trio

from rocketmq_emulator.admin.calls import Admin, admin_over_tcp
from rocketmq_emulator.client import MaybeStored, Message, Producer, PushConsumer
from rocketmq_emulator.cluster.fault_values import CutLink, Partition, SlowLink, StallLink
from rocketmq_emulator.cluster.world import CannotDo
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.cluster.worlds.processes import ProcessCluster
from rocketmq_emulator.cluster.worlds.real_world import RealWorld
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.text.values import split_address
from tests.support.free_ports import free_cluster_port

PATIENCE_S = 20.0
MESSAGES = 40


def asked(cluster: RealWorld, question):
    async def ask():
        with trio.fail_after(PATIENCE_S):
            async with admin_over_tcp(cluster.namesrv) as admin:
                return await question(admin)

    return trio.run(ask)


async def make_orders(admin: Admin) -> list[str]:
    """Create the topic on both brokers, and wait until the NameServer has it."""
    topic = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)
    made = await admin.create_topic_everywhere(topic)
    while len((await admin.route("orders")).queue_datas) < len(made):  # noqa: ASYNC110
        await trio.sleep(0.01)  # a broker of 4.9.7 answers earlier
    return made


async def send_and_consume(namesrv: str, count: int) -> int:
    """How many of *count* messages a consumer got that started before the sends."""
    seen: set[str] = set()
    has_all = trio.Event()

    async def listener(messages):
        seen.update(message.body.decode() for message in messages)
        if len(seen) == count:
            has_all.set()

    async with Producer(namesrv=namesrv, group="shop") as producer:
        first = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
        async with PushConsumer(
            listener, {"orders": "*"}, namesrv=namesrv, group="billing", **first
        ):
            for number in range(count):
                await producer.send(Message("orders", str(number).encode()))
            with trio.fail_after(PATIENCE_S):
                await has_all.wait()
    return len(seen)


@pytest.mark.parametrize("world", [EmbeddedCluster, ProcessCluster])
def test_a_cluster_behind_doors_is_reached_by_them_alone(world: type[RealWorld]) -> None:
    with world(brokers=2, with_links=True) as cluster:
        assert not set(cluster.namesrv.split(";")) & set(cluster.addresses.values())
        assert asked(cluster, Admin.masters) == cluster.brokers
        assert asked(cluster, make_orders) == ["broker-a", "broker-b"]
        assert trio.run(send_and_consume, cluster.namesrv, MESSAGES) == MESSAGES
        cluster.kill("broker-a")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(split_address(cluster.brokers["broker-a"]))
        cluster.start("broker-a")
        assert asked(cluster, Admin.masters) == cluster.brokers


def test_the_doors_take_the_ports_that_were_asked_for() -> None:
    port = free_cluster_port()
    with EmbeddedCluster(brokers=1, port=port, with_links=True) as cluster:
        assert cluster.namesrv == f"127.0.0.1:{port}"
        assert cluster.brokers == {"broker-a": f"127.0.0.1:{port + 1035}"}


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(brokers=2, with_links=True) as running:
        assert asked(running, make_orders) == ["broker-a", "broker-b"]
        yield running


def test_a_broker_cut_from_its_name_server_leaves_the_route_and_serves_on(cluster) -> None:
    async def main(admin: Admin) -> None:
        with cluster.under(CutLink(between=("broker-a", "namesrv"))):
            while "broker-a" in await admin.masters():  # noqa: ASYNC110  # there is no event for it
                await trio.sleep(0.01)
            stats = await admin.topic_stats(cluster.brokers["broker-a"], "orders")
            assert len(stats.offset_table) == 4

    asked(cluster, main)
    cluster.restart("broker-a")  # so that it registers now
    assert asked(cluster, Admin.masters) == cluster.brokers


def test_a_stalled_broker_times_a_send_out_and_answers_the_next(cluster) -> None:
    async def main() -> None:
        async with Producer(namesrv=cluster.namesrv, group="shop", sync_retries=0) as producer:
            queues = await producer.publish_queues("orders")
            queue = next(queue for queue in queues if queue.broker_name == "broker-b")
            await producer.send(Message("orders", b"1"), queue=queue)
            with cluster.under(StallLink(between=("clients", "broker-b"))):
                with pytest.raises(MaybeStored):
                    await producer.send(Message("orders", b"2"), queue=queue, timeout_ms=100)
                assert [fault.acted_count > 0 for fault in cluster.faults()] == [True]
            await producer.send(Message("orders", b"3"), queue=queue)

    trio.run(main)


def test_a_slow_link_makes_each_send_as_late(cluster) -> None:
    async def main() -> float:
        async with Producer(namesrv=cluster.namesrv, group="shop") as producer:
            await producer.send(Message("orders", b"1"))
            slow = SlowLink(between=("brokers", "clients"), ms=60, one_way=True)
            with cluster.under(slow):
                began_s = trio.current_time()
                await producer.send(Message("orders", b"2"))
                return trio.current_time() - began_s

    assert trio.run(main) >= 0.060


def test_one_group_behind_a_partition_gets_what_others_get_when_it_ends(cluster) -> None:
    async def main() -> None:
        got = {"early": trio.Event(), "late": trio.Event()}

        def member(group: str) -> PushConsumer:
            async def listener(messages):
                if any(message.body == b"new" for message in messages):
                    got[group].set()

            of = {"namesrv": cluster.namesrv, "group": group, "instance_name": f"{group}-1"}
            return PushConsumer(listener, {"news": "*"}, **of)

        async with Producer(namesrv=cluster.namesrv, group="shop") as producer:
            await producer.send(Message("news", b"makes the topic"))
            async with member("early") as early, member("late") as late:
                with trio.fail_after(PATIENCE_S):
                    while not (early.queues and late.queues):  # noqa: ASYNC110  # no event
                        await trio.sleep(0.01)
                with cluster.under(Partition(between=("late", "brokers"))):
                    for queue in await producer.publish_queues("news"):
                        await producer.send(Message("news", b"new"), queue=queue)
                    with trio.fail_after(PATIENCE_S):
                        await got["early"].wait()
                    assert not got["late"].is_set()
                with trio.fail_after(PATIENCE_S):
                    await got["late"].wait()

    trio.run(main)


def test_without_proxies_a_fault_of_links_is_refused() -> None:
    with EmbeddedCluster(brokers=1) as cluster, pytest.raises(CannotDo, match="up --with-links"):
        cluster.begin_fault(StallLink(around="broker-a"))

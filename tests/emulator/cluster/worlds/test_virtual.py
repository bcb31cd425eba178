"""Clusters in the virtual world."""

from __future__ import annotations

import msgspec
import trio

from rocketmq_emulator.client import Message, Producer
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.facts import RunEnded
from rocketmq_emulator.facts.journal import WORLD_NODE, Entry, encode_entry
from rocketmq_emulator.sim.world import run_virtual


def kinds(lines, node: str) -> list[str]:
    entries = map(msgspec.json.decode, lines)
    return [entry["fact"]["kind"] for entry in entries if entry["node"] == node]


def test_every_broker_is_in_the_route_when_the_cluster_has_started() -> None:
    lines: list[bytes] = []

    async def main(world) -> None:
        await VirtualCluster(world, ClusterSpec(brokers=3), lines.append).start()

    run_virtual(main, seed=1)
    assert kinds(lines, "namesrv").count("BrokerRegistered") == 3


def test_facts_on_demand_are_written_where_they_are_asked_for() -> None:
    asked: list[bytes] = []
    usual: list[bytes] = []

    async def main(world) -> None:
        spec = ClusterSpec(brokers=1)
        kinds = ("RequestReceived",)
        await VirtualCluster(world, spec, asked.append, facts_on_demand=kinds).start()

    async def usually(world) -> None:
        await VirtualCluster(world, ClusterSpec(brokers=1), usual.append).start()

    run_virtual(main, seed=1)
    run_virtual(usually, seed=1)
    assert "RequestReceived" in kinds(asked, "namesrv")
    assert "RequestReceived" not in kinds(usual, "namesrv")


def test_a_killed_node_writes_nothing_while_it_dies() -> None:
    lines: list[bytes] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1), lines.append)
        await cluster.start()
        cluster.kill("broker-a")
        await trio.sleep(1)

    run_virtual(main, seed=1)
    assert kinds(lines, "broker-a") == [
        "NodeStarted",
        "StoreOpened",
        "ConnectionOpened",
        "RegisteredWith",
    ]
    assert "BrokerUnregistered" in kinds(lines, "namesrv")


def test_what_a_broker_stored_is_there_after_it_was_killed_and_started_again() -> None:
    found: list[int] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        await cluster.start()
        sent = trio.Event()

        async def program(process) -> None:
            async with Producer(
                process=process, namesrv=cluster.namesrv, group="shop"
            ) as producer:
                first = await producer.send(Message("orders", b"one"))
                sent.set()
                await trio.sleep(60)
                again = await producer.send(Message("orders", b"two"), queue=first.queue)
                found.append(again.queue_offset)

        client = cluster.start_client("client", program)
        await sent.wait()
        cluster.kill("broker-a")
        await trio.sleep(10)
        await cluster.restart("broker-a")
        await client.wait_ended()

    run_virtual(main, seed=3)
    assert found == [1]


def test_a_paused_name_server_holds_routes_back_until_it_goes_on() -> None:
    took_s: list[float] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        await cluster.start()
        cluster.pause("namesrv")

        async def program(process) -> None:
            async with Producer(
                process=process, namesrv=cluster.namesrv, group="shop"
            ) as producer:
                await producer.send(Message("orders", b"one"))
                took_s.append(trio.current_time())

        client = cluster.start_client("client", program)
        await trio.sleep(2)
        assert not took_s
        cluster.resume("namesrv")
        await client.wait_ended()

    run_virtual(main, seed=3)
    assert took_s
    assert took_s[0] >= 2


def test_who_starts_a_node_that_is_restarted_meanwhile_waits_for_its_new_process() -> None:
    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        await cluster.start()
        cluster.kill("broker-a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.start, "broker-a")
            await trio.lowlevel.checkpoint()
            nursery.start_soon(cluster.restart, "broker-a")
        assert world.machines.machine("broker-a").is_ready

    run_virtual(main, seed=1)


def test_two_may_start_one_cluster_at_the_same_time_and_both_wait_until_it_is_ready() -> None:
    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))

        async def start() -> None:
            await cluster.start()
            assert all(world.machines.machine(name).is_ready for name in cluster.node_names)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            nursery.start_soon(start)

    run_virtual(main, seed=1)


def test_a_program_that_has_not_begun_is_stopped_at_once() -> None:
    began: list[object] = []

    async def program(process) -> None:
        began.append(process)
        await trio.sleep_forever()

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1))
        for _ in range(2):
            cluster.start_client("client-1", program)
            await cluster.stop("client-1")
            assert not cluster.is_running("client-1")
        assert (began, trio.current_time()) == ([], 0)

    run_virtual(main, seed=1)


def test_a_machine_without_power_has_none_to_lose() -> None:
    lines: list[bytes] = []

    async def main(world) -> None:
        cluster = VirtualCluster(world, ClusterSpec(brokers=1), lines.append)
        await cluster.start()
        cluster.power_off("broker-a")
        cluster.power_off("broker-a")

    run_virtual(main, seed=1)
    assert kinds(lines, "broker-a").count("PowerLost") == 1


def test_a_listener_is_given_what_is_written_and_the_world_has_facts_of_its_own() -> None:
    lines: list[bytes] = []
    entries: list[Entry] = []

    async def main(world) -> None:
        spec = ClusterSpec(brokers=1)
        cluster = VirtualCluster(world, spec, lines.append, listener=entries.append)
        cluster.note(RunEnded("finished", ""))
        await cluster.start()
        cluster.kill("broker-a")
        await trio.sleep(60)

    run_virtual(main, seed=1)
    assert [encode_entry(entry) for entry in entries] == lines
    assert (entries[0].node, entries[0].seq) == (WORLD_NODE, 1)
    assert {"namesrv", "broker-a"} < {entry.node for entry in entries}

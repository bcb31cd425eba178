"""Tests of stock.py in virtual time: minutes of retries and failing brokers take a moment."""

from __future__ import annotations

import pytest
import trio
from stock import Stock

from rocketmq_emulator import Message, Producer

pytestmark = pytest.mark.rocketmq(topics=["deliveries"])


async def deliver(cluster, *deliveries: tuple[str, bytes]) -> None:
    async def program(process) -> None:
        async with Producer(process=process, namesrv=cluster.namesrv, group="yard") as producer:
            for keys, body in deliveries:
                await producer.send(Message("deliveries", body, keys=keys))

    await cluster.start_client("yard", program).wait_ended()


@pytest.mark.rocketmq(seeds=5)
async def test_deliveries_add_up_although_a_broker_dies_in_between(virtual_cluster) -> None:
    stock = Stock()
    virtual_cluster.start_client(
        "stock", lambda process: stock.run(virtual_cluster.namesrv, process)
    )
    await deliver(virtual_cluster, ("cups", b"3"), ("pots", b"1"))
    await trio.sleep(30)
    virtual_cluster.kill("broker-b")
    await trio.sleep(60)
    await virtual_cluster.start("broker-b")
    await deliver(virtual_cluster, ("cups", b"4"))
    await trio.sleep(60)
    assert stock.pieces == {"cups": 7, "pots": 1}


async def test_what_is_no_number_does_not_hold_up_others(virtual_cluster) -> None:
    stock = Stock()
    virtual_cluster.start_client(
        "stock", lambda process: stock.run(virtual_cluster.namesrv, process)
    )
    await deliver(virtual_cluster, ("cups", b"many"), ("pots", b"2"))
    await trio.sleep(60)
    assert stock.pieces == {"pots": 2}


async def test_a_delivery_over_tcp_is_the_same(rocketmq) -> None:
    """Runs with pytest-trio, or any other plugin for async tests of trio."""
    stock = Stock()
    async with Producer(namesrv=rocketmq.namesrv, group="yard") as producer:
        await producer.send(Message("deliveries", b"5", keys="cups"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stock.run, rocketmq.namesrv)
        await rocketmq.awaited.wait_until_consumed("stock", topics=["deliveries"])
        nursery.cancel_scope.cancel()
    assert stock.pieces == {"cups": 5}

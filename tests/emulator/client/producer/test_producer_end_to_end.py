"""Our producer, our NameServer and our broker, on real sockets."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import pytest
import trio

from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.client.producer.publish_info import by_hash
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.errors.call_errors import BrokerRefused, NoRoute
from rocketmq_emulator.facts import MessageStored
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig

ANY_PORT = "127.0.0.1:0"


@asynccontextmanager
async def a_cluster(*names):
    """A NameServer and brokers of these names; gives its address and the brokers' journal."""
    entries = []
    async with trio.open_nursery() as nursery:
        around = {
            "network": TcpNetwork(nursery),
            "clock": WallClock.of_this_machine(),
            "stop": trio.Event(),
        }

        async def name_server(task_status):
            config = NameServerConfig(listen_address=ANY_PORT)
            await serve_name_server(
                config,
                disk=MemoryDisk(),
                rng=random.Random(1),
                journal=Journal("namesrv", around["clock"]),
                **around,
                task_status=task_status,
            )

        async def broker(name, namesrv, task_status):
            config = BrokerConfig(name=name, listen_address=ANY_PORT, namesrv=(namesrv,))
            journal = Journal(name, around["clock"], listeners=[entries.append])
            await serve_broker(
                config,
                disk=MemoryDisk(),
                rng=random.Random(1),
                journal=journal,
                **around,
                task_status=task_status,
            )

        namesrv = await nursery.start(name_server)
        for name in names:
            await nursery.start(broker, name, namesrv)
        yield namesrv, entries
        around["stop"].set()


def stored(entries) -> dict[str, MessageStored]:
    """The stored messages of all brokers by unique key."""
    facts = [entry.fact for entry in entries]
    return {fact.uniq_key: fact for fact in facts if isinstance(fact, MessageStored)}


async def test_messages_of_a_new_topic_are_stored_where_their_results_say() -> None:
    async with (
        a_cluster("broker-a", "broker-b") as (namesrv, entries),
        Producer(namesrv=namesrv, group="pg") as producer,
    ):
        results = [await producer.send(Message("new", b"%d" % n)) for n in range(16)]
        # The brokers depend on the time of the first route poll: it replaces the guessed
        # route by the real one, which only has brokers that got a message already.
        used = {(r.queue.broker_name, r.queue.queue_id) for r in results}
        known = {(broker, n) for broker in ("broker-a", "broker-b") for n in range(4)}
        assert used <= known
        assert {n for _, n in used} == {0, 1, 2, 3}
        found = stored(entries)
        for result in results:
            fact = found[result.msg_id]
            assert (fact.queue.queue_id, fact.offset) == (
                result.queue.queue_id,
                result.queue_offset,
            )


async def test_every_form_of_sending_reaches_the_store() -> None:
    async with (
        a_cluster("broker-a") as (namesrv, entries),
        Producer(namesrv=namesrv, group="pg") as producer,
    ):
        await producer.send(Message("t", b"first"))
        large = await producer.send(Message("t", b"x" * 100_000))
        batch = await producer.send_batch([Message("t", b"%d" % n) for n in range(3)])
        chosen = await producer.send(Message("t", b"x"), queue=MessageQueue("t", "broker-a", 2))
        hashed = await producer.send_to_selected(Message("t", b"x"), by_hash, "order-7")
        later = await producer.start_send(Message("t", b"x")).wait_sent()
        found = stored(entries)
        assert found[large.msg_id].size_bytes < 1_000
        assert set(batch.msg_id.split(",")) <= found.keys()
        for result in (chosen, hashed, later):
            assert found[result.msg_id].queue.queue_id == result.queue.queue_id


async def test_a_thousand_sends_can_be_under_way_at_once() -> None:
    async with (
        a_cluster("broker-a", "broker-b") as (namesrv, entries),
        Producer(namesrv=namesrv, group="pg") as producer,
    ):
        await producer.send(Message("t", b"first"))
        under_way = [producer.start_send(Message("t", b"%d" % n)) for n in range(1_000)]
        results = [await sending.wait_sent() for sending in under_way]
        assert {result.msg_id for result in results} <= stored(entries).keys()
        assert len({result.msg_id for result in results}) == 1_000


async def test_a_queue_the_broker_does_not_have_is_refused_plainly() -> None:
    async with (
        a_cluster("broker-a") as (namesrv, _),
        Producer(namesrv=namesrv, group="pg") as producer,
    ):
        await producer.send(Message("t", b"first"))
        with pytest.raises(BrokerRefused, match="illegal"):
            await producer.send(Message("t", b"x"), queue=MessageQueue("t", "broker-a", 99))


async def test_a_cluster_without_brokers_has_no_route() -> None:
    async with a_cluster() as (namesrv, _), Producer(namesrv=namesrv, group="pg") as producer:
        with pytest.raises(NoRoute, match="no broker is registered at the NameServer"):
            await producer.send(Message("t", b"x"))

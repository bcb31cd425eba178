"""Push consumers on real sockets and in real time, because threads have no virtual clock."""

from __future__ import annotations

import logging
import random
import threading
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from rocketmq_emulator.broker.service import serve_broker
from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.client.consumer.push.push_consumer import PushConsumer
from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.facts.logs import LOGGER
from rocketmq_emulator.nameserver.service import serve_name_server
from rocketmq_emulator.net.tcp import TcpNetwork
from rocketmq_emulator.protocol.messages.message import Message
from rocketmq_emulator.settings.config import BrokerConfig, NameServerConfig

ANY_PORT = "127.0.0.1:0"
PATIENCE_S = 20


@asynccontextmanager
async def a_cluster():
    """One NameServer and one broker of this process; yields the NameServer's address."""
    clock, stop = WallClock.of_this_machine(), trio.Event()
    async with trio.open_nursery() as nursery:
        shared = {"network": TcpNetwork(nursery), "clock": clock, "stop": stop}
        serve = partial(
            serve_name_server,
            NameServerConfig(listen_address=ANY_PORT),
            disk=MemoryDisk(),
            rng=random.Random(1),
            journal=Journal("namesrv", clock),
            **shared,
        )
        namesrv = await nursery.start(serve)
        serve = partial(
            serve_broker,
            BrokerConfig(namesrv=(namesrv,), listen_address=ANY_PORT),
            disk=MemoryDisk(),
            rng=random.Random(1),
            journal=Journal("broker-a", clock),
            **shared,
        )
        await nursery.start(serve)
        yield namesrv
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("orderly", [False, True])
async def test_plain_functions_run_in_threads_of_their_own(orderly) -> None:
    bodies, threads = [], set()
    token, all_heard = trio.lowlevel.current_trio_token(), trio.Event()

    def listen(messages) -> ConsumeResult:
        threads.add(threading.current_thread())
        bodies.extend(message.body for message in messages)
        if len(bodies) >= 301:
            token.run_sync_soon(all_heard.set)
        return ConsumeResult.SUCCESS

    wanted = {b"%d" % n for n in range(300)}
    settings = {"group": "cg", "consume_from": "CONSUME_FROM_FIRST_OFFSET", "orderly": orderly}
    with trio.fail_after(PATIENCE_S):
        async with a_cluster() as namesrv, Producer(namesrv=namesrv, group="pg") as producer:
            await producer.send(Message("orders", b"first"))
            async with PushConsumer(listen, {"orders": "*"}, namesrv=namesrv, **settings):
                for body in sorted(wanted):
                    await producer.send(Message("orders", body))
                await all_heard.wait()
    assert set(bodies) == {b"first"} | wanted
    assert threading.main_thread() not in threads


async def test_a_thread_that_raises_sends_its_message_back_and_the_program_s_log_has_its_traceback(
    caplog,
    monkeypatch,
) -> None:
    logged, seen_again = trio.Event(), []

    class Awaited(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.set()

    def fails(messages) -> None:
        seen_again.append(messages[0].reconsume_times)
        raise ValueError("as scripted")

    monkeypatch.setattr(logging.getLogger(LOGGER), "handlers", [Awaited(logging.ERROR)])

    with trio.fail_after(PATIENCE_S):
        async with a_cluster() as namesrv, Producer(namesrv=namesrv, group="pg") as producer:
            await producer.send(Message("orders", b"first"))
            async with PushConsumer(fails, {"orders": "*"}, namesrv=namesrv, group="cg") as mine:
                await logged.wait()  # stop the consumer only after its listener has failed
                queue = next(q for q in mine.queues if q.topic == "orders")
                assert queue.broker_name == "broker-a"
    assert seen_again == [0]
    errors = [entry for entry in caplog.records if entry.levelname == "ERROR"]
    assert {entry.name for entry in errors} == {LOGGER} == {"rocketmq_emulator"}
    assert "ValueError: as scripted" in errors[0].getMessage()
    assert 'raise ValueError("as scripted")' in errors[0].getMessage()

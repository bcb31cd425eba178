"""Listeners that are plain functions: in threads, or in virtual time with their duration."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter

import msgspec
import pytest
import trio

from rocketmq_emulator.client import ClientProcess, Misuse, PushConsumerConfig
from rocketmq_emulator.client.instance.plain_functions import InlineWithDuration, WorkerThreads
from tests.support.client.pulled_broker import a_queue, in_group
from tests.support.paths import ROOT, SUPPORT


def start_run(seed: int, hash_seed: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SUPPORT / "client" / "plain_listeners_run.py"), str(seed)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE)


def journal_of(main: subprocess.Popen[bytes]) -> bytes:
    journal, _ = main.communicate(timeout=60)
    assert main.returncode == 0
    return journal


def test_with_plain_listeners_one_seed_writes_one_journal_in_two_interpreters() -> None:
    first, again = map(journal_of, [start_run(5, 1), start_run(5, 2)])
    kinds = Counter(msgspec.json.decode(line)["fact"]["kind"] for line in first.splitlines())
    assert kinds["MessageConsumed"] > 200
    assert kinds["ListenerRaised"] > 0
    assert first == again


def in_virtual_time(main):
    """Run ``main(cluster, broker, process)`` where plain functions need a duration."""

    async def with_process(cluster, broker):
        process = cluster.process()
        process.plain_functions = InlineWithDuration()
        async with process:
            return await main(cluster, broker, process)

    return in_group(with_process)


def test_in_virtual_time_a_plain_listener_without_a_duration_is_refused_at_the_start() -> None:
    async def main(cluster, broker, process):
        consumer = cluster.a_consumer(process, listeners_inline=False)
        with pytest.raises(Misuse, match="listener_ms"):
            await consumer.__aenter__()
        return process.instances

    assert in_virtual_time(main) == {}


@pytest.mark.parametrize("orderly", [False, True])
def test_in_virtual_time_a_plain_listener_takes_its_declared_duration_on_the_loop(
    orderly,
) -> None:
    calls = []

    async def main(cluster, broker, process):
        def listen(messages) -> None:
            calls.append((round(cluster.now_s(), 3), threading.current_thread()))

        broker.offsets["T", 0] = 0
        broker.store(3)
        settings = {"listeners_inline": False, "listener_ms": 250, "consume_threads_max": 1}
        async with cluster.a_consumer(process, listen, orderly=orderly, **settings) as consumer:
            await trio.sleep(0.6)
            so_far = consumer.offset(a_queue())
            await trio.sleep(1)
            return so_far, consumer.offset(a_queue())

    assert in_virtual_time(main) == (2, 3)  # an outcome counts when the duration has passed
    assert calls == [(at, threading.main_thread()) for at in (0.0, 0.25, 0.5)]


def test_in_virtual_time_an_async_listener_needs_no_duration() -> None:
    async def main(cluster, broker, process):
        async def listen(messages) -> None:
            await trio.sleep(0.1)

        broker.offsets["T", 0] = 0
        broker.store(3)
        async with cluster.a_consumer(process, listen, listeners_inline=False) as consumer:
            await trio.sleep(1)
            return consumer.offset(a_queue())

    assert in_virtual_time(main) == 3


def test_a_plain_listener_on_the_loop_takes_its_duration_in_every_world() -> None:
    calls = []

    async def main(cluster, broker):
        broker.offsets["T", 0] = 0
        broker.store(2)
        settings = {"listener_ms": 250, "consume_threads_max": 1}
        process = cluster.process()

        def listen(messages) -> None:
            calls.append(round(cluster.now_s(), 3))

        async with process, cluster.a_consumer(process, listen, **settings):
            await trio.sleep(1)

    in_group(main)
    assert calls == [0.0, 0.25]


async def test_outside_the_virtual_world_plain_functions_run_in_worker_threads() -> None:
    async with ClientProcess() as process:
        assert isinstance(process.plain_functions, WorkerThreads)
        calls = process.plain_functions.for_listener(threads_max=2, listener_ms=None)
        thread = await calls.run(threading.current_thread)
    assert thread is not threading.current_thread()


def test_a_duration_is_not_negative() -> None:
    with pytest.raises(ValueError, match="listener_ms"):
        PushConsumerConfig(group="cg", listener_ms=-1)

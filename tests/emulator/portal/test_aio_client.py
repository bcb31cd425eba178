"""The client for asyncio: cancellation, timeouts, loops of asyncio, listeners and callbacks."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import subprocess
import sys
import threading
import time

import pytest

from rocketmq_emulator import Cluster
from rocketmq_emulator.aio import (
    BadArgument,
    ConsumeContext,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageIllegal,
    Misuse,
    NotRunning,
    Producer,
    PushConsumer,
)
from rocketmq_emulator.portal import portal
from tests.support.paths import ROOT

FROM_FIRST = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "pull_error_delay_ms": 20}
WAIT_S_MAX = 20.0


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1) as cluster:
        yield cluster


def in_asyncio(test):
    """Run the test in a new loop; every task that it leaves is an error."""

    @functools.wraps(test)
    def run(cluster):
        async def main():
            await asyncio.wait_for(test(cluster), WAIT_S_MAX)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main(), debug=True)

    return run


def a_producer(cluster, **settings) -> Producer:
    return Producer(namesrv=cluster.namesrv, **{"group": "shop", **settings})


def a_consumer(cluster, topic, listener=None, **settings) -> PushConsumer:
    settings = {"namesrv": cluster.namesrv, "group": f"group-{topic}", **FROM_FIRST, **settings}
    return PushConsumer(listener, {topic: "*"}, **settings)


async def send(cluster, topic, count=1) -> None:
    async with a_producer(cluster) as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number))


def open_clients() -> int:
    return len(portal.portal().client_tasks)


# Start, close and cancellation ------------------------------------------------------------


@in_asyncio
async def test_start_and_close_do_what_an_async_with_does(cluster) -> None:
    producer = a_producer(cluster)
    with pytest.raises(NotRunning, match="inside its with block, or between start"):
        await producer.send(Message("started", b"x"))
    for _ in range(2):
        assert await producer.start() is producer
        assert (await producer.send(Message("started", b"x"))).is_ok
        with pytest.raises(Misuse, match="started already"):
            await producer.start()
        await producer.close()
        await producer.close()


@in_asyncio
async def test_sends_that_are_awaited_together_are_all_stored(cluster) -> None:
    async with a_producer(cluster) as producer:
        sends = [producer.send(Message("together", b"x")) for _ in range(64)]
        results = await asyncio.gather(*sends)
    assert len({(result.queue, result.queue_offset) for result in results}) == 64


@in_asyncio
async def test_a_timeout_cancels_a_wait_and_the_client_goes_on(cluster) -> None:
    async with a_consumer(cluster, "quiet") as consumer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(consumer.messages())
        await send(cluster, "quiet")
        assert (await anext(consumer.messages(count=1))).body == b"0"


@in_asyncio
async def test_a_task_that_is_cancelled_while_it_starts_a_client_leaves_none(cluster) -> None:
    before = open_clients()
    async with Mute() as mute:
        consumer = PushConsumer(print, {"t": "*"}, namesrv=mute.address, group="g")
        task = asyncio.create_task(consumer.start())
        await mute.asked.wait()
        assert open_clients() == before + 1
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert open_clients() == before
        await consumer.close()


class Mute:
    """A NameServer that reads requests and never answers."""

    async def __aenter__(self):
        self.asked = asyncio.Event()
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_error) -> None:
        self._server.close()

    async def _take(self, reader, writer) -> None:
        while await reader.read(65_536):
            self.asked.set()
        writer.close()


@in_asyncio
async def test_a_block_that_is_cancelled_closes_its_client_in_good_order(cluster) -> None:
    await send(cluster, "cancelled", 3)
    seen = []

    async def consume() -> None:
        async with a_consumer(cluster, "cancelled") as consumer:
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 2:
                    asking.set()

    asking = asyncio.Event()
    task = asyncio.create_task(consume())
    await asking.wait()
    await asyncio.sleep(0.05)  # by now the loop has taken the third one
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with a_consumer(cluster, "cancelled") as consumer:
        again = [message.body async for message in consumer.messages(timeout_s=0.2)]
    assert len(seen) == 3
    assert again == []


@in_asyncio
async def test_cancelled_waits_for_messages_lose_none(cluster) -> None:
    seen = []
    async with a_consumer(cluster, "impatient") as consumer:
        loop = consumer.messages()
        sending = asyncio.create_task(send(cluster, "impatient", 20))
        waits_s = itertools.cycle([0.0, 0.001, 0.005, 0.1])
        while len(seen) < 20:
            try:
                async with asyncio.timeout(next(waits_s)):
                    seen.append((await anext(loop)).body)
            except TimeoutError:
                continue
        await sending
    assert sorted(seen) == sorted({b"%d" % number for number in range(20)})


@in_asyncio
async def test_cancelled_polls_lose_none(cluster) -> None:
    seen = []
    consumer = LitePullConsumer(namesrv=cluster.namesrv, group="polls", poll_timeout_ms=500)
    async with a_producer(cluster) as producer, consumer:
        queue = (await producer.send(Message("polled", b"0"))).queue
        consumer.assign([queue])
        await consumer.seek_to_begin(queue)
        for number in range(1, 20):
            await producer.send(Message("polled", b"%d" % number), queue=queue)
        waits_s = itertools.cycle([0.0, 0.001, 0.005, 0.1])
        while len(seen) < 20:
            try:
                async with asyncio.timeout(next(waits_s)):
                    seen.append((await anext(consumer)).body)
            except TimeoutError:
                await asyncio.sleep(0)
    assert seen == [b"%d" % number for number in range(20)]


# Loops of asyncio -------------------------------------------------------------------------


def test_a_client_may_be_used_from_several_loops(cluster) -> None:
    producer = asyncio.run(a_producer(cluster).start())
    results = []

    def in_a_thread() -> None:
        results.append(asyncio.run(producer.send(Message("loops", b"x"))))

    threads = [threading.Thread(target=in_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.is_ok for result in results] == [True] * 3
    asyncio.run(producer.close())


def test_without_a_loop_the_error_names_the_other_clients(cluster) -> None:
    with pytest.raises(Misuse, match=r"rocketmq_emulator\.sync"):
        a_producer(cluster).start().send(None)


def test_a_consumer_whose_loop_was_closed_ends_and_says_so(cluster, caplog) -> None:
    async def forget() -> PushConsumer:
        async def on_messages(messages) -> None:
            raise AssertionError

        return await a_consumer(cluster, "forgotten", on_messages).start()

    before = open_clients()
    consumer = asyncio.run(forget())
    asyncio.run(send(cluster, "forgotten"))
    until_ended(before)
    with pytest.raises(NotRunning, match="asyncio loop that this client was started in is closed"):
        _ = consumer.queues
    assert "asyncio loop" in caplog.text

    async def others() -> list[bytes]:
        async with a_consumer(cluster, "forgotten") as other:
            return [message.body async for message in other.messages(count=1)]

    assert asyncio.run(others()) == [b"0"]


def until_ended(count) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while open_clients() > count:
        assert time.monotonic() < until_s, f"{open_clients()} clients are still open"
        time.sleep(0.01)


# Callbacks and listeners ------------------------------------------------------------------


@in_asyncio
async def test_callbacks_of_sends_run_in_the_loop_that_began_them(cluster) -> None:
    called = asyncio.Queue()

    def on_sent(result) -> None:
        called.put_nowait((asyncio.get_running_loop(), result))

    async with a_producer(cluster) as producer:
        sending = producer.start_send(Message("called", b"x"), on_sent)
        result = await sending.wait_sent()
        assert await called.get() == (asyncio.get_running_loop(), result)
        assert sending.result is result
        with pytest.raises(MessageIllegal):
            producer.start_send(Message("no topic!", b"x"))
        with pytest.raises(BadArgument, match="callback"):
            producer.start_send(Message("called", b"x"), "print")


@in_asyncio
async def test_a_wait_for_a_send_may_be_cancelled_and_the_send_goes_on(cluster) -> None:
    async with a_producer(cluster) as producer:
        await producer.send(Message("shielded", b"x"))
        cluster.pause("broker-a")
        try:
            sending = producer.start_send(Message("shielded", b"y"))
            waiting = asyncio.create_task(sending.wait_sent())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        finally:
            cluster.resume("broker-a")
        assert (await sending.wait_sent()).is_ok


request_id = contextvars.ContextVar("request_id")


@in_asyncio
async def test_a_coroutine_listener_runs_in_the_loop_of_its_consumer(cluster) -> None:
    await send(cluster, "listened", 3)
    seen = asyncio.Queue()

    async def on_messages(messages, context: ConsumeContext) -> ConsumeResult:
        await asyncio.sleep(0)
        where = asyncio.get_running_loop(), request_id.get(), context.queue.topic
        seen.put_nowait((*where, messages[0].body))
        return ConsumeResult.SUCCESS

    request_id.set("r-17")
    async with a_consumer(cluster, "listened", on_messages):
        got = [await seen.get() for _ in range(3)]
    assert {entry[:3] for entry in got} == {(asyncio.get_running_loop(), "r-17", "listened")}
    assert sorted(entry[3] for entry in got) == [b"0", b"1", b"2"]


@in_asyncio
async def test_a_plain_listener_runs_in_a_thread(cluster) -> None:
    await send(cluster, "threaded")
    loop, seen = asyncio.get_running_loop(), asyncio.Queue()
    here = threading.get_ident()

    def on_messages(messages) -> None:
        loop.call_soon_threadsafe(seen.put_nowait, threading.get_ident())

    async with a_consumer(cluster, "threaded", on_messages):
        assert await seen.get() != here


@in_asyncio
async def test_a_listener_that_raises_or_is_cancelled_gets_its_message_again(cluster) -> None:
    await send(cluster, "again")
    tries = asyncio.Queue()

    async def on_messages(messages, context) -> None:
        context.delay_level = 1
        tries.put_nowait(messages[0].reconsume_times)
        if messages[0].reconsume_times == 0:
            raise ValueError("not yet")
        if messages[0].reconsume_times == 1:
            asyncio.current_task().cancel()
            await asyncio.sleep(1)

    async with a_consumer(cluster, "again", on_messages):
        assert [await tries.get() for _ in range(3)] == [0, 1, 2]


@in_asyncio
async def test_closing_cancels_the_tasks_of_a_listener_and_waits_for_them(cluster) -> None:
    await send(cluster, "slow")
    began, ended = asyncio.Event(), []

    async def on_messages(messages) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("cleaned up")

    async with a_consumer(cluster, "slow", on_messages):
        await began.wait()
    assert ended == ["cleaned up"]


@in_asyncio
async def test_changes_of_queues_are_told_in_the_loop(cluster) -> None:
    await send(cluster, "told")
    told = asyncio.Queue()

    def on_queues(topic, queues, mine) -> None:
        told.put_nowait((asyncio.get_running_loop(), topic))

    async with a_consumer(cluster, "told", on_queues=on_queues):
        loop, _ = await told.get()
    assert loop is asyncio.get_running_loop()
    with pytest.raises(BadArgument, match="on_queues"):
        a_consumer(cluster, "told", on_queues=5)
    with pytest.raises(BadArgument, match="listener"):
        a_consumer(cluster, "told", lambda: None)


INTERRUPTED = """
import asyncio, os, signal, sys
from rocketmq_emulator.aio import PushConsumer

async def main():
    async with PushConsumer(
        subscriptions={"none": "*"}, namesrv=sys.argv[1], group="i"
    ) as consumer:
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
        async for message in consumer:
            pass

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_program_of_asyncio(cluster) -> None:
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED, cluster.namesrv]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")

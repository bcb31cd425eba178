"""The emulator's client as a load, in its own process; prints one line of JSON.

python -m benchmarks.own_client NAMESRV async COUNT     # sends that are not awaited
python -m benchmarks.own_client NAMESRV calls COUNT     # awaited sends of 32 tasks
python -m benchmarks.own_client NAMESRV consume COUNT   # a backlog, by a push consumer
python -m benchmarks.own_client NAMESRV through COUNT   # producer and consumer at once
python -m benchmarks.own_client NAMESRV first           # ms to the first message consumed

With each rate it gives the CPU time of this process per message, in microseconds.
"""

from __future__ import annotations

import json
import sys
import time

import trio

from rocketmq_emulator.client import Producer, PushConsumer
from rocketmq_emulator.protocol.messages.message import Message, MessageExt

BODY = b"x" * 100
IN_FLIGHT = 1_000
CALLERS = 32
WARM_UP_SENDS = 64
GROUP = "own-client"
FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Counter:
    """A listener that counts messages and sets ``enough`` when *wanted* have arrived."""

    def __init__(self, wanted: int) -> None:
        self.count = 0
        self.first = trio.Event()
        self.enough = trio.Event()
        self._wanted = wanted

    def __call__(self, messages: list[MessageExt]) -> None:
        self.count += len(messages)
        self.first.set()
        if self.count >= self._wanted:
            self.enough.set()


class Stopwatch:
    """Real time and this process's CPU time since its creation."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._cpu_s = time.process_time()

    def rates(self, count: int) -> dict[str, float]:
        """The rate and the CPU time per message, for *count* messages until now."""
        took_s = time.perf_counter() - self._began_s
        cpu_us = (time.process_time() - self._cpu_s) * 1e6
        return {"messages": count, "per_s": count / took_s, "cpu_us": cpu_us / count}


async def sends(namesrv: str, count: int) -> dict[str, float]:
    """Sends with a callback, at most ``IN_FLIGHT`` unanswered."""
    topic = _new_topic()
    async with _producer(namesrv) as producer:
        await _warm_up(producer, topic)
        watch = Stopwatch()
        await _start_sends(producer, topic, count)
        return watch.rates(count)


async def calls(namesrv: str, count: int) -> dict[str, float]:
    """Awaited sends of ``CALLERS`` tasks of one process."""
    topic = _new_topic()

    async def caller(number: int) -> None:
        for _ in range(count // CALLERS):
            await producer.send(Message(topic, BODY), worker=number)

    async with _producer(namesrv) as producer:
        await _warm_up(producer, topic)
        watch = Stopwatch()
        async with trio.open_nursery() as nursery:
            for number in range(CALLERS):
                nursery.start_soon(caller, number)
        return watch.rates(count // CALLERS * CALLERS)


async def consume(namesrv: str, count: int) -> dict[str, float]:
    """The consumption of a backlog, from its first message to its last."""
    topic = _new_topic()
    async with _producer(namesrv) as producer:
        await _warm_up(producer, topic)
        await _start_sends(producer, topic, count)
    counter = Counter(WARM_UP_SENDS + count)
    async with _consumer(namesrv, topic, counter):
        await counter.first.wait()
        watch, done = Stopwatch(), counter.count
        await counter.enough.wait()
        return watch.rates(counter.count - done)


async def through(namesrv: str, count: int) -> dict[str, float]:
    """Messages per second, from the first send to the last consumption."""
    topic = _new_topic()
    counter = Counter(WARM_UP_SENDS + count)
    async with _producer(namesrv) as producer:
        await _warm_up(producer, topic)
        async with _consumer(namesrv, topic, counter):
            watch = Stopwatch()
            await _start_sends(producer, topic, count)
            sent = watch.rates(count)
            await counter.enough.wait()
            return {"sent_per_s": sent["per_s"], **watch.rates(count)}


async def first(namesrv: str) -> dict[str, float]:
    """As ``first`` of the Java program: new topic and group, timed from the client's start."""
    began_s = time.perf_counter()
    counter = Counter(1)
    async with Producer(namesrv=namesrv, group=GROUP) as producer:
        await producer.send(Message("TopicFirstOfOurs", b"hello"))
        async with _consumer(namesrv, "TopicFirstOfOurs", counter):
            await counter.enough.wait()
    return {"ms": (time.perf_counter() - began_s) * 1e3}


MODES = {"async": sends, "calls": calls, "consume": consume, "through": through}


def _producer(namesrv: str) -> Producer:
    return Producer(namesrv=namesrv, group=GROUP, send_timeout_ms=30_000)


async def _warm_up(producer: Producer, topic: str) -> None:
    for _ in range(WARM_UP_SENDS):  # creates the topic on both brokers
        await producer.send(Message(topic, BODY))


async def _start_sends(producer: Producer, topic: str, count: int) -> None:
    """Start *count* sends and wait until all are answered."""
    room = trio.Semaphore(IN_FLIGHT)
    for _ in range(count):
        try:
            room.acquire_nowait()
        except trio.WouldBlock:
            await room.acquire()
        producer.start_send(Message(topic, BODY), lambda _: room.release())
    for _ in range(IN_FLIGHT):
        await room.acquire()


def _new_topic() -> str:
    return f"Load{time.time_ns()}"


def _consumer(namesrv: str, topic: str, counter: Counter) -> PushConsumer:
    return PushConsumer(
        counter,
        {topic: "*"},
        namesrv=namesrv,
        group=f"{GROUP}-{topic}",
        consume_from=FROM_FIRST,
        consume_batch_max=32,
        listeners_inline=True,
    )


async def main(*arguments: str) -> None:
    namesrv, mode, *rest = arguments
    found = await (first(namesrv) if mode == "first" else MODES[mode](namesrv, int(rest[0])))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

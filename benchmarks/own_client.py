"""Our own client as a load, in a process of its own; one line of JSON says what was reached.

python -m benchmarks.own_client NAMESRV through COUNT   # producer and consumer at once
python -m benchmarks.own_client NAMESRV first           # ms to the first message consumed
"""

from __future__ import annotations

import json
import sys
import time

import trio

from emulator.client import Producer, PushConsumer
from protocol.message import Message, MessageExt

BODY = b"x" * 100
IN_FLIGHT = 1_000
WARM_UP_SENDS = 64
GROUP = "own-client"
FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Counter:
    """A listener that counts, and says when it is enough."""

    def __init__(self, wanted: int) -> None:
        self.count = 0
        self.enough = trio.Event()
        self._wanted = wanted

    def __call__(self, messages: list[MessageExt]) -> None:
        self.count += len(messages)
        if self.count >= self._wanted:
            self.enough.set()


async def through(namesrv: str, count: int) -> dict[str, float]:
    """Messages a second, from the first send to the last message consumed."""
    topic = f"Through{time.time_ns()}"
    counter = Counter(WARM_UP_SENDS + count)
    async with Producer(namesrv=namesrv, group=GROUP, send_timeout_ms=30_000) as producer:
        for _ in range(WARM_UP_SENDS):  # creates the topic on both brokers
            await producer.send(Message(topic, BODY))
        async with _consumer(namesrv, topic, counter):
            began_s = time.perf_counter()
            room = trio.Semaphore(IN_FLIGHT)
            for _ in range(count):
                await room.acquire()
                producer.start_send(Message(topic, BODY), lambda _: room.release())
            for _ in range(IN_FLIGHT):
                await room.acquire()
            sent_s = time.perf_counter() - began_s
            await counter.enough.wait()
            took_s = time.perf_counter() - began_s
    return {"messages": count, "sent_per_s": count / sent_s, "per_s": count / took_s}


async def first(namesrv: str) -> dict[str, float]:
    """The same as the Java program's: everything is new, the clock starts with the client."""
    began_s = time.perf_counter()
    counter = Counter(1)
    async with Producer(namesrv=namesrv, group=GROUP) as producer:
        await producer.send(Message("TopicFirstOfOurs", b"hello"))
        async with _consumer(namesrv, "TopicFirstOfOurs", counter):
            await counter.enough.wait()
    return {"ms": (time.perf_counter() - began_s) * 1e3}


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
    found = await (through(namesrv, int(rest[0])) if mode == "through" else first(namesrv))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

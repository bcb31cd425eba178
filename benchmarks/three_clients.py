"""Awaited sends of the clients for threads and asyncio, compared with the trio client.

python -m benchmarks.three_clients NAMESRV COUNT

With 1 and with 32 callers, in turns.  Prints one line of JSON: sends per second, the CPU time of
this process per send in microseconds, and the rates of the two as a fraction of trio's.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import uuid

import trio

from benchmarks.own_client import BODY, WARM_UP_SENDS, Stopwatch
from rocketmq_emulator import Message, Producer, aio, sync

CALLERS = (1, 32)
ROUNDS = 3
GROUP = "three-clients"
SEND_MS_MAX = 30_000


def of_trio(namesrv: str, topic: str, callers: int, count: int) -> dict[str, float]:
    """Sends of *callers* tasks of one nursery."""

    async def caller(producer: Producer, number: int, sends: int) -> None:
        for _ in range(sends):
            await producer.send(Message(topic, BODY), worker=number)

    async def main() -> dict[str, float]:
        async with Producer(namesrv=namesrv, group=GROUP, send_timeout_ms=SEND_MS_MAX) as producer:
            await caller(producer, 0, WARM_UP_SENDS)
            watch = Stopwatch()
            async with trio.open_nursery() as nursery:
                for number in range(callers):
                    nursery.start_soon(caller, producer, number, count // callers)
            return watch.rates(count)

    return trio.run(main)


def of_sync(namesrv: str, topic: str, callers: int, count: int) -> dict[str, float]:
    """Sends of *callers* threads: this one, the others new."""
    with sync.Producer(namesrv=namesrv, group=GROUP, send_timeout_ms=SEND_MS_MAX) as producer:

        def caller(number: int, sends: int) -> None:
            for _ in range(sends):
                producer.send(Message(topic, BODY), worker=number)

        caller(0, WARM_UP_SENDS)
        threads = [
            threading.Thread(target=caller, args=(number, count // callers))
            for number in range(1, callers)
        ]
        watch = Stopwatch()
        for thread in threads:
            thread.start()
        caller(0, count // callers)
        for thread in threads:
            thread.join()
        return watch.rates(count)


def of_aio(namesrv: str, topic: str, callers: int, count: int) -> dict[str, float]:
    """Sends of *callers* tasks of one asyncio loop."""

    async def caller(producer: aio.Producer, number: int, sends: int) -> None:
        for _ in range(sends):
            await producer.send(Message(topic, BODY), worker=number)

    async def main() -> dict[str, float]:
        async with aio.Producer(
            namesrv=namesrv, group=GROUP, send_timeout_ms=SEND_MS_MAX
        ) as producer:
            await caller(producer, 0, WARM_UP_SENDS)
            watch = Stopwatch()
            shares = [caller(producer, number, count // callers) for number in range(callers)]
            await asyncio.gather(*shares)
            return watch.rates(count)

    return asyncio.run(main())


CLIENTS = {"trio": of_trio, "sync": of_sync, "aio": of_aio}


def measured(namesrv: str, count: int) -> dict[str, float]:
    """Medians of the rounds; each round measures every client."""
    rounds: dict[str, list[float]] = {}
    topic = f"three-clients-{uuid.uuid4().hex[:8]}"
    for _ in range(ROUNDS):
        for callers in CALLERS:
            for name, client in CLIENTS.items():
                found = client(namesrv, topic, callers, count // callers * callers)
                rounds.setdefault(f"{name}_{callers}_per_s", []).append(found["per_s"])
                rounds.setdefault(f"{name}_{callers}_cpu_us", []).append(found["cpu_us"])
            for name in ("sync", "aio"):
                both = [rounds[f"{face}_{callers}_per_s"][-1] for face in (name, "trio")]
                rounds.setdefault(f"{name}_{callers}_share", []).append(both[0] / both[1])
    return {key: statistics.median(values) for key, values in rounds.items()}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))

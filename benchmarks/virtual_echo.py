"""The speed of virtual time: calls, timers and idle links per real second.

    python benchmarks/virtual_echo.py [calls]

A call is a request and its reply between two machines, with one task that waits for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable

import trio

from rocketmq_emulator.net.transport import Transport
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual


class Echo:
    """Echoes every byte."""

    def __init__(self, transport: Transport) -> None:
        self.feed = transport.send

    def writable(self) -> None: ...

    def drained(self) -> None: ...

    def closed(self, reason: str) -> None: ...


class Caller:
    """One call at a time; the task that calls sleeps until the reply."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._replied = trio.Event()
        self.reply = b""

    async def call(self, request: bytes) -> bytes:
        self._replied = trio.Event()
        self._transport.send(request)
        await self._replied.wait()
        return self.reply

    def feed(self, data: bytes) -> None:
        self.reply = data
        self._replied.set()

    def writable(self) -> None: ...

    def drained(self) -> None: ...

    def closed(self, reason: str) -> None: ...


async def dial(world: VirtualWorld, name: str) -> Caller:
    callers: list[Caller] = []

    def accept(transport: Transport) -> Caller:
        callers.append(Caller(transport))
        return callers[-1]

    await world.network.host(name).connect("server:1", accept)
    return callers[0]


async def calls(world: VirtualWorld, count: int) -> None:
    await world.network.host("server").listen("0.0.0.0:1", Echo)
    caller = await dial(world, "client")
    for _ in range(count):
        await caller.call(b"ping")


async def calls_beside_idle_links(world: VirtualWorld, count: int) -> None:
    await world.network.host("server").listen("0.0.0.0:1", Echo)
    for number in range(1_000):
        await dial(world, f"idle-{number}")
    caller = await dial(world, "client")
    for _ in range(count):
        await caller.call(b"ping")


async def timers(_world: VirtualWorld, count: int) -> None:
    for _ in range(count):
        await trio.sleep(0.001)


async def seven_calls_a_second(world: VirtualWorld, count: int) -> None:
    await world.network.host("server").listen("0.0.0.0:1", Echo)
    caller = await dial(world, "client")
    for _ in range(count):
        await caller.call(b"ping")
        await trio.sleep(1 / 7)


Work = Callable[[VirtualWorld, int], Awaitable[None]]
WORKS: tuple[Work, ...] = (calls, calls_beside_idle_links, timers, seven_calls_a_second)


def measure(work: Work, count: int) -> None:
    async def main(world: VirtualWorld) -> float:
        await work(world, count)
        return trio.current_time()

    began = time.perf_counter()
    virtual_s = run_virtual(main, seed=1)
    real_s = time.perf_counter() - began
    print(
        f"{work.__name__:26} {1e6 * real_s / count:7.1f} us each,"
        f" {count / real_s:8.0f} per second, {virtual_s / real_s:8.0f} x real time"
    )


if __name__ == "__main__":
    for one in WORKS:
        measure(one, int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)

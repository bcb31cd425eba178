"""Endpoints without a protocol, for tests of the world that carries bytes between them."""

from __future__ import annotations

from typing import Any

import trio

from rocketmq_emulator.net.transport import Transport
from rocketmq_emulator.sim.machines import Machine, Program
from rocketmq_emulator.sim.world import VirtualWorld


class Listening:
    """Keeps each call with its time; a test can wait for data or for the end."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.heard: list[tuple[float, str, Any]] = []
        self._news = trio.Event()

    @property
    def data(self) -> bytes:
        return b"".join(what for _, kind, what in self.heard if kind == "feed")

    @property
    def ends(self) -> list[str]:
        return [what for _, kind, what in self.heard if kind == "closed"]

    def feed(self, data: bytes) -> None:
        self._note("feed", data)

    def drained(self) -> None:
        self._note("drained", b"")

    def writable(self) -> None:
        self._note("writable", b"")

    def closed(self, reason: str) -> None:
        self._note("closed", reason)

    async def wait_data(self, length: int) -> bytes:
        while len(self.data) < length:
            await self._next()
        return self.data

    async def wait_closed(self) -> str:
        while not self.ends:
            await self._next()
        return self.ends[0]

    async def _next(self) -> None:
        self._news = trio.Event()
        await self._news.wait()

    def _note(self, kind: str, what: bytes | str) -> None:
        self.heard.append((trio.current_time(), kind, what))
        self._news.set()


class Echo(Listening):
    """Sends back the data that it receives."""

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.transport.send(data)


class Ends:
    """An ``accept`` that keeps the endpoints it made."""

    def __init__(self, kind: type[Listening] = Listening) -> None:
        self._kind = kind
        self.all: list[Listening] = []

    def __call__(self, transport: Transport) -> Listening:
        self.all.append(self._kind(transport))
        return self.all[-1]


async def a_link(
    world: VirtualWorld, *, server: str = "b", kind: type[Listening] = Listening, port: int = 1000
) -> tuple[Listening, Listening]:
    """Both ends of a stream from host "a" to *server*."""
    there = Ends(kind)
    listener = await world.network.host(server).listen(f"0.0.0.0:{port}", there)
    near = await a_client(world, listener.address)
    listener.close()
    return near, there.all[0]


async def a_client(world: VirtualWorld, address: str, *, host: str = "a") -> Listening:
    here = Ends()
    await world.network.host(host).connect(address, here)
    return here.all[0]


def a_server(port: int, ends: Ends) -> Program:
    """A program that listens until it is killed."""

    async def program(machine: Machine) -> None:
        await machine.network.listen(f"0.0.0.0:{port}", ends)
        machine.ready()
        await trio.sleep_forever()

    return program

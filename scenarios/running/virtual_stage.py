"""The virtual stage: every node and client a machine, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import trio

from emulator.cluster.admin import TOOL_RELEASE, Admin
from emulator.cluster.faults.naming import OPERATOR
from emulator.cluster.virtual import VirtualCluster
from emulator.cluster.world import STOP_S_MAX
from emulator.config import NetConfig
from emulator.journal import silent
from emulator.net.plain_nursery import plain_nursery
from emulator.net.remoting_client import RemotingClient
from scenarios.running.playing import play
from scenarios.running.stage import RunStage

if TYPE_CHECKING:
    from emulator.client import ClientProcess
    from emulator.facts import Fact
    from emulator.sim.world import VirtualWorld
    from scenarios.plan import Plan
    from scenarios.running.parts import AnyPart


class VirtualStage(RunStage):
    """*cluster* has started nothing yet."""

    def __init__(self, plan: Plan, cluster: VirtualCluster) -> None:
        super().__init__(plan, cluster)
        self._cluster = cluster
        self._world: VirtualWorld = cluster.world
        self._under_way: dict[str, Callable[[], str]] = {}
        self._endings: dict[str, trio.Event] = {}

    def mono_us(self) -> int:
        """Microseconds since the world began."""
        return self._world.clock.now_us

    def now_ms(self) -> int:
        """The true wall time."""
        return self._world.now_ms()

    async def start_cluster(self) -> None:
        """NameServers, then brokers."""
        await self._cluster.start()

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Admin]:
        """Calls from the machine ``operator``."""
        machine = self._world.machines.machine(OPERATOR)
        async with plain_nursery() as nursery:
            client = RemotingClient(
                machine.network,
                nursery,
                clock=machine.clock,
                config=NetConfig(),
                release=TOOL_RELEASE,
                note=silent,
                handlers={},
            )
            try:
                yield Admin(self._cluster.namesrv, client)
            finally:
                client.close_all()

    async def start_client(self, part: AnyPart) -> None:
        """A machine of that name, whose process plays *part*."""

        async def program(process: ClientProcess) -> None:
            def tell(under_way: Callable[[], str]) -> None:
                self._under_way[part.name] = under_way

            ending = self._endings[part.name] = trio.Event()
            await play(part, process, tell, ending)

        self._cluster.start_client(part.name, program)

    async def stop(self, name: str) -> None:
        """A client leaves its blocks in order; what hangs is killed."""
        ending = self._endings.get(name)
        if ending is not None and self._cluster.is_running(name):
            self._world.machines.resume(name)
            ending.set()
            with trio.move_on_after(STOP_S_MAX):
                await self._world.machines.machine(name).wait_ended()
        await super().stop(name)

    def client_has_ended(self, name: str) -> bool:
        """Does nothing run on its machine?"""
        return not self._cluster.is_running(name)

    def note(self, fact: Fact) -> None:
        """In the journal of the world."""
        self._cluster.note(fact)

    def faults_in_words(self) -> list[str]:
        """Those that hold, as JSON."""
        return [msgspec.json.encode(state.fault).decode() for state in self._cluster.faults()]

    def end_world(self, error: Exception) -> None:
        """At once, and *error* is raised by the run."""
        self._world.crash(error)

    def open_work(self) -> dict[str, str]:
        """Of those that run."""
        found = {
            name: ask() for name, ask in self._under_way.items() if self._cluster.is_running(name)
        }
        return {name: text for name, text in found.items() if text}

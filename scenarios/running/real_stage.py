"""The stage in real time: nodes on TCP, embedded or as processes, and clients as processes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, ExitStack
from typing import TYPE_CHECKING

import msgspec
import trio

from emulator.cluster.admin import Admin, admin_over_tcp
from emulator.cluster.faults.in_real_time import TrueClock
from scenarios.running.parts import MemberPart, ProducerPart
from scenarios.running.stage import RunStage

if TYPE_CHECKING:
    from emulator.cluster.real_world import RealWorld
    from emulator.facts import Fact
    from scenarios.plan import Plan
    from scenarios.running.client_processes import ClientProcesses
    from scenarios.running.parts import AnyPart


class RealStage(RunStage):
    """*world* and what it starts end with *closing*."""

    def __init__(
        self, plan: Plan, world: RealWorld, clients: ClientProcesses, closing: ExitStack
    ) -> None:
        super().__init__(plan, world)
        self._cluster = world
        self._clients = clients
        self._closing = closing
        self._clock = TrueClock()

    def mono_us(self) -> int:
        """The monotonic time of this machine."""
        return self._clock.mono_us()

    def now_ms(self) -> int:
        """The wall time of this machine."""
        return self._clock.now_ms()

    async def start_cluster(self) -> None:
        """In a thread: it takes a while."""
        await trio.to_thread.run_sync(self._closing.enter_context, self._cluster)

    def admin(self) -> AbstractAsyncContextManager[Admin]:
        """Over connections of its own."""
        return admin_over_tcp(self._cluster.namesrv)

    async def start_client(self, part: AnyPart) -> None:
        """A process that plays *part*; proxies know it by its name."""
        self._clients.enter(_with_name(part))

    def client_has_ended(self, name: str) -> bool:
        """Is there no process of it any more?"""
        return not self._clients.is_running(name)

    def open_work(self) -> dict[str, str]:
        """Not known: it is in other processes."""
        return {}

    def note(self, fact: Fact) -> None:
        """In the journal of the world."""
        self._cluster.note(fact)

    def faults_in_words(self) -> list[str]:
        """Those that hold, as JSON."""
        return [msgspec.json.encode(state.fault).decode() for state in self._cluster.faults()]

    def check(self) -> None:
        """Raises what ended a node or a client that nobody ended."""
        self._clients.check()
        for died in self._cluster.deaths():
            raise died


def _with_name(part: AnyPart) -> AnyPart:
    """Its instance has the client's name, unless the plan says another one."""
    own = {"instance_name": part.name}
    match part:
        case MemberPart(consumers=plan):
            named = msgspec.structs.replace(plan, settings=own | plan.settings)
            return msgspec.structs.replace(part, consumers=named)
        case ProducerPart(load=load):
            load = msgspec.structs.replace(load, settings=own | load.settings)
            return msgspec.structs.replace(part, load=load)
        case _:
            return part

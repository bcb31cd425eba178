"""What a run needs of a world, whichever it is: a cluster, clients on it, and its facts.

``VirtualStage`` and ``RealStage`` are the two; what happens on a stage is the director's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from emulator.cluster.world import World, perform
from scenarios.running.watch import Watch

if TYPE_CHECKING:
    from emulator.cluster.admin import Admin
    from emulator.cluster.faults.values import AnyFault
    from emulator.facts import Fact
    from scenarios.plan import Plan
    from scenarios.running.parts import AnyPart


class RunStage(ABC):
    """*world* has started nothing yet; ``watch`` is given every fact."""

    def __init__(self, plan: Plan, world: World[Any]) -> None:
        self.plan = plan
        self.world = world
        self.watch = Watch(plan)

    @abstractmethod
    def mono_us(self) -> int:
        """Monotonic time, as facts and clients have it."""

    @abstractmethod
    def now_ms(self) -> int:
        """Wall time, as nodes have it whose clocks are right."""

    @abstractmethod
    async def start_cluster(self) -> None:
        """All nodes are ready when it returns."""

    @abstractmethod
    def admin(self) -> AbstractAsyncContextManager[Admin]:
        """Calls of tools, inside the block."""

    @abstractmethod
    async def start_client(self, part: AnyPart) -> None:
        """A client that there was not before plays *part*."""

    @abstractmethod
    def client_has_ended(self, name: str) -> bool:
        """Is there no process of it any more?"""

    @abstractmethod
    def open_work(self) -> dict[str, str]:
        """What clients have under way, by name, as far as that is known."""

    @abstractmethod
    def note(self, fact: Fact) -> None:
        """Write a fact of the run itself."""

    @abstractmethod
    def faults_in_words(self) -> list[str]:
        """Those that hold, as JSON."""

    # Verbs that nodes and clients have alike ----------------------------------------------

    async def begin_fault(self, fault: AnyFault, for_ms: int | None) -> int:
        """Its id; it ends by itself after *for_ms*."""
        fault_id: int = await perform(self.world, "begin_fault", fault, for_ms)
        return fault_id

    async def end_fault(self, fault_id: int) -> None:
        """What it changed is as before; one that has ended already is left alone."""
        await perform(self.world, "end_fault", fault_id)

    async def heal(self) -> None:
        """All faults end, the last one first."""
        await perform(self.world, "end_faults", "healed")

    async def stop(self, name: str) -> None:
        """An orderly end."""
        await perform(self.world, "stop", name)

    async def kill(self, name: str) -> None:
        """At once."""
        await perform(self.world, "kill", name)

    async def start(self, name: str) -> None:
        """What was stopped or killed plays on."""
        await perform(self.world, "start", name)

"""What a run needs of a world, whichever it is: a cluster, clients on it, and its facts.

``virtual_run`` and ``real_run`` have one implementation each; ``runner`` carries a plan out in
either.  ``cluster_spec_of`` is the cluster of a plan as all worlds start it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import World, perform
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.running.observer import RunObserver

if TYPE_CHECKING:
    from rocketmq_emulator.admin.calls import Admin
    from rocketmq_emulator.cluster.fault_values import AnyFault
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.scenarios.running.client_specs import AnyClientSpec


class RunEnvironment(ABC):
    """*world* has started nothing yet; ``watch`` is given every fact."""

    def __init__(self, plan: Plan, world: World) -> None:
        self.plan = plan
        self.world = world
        self.watch = RunObserver(plan)

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
    async def start_client(self, part: AnyClientSpec) -> None:
        """A client that there was not before plays *part*."""

    @abstractmethod
    def client_has_ended(self, name: str) -> bool:
        """Is there no process of it any more?"""

    @abstractmethod
    def open_work(self) -> dict[str, str]:
        """What clients have under way, by name, as far as that is known."""

    # Verbs that nodes and clients have alike ----------------------------------------------

    def note(self, fact: Fact) -> None:
        """Write a fact of the run itself, in the journal of the world."""
        self.world.note(fact)

    def faults_as_json(self) -> list[str]:
        """Those that hold, as JSON."""
        return [msgspec.json.encode(state.fault).decode() for state in self.world.faults()]

    async def begin_fault(self, fault: AnyFault, for_ms: int | None) -> int:
        """Its id; it ends by itself after *for_ms*."""
        return await perform(self.world, self.world.begin_fault, fault, for_ms)

    async def end_fault(self, fault_id: int) -> None:
        """What it changed is as before; one that has ended already is left alone."""
        await perform(self.world, self.world.end_fault, fault_id)

    async def heal(self) -> None:
        """All faults end, the last one first."""
        await perform(self.world, self.world.end_faults, "healed")

    async def stop(self, name: str) -> None:
        """An orderly end."""
        await perform(self.world, self.world.stop, name)

    async def kill(self, name: str) -> None:
        """At once."""
        await perform(self.world, self.world.kill, name)

    async def start(self, name: str) -> None:
        """What was stopped or killed plays on."""
        await perform(self.world, self.world.start, name)


# The cluster of a plan ----------------------------------------------------------------


def cluster_spec_of(plan: Plan) -> ClusterSpec:
    """Raises ``ValueError`` and ``BadField`` for a cluster that cannot be."""
    cluster = plan.cluster
    quirks = {"quirks": plan.quirks} if plan.quirks else {}
    return ClusterSpec(
        brokers=cluster.brokers,
        name_servers=cluster.name_servers,
        release=cluster.release,
        broker_settings={**quirks, **cluster.broker_settings},
        name_server_settings=cluster.name_server_settings,
        settings_of=cluster.settings_of,
    )

"""What a run needs of any world: a cluster, its clients, and its facts.

``virtual_run`` and ``real_run`` have one implementation each; ``runner`` runs a plan in either,
and calls the verbs of its world.  ``cluster_spec_of`` gives the cluster of a plan, the
same for all worlds.
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
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.scenarios.running.client_specs import AnyClientSpec


class RunEnvironment(ABC):
    """The environment of *plan* in *world*, which is not started; ``watch`` reads every fact."""

    def __init__(self, plan: Plan, world: World) -> None:
        self.plan = plan
        self.world = world
        self.watch = RunObserver(plan)

    @abstractmethod
    def mono_us(self) -> int:
        """Monotonic time in microseconds, as in facts and clients."""

    @abstractmethod
    def now_ms(self) -> int:
        """Wall time in ms, without the errors of nodes' clocks."""

    @abstractmethod
    async def start_cluster(self) -> None:
        """Start all nodes; they are ready on return."""

    @abstractmethod
    def admin(self) -> AbstractAsyncContextManager[Admin]:
        """Inside the block, an ``Admin`` for tool calls to the cluster."""

    @abstractmethod
    async def start_client(self, part: AnyClientSpec) -> None:
        """Start a new client from its spec."""

    @abstractmethod
    def client_has_ended(self, name: str) -> bool:
        """Whether the client has no process any more."""

    @abstractmethod
    def open_work(self) -> dict[str, str]:
        """The open work of running clients (sends in flight …) by name, as far as it is known."""

    # The world ----------------------------------------------------------------------------

    def note(self, fact: Fact) -> None:
        """Write a fact of the run itself to the journal, as the node ``world``."""
        self.world.note(fact)

    def faults_as_json(self) -> list[str]:
        """The faults that hold, each as JSON."""
        return [msgspec.json.encode(state.fault).decode() for state in self.world.faults()]

    async def stop(self, name: str) -> None:
        """Stop a node or client in order."""
        await perform(self.world, self.world.stop, name)


# The cluster of a plan ----------------------------------------------------------------


def cluster_spec_of(plan: Plan) -> ClusterSpec:
    """The ``ClusterSpec`` of *plan*.  Raises ``ValueError`` and ``BadField`` if it is invalid."""
    cluster = plan.cluster
    quirks = {"quirks": plan.quirks} if plan.quirks else {}
    return ClusterSpec(
        brokers=cluster.brokers,
        slaves=cluster.slaves,
        acting_master=cluster.acting_master,
        controllers=cluster.controllers,
        name_servers=cluster.name_servers,
        release=cluster.release,
        broker_settings={**quirks, **cluster.broker_settings},
        name_server_settings=cluster.name_server_settings,
        controller_settings=cluster.controller_settings,
        settings_of=cluster.settings_of,
    )

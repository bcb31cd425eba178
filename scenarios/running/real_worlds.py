"""The worlds of real time with the clients of a run beside the nodes.

The verbs take their names, too: so faults of clients begin and end as those of nodes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from emulator.cluster.embedded import EmbeddedCluster
from emulator.cluster.faults.values import LinkFault
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.real_world import RealWorld
from scenarios.running.specs import spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.cluster.world import WorldKind
    from scenarios.plan import Plan
    from scenarios.running.client_processes import ClientProcesses


class WorldWithClients(RealWorld):
    """Stands before a world of real time; ``clients`` is given to it before it starts."""

    clients: ClientProcesses

    @property
    def client_names(self) -> tuple[str, ...]:
        """Of those that have entered."""
        return self.clients.names

    def is_running(self, name: str) -> bool:
        """Is there a process, paused or not?"""
        if name in self.client_names:
            return self.clients.is_running(name)
        return super().is_running(name)  # type: ignore[safe-super]  # the world behind has it

    def is_paused(self, name: str) -> bool:
        """Does its process stand still?"""
        if name in self.client_names:
            return self.clients.is_paused(name)
        return super().is_paused(name)

    def start(self, *names: str) -> None:
        """Nodes are ready when it returns; clients have begun to play on."""
        clients = [name for name in names if name in self.client_names]
        if nodes := [name for name in names if name not in clients]:
            super().start(*nodes)  # type: ignore[safe-super]
        elif not names:
            super().start()  # type: ignore[safe-super]
        for name in clients:
            self.clients.start(name)
        self._faults.started(clients)

    def stop(self, *names: str) -> None:
        """Clients first; with no name only the nodes."""
        for name in names:
            if name in self.client_names:
                self.clients.stop(name)
        nodes = [name for name in names if name not in self.client_names]
        if nodes or not names:
            super().stop(*nodes)  # type: ignore[safe-super]

    def kill(self, name: str) -> None:
        """At once."""
        if name in self.client_names:
            self._faults.note_killed([name] if self.clients.is_running(name) else [])
            self.clients.kill(name)
        else:
            super().kill(name)  # type: ignore[safe-super]

    def pause(self, name: str) -> None:
        """It stands still."""
        if name in self.client_names:
            self.clients.pause(name)
        else:
            super().pause(name)  # type: ignore[safe-super]

    def resume(self, name: str) -> None:
        """It goes on."""
        if name in self.client_names:
            self.clients.resume(name)
        else:
            super().resume(name)  # type: ignore[safe-super]


class EmbeddedWithClients(WorldWithClients, EmbeddedCluster):
    """Nodes in a thread of this process, clients as processes."""


class ProcessesWithClients(WorldWithClients, ProcessCluster):
    """Nodes and clients as processes."""


def world_of(plan: Plan, kind: WorldKind, folder: Path, clients: ClientProcesses) -> RealWorld:
    """The cluster of *plan*, not started; it stands behind proxies if a fault needs them.

    Journals go to *folder*.  Processes have a store there: what a broker stored is there after
    it was killed, as in the other worlds.
    """
    spec = spec_of(plan)
    has_links = any(isinstance(step.does, LinkFault) for step in plan.timeline)
    world: WorldWithClients
    if kind == "embedded":
        world = EmbeddedWithClients(spec, journal=str(folder), with_links=has_links)
    else:
        spec = msgspec.structs.replace(spec, store=str(folder / "store"))
        world = ProcessesWithClients(spec, journal=str(folder), with_links=has_links)
    world.clients = clients
    return world

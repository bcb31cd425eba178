"""The same roles and clients in the virtual world: one machine a node, one a client.

What runs is what runs on TCP, with the same defaults; only the network, the disk, the
clock and chance are the world's.  Journals of all machines go to one list of lines, in
the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import trio

from emulator.client.instance.process import ClientProcess
from emulator.cluster.roles import RoleConfig, serve_role
from emulator.cluster.spec import ClusterSpec
from emulator.journal import Journal

if TYPE_CHECKING:
    from emulator.sim.machines import Machine, Program
    from emulator.sim.world import World

ClientProgram: TypeAlias = Callable[[ClientProcess], Awaitable[object]]

NAMESRV_PORT, BROKER_PORT = 9876, 10911  # a machine each: all may listen where upstream does


class VirtualCluster:
    """A spec in a *world*; *lines* takes the journal.

    The machines bear the names of the nodes: hurt them through ``world.machines``, or by
    the verbs here.  A broker that is restarted finds its drive as it left it.
    """

    def __init__(
        self, world: World, spec: ClusterSpec, lines: Callable[[bytes], object] | None = None
    ) -> None:
        spec.check()
        self.world = world
        self.spec = spec
        self._write = lines
        self._clients = 0

    async def start(self) -> None:
        """Until every broker is in the route and accepts."""
        for names in (self.spec.name_server_names, self.spec.broker_names):
            machines = [self.world.machines.start(name, self._node) for name in names]
            for machine in machines:
                await machine.wait_ready()

    @property
    def namesrv(self) -> str:
        return ";".join(self._namesrv)

    def start_client(self, name: str, program: ClientProgram) -> Machine:
        """A machine whose one process runs *program* with clients on it."""
        self._clients += 1
        return self.world.machines.start(name, self._client(program, pid=1000 + self._clients))

    def kill(self, name: str) -> None:
        self.world.machines.kill(name)

    async def restart(self, name: str) -> None:
        await self.world.machines.restart(name).wait_ready()

    def pause(self, name: str) -> None:
        self.world.machines.pause(name)

    def resume(self, name: str) -> None:
        self.world.machines.resume(name)

    def power_off(self, name: str) -> None:
        self.world.machines.power_off(name)

    # Programs -------------------------------------------------------------------------

    async def _node(self, machine: Machine) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._serve, machine)
            machine.ready()

    async def _serve(self, machine: Machine, task_status: trio.TaskStatus[str]) -> None:
        await serve_role(
            self._config(machine),
            network=machine.network,
            disk=machine.disk,
            clock=machine.clock,
            rng=machine.rng("node"),
            journal=self._journal(machine),
            stop=trio.Event(),
            task_status=task_status,
        )

    def _client(self, program: ClientProgram, pid: int) -> Program:
        async def run(machine: Machine) -> None:
            process = ClientProcess(
                network=machine.network,
                clock=machine.clock,
                rng=machine.rng("clients"),
                note=self._journal(machine).note,
                ip=machine.network.ip,
                pid=pid,
            )
            async with process:
                machine.ready()
                await program(process)

        return run

    # Settings -------------------------------------------------------------------------

    def _config(self, machine: Machine) -> RoleConfig:
        config: RoleConfig
        if machine.name in self.spec.broker_names:
            config = self.spec.broker_config(machine.name, self._namesrv)
            port = BROKER_PORT
        else:
            config = self.spec.name_server_config(machine.name)
            port = NAMESRV_PORT
        return msgspec.structs.replace(config, listen_address=f"{machine.network.ip}:{port}")

    @property
    def _namesrv(self) -> tuple[str, ...]:
        machines = self.world.machines
        return tuple(
            f"{machines.machine(name).network.ip}:{NAMESRV_PORT}"
            for name in self.spec.name_server_names
        )

    def _journal(self, machine: Machine) -> Journal:
        """Of the process now running; one that was killed writes nothing while it unwinds."""
        process, write = machine.process, self._write

        def write_alive(line: bytes) -> None:
            if machine.process is process and write is not None:
                write(line)

        return Journal(machine.name, machine.now_ms, write and write_alive)

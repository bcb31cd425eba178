"""Virtual machines: start, kill, pause and restart their processes, switch their power.

A machine is a host, a drive, a clock and at most one process.  Killing the process keeps
the drive and resets its streams; cutting the power also drops unflushed bytes and sends
no reset to its peers.  All of it happens at once: ``kill`` and the others never wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.sim.drive import PowerLoss, VirtualDisk, VirtualDrive
from rocketmq_emulator.sim.scheduler import PausedTasks

if TYPE_CHECKING:
    from random import Random

    from rocketmq_emulator.sim.determinism import SeededRngs
    from rocketmq_emulator.sim.host import Host
    from rocketmq_emulator.sim.network import VirtualNetwork


class Process:
    """One run of a program, from its start to its end, kill or loss of power."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.root: trio.lowlevel.Task | None = None
        self.ready = trio.Event()
        self.ended = trio.Event()


class Machine:
    """The argument of a program: ``network``, ``disk``, ``clock`` and ``rng``.

    ``drive`` stores the bytes of the disk, and stays when the process ends.  To set a
    machine's clock wrong, change ``clock.skew_ms``.
    """

    def __init__(
        self, host: Host, drive: VirtualDrive, clock: WallClock, rngs: SeededRngs
    ) -> None:
        self.name = host.name
        self.network = host
        self.drive = drive
        self.disk = VirtualDisk(drive)  # a new one for each process
        self.clock = clock
        self.program: Program | None = None
        self.process: Process | None = None
        self.is_paused = False
        self._rngs = rngs

    def rng(self, purpose: str) -> Random:
        """The random generator for *purpose* on this machine only."""
        return self._rngs.rng(f"{self.name}/{purpose}")

    def now_ms(self) -> int:
        """The machine's wall time, with its clock error."""
        return self.clock.now_ms()

    @property
    def is_running(self) -> bool:
        """Is there a process, paused or not?"""
        return self.process is not None

    @property
    def is_ready(self) -> bool:
        """Has the current process called ``ready``?"""
        return self.process is not None and self.process.ready.is_set()

    @property
    def has_power(self) -> bool:
        """Does the machine have power, with or without a process?"""
        return self.network.has_power

    def ready(self) -> None:
        """Called by the program when it is ready: ``wait_ready`` returns."""
        if self.process is not None:
            self.process.ready.set()

    async def wait_ready(self) -> None:
        """Wait until the current process has called ``ready``, or has ended."""
        if self.process is not None:
            await self.process.ready.wait()

    async def wait_ended(self) -> None:
        """Wait until the current process has ended, for any reason."""
        if self.process is not None:
            await self.process.ended.wait()


Program: TypeAlias = Callable[[Machine], Awaitable[object]]


class Machines:
    """All machines of a world.  A program that raises ends the world with its error."""

    def __init__(
        self, network: VirtualNetwork, rngs: SeededRngs, epoch_ms: int, nursery: trio.Nursery
    ) -> None:
        self._network = network
        self._rngs = rngs
        self._epoch_ms = epoch_ms
        self._nursery = nursery
        self._machines: dict[str, Machine] = {}
        self._paused = PausedTasks()

    def machine(self, name: str) -> Machine:
        """The machine *name*, created at the first call."""
        if name not in self._machines:
            host = self._network.host(name)
            time = host.clock
            clock = WallClock(
                self._epoch_ms, 0.0, mono_ns=time.passed_ns, new_alarm=time.alarms.new
            )
            drive = VirtualDrive(
                clock=time, deliver=host.handle_interrupt, rng=self._rngs.rng(f"{name}/drive")
            )
            self._machines[name] = Machine(host, drive, clock, self._rngs)
        return self._machines[name]

    def names(self) -> list[str]:
        """The names of all machines, in the order of their creation."""
        return list(self._machines)

    def start(self, name: str, program: Program) -> Machine:
        """Run *program* on the machine, on which no process may run."""
        machine = self.machine(name)
        assert machine.process is None, f"{name} already runs something"
        if not machine.network.has_power:
            machine.network.power_on()
        machine.program = program
        machine.process = Process()
        machine.disk = VirtualDisk(machine.drive)
        self._nursery.start_soon(self._run_program, machine, machine.process, program, name=name)
        return machine

    def kill(self, name: str) -> None:
        """End the process at once; its peers get a reset, its drive keeps all written bytes."""
        machine = self.machine(name)
        machine.network.lose_process("reset")
        self._end_process(machine)

    def power_off(self, name: str) -> PowerLoss:
        """Cut the power: the process ends, peers get no reset, unflushed bytes are lost."""
        machine = self.machine(name)
        machine.network.power_off()
        self._end_process(machine)
        return machine.drive.lose_power(machine.rng("power"))

    def power_on(self, name: str) -> None:
        """The kernel answers again (old streams with a reset), but no process runs."""
        self.machine(name).network.power_on()

    def restart(self, name: str) -> Machine:
        """Kill the process, if one runs, and start the same program again."""
        machine = self.machine(name)
        assert machine.program is not None, f"{name} never ran anything"
        self.kill(name)
        return self.start(name, machine.program)

    def pause(self, name: str) -> None:
        """Stop the process, as SIGSTOP: bytes for it queue up, its timers and its clock go on."""
        machine = self.machine(name)
        if machine.is_paused or machine.process is None:
            return
        machine.is_paused = True
        machine.network.stop()
        if machine.process.root is not None:
            self._paused.pause(machine.process.root)

    def resume(self, name: str) -> None:
        """Continue a paused process; it then gets the bytes that arrived meanwhile."""
        machine = self.machine(name)
        if machine.is_paused:
            machine.network.resume()
            self._resume_tasks(machine)

    def stop_all(self) -> None:
        """Cut the power of all machines, at the end of the world: no more deliveries."""
        for machine in self._machines.values():
            machine.network.power_off()
            self._end_process(machine)

    def _end_process(self, machine: Machine) -> None:
        process, machine.process = machine.process, None
        if process is None:
            return
        machine.disk.unplug()
        process.scope.cancel()
        process.ready.set()
        process.ended.set()
        if machine.is_paused:
            self._resume_tasks(machine, process)

    async def _run_program(self, machine: Machine, process: Process, program: Program) -> None:
        process.root = trio.lowlevel.current_task()
        if machine.is_paused and machine.process is process:
            self._paused.pause(process.root)
        with process.scope:
            # The process of a machine that was paused before its first step waits here.
            await trio.lowlevel.checkpoint()
            await program(machine)
        if machine.process is process:
            machine.network.lose_process("eof")
            self._end_process(machine)

    def _resume_tasks(self, machine: Machine, process: Process | None = None) -> None:
        machine.is_paused = False
        process = process or machine.process
        if process is not None and process.root is not None:
            self._paused.resume(process.root)

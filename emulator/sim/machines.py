"""Machines: what runs on them, and what can be done to them.

A machine is a host, a drive, a clock and at most one process.  Killing the process keeps
the drive and resets its streams; cutting the power also forgets what was not flushed and
sends nothing to its peers.  All of it happens at once: ``kill`` and the others never wait.
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
    """One life of a program, from start to whatever ends it."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.root: trio.lowlevel.Task | None = None
        self.ready = trio.Event()
        self.ended = trio.Event()


class Machine:
    """What a program gets: ``network``, ``disk``, ``clock`` and ``rng``.

    ``drive`` is what the disk is part of, and stays when the process goes.  To set a
    machine's clock wrong, change ``clock.skew_ms``.
    """

    def __init__(
        self, host: Host, drive: VirtualDrive, clock: WallClock, rngs: SeededRngs
    ) -> None:
        self.name = host.name
        self.network = host
        self.drive = drive
        self.disk = VirtualDisk(drive)  # a new one for each process, which takes it once
        self.clock = clock
        self.program: Program | None = None
        self.process: Process | None = None
        self.is_paused = False
        self._rngs = rngs

    def rng(self, purpose: str) -> Random:
        """The generator for *purpose* on this machine alone."""
        return self._rngs.rng(f"{self.name}/{purpose}")

    def now_ms(self) -> int:
        """Wall time as this machine reads it."""
        return self.clock.now_ms()

    @property
    def is_running(self) -> bool:
        """Is there a process, paused or not?"""
        return self.process is not None

    @property
    def is_ready(self) -> bool:
        """Has the process that now runs called ``ready``?"""
        return self.process is not None and self.process.ready.is_set()

    @property
    def has_power(self) -> bool:
        """Does the machine have power, whatever runs on it?"""
        return self.network.has_power

    def ready(self) -> None:
        """Called by the program: whoever waits for it may go on."""
        if self.process is not None:
            self.process.ready.set()

    async def wait_ready(self) -> None:
        """Until the program now running has called ``ready``, or has ended."""
        if self.process is not None:
            await self.process.ready.wait()

    async def wait_ended(self) -> None:
        """Until no process runs, however it ended."""
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
        """The machine *name*, made when first asked for."""
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
        """All machines, in the order in which they were first asked for."""
        return list(self._machines)

    def start(self, name: str, program: Program) -> Machine:
        """Run *program* on the machine; it must not be running anything."""
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
        """The process dies at once; its peers see a reset, its drive keeps what was written."""
        machine = self.machine(name)
        machine.network.lose_process("reset")
        self._end_process(machine)

    def power_off(self, name: str) -> PowerLoss:
        """Everything stops, no peer sees an end; what was not flushed is lost."""
        machine = self.machine(name)
        machine.network.power_off()
        self._end_process(machine)
        return machine.drive.lose_power(machine.rng("power"))

    def power_on(self, name: str) -> None:
        """The machine answers again (old streams with a reset), but nothing runs on it."""
        self.machine(name).network.power_on()

    def restart(self, name: str) -> Machine:
        """Kill what runs there, if anything does, and start the same program again."""
        machine = self.machine(name)
        assert machine.program is not None, f"{name} never ran anything"
        self.kill(name)
        return self.start(name, machine.program)

    def pause(self, name: str) -> None:
        """The process stands still; bytes for it queue up, its timers fall due, its clock runs."""
        machine = self.machine(name)
        if machine.is_paused or machine.process is None:
            return
        machine.is_paused = True
        machine.network.stop()
        if machine.process.root is not None:
            self._paused.pause(machine.process.root)

    def resume(self, name: str) -> None:
        """A paused process goes on with what came meanwhile."""
        machine = self.machine(name)
        if machine.is_paused:
            machine.network.resume()
            self._resume_tasks(machine)

    def stop_all(self) -> None:
        """The end of the world: nothing more is delivered to anybody."""
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
            # A machine that was paused before its first step stands still here.
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

"""A virtual world: machines, a network and a clock, controlled by a main program.

    result = run_virtual(main, seed=7)

The seed and *main* decide all events.  Ten virtual minutes run in a moment, and a run that
failed fails again with the same seed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.sim.clock import VirtualClock
from rocketmq_emulator.sim.determinism import SeededRngs, deterministic_scheduling
from rocketmq_emulator.sim.machines import Machines
from rocketmq_emulator.sim.network import VirtualNetwork

if TYPE_CHECKING:
    from random import Random

    from rocketmq_emulator.net.transport import CommandsInFlight
    from rocketmq_emulator.sim.stream import Latency

EPOCH_MS = 1_700_000_000_000  # a Tuesday evening in November 2023

T = TypeVar("T")


class VirtualWorld:
    """The argument of *main*: ``machines``, ``network``, ``clock`` and random generators."""

    def __init__(
        self,
        nursery: trio.Nursery,
        clock: VirtualClock,
        rngs: SeededRngs,
        *,
        epoch_ms: int = EPOCH_MS,
        latency: Latency | None = None,
        values: CommandsInFlight | None = None,
    ) -> None:
        self.clock = clock
        self.epoch_ms = epoch_ms
        self.rngs = rngs
        self.network = VirtualNetwork(clock, rngs, latency, values)
        self.machines = Machines(self.network, rngs, epoch_ms, nursery)
        self.nursery = nursery
        self.crashes: list[Exception] = []
        self._wall = WallClock(epoch_ms, 0.0)

    @property
    def seed(self) -> int:
        """The seed of all random numbers and of the order of tasks."""
        return self.rngs.seed

    def rng(self, purpose: str) -> Random:
        """The generator for *purpose*; draws for other purposes do not change its numbers."""
        return self.rngs.rng(purpose)

    def now_ms(self, machine: str | None = None) -> int:
        """The wall time of *machine*, or the true one."""
        return self._wall.now_ms() if machine is None else self.machines.machine(machine).now_ms()

    def crash(self, error: Exception) -> None:
        """End the world; ``run_virtual`` raises *error*."""
        if self.crashes:
            raise error  # ending the world failed too: end trio
        self.crashes.append(error)
        self.end()

    def end(self) -> None:
        """Cut the power of all machines and cancel all tasks."""
        self.machines.stop_all()
        self.nursery.cancel_scope.cancel()


def run_virtual(
    main: Callable[[VirtualWorld], Awaitable[T]],
    *,
    seed: int,
    epoch_ms: int = EPOCH_MS,
    latency: Latency | None = None,
    values: CommandsInFlight | None = None,
) -> T:
    """Run *main* in a new world, end the world, and return the result of *main*.

    *values*: see ``VirtualNetwork``.

    Raises the errors of *main* and of programs, ``VirtualLivelock``, ``VirtualDeadlock``,
    ``InsideTrioRun`` inside another trio run, and ``UnknownTrio``.
    """
    clock = VirtualClock()
    rngs = SeededRngs(seed)

    async def run_main() -> T:
        try:
            async with trio.open_nursery() as nursery:
                world = VirtualWorld(
                    nursery, clock, rngs, epoch_ms=epoch_ms, latency=latency, values=values
                )
                clock.on_crash = world.crash
                try:
                    return await main(world)
                finally:
                    world.end()
        except BaseExceptionGroup as group:
            raise _single_error(group) from None
        finally:
            clock.stop()
            if world.crashes:
                raise world.crashes[0]
        raise AssertionError("only a crash cancels main")

    with deterministic_scheduling(rngs.seed_of("scheduling")):
        return trio.run(run_main, clock=clock)


def _single_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The single error in nested groups; a group with several errors stays a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error

"""Faults of a node as a whole: down, still, or with a wrong clock.

What holds a node down or still is counted.  A node comes back when the last fault that keeps it
down has ended, and only if it ran before the first one; a pause also holds for the process
that a restart brings.  Clock jumps add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from emulator.clock import ClockError
from emulator.cluster.faults.held import Effect, let_go, settled

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held

DONE = {
    "kill": "killed a process",
    "stop": "stopped a process",
    "power_off": "cut the power",
}


class DownEffect(Effect):
    """The process ends by a verb of the world, and is started at the end."""

    def __init__(self, verb: Literal["kill", "stop", "power_off"]) -> None:
        self._verb: Literal["kill", "stop", "power_off"] = verb

    async def begin(self, grip: Grip, held: Held) -> None:
        """End what runs; a power that goes takes a dead node's memory too."""
        for name in held.nodes:
            runs = grip.world.is_running(name)
            if runs:
                grip.comes_back.add(name)
            grip.down.setdefault(name, []).append(held)
            if runs or self._verb == "power_off":
                await settled(getattr(grip.world, self._verb)(name))
                held.acted(DONE[self._verb])

    async def end(self, grip: Grip, held: Held) -> None:
        """Those that no other fault keeps down are started together."""
        free = [name for name in held.nodes if let_go(grip.down, name, held)]
        back = [name for name in free if name in grip.comes_back]
        grip.comes_back.difference_update(back)
        if back:
            await settled(grip.world.start(*back))

    async def end_with_world(self, grip: Grip, held: Held) -> None:
        """Nothing is started."""
        for name in held.nodes:
            let_go(grip.down, name, held)
            grip.comes_back.discard(name)


class StillEffect(Effect):
    """The process stands still."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """Those that run; one that is dead stands still when it is started."""
        for name in held.nodes:
            if name not in grip.still and grip.world.is_paused(name):
                grip.stays_still.add(name)
            grip.still.setdefault(name, []).append(held)
            await self.renew(grip, held, name)

    async def end(self, grip: Grip, held: Held) -> None:
        """A node that was paused by hand before stays so."""
        for name in held.nodes:
            if not let_go(grip.still, name, held):
                continue
            if name in grip.stays_still:
                grip.stays_still.remove(name)
            else:
                await settled(grip.world.resume(name))

    async def renew(self, grip: Grip, held: Held, name: str) -> None:
        """It was started: it stands still again."""
        if grip.can_answer(name):
            await settled(grip.world.pause(name))
            held.acted("paused a process")


class ClockEffect(Effect):
    """The wall clock is wrong by so much more: ahead, or drifting since the fault began."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """Through restarts, too."""
        fault = held.fault
        error = ClockError(getattr(fault, "ms", 0), getattr(fault, "ppm", 0), held.since_ms)
        for name in held.nodes:
            grip.clocks.setdefault(name, {})[held.fault_id] = error
            await self.renew(grip, held, name)
            held.acted("changed a clock")

    async def end(self, grip: Grip, held: Held) -> None:
        """The clock shows what it would have shown without this fault."""
        for name in held.nodes:
            if grip.clocks.get(name, {}).pop(held.fault_id, None) is not None:
                await self.renew(grip, held, name)

    async def renew(self, grip: Grip, held: Held, name: str) -> None:
        """The errors of all faults of this clock add up."""
        del held
        total = ClockError()
        for error in grip.clocks[name].values():
            total = total.plus(error)
        await settled(grip.world.add_clock_error(name, total))

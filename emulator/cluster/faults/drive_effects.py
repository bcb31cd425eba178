"""Faults of a node's drive, which outlives the processes of its machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from emulator.cluster.faults.held import Effect
from emulator.cluster.faults.values import FailingFlush, Fault, FullDisk, SlowDisk
from emulator.sim.drive_faults import DriveFault, FailingFlushes, NoRoom, SlowFlushes

if TYPE_CHECKING:
    from emulator.cluster.faults.held import Grip, Held
    from emulator.sim.drive_faults import Trouble

TROUBLES: Mapping[type[Fault], Callable[[Any], Trouble]] = {
    FullDisk: lambda fault: NoRoom(fault.free_bytes),
    SlowDisk: lambda fault: SlowFlushes(fault.flush_ms, fault.bytes_per_s),
    FailingFlush: lambda fault: FailingFlushes(fault.probability),
}


class DriveEffect(Effect):
    """A trouble of the drive, by the world's verb ``drive``."""

    async def begin(self, grip: Grip, held: Held) -> None:
        """At each of the nodes, running or not."""
        for name in held.nodes:
            trouble = TROUBLES[type(held.fault)](held.fault)
            held.blocks.enter_context(grip.world.drive(name, DriveFault(trouble, held.tally)))

    async def end(self, grip: Grip, held: Held) -> None:
        """The drive is as good as before; what a fault refused was not written."""
        del grip  # each block knows its drive
        held.blocks.close()

"""The virtual world: a cluster in one process, on virtual machines, links and clocks.

    async def main(world):
        cluster = VirtualCluster(world, ClusterSpec(brokers=2))
        ...

    run_virtual(main, seed=7)

Its names are not in ``rocketmq_emulator``, because only scenarios need them and they are general.
"""

from __future__ import annotations

from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.world import perform
from rocketmq_emulator.cluster.worlds.virtual import VirtualCluster
from rocketmq_emulator.faults.links_and_drives import (
    Cut,
    Refuse,
    Rule,
    Slow,
    Stall,
    around,
    between,
    everything,
    leaving,
    one_way,
    reaching,
)
from rocketmq_emulator.sim.world import VirtualWorld, run_virtual

__all__ = [
    "ClusterSpec",
    "Cut",
    "Refuse",
    "Rule",
    "Slow",
    "Stall",
    "VirtualCluster",
    "VirtualWorld",
    "around",
    "between",
    "everything",
    "leaving",
    "one_way",
    "perform",
    "reaching",
    "run_virtual",
]

"""Which faults lie on the way between servers and those who call them.

A fault of a link names the nodes at both of its ends, or it is not known whom else it touches.
What others cannot reach says nothing of the two that are asked about: a partition of a broker and
a producer delays no registration.
"""

from __future__ import annotations

from emulator.checks.disturbances import DISKS, HeldFault
from emulator.checks.scene import Scene

LINKS = frozenset({"slow_link", "stall", "partition", "refuse", "cut"})
NO_MATTER = frozenset({"read_only", *DISKS})  # faults that leave every queue readable


def last_on_the_way_us(scene: Scene, servers: set[str], others: set[str], now_us: int) -> int:
    """The last moment up to now in which something happened to *servers*, *others* or between.

    0: never.  Disks count for nothing: no route and no list of members waits for them.
    """
    last_us = scene.last_restart_us(servers | others)
    for fault in reversed(scene.all_faults):  # those that ended earlier are not looked at
        at_us = now_us if fault.ended_us is None else fault.ended_us
        if at_us > last_us and _is_on_the_way(fault, servers, others):
            last_us = at_us
    return last_us


def _is_on_the_way(fault: HeldFault, servers: set[str], others: set[str]) -> bool:
    if fault.word in NO_MATTER:
        return False
    if not others.isdisjoint(fault.nodes):
        return True
    if fault.word in LINKS and not servers.issuperset(fault.nodes):
        return False
    return not servers.isdisjoint(fault.nodes)

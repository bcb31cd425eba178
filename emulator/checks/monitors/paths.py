"""Which faults lie on the way between servers and those who call them.

A fault of a link names the nodes at both of its ends, or it is not known whom else it touches.
What others cannot reach says nothing of the two that are asked about: a partition of a broker and
a producer delays no registration.
"""

from __future__ import annotations

from collections.abc import Collection

from emulator.checks.disturbances import DISKS, HeldFault
from emulator.checks.scene import Scene

LINKS = frozenset({"slow_link", "stall", "partition", "refuse", "cut"})
NO_MATTER = frozenset({"read_only", *DISKS})  # faults that leave every queue readable


def last_on_the_way_us(
    scene: Scene, servers: Collection[str], others: Collection[str], now_us: int
) -> int:
    """The last moment up to now in which something happened to *servers*, *others* or between.

    0: never.  Disks count for nothing: no route and no list of members waits for them.
    """
    words = {fault.word for fault in scene.all_faults}
    last_us = scene.last_touched_us({*servers, *others}, now_us, but=words)  # processes alone
    for fault in scene.all_faults:
        if _is_on_the_way(fault, servers, others):
            last_us = max(last_us, now_us if fault.ended_us is None else fault.ended_us)
    return last_us


def _is_on_the_way(fault: HeldFault, servers: Collection[str], others: Collection[str]) -> bool:
    if fault.word in NO_MATTER:
        return False
    is_of_others = not set(others).isdisjoint(fault.nodes)
    if fault.word in LINKS and not set(fault.nodes) <= set(servers):
        return is_of_others
    return is_of_others or not set(servers).isdisjoint(fault.nodes)

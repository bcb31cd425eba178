"""When each node lived, as far as its facts show it: down, paused, silent, gone.

A node that was killed notes nothing about it.  Its next life begins with number 1 again,
so it was down from its last fact until then; a fault of the journal says it more exactly.
A node that notes nothing for ``SILENT_MS_MIN`` is silent: brokers register and consumers
rebalance more often than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from emulator.facts import NodeStarted, PowerLost
from emulator.journal import Entry

SILENT_MS_MIN = 45_000  # brokers register every 30 s, consumers rebalance every 20 s
SERVERS = ("nameserver", "broker")
DEADLY = frozenset({"kill", "stop", "power_off", "leave"})


class Absence(msgspec.Struct, frozen=True):
    """A node noted nothing from *from_us* until *until_us*, because it was *how*."""

    from_us: int
    until_us: int
    how: str  # "down", "silent", "paused", "gone": nothing more until the end of the journal


class NodeLife(msgspec.Struct):
    """A node, its role where a fact names it, and when it was not there."""

    name: str
    role: str = ""  # empty: a client, which notes no start
    first_us: int = 0
    last_us: int = 0
    last_seq: int = 0
    hit_by: str = ""  # the word of the fault that ended or paused it, until its next fact
    absences: list[Absence] = []

    def place(self) -> tuple[int, list[str | int]]:
        """Where it stands in a list: servers first, ``consumer-2`` before ``consumer-10``."""
        parts = re.split(r"(\d+)", self.name)
        order = SERVERS.index(self.role) if self.role in SERVERS else len(SERVERS)
        return order, [int(part) if part.isdigit() else part for part in parts]


class Lives:
    """Takes every entry, says who died."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLife] = {}

    def see(self, entry: Entry) -> int | None:
        """*entry* was noted; when its node ended, if this shows that it did."""
        life = self.nodes.get(entry.node)
        at_us, seq = entry.mono_us, entry.seq
        if life is None:
            role = entry.fact.role if isinstance(entry.fact, NodeStarted) else ""
            self.nodes[entry.node] = NodeLife(entry.node, role, at_us, at_us, seq)
            return None
        ended_us, silent_us = life.last_us, at_us - life.last_us
        is_new = seq <= life.last_seq or life.hit_by == "power_off"
        life.last_us, life.last_seq = at_us, seq
        if type(entry.fact) is PowerLost:  # noted by the world, in the name of the machine
            life.hit_by = "power_off"
            return at_us
        if is_new or silent_us > SILENT_MS_MIN * 1_000 or life.hit_by == "pause":
            how = "down" if is_new else "paused" if life.hit_by == "pause" else "silent"
            life.absences.append(Absence(ended_us, at_us, how))
            life.hit_by = ""
        return ended_us if is_new else None

    def hit(self, node: str, word: str, at_us: int) -> None:
        """A fault of this *word* began at *node*: what it noted before is not the last moment."""
        life = self.nodes.get(node)
        if life is not None and (word in DEADLY or word == "pause"):
            life.last_us, life.hit_by = at_us, word

    def ended(self, end_us: int) -> Iterator[NodeLife]:
        """Those of which nothing more is heard until *end_us*, and their last absence is noted."""
        for life in self.nodes.values():
            if end_us - life.last_us > SILENT_MS_MIN * 1_000 or life.hit_by in DEADLY:
                life.absences.append(Absence(life.last_us, end_us, "gone"))
                yield life

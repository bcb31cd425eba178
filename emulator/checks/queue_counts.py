"""How many queues of a topic each member of a group had to share out.

Members that ask different NameServers may count different ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.checks.folding import Table
from emulator.facts import RebalancePassed
from emulator.journal import Entry


class QueueCounts:
    """Of the last pass of each member."""

    def __init__(self) -> None:
        # By group and topic, then node: the queues, and when.
        self._last: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed}

    def differ(self, group: str, topic: str, since_us: Mapping[str, int]) -> bool:
        """Two of the members on these nodes, which began then, count different queues."""
        last = self._last.get((group, topic), {})
        return len({n for node, (n, at) in last.items() if at >= since_us.get(node, at + 1)}) > 1

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        known = self._last.setdefault((fact.group, fact.topic), {})
        known[entry.node] = fact.queue_count, entry.mono_us

"""A walk through a journal: the tables after any of its facts, forwards and backwards.

Going back begins at the nearest copy of the tables, which is kept every so many facts.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from emulator.journal import Entry
from scenarios.inspecting.tables import ClusterTables, NodeTables, Value

COPY_EVERY_FACTS = 2_000
US_A_S = 1_000_000


class ItemChange(msgspec.Struct, frozen=True):
    """An item of a table that is new, gone (None) or another one."""

    node: str
    table: str
    row: str
    item: str
    before: Value | None
    now: Value | None


class InspectedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """After *number* facts of *fact_count*: the last one, what it changed, all tables."""

    number: int
    fact_count: int
    at_s: float  # since the first fact
    last: Entry | None
    changes: tuple[ItemChange, ...]
    nodes: dict[str, NodeTables]


class Walk:
    """Stands after some of *entries*, which are in the order of time and at least one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._times = [entry.mono_us for entry in entries]
        self._tables = ClusterTables()
        self._copies = {0: copy.deepcopy(self._tables)}
        self.number = 0

    @property
    def fact_count(self) -> int:
        """Of the whole journal."""
        return len(self._entries)

    def number_at(self, seconds: float) -> int:
        """How many facts were written until then."""
        return bisect_right(self._times, self._times[0] + round(seconds * US_A_S))

    def go(self, number: int, at_s: float | None = None) -> InspectedMoment:
        """Stand after so many facts, or the nearest there is; *at_s*: at that time, not later.

        Times are seconds since the first fact.
        """
        number = max(0, min(number, self.fact_count))
        self._stand(max(0, number - 1))
        before = self._tables.at(self._us_at(number - 1))
        self._stand(number)
        now_us = self._us_at(number)
        if at_s is not None:
            now_us = max(now_us, self._times[0] + round(at_s * US_A_S))
        nodes = self._tables.at(now_us)
        return InspectedMoment(
            number=number,
            fact_count=self.fact_count,
            at_s=(now_us - self._times[0]) / US_A_S,
            last=self._entries[number - 1] if number else None,
            changes=changes_of(before, nodes),
            nodes=nodes,
        )

    def _us_at(self, number: int) -> int:
        return self._times[max(0, number - 1)]

    def _stand(self, number: int) -> None:
        if number < self.number:
            self.number = max(known for known in self._copies if known <= number)
            self._tables = copy.deepcopy(self._copies[self.number])
        while self.number < number:
            self._tables.take(self._entries[self.number])
            self.number += 1
            if self.number % COPY_EVERY_FACTS == 0 and self.number not in self._copies:
                self._copies[self.number] = copy.deepcopy(self._tables)


def changes_of(
    before: dict[str, NodeTables], now: dict[str, NodeTables]
) -> tuple[ItemChange, ...]:
    """Every item that differs, by node, table, row and item."""
    old, new = _items(before), _items(now)
    places = sorted(place for place in old.keys() | new.keys() if old.get(place) != new.get(place))
    return tuple(ItemChange(*place, old.get(place), new.get(place)) for place in places)


def _items(nodes: dict[str, NodeTables]) -> dict[tuple[str, str, str, str], Value]:
    found: dict[tuple[str, str, str, str], Value] = {
        (name, "state", "", ""): node.state for name, node in nodes.items()
    }
    for name, node in nodes.items():
        for table, rows in node.tables.items():
            for row, items in rows.items():
                for item, value in items.items():
                    found[name, table, row, item] = value
    return found

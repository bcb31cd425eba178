"""All facts of a journal as columns: so few bytes each that a page can carry a million.

Facts of one kind have the same fields, and a field's value changes little from one fact to the
next.  So each field is a column of numbers: the differences between one fact and the next.
Texts, queues and tuples are stored once, in a table of values; their columns hold indexes of it.
``page`` compresses the whole; a fact of 250 bytes of JSON takes about 7.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left
from itertools import chain
from typing import Any, cast

import msgspec

from rocketmq_emulator.facts import Fact
from rocketmq_emulator.facts.journal import Entry, EntryKey

ENTRIES_AT_ONCE = 4_096  # appended to the columns together: bounds the memory


class KindTable(msgspec.Struct):
    """The columns of one kind of fact; ``texts``: names of columns with indexes of values."""

    name: str
    severity: str
    advice: str
    fields: list[str]
    texts: list[str]
    columns: list[list[int]]


class FactTable(msgspec.Struct):
    """Of each fact, by its number: time, node, place in the node's journal, wall time, kind.

    Times are in µs since the first fact; ``wall_ms`` is how far the node's wall clock is ahead
    of that.  All columns but ``kind`` and ``node`` are differences; those of ``wall_ms`` are
    between facts of one node.
    """

    count: int
    at_us: list[int]
    seq: list[int]
    wall_ms: list[int]
    node: list[int]
    kind: list[int]
    kinds: list[KindTable]
    values: list[Any]


class Columns:
    """Takes entries in the order of time; ``table`` returns them as columns."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._kinds: dict[type[Fact], _KindColumns] = {}
        self._values: dict[Any, int] = {}
        self._at_us, self._seq, self._wall_ms = array("q"), array("q"), array("q")
        self._node, self._kind = array("l"), array("l")
        self._walls_ms: dict[str, int] = {}  # the last one of each node
        self._waiting: list[Entry] = []
        self._first_us = 0

    def add(self, entry: Entry) -> None:
        """Append *entry*."""
        self._waiting.append(entry)
        if len(self._waiting) >= ENTRIES_AT_ONCE:
            self._take()

    def number_of(self, key: EntryKey) -> int | None:
        """The number of the fact with *key*; None if it was not added."""
        self._take()
        at_us, node = key.mono_us - self._first_us, self._nodes.get(key.node)
        place = bisect_left(self._at_us, at_us)
        while place < len(self._at_us) and self._at_us[place] == at_us:
            if self._node[place] == node and self._seq[place] == key.seq:
                return place
            place += 1
        return None

    def node_names(self) -> list[str]:
        """The names of all nodes; a node's number is its place in the list."""
        self._take()
        return list(self._nodes)

    def table(self) -> FactTable:
        """The columns of all entries added so far."""
        self._take()
        kinds = [kind.table() for kind in self._kinds.values()]
        return FactTable(
            count=len(self._at_us),
            at_us=differences(self._at_us),
            seq=differences(self._seq),
            wall_ms=list(self._wall_ms),
            node=list(self._node),
            kind=list(self._kind),
            kinds=kinds,
            values=list(self._values),
        )

    def _take(self) -> None:
        """Append the waiting entries, column by column: entry by entry takes twice as long."""
        entries, self._waiting = self._waiting, []
        if not entries:
            return
        if not self._at_us:
            self._first_us = entries[0].mono_us
        first_us, walls_ms, kinds = self._first_us, self._walls_ms, self._kinds
        walls, numbers = list[int](), list[int]()
        for entry in entries:
            node, fact = entry.node, entry.fact
            wall_ms = entry.at_ms - (entry.mono_us - first_us) // 1_000
            walls.append(wall_ms - walls_ms.get(node, 0))
            walls_ms[node] = wall_ms
            kind = kinds.get(type(fact)) or self._new_kind(type(fact))
            numbers.append(kind.number)
            kind.waiting.append(fact)
        for node in walls_ms:
            self._nodes.setdefault(node, len(self._nodes))
        self._at_us.extend([entry.mono_us - first_us for entry in entries])
        self._seq.extend([entry.seq for entry in entries])
        self._node.extend([self._nodes[entry.node] for entry in entries])
        self._wall_ms.extend(walls)
        self._kind.extend(numbers)
        for kind in kinds.values():
            kind.take()

    def _new_kind(self, fact: type[Fact]) -> _KindColumns:
        kind = self._kinds[fact] = _KindColumns(len(self._kinds), fact, self._values)
        return kind


class _KindColumns:
    """The columns of one kind of fact."""

    def __init__(self, number: int, kind: type[Fact], values: dict[Any, int]) -> None:
        self.number = number
        self._kind = kind
        self._values = values
        fields = msgspec.structs.fields(kind)
        self._is_text = [field.type is not int for field in fields]
        self._names = [field.encode_name for field in fields]
        self._columns = [array("q") for _ in fields]
        self.waiting: list[Fact] = []

    def table(self) -> KindTable:
        return KindTable(
            name=self._kind.__name__,
            severity=self._kind.severity,
            advice=self._kind.advice,
            fields=self._names,
            texts=[name for name, text in zip(self._names, self._is_text, strict=True) if text],
            columns=[differences(column) for column in self._columns],
        )

    def take(self) -> None:
        """Append the waiting facts to the columns."""
        facts, self.waiting = self.waiting, []
        if not facts:
            return
        for name, text, column in zip(
            self._kind.__struct_fields__, self._is_text, self._columns, strict=True
        ):
            found = list(map(operator.attrgetter(name), facts))
            column.extend(self._indexes(found) if text else found)

    def _indexes(self, values: list[Any]) -> list[int]:
        table = self._values
        known = list(map(table.get, values))
        if None not in known:  # the usual case: most values repeat
            return cast("list[int]", known)
        return [table.setdefault(value, len(table)) for value in values]


def differences(column: array[int]) -> list[int]:
    """The first number, then the difference of each number from the one before it."""
    return list(map(operator.sub, column, chain((0,), column)))

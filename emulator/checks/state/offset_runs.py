"""A set of offsets as runs without holes: its size depends on the number of holes only.

Offsets of a queue are consumed nearly in order, so a million of them are one run, and adding
the next offset only extends it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

Run = tuple[int, int]  # the first offset, and the one after the last


class OffsetRuns:
    """Offsets, kept as sorted runs that do not touch."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, offset: int) -> bool:
        """Add *offset*; return whether it was new."""
        ends = self.ends
        if ends and ends[-1] == offset:
            ends[-1] = offset + 1
            return True
        return self._insert(offset)

    def add_run(self, start: int, end: int) -> None:
        """Add every offset from *start* up to, but not including, *end*."""
        if start >= end:
            return
        first = bisect_right(self.ends, start - 1)  # the first run that touches, or a later one
        last = bisect_right(self.starts, end)
        if first < last:
            start = min(start, self.starts[first])
            end = max(end, self.ends[last - 1])
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]

    def cut(self, end: int) -> None:
        """Remove all offsets from *end* on."""
        keep = bisect_right(self.starts, end - 1)
        del self.starts[keep:], self.ends[keep:]
        if self.ends and self.ends[-1] > end:
            self.ends[-1] = end

    def first_missing(self, start: int) -> int:
        """The first offset from *start* on that is not in the set."""
        starts, ends = self.starts, self.ends
        if len(starts) == 1 and starts[0] <= start:  # nearly always: no holes
            return max(ends[0], start)
        index = bisect_right(starts, start) - 1
        return max(start, ends[index]) if index >= 0 else start

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """The runs of the set in that range."""
        for index in range(bisect_right(self.ends, start), len(self.starts)):
            if self.starts[index] >= end:
                return
            yield max(start, self.starts[index]), min(end, self.ends[index])

    def holes(self, start: int, end: int) -> Iterator[Run]:
        """The runs of missing offsets in that range."""
        at = start
        for first, behind in self.runs(start, end):
            if at < first:
                yield at, first
            at = behind
        if at < end:
            yield at, end

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self.starts, offset) - 1
        return index >= 0 and offset < self.ends[index]

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts)

    def _insert(self, offset: int) -> bool:
        if offset in self:
            return False
        self.add_run(offset, offset + 1)
        return True

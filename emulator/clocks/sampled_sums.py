"""Sums that only grow, and the samples of them that upstream's timers would have taken.

Upstream samples each of its counters on timers: every second for rates, every ten seconds, ten
minutes and hour for the sums of a topic or a group.  Here no timer runs: the first event after
such a time stores the sums before it, so the value of the sample is known later, and idle
counters cost nothing.

Upstream: StatsItem, StatsSnapshot.
"""

from __future__ import annotations

from typing import NamedTuple


class Sums(NamedTuple):
    """The sums up to a time."""

    calls: int
    messages: int
    size: int  # the bytes of their records; or the milliseconds of the calls


class SamplingWindow(NamedTuple):
    """The interval at which a sum is sampled, and how many samples are kept."""

    interval_ms: int
    samples_max: int


RATES = SamplingWindow(1_000, 601)  # StoreStatsService.sampling
MINUTE, HOUR, DAY = (
    SamplingWindow(10_000, 7),
    SamplingWindow(600_000, 7),
    SamplingWindow(3_600_000, 25),
)  # StatsItem.init
_NOTHING = Sums(0, 0, 0)


class SampledSums:
    """Three sums that only grow, and their samples in some windows (*grids*).

    The first has the shortest interval; the other intervals are multiples of it.
    """

    __slots__ = ("_began_ms", "_grids", "_kept", "_next_ms", "_tick", "calls", "messages", "size")

    def __init__(self, grids: tuple[SamplingWindow, ...], began_ms: int, now_ms: int) -> None:
        self.calls = self.messages = self.size = 0
        self._grids = grids
        self._began_ms = began_ms
        self._tick = self._sample(grids[0], now_ms)
        self._next_ms = self._after(self._tick)
        self._kept = [[(self._sample(grid, now_ms), _NOTHING)] for grid in grids]

    def add(self, count: int, size: int, now_ms: int, calls: int = 1) -> None:
        """Add *calls* with *count* messages and *size* bytes (or *size* ms)."""
        if now_ms >= self._next_ms:
            self._keep(now_ms)
        self.calls += calls
        self.messages += count
        self.size += size

    def rate(self, seconds: int, now_ms: int, *, of_calls: bool = False) -> float | None:
        """Messages (or calls) per second in the *seconds* before the last sample.

        None if there are too few samples.

        Upstream: StoreStatsService.getPutTps.
        """
        last = self._sample(RATES, now_ms)
        if last <= seconds:
            return None
        before, after = self._at(RATES, last - seconds), self._at(RATES, last)
        added = after.calls - before.calls if of_calls else after.messages - before.messages
        return added / seconds

    def window(self, grid: SamplingWindow, now_ms: int) -> tuple[Sums, int]:
        """The sums between the first and the last sample of *grid*, and the ms between them.

        Upstream: StatsItem.computeStatsData; the list of samples begins one before the first.
        """
        last = self._sample(grid, now_ms)
        first = max(self._kept_of(grid)[0][0], last - grid.samples_max + 1)
        if last <= first:
            return _NOTHING, 0
        before, after = self._at(grid, first), self._at(grid, last)
        added = Sums(*(new - old for new, old in zip(after, before, strict=True)))
        return added, (last - first) * grid.interval_ms

    def _sample(self, grid: SamplingWindow, now_ms: int) -> int:
        """The number of the last sample of *grid*."""
        return (now_ms - self._began_ms) // grid.interval_ms

    def _after(self, tick: int) -> int:
        """The time of the sample after *tick* of the first grid."""
        return self._began_ms + (tick + 1) * self._grids[0].interval_ms

    def _kept_of(self, grid: SamplingWindow) -> list[tuple[int, Sums]]:
        return self._kept[self._grids.index(grid)]

    def _at(self, grid: SamplingWindow, sample: int) -> Sums:
        for number, sums in self._kept_of(grid):
            if number >= sample:
                return sums
        return Sums(self.calls, self.messages, self.size)

    def _keep(self, now_ms: int) -> None:
        """Store the current sums for all samples since the last event."""
        self._tick = self._sample(self._grids[0], now_ms)
        self._next_ms = self._after(self._tick)
        sums = Sums(self.calls, self.messages, self.size)
        for grid, kept in zip(self._grids, self._kept, strict=True):
            sample = self._sample(grid, now_ms)
            if sample > kept[-1][0]:
                kept.append((sample, sums))
                if len(kept) > grid.samples_max:
                    del kept[0]

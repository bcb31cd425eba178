"""Sums that only grow, counted as it happens and read as if they had been sampled.

Upstream samples each of its counters on timers: every second for rates, every ten seconds, ten
minutes and hour for the sums of a topic or a group.  Nothing runs here: the first event after
such a time keeps what the sums were before it, so what a sample would have found can be said
later, and what is idle costs nothing.

Upstream: StatsItem, StatsSnapshot.
"""

from __future__ import annotations

from typing import NamedTuple


class Sums(NamedTuple):
    """What was counted until some time."""

    calls: int
    messages: int
    size: int  # of their records, in bytes; or the milliseconds that the calls took


class SamplingWindow(NamedTuple):
    """Times at which a sum is sampled, and how many of them are looked back upon."""

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
    """Three sums that only grow, and what they were at the times of some grids.

    The first grid is the finest, and each interval is a multiple of its own.
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
        """More *calls*, of *count* messages with *size* bytes (or that took so many ms)."""
        if now_ms >= self._next_ms:
            self._keep(now_ms)
        self.calls += calls
        self.messages += count
        self.size += size

    def rate(self, seconds: int, now_ms: int, *, of_calls: bool = False) -> float | None:
        """Messages (or calls) a second in the *seconds* before the last sample.

        None where there have not been so many samples.

        Upstream: StoreStatsService.getPutTps.
        """
        last = self._sample(RATES, now_ms)
        if last <= seconds:
            return None
        before, after = self._at(RATES, last - seconds), self._at(RATES, last)
        added = after.calls - before.calls if of_calls else after.messages - before.messages
        return added / seconds

    def window(self, grid: SamplingWindow, now_ms: int) -> tuple[Sums, int]:
        """What was added between the first and the last sample of *grid*, and the time between.

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
        """How many samples there were: the last one's number."""
        return (now_ms - self._began_ms) // grid.interval_ms

    def _after(self, tick: int) -> int:
        """When the sample after *tick* of the finest grid is taken."""
        return self._began_ms + (tick + 1) * self._grids[0].interval_ms

    def _kept_of(self, grid: SamplingWindow) -> list[tuple[int, Sums]]:
        return self._kept[self._grids.index(grid)]

    def _at(self, grid: SamplingWindow, sample: int) -> Sums:
        for number, sums in self._kept_of(grid):
            if number >= sample:
                return sums
        return Sums(self.calls, self.messages, self.size)

    def _keep(self, now_ms: int) -> None:
        """Samples have passed since the last event: all of them found what there is now."""
        self._tick = self._sample(self._grids[0], now_ms)
        self._next_ms = self._after(self._tick)
        sums = Sums(self.calls, self.messages, self.size)
        for grid, kept in zip(self._grids, self._kept, strict=True):
            sample = self._sample(grid, now_ms)
            if sample > kept[-1][0]:
                kept.append((sample, sums))
                if len(kept) > grid.samples_max:
                    del kept[0]

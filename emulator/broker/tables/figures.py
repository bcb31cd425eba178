"""How much went through a broker: counted as it happens, read as if it had been sampled.

Upstream samples each of its counters on timers: every second for rates, every ten seconds, ten
minutes and hour for the sums of a topic or a group.  Nothing runs here: the first event after
such a time keeps what the sums were before it, so what a sample would have found can be said
later, and an idle broker costs nothing.  Sends and pulls only append an event with its time;
whoever reads the figures, or finds too many events, counts them up.

Upstream: StoreStatsService, BrokerStats, BrokerStatsManager, StatsItem.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from protocol.bodies.stats import BrokerStatsData, BrokerStatsItem

DAY_MS = 86_400_000


class Sums(NamedTuple):
    """What was counted until some time."""

    calls: int
    messages: int
    size: int  # of their records, in bytes


class Grid(NamedTuple):
    """Times at which a sum is sampled, and how many of them are looked back upon."""

    interval_ms: int
    samples_max: int


RATES = Grid(1_000, 601)  # StoreStatsService.sampling
MINUTE, HOUR, DAY = Grid(10_000, 7), Grid(600_000, 7), Grid(3_600_000, 25)  # StatsItem.init
EVENTS_MAX = 1_000  # that are not counted up yet
RATE_WINDOWS_S = (10, 60, 600)
_NOTHING = Sums(0, 0, 0)


class Stored(msgspec.Struct, gc=False):
    """Messages were stored in a topic."""

    topic: str
    messages: int
    size: int
    at_ms: int


class Looked(msgspec.Struct, gc=False):
    """A pull looked into a queue, and found as many messages."""

    topic: str
    group: str
    messages: int
    size: int
    at_ms: int


class SampledSums:
    """Three sums that only grow, and what they were at the times of some grids.

    The first grid is the finest, and each interval is a multiple of its own.
    """

    __slots__ = ("_base_ms", "_began_ms", "_grids", "_kept", "_tick", "calls", "messages", "size")

    def __init__(self, grids: tuple[Grid, ...], began_ms: int, now_ms: int) -> None:
        self.calls = self.messages = self.size = 0
        self._grids = grids
        self._began_ms = began_ms
        self._base_ms = grids[0].interval_ms
        self._tick = self._sample(grids[0], now_ms)
        self._kept = [[(self._sample(grid, now_ms), _NOTHING)] for grid in grids]

    def add(self, count: int, size: int, now_ms: int) -> None:
        """One more call, of *count* messages with *size* bytes."""
        if (now_ms - self._began_ms) // self._base_ms != self._tick:
            self._keep(now_ms)
        self.calls += 1
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

    def window(self, grid: Grid, now_ms: int) -> tuple[Sums, int]:
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

    def _sample(self, grid: Grid, now_ms: int) -> int:
        """How many samples there were: the last one's number."""
        return (now_ms - self._began_ms) // grid.interval_ms

    def _kept_of(self, grid: Grid) -> list[tuple[int, Sums]]:
        return self._kept[self._grids.index(grid)]

    def _at(self, grid: Grid, sample: int) -> Sums:
        for number, sums in self._kept_of(grid):
            if number >= sample:
                return sums
        return Sums(self.calls, self.messages, self.size)

    def _keep(self, now_ms: int) -> None:
        """Samples have passed since the last event: all of them found what there is now."""
        tick = self._sample(self._grids[0], now_ms)
        if tick < self._tick:
            return  # the machine's clock was set back
        self._tick = tick
        sums = Sums(self.calls, self.messages, self.size)
        for grid, kept in zip(self._grids, self._kept, strict=True):
            sample = self._sample(grid, now_ms)
            if sample > kept[-1][0]:
                kept.append((sample, sums))
                if len(kept) > grid.samples_max:
                    del kept[0]


class BrokerFigures:
    """What one broker has stored and given out, as a whole and by topic and group.

    Topics and groups that are deleted are no longer counted, so their own limits hold here too.
    """

    def __init__(self, began_ms: int, cluster: str) -> None:
        self.began_ms = began_ms
        self.events: list[Stored | Looked] = []
        self._cluster = cluster
        grids = (RATES, MINUTE, HOUR, DAY)
        self.puts = SampledSums(grids, began_ms, began_ms)
        self.gets = SampledSums(grids, began_ms, began_ms)  # that found messages
        self.misses = SampledSums((RATES,), began_ms, began_ms)
        self.put_failures = 0
        # Messages put and given out by this midnight, and by the one before.
        self.mornings = ((0, 0), (0, 0))
        self._midnight_ms = _next_midnight(began_ms)
        self._puts_of: dict[str, SampledSums] = {}  # by topic
        self._gets_of: dict[tuple[str, str], SampledSums] = {}  # by topic and group
        self._returns_of: dict[tuple[str, str], SampledSums] = {}

    # Counting -------------------------------------------------------------------------

    def count_up(self) -> None:
        """Count the events there are, in their order."""
        events, self.events = self.events, []
        for event in events:
            if type(event) is Stored:
                self.put(event.topic, event.messages, event.size, event.at_ms)
            elif type(event) is Looked:
                self.got(event.topic, event.group, event.messages, event.size, event.at_ms)

    def put(self, topic: str, count: int, size: int, now_ms: int) -> None:
        """Messages were stored in *topic*."""
        if now_ms >= self._midnight_ms:
            self.pass_midnight(now_ms)
        self.puts.add(count, size, now_ms)
        sums = self._puts_of.get(topic)
        if sums is None:
            sums = self._puts_of[topic] = self._new(now_ms)
        sums.add(count, size, now_ms)

    def got(self, topic: str, group: str, count: int, size: int, now_ms: int) -> None:
        """A pull was answered with messages, or with none."""
        if now_ms >= self._midnight_ms:
            self.pass_midnight(now_ms)
        if not count:
            self.misses.add(1, 0, now_ms)
            return
        self.gets.add(count, size, now_ms)
        sums = self._gets_of.get((topic, group))
        if sums is None:
            sums = self._gets_of[topic, group] = self._new(now_ms)
        sums.add(count, size, now_ms)

    def returned(self, topic: str, group: str, now_ms: int) -> None:
        """A consumer has sent a message back."""
        self.count_up()
        if (topic, group) not in self._returns_of:
            self._returns_of[topic, group] = self._new(now_ms)
        self._returns_of[topic, group].add(1, 0, now_ms)

    def forget_topic(self, topic: str) -> None:
        """It was deleted.  Upstream: BrokerStatsManager.onTopicDeleted."""
        self.count_up()
        self._puts_of.pop(topic, None)
        for table in (self._gets_of, self._returns_of):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: str) -> None:
        """It was deleted.  Upstream: BrokerStatsManager.onGroupDeleted."""
        self.count_up()
        for table in (self._gets_of, self._returns_of):
            for key in [key for key in table if key[1] == group]:
                del table[key]

    def pass_midnight(self, now_ms: int) -> None:
        """Keep the totals of the day that has ended.  Upstream: BrokerStats.record."""
        if now_ms < self._midnight_ms:
            return
        totals = (self.puts.messages, self.gets.messages)
        is_next_day = now_ms < self._midnight_ms + DAY_MS
        self.mornings = (totals, self.mornings[0] if is_next_day else totals)
        self._midnight_ms = _next_midnight(now_ms)

    def _new(self, now_ms: int) -> SampledSums:
        return SampledSums((MINUTE, HOUR, DAY), self.began_ms, now_ms)

    # Reading --------------------------------------------------------------------------

    def item(self, name: str, key: str, now_ms: int) -> BrokerStatsData | None:
        """One of upstream's items, None if it counts nothing or is not counted here.

        Upstream: BrokerStatsManager.getStatsItem.
        """
        self.count_up()
        topic, _, group = key.partition("@")
        of_cluster = key == self._cluster
        found: SampledSums | None = None
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            found = self._puts_of.get(key)
        elif name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            found = self._gets_of.get((topic, group))
        elif name == "SNDBCK_PUT_NUMS":
            found = self._returns_of.get((topic, group))
        elif name == "BROKER_PUT_NUMS" and of_cluster and self.puts.calls:
            found = self.puts
        elif name == "BROKER_GET_NUMS" and of_cluster and self.gets.calls:
            found = self.gets
        if found is None:
            return None
        of_sizes, has_mean = name.endswith("_SIZE"), not name.startswith("BROKER_")
        minute, hour, day = (
            _stats_item(*found.window(grid, now_ms), of_sizes=of_sizes, has_mean=has_mean)
            for grid in (MINUTE, HOUR, DAY)
        )
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)


def _stats_item(added: Sums, ms: int, *, of_sizes: bool, has_mean: bool) -> BrokerStatsItem:
    total = added.size if of_sizes else added.messages
    return BrokerStatsItem(
        sum=total,
        tps=total * 1_000 / ms if ms else 0.0,
        avgpt=total / added.calls if has_mean and added.calls else 0.0,
    )


def _next_midnight(now_ms: int) -> int:
    """Of the calendar in UTC."""
    return (now_ms // DAY_MS + 1) * DAY_MS

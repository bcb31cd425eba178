"""Counts of messages and bytes through a broker, with upstream's sampled rates.

Sends and pulls only append an event with its time; a read of the figures, or the event that
reaches ``EVENTS_MAX``, counts the events (``clocks.sampled_sums``).  So an idle broker costs
nothing.

Upstream: StoreStatsService, BrokerStats, BrokerStatsManager.
"""

from __future__ import annotations

import msgspec

from rocketmq_emulator.clocks.sampled_sums import DAY, HOUR, MINUTE, RATES, SampledSums, Sums
from rocketmq_emulator.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem

DAY_MS = 86_400_000
EVENTS_MAX = 1_000  # uncounted events
RATE_WINDOWS_S = (10, 60, 600)


class PutEvent(msgspec.Struct, gc=False):
    """Messages that were stored in a topic."""

    topic: str
    messages: int
    size: int
    at_ms: int


class GetEvent(msgspec.Struct, gc=False):
    """A pull that has found messages in a queue, or none."""

    topic: str
    group: str
    messages: int
    size: int
    at_ms: int


class BrokerFigures:
    """Messages that one broker has stored and sent, as a whole and by topic and group.

    Deleted topics and groups are removed here too, so the limits of topics and groups hold for
    these tables.  The totals of days exclude the topics that are *not_counted*.
    """

    def __init__(
        self, began_ms: int, cluster: str, not_counted: frozenset[str] = frozenset()
    ) -> None:
        self.began_ms = began_ms
        self.events: list[PutEvent | GetEvent] = []
        self._cluster = cluster
        self._not_counted = not_counted
        grids = (RATES, MINUTE, HOUR, DAY)
        self.puts = SampledSums(grids, began_ms, began_ms)
        self.gets = SampledSums(grids, began_ms, began_ms)  # pulls that found messages
        self.misses = SampledSums((RATES,), began_ms, began_ms)
        self.put_failures = 0
        self.put_total = self.got_total = 0  # messages, without the topics that are not counted
        # Both totals at the last midnight, and at the one before.
        self.mornings = ((0, 0), (0, 0))
        self._midnight_ms = _next_midnight(began_ms)
        self._puts_of: dict[str, SampledSums] = {}  # by topic
        self._gets_of: dict[tuple[str, str], SampledSums] = {}  # by topic and group
        self._returns_of: dict[tuple[str, str], SampledSums] = {}

    # Counting -------------------------------------------------------------------------

    def count_up(self) -> None:
        """Count all uncounted events, in their order.

        Puts of one topic in one millisecond are added together: a busy broker has dozens.
        """
        events, self.events = self.events, []
        topic, at_ms, calls, messages, size = "", 0, 0, 0, 0
        for event in events:
            if calls and (event.at_ms != at_ms or event.topic != topic):
                self.put(topic, messages, size, at_ms, calls)
                calls = messages = size = 0
            if type(event) is PutEvent:
                topic, at_ms = event.topic, event.at_ms
                calls += 1
                messages += event.messages
                size += event.size
            elif type(event) is GetEvent:
                self.got(event.topic, event.group, event.messages, event.size, event.at_ms)
        if calls:
            self.put(topic, messages, size, at_ms, calls)

    def put(self, topic: str, count: int, size: int, now_ms: int, calls: int = 1) -> None:
        """Count messages that were stored in *topic* by so many *calls*."""
        if now_ms >= self._midnight_ms:
            self.pass_midnight(now_ms)
        self.puts.add(count, size, now_ms, calls)
        if topic not in self._not_counted:
            self.put_total += count
        sums = self._puts_of.get(topic)
        if sums is None:
            sums = self._puts_of[topic] = self._new(now_ms)
        sums.add(count, size, now_ms, calls)

    def got(self, topic: str, group: str, count: int, size: int, now_ms: int) -> None:
        """Count a pull that was answered with messages, or with none."""
        if now_ms >= self._midnight_ms:
            self.pass_midnight(now_ms)
        if not count:
            self.misses.add(1, 0, now_ms)
            return
        self.gets.add(count, size, now_ms)
        if topic not in self._not_counted:
            self.got_total += count
        sums = self._gets_of.get((topic, group))
        if sums is None:
            sums = self._gets_of[topic, group] = self._new(now_ms)
        sums.add(count, size, now_ms)

    def returned(self, topic: str, group: str, now_ms: int) -> None:
        """Count a message that a consumer has sent back."""
        self.count_up()
        if (topic, group) not in self._returns_of:
            self._returns_of[topic, group] = self._new(now_ms)
        self._returns_of[topic, group].add(1, 0, now_ms)

    def forget_topic(self, topic: str) -> None:
        """Remove a deleted topic.  Upstream: BrokerStatsManager.onTopicDeleted."""
        self.count_up()
        self._puts_of.pop(topic, None)
        for table in (self._gets_of, self._returns_of):
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: str) -> None:
        """Remove a deleted group.  Upstream: BrokerStatsManager.onGroupDeleted."""
        self.count_up()
        for table in (self._gets_of, self._returns_of):
            for key in [key for key in table if key[1] == group]:
                del table[key]

    def pass_midnight(self, now_ms: int) -> None:
        """Keep the totals of the day that has ended.  Upstream: BrokerStats.record."""
        if now_ms < self._midnight_ms:
            return
        totals = (self.put_total, self.got_total)
        is_next_day = now_ms < self._midnight_ms + DAY_MS
        self.mornings = (totals, self.mornings[0] if is_next_day else totals)
        self._midnight_ms = _next_midnight(now_ms)

    def _new(self, now_ms: int) -> SampledSums:
        return SampledSums((MINUTE, HOUR, DAY), self.began_ms, now_ms)

    # Reading --------------------------------------------------------------------------

    def item(self, name: str, key: str, now_ms: int) -> BrokerStatsData | None:
        """One of upstream's items; None if it has no counts or is not counted here.

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
    """The next midnight in UTC."""
    return (now_ms // DAY_MS + 1) * DAY_MS

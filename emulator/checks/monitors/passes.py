"""Rebalance passes: when they come, and what members that know the same may take.

A pass is a pure function of the topic's queues and the members' ids; so once every member has
passed with the same ids and the same number of queues, their shares must add up.
"""

from __future__ import annotations

from emulator.checks.checker import Shared
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.split_shares import SHARING
from emulator.facts import ConsumerStarted, QueuesClaimed, RebalancePassed, RouteChanged
from emulator.journal import Entry, EntryKey

INTERVAL_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
INTERVAL_US_MIN = 1_000_000  # rocketmq.client.rebalance.minInterval
MIN_INTERVAL_KEPT = (5, 2, 0)
MILLISECOND_US = 1_000  # clients wait in whole ones
INTERVALS = ("rebalance_interval_ms", "rebalance_interval_ms_min")
EVEN = frozenset({"averagely", "by_circle"})  # shares that differ by one at most


class PassTimes(Monitor):
    """Client invariants 25 and 26."""

    name = "pass_times"
    rule = (
        "passes that nothing woke are 20 s apart (client invariant 25), since 5.2.0 never two "
        "within 1 s (26)"
    )
    invariants = (25, 26)
    needs = (RebalancePassed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._last: dict[tuple[str, str, str], EntryKey] = {}

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed, ConsumerStarted: self._started}

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process has a timer of its own."""
        for known in [each for each in self._last if each[0] == entry.node]:
            del self._last[known]

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        release = self.release_at(fact.group, entry.node)
        if not release or (release < MIN_INTERVAL_KEPT and fact.cause != "timer"):
            return
        known = entry.node, fact.group, fact.topic
        before = self._last.get(known)
        self._last[known] = EntryKey(entry.mono_us, entry.node, entry.seq)
        self.tries(before is not None)
        least_us = INTERVAL_US if release < MIN_INTERVAL_KEPT else INTERVAL_US_MIN
        if before is None or entry.mono_us - before.mono_us >= least_us - MILLISECOND_US:
            return
        if not self.sets(fact.group, *INTERVALS):
            self.objects(
                f"{entry.node} rebalanced {fact.topic} of {fact.group} "
                f"{(entry.mono_us - before.mono_us) / 1e6:.3f} s after the pass before",
                before,
                entry,
            )


class SharesAddUp(Monitor):
    """Client invariants 27, 28 and 32."""

    name = "shares_add_up"
    rule = (
        "members with equal inputs take every queue once (client invariant 27), averagely and by "
        "circle in shares that differ by one at most (28); who is not in the list takes none (32)"
    )
    invariants = (27, 28, 32)
    needs = (RebalancePassed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._passes: dict[tuple[str, str], dict[str, tuple[RebalancePassed, EntryKey]]] = {}
        self._routes: dict[tuple[str, str], frozenset[str]] = {}  # by node and topic

    def table(self) -> Table:
        """What it reads."""
        return {
            RebalancePassed: self._passed,
            ConsumerStarted: self._started,
            RouteChanged: self._route_changed,
        }

    def why_not(self) -> str:
        """A strategy of one's own may do as it likes."""
        if not self.scene.plan.get("consumers"):
            return "the journal has no plan: which strategies its groups have is not known"
        return ""

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """It may have another strategy than the one before it."""
        for (group, _), passes in self._passes.items():
            if group == fact.group:
                passes.pop(fact.client, None)

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """As many queues may be other queues."""
        self._routes[entry.node, fact.topic] = frozenset(fact.brokers)
        for (_, topic), passes in self._passes.items():
            if topic == fact.topic:
                passes.clear()

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        strategies = {part.get("strategy", "averagely") for part in self.plans_of(fact.group)}
        seat = self.scene.seat(fact.group, entry.node)
        if seat is None or not strategies or not strategies <= SHARING:
            return
        if len(strategies) > 1 or self.sets(fact.group, "strategy"):
            return
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        client = seat.started.client
        if client not in fact.members and fact.own_count:
            self.objects(
                f"{entry.node} is not in the list of {fact.group}, and took {fact.own_count} "
                f"queues of {fact.topic}",
                entry,
            )
        passes = self._passes.setdefault((fact.group, fact.topic), {})
        passes[client] = fact, key
        self._add_up(fact, passes, is_even=strategies <= EVEN)

    def _add_up(
        self,
        fact: RebalancePassed,
        passes: dict[str, tuple[RebalancePassed, EntryKey]],
        *,
        is_even: bool,
    ) -> None:
        if len(set(fact.members)) < len(fact.members):
            return
        mine = [passes[member] for member in fact.members if member in passes]
        if len(mine) < len(fact.members):
            return
        if any(e.queue_count != fact.queue_count or e.members != fact.members for e, _ in mine):
            return
        counts = [each.own_count for each, _ in mine]
        if len({self._routes.get((key.node, fact.topic)) for _, key in mine}) > 1:
            if sum(counts) != fact.queue_count:
                self.excuses()  # as many queues, of other brokers
            return
        self.tries()
        keys = sorted(key for _, key in mine)
        if sum(counts) != fact.queue_count:
            self.objects(
                f"the members of {fact.group} share {fact.queue_count} queues of {fact.topic} as "
                f"{' + '.join(map(str, counts))}",
                *keys,
            )
        elif is_even and max(counts) - min(counts) > 1:
            self.objects(
                f"the shares of {fact.topic} in {fact.group} are {', '.join(map(str, counts))}",
                *keys,
            )


class BroadcastersShareNothing(Monitor):
    """Client invariant 34."""

    name = "broadcasters_share_nothing"
    rule = "a broadcasting member holds all queues and asks for no list (client invariant 34)"
    invariants = (34,)
    needs = (ConsumerStarted,)

    def table(self) -> Table:
        """What it reads."""
        return {RebalancePassed: self._passed, QueuesClaimed: self._claimed}

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        self.tries(fact.group in self.scene.broadcast)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        if fact.group in self.scene.broadcast:
            self.objects(
                f"{entry.node} broadcasts, and computed {fact.own_count} of {fact.queue_count} "
                f"queues of {fact.topic} as its share",
                entry,
            )

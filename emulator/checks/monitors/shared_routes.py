"""What members make of their routes: every queue that may be read is shared out."""

from __future__ import annotations

from collections import deque

from emulator.checks.checker import Shared
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import Monitor
from emulator.checks.monitors.standing import LATE_US, UNKNOWN
from emulator.facts import (
    ConsumerStarted,
    RebalancePassed,
    RouteChanged,
    SettingsChanged,
    TopicChanged,
    TopicCreated,
)
from emulator.journal import Entry, EntryKey
from protocol.names import is_retry_topic
from protocol.perm import is_readable

ROUTES_MAX = 8  # of one topic at one node: the last ones
SETTING = "brokerPermission="


class RoutesAreShared(Monitor):
    """Client invariant 9: MQClientInstance.topicRouteData2TopicSubscribeInfo."""

    name = "routes_are_shared"
    rule = (
        "members share out all queues that may be read of the brokers in their route, also while "
        "nothing may be written to them (client invariant 9)"
    )
    invariants = (9,)
    needs = (RebalancePassed, RouteChanged)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # By node and topic: its routes; by topic and broker: the fewest queues it ever had.
        self._routes: dict[tuple[str, str], deque[tuple[EntryKey, tuple[str, ...]]]] = {}
        self._least: dict[tuple[str, str], int] = {}
        self._unreadable: set[str] = set()  # brokers that were set so at some time

    def table(self) -> Table:
        """What it reads."""
        return {
            ConsumerStarted: self._started,
            RouteChanged: self._changed,
            TopicCreated: self._shaped,
            TopicChanged: self._shaped,
            SettingsChanged: self._set,
            RebalancePassed: self._passed,
        }

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        """A new process asks for its routes anew."""
        for known in [each for each in self._routes if each[0] == entry.node]:
            del self._routes[known]

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        known = entry.node, fact.topic
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._routes.setdefault(known, deque(maxlen=ROUTES_MAX)).append((key, fact.brokers))

    def _shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        count = fact.read_queue_count if is_readable(fact.perm) else 0
        known = fact.topic, entry.node
        self._least[known] = min(count, self._least.get(known, count))

    def _set(self, fact: SettingsChanged, entry: Entry) -> None:
        for text in fact.settings:
            value = text.removeprefix(SETTING)
            if value != text and not (value.isdecimal() and is_readable(int(value))):
                self._unreadable.add(entry.node)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        """A pass that began before the last change may know the route before it."""
        routes = self._routes.get((entry.node, fact.topic))
        if not routes or is_retry_topic(fact.topic):
            return
        since_us, until_us = entry.mono_us - LATE_US, entry.mono_us
        (key, _), least = routes[-1], UNKNOWN
        for since, brokers in reversed(routes):
            if until_us >= since_us and (count := self._count(fact.topic, brokers)) <= least:
                key, least = since, count
            until_us = since.mono_us
        self.tries(least > 0)
        if fact.queue_count < least:
            self.objects(
                f"{entry.node} shares out {fact.queue_count} queues of {fact.topic}, where the "
                f"brokers of its route have {least}",
                key,
                entry,
            )

    def _count(self, topic: str, brokers: tuple[str, ...]) -> int:
        """How many queues of them there are at least; what is not known counts as none."""
        readable = (broker for broker in brokers if broker not in self._unreadable)
        return sum(self._least.get((topic, broker), 0) for broker in readable)

"""The start-up of each group: its first members get their queues one after another.

Members that start together do not know of each other at once: brokers list the first to arrive
without the others, so it claims queues that are soon another's.  Every group begins like that,
and it says nothing about how the group behaves later.  So measures count this time apart.

The first members are those that start within ``FIRST_US`` of the group's first one.  Start-up
ends when each of them has settled or ended: a rebalance listed all first members, and the member
holds as many queues of each topic as that rebalance gave it.  The first fault after its begin, or
end of a broker's process, ends it too: what follows is an outage.  It lasts at least ``FIRST_US``
and at most ``START_UP_US_MAX``.  Only topics of the very first member count that a broker had
before; without one, as in a broadcasting group, there is no start-up.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rocketmq_emulator.checks.state.cluster_state import ClusterState, ConsumerRecord
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStarted,
    FaultBegan,
    NodeKilled,
    NodeStopped,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry

FIRST_US = 2_000_000  # processes of one group that are started together start in this time
START_UP_US_MAX = (
    60_000_000  # a heartbeat within 30 s, a rebalance within 20 s, and 10 s of margin
)
BROKER = "broker"  # role of a node
READABLE = 4  # the bit of a topic's perm


class StartUps:
    """When the start-up of each group ended; times are ``mono_us``.

    The cluster state must have been given an entry before its method here is.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._topics: set[str] = set()  # with readable queues at some broker
        self._groups: dict[str, _StartUp] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            TopicCreated: self._shaped,
            TopicChanged: self._shaped,
            ConsumerStarted: self._started,
            RebalancePassed: self._passed,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            FaultBegan: self._hit,
            NodeKilled: self._hit,
            NodeStopped: self._hit,
        }

    def until_us(self, group: str, now_us: int) -> int | None:
        """When the start-up of *group* ended; 0 if it has none; None while it goes on."""
        start_up = self._groups.get(group)
        return 0 if start_up is None else start_up.until_us(now_us)

    def lasted_us(self, group: str, now_us: int) -> int:
        """How long the start-up of *group* lasted, up to now if it goes on; 0 if it has none."""
        start_up = self._groups.get(group)
        until_us = self.until_us(group, now_us)
        return 0 if start_up is None or until_us == 0 else (until_us or now_us) - start_up.from_us

    def _hit(self, fact: FaultBegan | NodeKilled | NodeStopped, entry: Entry) -> None:
        """A fault, or the end of a broker's process, ends each start-up that goes on."""
        if not isinstance(fact, NodeStopped) or fact.role == BROKER:
            for start_up in self._groups.values():
                start_up.hit(entry.mono_us)

    def _shaped(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        if fact.read_queue_count and fact.perm & READABLE:
            self._topics.add(fact.topic)

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        if fact.consumer_kind == "pull" or fact.broadcast:
            return
        start_up = self._groups.get(fact.group)
        if start_up is None:
            topics = frozenset(self._topics.intersection(fact.topics))
            start_up = self._groups[fact.group] = _StartUp(entry.mono_us, topics)
        consumer = self._cluster.consumer(fact.group, entry.node)
        if consumer is not None and entry.mono_us <= start_up.from_us + FIRST_US:
            start_up.add(consumer)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        if (member := self._member(fact.group, entry)) is not None:
            is_whole = self._groups[fact.group].first_clients() <= set(fact.members)
            member.passed(fact.topic, fact.own_count if is_whole else None, entry.mono_us)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        self._holds(fact, entry, 1)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        self._holds(fact, entry, -1)

    def _holds(self, fact: QueuesClaimed | QueuesReleased, entry: Entry, step: int) -> None:
        if (member := self._member(fact.group, entry)) is not None:
            for topic, count in Counter(queue.topic for queue in fact.queues).items():
                member.holds(topic, step * count, entry.mono_us)

    def _member(self, group: str, entry: Entry) -> _FirstMember | None:
        """The running first member on the entry's node, while the start-up goes on."""
        start_up = self._groups.get(group)
        if start_up is None or start_up.until_us(entry.mono_us) is not None:
            return None
        return start_up.running(entry.node)


class _StartUp:
    """The start-up of one group, over *topics* of its members."""

    def __init__(self, from_us: int, topics: frozenset[str]) -> None:
        self.from_us = from_us
        self._topics = topics
        self._members: list[_FirstMember] = []
        self._until_us = None if topics else 0  # None until it is over
        self._longest_us = from_us + START_UP_US_MAX  # it ends then at the latest

    def add(self, consumer: ConsumerRecord) -> None:
        """Add a first member: the others settle when they list it, too."""
        for member in self._members:
            member.settled_us.clear()
            member.wanted.clear()
        self._members.append(_FirstMember(consumer, self._topics & set(consumer.topics)))

    def hit(self, now_us: int) -> None:
        """A fault began: the start-up ends now, but not before ``FIRST_US`` have passed."""
        earliest_us = max(now_us, self.from_us + FIRST_US)
        self._longest_us = min(self._longest_us, earliest_us)

    def running(self, node: str) -> _FirstMember | None:
        """The first member that runs on *node*."""
        for member in self._members:
            if member.consumer.node == node and member.consumer.is_running:
                return member
        return None

    def first_clients(self) -> set[str]:
        """The client ids of the first members that run."""
        consumers = [member.consumer for member in self._members]
        return {consumer.started.client for consumer in consumers if consumer.is_running}

    def until_us(self, now_us: int) -> int | None:
        """When it ended; 0 if there is none; None while it goes on."""
        if self._until_us is not None:
            return self._until_us
        if now_us < self.from_us + FIRST_US:
            return None
        longest_us = self._longest_us
        ends_us = [member.end_us() for member in self._members]
        known_us = [end_us for end_us in ends_us if end_us is not None]
        if len(known_us) == len(ends_us):
            self._until_us = min(longest_us, max(self.from_us + FIRST_US, *known_us, 0))
        elif now_us >= longest_us:
            self._until_us = longest_us
        return self._until_us


class _FirstMember:
    """What one first member holds and should hold, of each of *topics*."""

    def __init__(self, consumer: ConsumerRecord, topics: frozenset[str]) -> None:
        self.consumer = consumer
        self.topics = topics
        self.wanted: dict[
            str, int
        ] = {}  # queues that its last rebalance gave it, if that was whole
        self.settled_us: dict[str, int] = {}  # by topic, the first time
        self._held: Counter[str] = Counter()

    def end_us(self) -> int | None:
        """When it had settled or ended, whichever came first; None: neither."""
        if self.topics <= self.settled_us.keys():
            return max((self.settled_us[topic] for topic in self.topics), default=0)
        return self.consumer.until_us

    def passed(self, topic: str, wanted: int | None, now_us: int) -> None:
        """A rebalance gave it *wanted* queues; None: it did not list all first members."""
        if wanted is None:
            self.wanted.pop(topic, None)
        else:
            self.wanted[topic] = wanted
            self.holds(topic, 0, now_us)

    def holds(self, topic: str, more: int, now_us: int) -> None:
        """It holds *more* queues of *topic*, or less if that is negative."""
        self._held[topic] += more
        if self.wanted.get(topic) == self._held[topic]:
            self.settled_us.setdefault(topic, now_us)


# Times without start-up, and in it ------------------------------------------------------


class Passed(NamedTuple):
    """A time up to *until_us* that lasted *us*, the first *startup_us* of it in start-up."""

    until_us: int
    us: int
    startup_us: int


class Times:
    """How long a condition held: in all and the longest, without start-up and in it."""

    __slots__ = (
        "longest_until_us",
        "longest_us",
        "now_us",
        "startup_now_us",
        "startup_until_us",
        "startup_us",
        "sum_us",
        "with_startup_us",
    )

    def __init__(self) -> None:
        self.now_us = self.startup_now_us = 0  # the current time with start-up, and its start-up
        self.sum_us = self.longest_us = 0  # without start-up
        self.startup_us = self.with_startup_us = 0  # the longest
        # Ends of the longest times up to now.
        self.longest_until_us = self.startup_until_us = 0

    def add(self, passed: Passed, *, holds: bool) -> None:
        """Add *passed* if the condition *holds*; else its time ended."""
        if not holds:
            self.now_us = self.startup_now_us = 0
            return
        self.now_us += passed.us
        self.startup_now_us += passed.startup_us
        self.sum_us += passed.us - passed.startup_us
        if self.startup_now_us > self.startup_us:
            self.startup_us = self.startup_now_us
            self.startup_until_us = passed.until_us - (passed.us - passed.startup_us)
        self.with_startup_us = max(self.with_startup_us, self.now_us)
        if self.now_us - self.startup_now_us > self.longest_us:
            self.longest_us = self.now_us - self.startup_now_us
            self.longest_until_us = passed.until_us

"""Members without work while their group works: they get no messages, or have only idle queues.

``Idleness`` measures messages (S21): a member without queues, or with empty ones, gets none.

``NoLoad`` measures queues, by the idle declaration of #3465, while a broker is read-only: a
read-only queue that the group has read to its end is declared idle, as it gets no new messages.
A member with only idle queues has no load, whatever load the other members have.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerRegistered,
    BrokerUnregistered,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    MessageConsumed,
    MessagePolled,
    MessageStored,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SettingsChanged,
    StoreOpened,
    TopicChanged,
    TopicCreated,
    WritePermChanged,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.protocol.bodies.routes import is_read_only_and_drained, no_load_ratio
from rocketmq_emulator.protocol.messages.names import is_retry_topic

IDLE_US = 10_000_000
NEVER = (-IDLE_US - 1, 0)  # when, at which count
FAIR_MESSAGES_MIN = 5  # a member's even share of messages consumed meanwhile


class IdleTime(NamedTuple):
    """A time in which a member got no message, and its group consumed *consumed* in all."""

    group: str
    node: str
    from_us: int
    until_us: int
    consumed: int
    member_count: int  # of the group's running members, at its end


class Idleness(Checker):
    """Members that get no messages while their group works (S21).

    A measure: some strategies make members idle on purpose.
    """

    name = "idleness"
    is_measure = True
    rule = "every member of a group that works gets work"
    metrics = (
        Metric(
            "idle_members",
            "members",
            "that got no message for 10 s or more, while their even share was at least five",
            "group",
        ),
        Metric("idle_s", "s", "for which members were idle, summed over members", "group"),
    )
    needs = (MessageConsumed, MessagePolled)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._counts: Counter[str] = Counter()  # messages consumed, by group
        self._last: dict[str, dict[str, tuple[int, int]]] = {}  # group, node: when, at which count
        self._idle: dict[str, set[str]] = {}
        self.times: list[IdleTime] = []  # in the order of their ends

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MessageConsumed: self._consumed, MessagePolled: self._consumed}

    def end(self) -> None:
        """Measure members that were idle when they ended, or at the end of the journal."""
        for group, consumers in self.cluster.consumers.items():
            self.add_to_metric("idle_s", 0, group)
            if group not in self.cluster.broadcast:
                for consumer in consumers:
                    until = (
                        consumer.until_us if consumer.until_us is not None else self.cluster.now_us
                    )
                    self._check(group, consumer.node, until)
            self.set_metric("idle_members", len(self._idle.get(group, ())), group)

    def _consumed(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        group, node, now_us = fact.group, entry.node, entry.mono_us
        count = self._counts.get(group, 0) + 1
        self._counts[group] = count
        nodes = self._last.get(group)
        if nodes is None:
            nodes = self._last[group] = {}
        if now_us - nodes.get(node, NEVER)[0] > IDLE_US:
            self._check(group, node, now_us)
        nodes[node] = now_us, count

    def _check(self, group: str, node: str, until_us: int) -> None:
        """Measure whether *node* was idle from its last message until *until_us*."""
        consumer = self.cluster.consumer(group, node)
        if consumer is None or group in self.cluster.broadcast:
            return
        since_us, count = self._last.get(group, {}).get(node, (consumer.from_us, 0))
        since_us = max(since_us, consumer.from_us)
        members = max(1, len(self.cluster.running(group)))
        consumed = self._counts[group] - count
        if until_us - since_us > IDLE_US and consumed / members >= FAIR_MESSAGES_MIN:
            self.times.append(IdleTime(group, node, since_us, until_us, consumed, members))
            self.add_to_metric("idle_s", (until_us - since_us) / 1e6, group)
            self._idle.setdefault(group, set()).add(node)


# Queues that are declared idle --------------------------------------------------------


US_A_SECOND = 1_000_000


class NoLoad(Checker):
    """Members with idle queues only while a broker is read-only, by the declaration of #3465.

    A measure: no rule says how a strategy must share such queues.
    """

    name = "no_load"
    is_measure = True
    rule = "a member has some queue that gets messages"
    metrics = (
        Metric(
            "no_load_ratio",
            "share",
            "the largest 1 - write queues / read queues of a topic; no read-only queue is written",
            "topic",
            "max",
        ),
        Metric(
            "declared_idle_queues",
            "queues",
            "the most at once that were read-only and had been read to their end",
            "group",
        ),
        Metric("no_load_members", "members", "the most at once with such queues only", "group"),
        Metric("no_load_s", "s", "for which members had such queues only, summed", "group"),
    )
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._owned: dict[str, dict[str, set[Queue]]] = {}  # group, node
        self._since_us: dict[tuple[str, str], int] = {}  # group, node: without load since then
        self._seen = 0, 0  # version of the routes, number of topics
        self._is_restricted = False  # some queue is not writable
        self._read_only: set[tuple[str, str]] = set()  # topic, broker

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        cluster = (TopicCreated, TopicChanged, SettingsChanged, WritePermChanged)
        brokers = (BrokerRegistered, BrokerUnregistered, StoreOpened)
        members = (ConsumerStarted, ConsumerStopped, FaultBegan, NodeKilled)
        return {
            **dict.fromkeys((*cluster, *brokers, *members), self._changed),
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            MessageStored: self._moves,
            MessageConsumed: self._moves,
            MessagePolled: self._moves,
        }

    def end(self) -> None:
        """Measure members without load at the end."""
        self._update_load(self.cluster.now_us)
        for group, node in list(self._since_us):
            self._works(group, node, self.cluster.now_us)
        for group in self.cluster.consumers:
            for metric in ("declared_idle_queues", "no_load_members", "no_load_s"):
                self.add_to_metric(metric, 0, group)

    def _changed(self, fact: object, entry: Entry) -> None:
        topics = set().union(*map(self.cluster.topics_of, self.cluster.consumers))
        seen = self.cluster.topics.version, len(topics)
        if seen != self._seen:  # most of these facts change no route
            self._seen = seen
            self._routes_changed(topics)
        self._update_load(entry.mono_us)

    def _routes_changed(self, topics: set[str]) -> None:
        table = self.cluster.topics
        self._is_restricted = not table.are_all_writeable
        self._read_only = {
            at for at in table.places() if is_read_only_and_drained(table.perm(*at), 0)
        }
        for topic in topics:
            ratio = no_load_ratio(table.route(topic))
            known = self.measured.get(f"no_load_ratio.{topic}", 0.0)
            self.set_metric("no_load_ratio", max(known, ratio), topic)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        queues = self._owned.setdefault(fact.group, {}).setdefault(entry.node, set())
        queues.update(queue for queue in fact.queues if not is_retry_topic(queue.topic))
        self._update_load(entry.mono_us)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        self._owned.get(fact.group, {}).get(entry.node, set()).difference_update(fact.queues)
        self._update_load(entry.mono_us)

    def _moves(self, fact: MessageStored | MessageConsumed | MessagePolled, entry: Entry) -> None:
        """Update loads: a queue got a message, or a member read one."""
        if self._read_only and self._is_read_only(fact.queue):
            self._update_load(entry.mono_us, fact.queue)

    def _is_read_only(self, queue: Queue) -> bool:
        return (queue.topic, queue.broker) in self._read_only

    def _update_load(self, now_us: int, moved: Queue | None = None) -> None:
        """Find members without load; if only *moved* changed, only in groups that own it."""
        if not (self._is_restricted or self._since_us):
            return
        for group, owned in self._owned.items():
            if group in self.cluster.broadcast:
                continue
            if moved is not None and not any(moved in queues for queues in owned.values()):
                continue
            running = {consumer.node for consumer in self.cluster.running(group)}
            idle_queues = idle_members = 0
            for node in sorted(owned):
                queues = owned[node] if node in running else set()
                idle = sum(self._is_idle(group, q) for q in queues if self._is_read_only(q))
                idle_queues += idle
                if queues and idle == len(queues):
                    idle_members += 1
                    self._since_us.setdefault((group, node), now_us)
                else:
                    self._works(group, node, now_us)
            self._at_most("declared_idle_queues", idle_queues, group)
            self._at_most("no_load_members", idle_members, group)

    def _is_idle(self, group: str, queue: Queue) -> bool:
        """Whether the group has read the read-only *queue* to its end."""
        records = self.progress.messages.queues.get(queue)
        if records is None or records.first is None:
            return True  # nothing was ever stored there
        reading = self.progress.readers.get(group, {}).get(queue)
        done = records.first if reading is None else reading.done.first_missing(reading.start)
        return done >= records.end_offset

    def _works(self, group: str, node: str, now_us: int) -> None:
        since_us = self._since_us.pop((group, node), None)
        if since_us is not None:
            self.add_to_metric("no_load_s", (now_us - since_us) / US_A_SECOND, group)

    def _at_most(self, metric: str, value: int, group: str) -> None:
        self.set_metric(metric, max(value, self.measured.get(f"{metric}.{group}", 0)), group)

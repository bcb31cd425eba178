"""Rebalances: the time between passes, and the number of queues that a rebalance moves.

A pass goes through the topics one after the other and asks a broker for each, so a broker that
does not answer delays all later topics.  Passes that got no answer write no fact.  So the 20 s are
checked only while no fault touches the member, a broker or a NameServer.

A rebalance has settled when no member claimed or released queues of the topic for ``SETTLED_US``.
Between two settled states *moved* counts how often a queue went from one member to another,
*necessary* is the least number of moves from the old shares to even ones (S19, S20).  The group's
start-up (``StartUps``) is apart: its moves count alone, and what follows is another rebalance.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rocketmq_emulator.checks.state.checker import Checker, CheckerContext, Metric
from rocketmq_emulator.checks.state.cluster_state import ConsumerRecord
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.messages.names import RETRY_GROUP_TOPIC_PREFIX

# Gaps between passes ------------------------------------------------------------------


PASS_US = 20_000_000  # rocketmq.client.rebalance.waitInterval
LATE_US = 5_000_000  # the pass before may take so much longer


class RebalanceGaps(Checker):
    """The longest time of members without a rebalance pass: 20 s without a fault.

    S24, client invariant 25: RebalanceService.run.
    """

    name = "passes"
    rule = (
        "a member passes over each of its topics every 20 s, while no fault touches it, a broker "
        "or a NameServer (client invariant 25)"
    )
    metrics = (
        Metric(
            "excused_passes",
            "times",
            "a pass was late, and a fault touched the member or servers",
            "group",
        ),
        Metric(
            "rebalance_gap_s",
            "s",
            "the longest time a running member did not pass over a topic",
            "group",
            "max",
        ),
    )
    needs = (RebalancePassed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last_us: dict[tuple[str, str], dict[str, int]] = {}  # group, node: topic

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {RebalancePassed: self._passed, ConsumerStopped: self._stopped}

    def end(self) -> None:
        """Check running members up to the end of the journal."""
        for group, consumers in self.cluster.consumers.items():
            self._measure(group, 0)
            for consumer in consumers:
                if consumer.is_running and self.cluster.last is not None:
                    for topic, last_us in self._last_us.get((group, consumer.node), {}).items():
                        since_us = max(last_us, consumer.from_us)
                        self._measure(group, self.cluster.now_us - since_us)
                        self._check(consumer, topic, since_us, self.cluster.last)

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        consumer = self.cluster.consumer(fact.group, entry.node)
        if consumer is None:
            return
        topics = self._last_us.setdefault((fact.group, entry.node), {})
        last_us = topics.get(fact.topic, 0)
        topics[fact.topic] = entry.mono_us
        since_us = max(last_us, consumer.from_us)
        self._measure(fact.group, entry.mono_us - since_us)
        self._check(consumer, fact.topic, since_us, entry)

    def _check(self, consumer: ConsumerRecord, topic: str, since_us: int, entry: Entry) -> None:
        """Report the member if its pass over *topic* is late without a fault."""
        self.count_tried()
        gap_us = entry.mono_us - since_us
        if gap_us <= PASS_US + LATE_US or self._is_set(consumer.started.group):
            return
        table = self.cluster.topics
        nodes = {consumer.node, *table.brokers, *table.name_servers}
        if topic not in consumer.topics:
            return
        quiet_us = self.cluster.undisturbed_us(nodes, since_us - PASS_US, entry.mono_us)
        if quiet_us <= 2 * PASS_US + LATE_US:
            self.add_to_metric("excused_passes", 1, consumer.started.group)
        else:
            self.report_violation(
                f"{consumer.node} did not pass over {topic} for {gap_us / 1e6:.1f} s",
                EntryKey(entry.mono_us, entry.node, entry.seq),
                node=consumer.node,
            )

    def _is_set(self, group: str) -> bool:
        """Whether the plan gives members of *group* another interval."""
        return any(
            "rebalance_interval_ms" in settings
            for part in self.cluster.plan.get("consumers", ())
            if part.get("group") == group
            for settings in (part.get("settings", {}), *part.get("settings_of", {}).values())
        )

    def _stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._last_us.pop((fact.group, entry.node), None)

    def _measure(self, group: str, gap_us: int) -> None:
        known = self.measured.get(f"rebalance_gap_s.{group}", 0.0)
        self.set_metric("rebalance_gap_s", max(known, gap_us / 1e6), group)


# Queues that move --------------------------------------------------------------------


SETTLED_US = 25_000_000  # one pass every 20 s, and a margin
US_A_SECOND = 1_000_000
Owners = dict[Queue, str]


class Settled(NamedTuple):
    """One rebalance of a group's topic, from its first change of an owner to its last.

    The queues that *moved*, and how many were *necessary* for even shares.
    """

    group: str
    topic: str
    from_us: int
    until_us: int
    moved: int
    necessary: int


class Churn(Checker):
    """How many queues moved, how many had to, and how even the shares are at the end.

    A measure: no rule says how many queues a strategy moves.
    """

    name = "churn"
    is_measure = True
    rule = "a rebalance moves as few queues as its strategy allows"
    metrics = (
        Metric(
            "rebalances",
            "times",
            "the shares of a topic changed and settled, for 25 s or by the end of start-up",
            "group",
        ),
        Metric(
            "moved_queues",
            "queues",
            "that moved from one member to another, without the group's start-up",
            "group",
        ),
        Metric("startup_moved_queues", "queues", "the same in start-up", "group"),
        Metric(
            "necessary_moves",
            "queues",
            "the fewest that lead to even shares, without start-up",
            "group",
        ),
        Metric(
            "needless_moves",
            "queues",
            "moved beyond the necessary ones, without start-up",
            "group",
        ),
        Metric(
            "settle_s",
            "s",
            "the longest from a rebalance's first change to its last, start-up too",
            "group",
            "max",
        ),
        Metric(
            "skew_queues",
            "queues",
            "most minus fewest queues of members at the end",
            "group",
            "max",
        ),
        Metric("queueless_members", "members", "that have no queue at the end", "group"),
        Metric(
            "expired_queues",
            "times",
            "a member replaced a queue as not pulled for 120 s",
            "group",
        ),
    )
    needs = (QueuesClaimed,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._topics: dict[tuple[str, str], _Shares] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            ConsumerStarted: self._ended,
            ConsumerStopped: self._ended,
            FaultBegan: self._fault_began,
            NodeKilled: self._killed,
        }

    def end(self) -> None:
        """Settle the open rebalances, and set the metrics."""
        for group in self.cluster.consumers:
            for metric in self.metrics:
                self.add_to_metric(metric.name, 0, group)
        held: dict[str, Counter[str]] = {}
        for (group, _), shares in self._topics.items():
            shares.settle()
            self.add_to_metric("rebalances", shares.settled_count, group)
            self.add_to_metric("moved_queues", shares.moved, group)
            self.add_to_metric("startup_moved_queues", shares.startup_moved, group)
            self.add_to_metric("necessary_moves", shares.necessary, group)
            self.add_to_metric("needless_moves", max(0, shares.moved - shares.necessary), group)
            before_s = self.measured.get(f"settle_s.{group}", 0.0)  # no ConsumerStarted: none
            longest_s = max(before_s, shares.longest_us / US_A_SECOND)
            self.set_metric("settle_s", longest_s, group)
            held.setdefault(group, Counter()).update(shares.owners.values())
        for group, counts in held.items():
            if sizes := [counts[consumer.node] for consumer in self.cluster.running(group)]:
                self.set_metric("skew_queues", max(sizes) - min(sizes), group)
                self.set_metric("queueless_members", sizes.count(0), group)

    def settled(self) -> list[Settled]:
        """Every rebalance that moved a queue or had to, in the order of time; after ``end``."""
        found = [
            Settled(group, topic, *numbers)
            for (group, topic), shares in self._topics.items()
            for numbers in shares.settled
        ]
        return sorted(found, key=lambda each: (each.from_us, each.group, each.topic))

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self.cluster.broadcast:
            return
        for queue in fact.queues:
            if not queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                self._topics.setdefault((fact.group, queue.topic), _Shares())
                self._changing(fact.group, queue.topic, entry.mono_us).claim(queue, entry.node)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        if fact.reason == "pull expired":
            self.add_to_metric("expired_queues", len(fact.queues), fact.group)
        for queue in fact.queues:
            if (fact.group, queue.topic) in self._topics:
                self._changing(fact.group, queue.topic, entry.mono_us).release(queue, entry.node)

    def _ended(self, fact: ConsumerStarted | ConsumerStopped, entry: Entry) -> None:
        self._leaves(fact.group, entry.node, entry.mono_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        for node in fact.nodes:
            self._end_if_stopped(node, entry.mono_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._end_if_stopped(fact.node, entry.mono_us)

    def _end_if_stopped(self, node: str, now_us: int) -> None:
        """End the shares of *node* if its members ended: not every fault ends a process."""
        for group in self.cluster.consumers:
            consumer = self.cluster.consumer(group, node)
            if consumer is not None and not consumer.is_running:
                self._leaves(group, node, now_us)

    def _leaves(self, group: str, node: str, now_us: int) -> None:
        for (name, topic), shares in self._topics.items():
            held = [queue for queue, holders in shares.holders.items() if node in holders]
            if name == group and held:
                self._changing(group, topic, now_us)
                for queue in held:
                    shares.release(queue, node)

    def _changing(self, group: str, topic: str, now_us: int) -> _Shares:
        """The shares of *topic* in *group*, of which a queue is claimed or released now."""
        shares = self._topics[group, topic]
        members = [consumer.node for consumer in self.cluster.running(group)]
        up_us = self.start_ups.until_us(group, now_us)
        shares.changes(now_us, members, is_startup=up_us is None or now_us <= up_us)
        return shares


class _Shares:
    """The owners of one topic's queues in one group, now and when last settled.

    If several members hold a queue, the last to claim it counts as its owner.
    """

    def __init__(self) -> None:
        self.owners: Owners = {}
        self.holders: dict[Queue, list[str]] = {}
        self.moved = self.startup_moved = self.necessary = self.settled_count = 0
        self._is_startup = False  # the last change was in the group's start-up
        # Of each rebalance with moves: first and last change, queues moved, necessary moves.
        self.settled: list[tuple[int, int, int, int]] = []
        self._last: Owners = {}  # each queue's last owner
        self._before: Owners = {}  # as last settled
        self.longest_us = 0  # longest rebalance, first change to last
        self._began_us = 0
        self._changed_us: int | None = None
        self._members: list[str] = []  # of the group, at the last change

    def changes(self, now_us: int, members: list[str], *, is_startup: bool) -> None:
        """Note a claim or release.

        The first after a quiet ``SETTLED_US``, or after start-up, starts a new rebalance.
        """
        was_quiet = self._changed_us is None or now_us - self._changed_us > SETTLED_US
        if was_quiet or (self._is_startup and not is_startup):
            self.settle()
            self._began_us = now_us
        self._changed_us, self._members, self._is_startup = now_us, members, is_startup
        self.longest_us = max(self.longest_us, now_us - self._began_us)

    def claim(self, queue: Queue, node: str) -> None:
        """*node* owns the queue now; counts as a move if another node owned it."""
        is_move = self._last.get(queue, node) != node
        if self._is_startup:
            self.startup_moved += is_move
        else:
            self.moved += is_move
        self._last[queue] = self.owners[queue] = node
        holders = self.holders.setdefault(queue, [])
        if node in holders:
            holders.remove(node)
        holders.append(node)

    def release(self, queue: Queue, node: str) -> None:
        """*node* released the queue; an earlier owner that still holds it owns it again."""
        holders = self.holders.get(queue, [])
        if node not in holders:
            return
        holders.remove(node)
        if not holders:
            del self.owners[queue]
        elif self.owners[queue] == node:
            self._last[queue] = self.owners[queue] = holders[-1]

    def settle(self) -> None:
        """End the current rebalance and count its moves."""
        necessary = 0
        if self.owners != self._before:
            self.settled_count += 1
            if self._before and not self._is_startup:
                necessary = fewest_moves(self._before, self._members)
            self._before = dict(self.owners)
        self.necessary += necessary
        moved = self.moved - sum(before for _, _, before, _ in self.settled)
        if moved or necessary:
            until_us = self._began_us if self._changed_us is None else self._changed_us
            self.settled.append((self._began_us, until_us, moved, necessary))


def fewest_moves(before: Owners, members: list[str]) -> int:
    """The least number of owned queues that must move for even shares of *members*."""
    if not members:
        return 0
    share, larger = divmod(len(before), len(members))
    held = Counter(owner for owner in before.values() if owner in members)
    orphans = len(before) - sum(held.values())
    sizes = sorted((held[member] for member in members), reverse=True)
    caps = [share + 1] * larger + [share] * (len(members) - larger)
    return orphans + sum(max(0, size - cap) for size, cap in zip(sizes, caps, strict=True))

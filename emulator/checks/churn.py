"""How many queues changed hands, and how many had to; who has none, who has too many.

A rebalance is over when nobody claimed or released anything of the topic for ``SETTLED_US``.  From
one such state to the next: *moved* is how often a queue went from one member to another,
*necessary* the fewest moves that lead from the old shares to even ones (S19, S20).
"""

from __future__ import annotations

from collections import Counter

from emulator.checks.checker import Checker, Metric, Shared
from emulator.checks.folding import Table
from emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    NodeKilled,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from emulator.journal import Entry
from protocol.names import RETRY_GROUP_TOPIC_PREFIX

SETTLED_US = 25_000_000  # one pass every 20 s, and some
US_A_SECOND = 1_000_000
Owners = dict[Queue, str]


class Churn(Checker):
    """Counts; which strategy moves how much is no rule."""

    name = "churn"
    is_measure = True
    rule = "a rebalance moves as few queues as its strategy allows"
    metrics = (
        Metric("rebalances", "times", "the shares of a topic changed and settled", "group"),
        Metric("moved_queues", "queues", "that went from one member to another", "group"),
        Metric("necessary_moves", "queues", "the fewest that lead to even shares", "group"),
        Metric("needless_moves", "queues", "moved beyond the necessary ones", "group"),
        Metric("settle_s", "s", "the longest from its first change to its last", "group", "max"),
        Metric(
            "skew_queues",
            "queues",
            "most minus fewest that members have at the end",
            "group",
            "max",
        ),
        Metric("queueless_members", "members", "that have no queue at the end", "group"),
        Metric(
            "expired_queues",
            "times",
            "a member began a queue anew that it seemed not to have pulled for 120 s",
            "group",
        ),
    )
    needs = (QueuesClaimed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._topics: dict[tuple[str, str], _Shares] = {}

    def table(self) -> Table:
        """What it reads."""
        return {
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            ConsumerStarted: self._ended,
            ConsumerStopped: self._ended,
            FaultBegan: self._fault_began,
            NodeKilled: self._killed,
        }

    def end(self) -> None:
        """What is open is settled now."""
        for group in self.scene.seats:
            for metric in self.metrics:
                self.adds(metric.name, 0, group)
        held: dict[str, Counter[str]] = {}
        for (group, _), shares in self._topics.items():
            shares.settle()
            self.adds("rebalances", shares.settled_count, group)
            self.adds("moved_queues", shares.moved, group)
            self.adds("necessary_moves", shares.necessary, group)
            self.adds("needless_moves", max(0, shares.moved - shares.necessary), group)
            longest_s = max(self.measured[f"settle_s.{group}"], shares.longest_us / US_A_SECOND)
            self.measures("settle_s", longest_s, group)
            held.setdefault(group, Counter()).update(shares.owners.values())
        for group, counts in held.items():
            if sizes := [counts[seat.node] for seat in self.scene.living(group)]:
                self.measures("skew_queues", max(sizes) - min(sizes), group)
                self.measures("queueless_members", sizes.count(0), group)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if fact.group in self.scene.broadcast:
            return
        members = [seat.node for seat in self.scene.living(fact.group)]
        for queue in fact.queues:
            if not queue.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                shares = self._topics.setdefault((fact.group, queue.topic), _Shares())
                shares.changes(entry.mono_us, members)
                shares.claim(queue, entry.node)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        if fact.reason == "pull expired":
            self.adds("expired_queues", len(fact.queues), fact.group)
        members = [seat.node for seat in self.scene.living(fact.group)]
        for queue in fact.queues:
            if (shares := self._topics.get((fact.group, queue.topic))) is not None:
                shares.changes(entry.mono_us, members)
                shares.release(queue, entry.node)

    def _ended(self, fact: ConsumerStarted | ConsumerStopped, entry: Entry) -> None:
        self._leaves(fact.group, entry.node, entry.mono_us)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        for node in fact.nodes:
            self._dies(node, entry.mono_us)

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._dies(fact.node, entry.mono_us)

    def _dies(self, node: str, now_us: int) -> None:
        """If it has: not every fault ends a process."""
        for group in self.scene.seats:
            seat = self.scene.seat(group, node)
            if seat is not None and not seat.lives:
                self._leaves(group, node, now_us)

    def _leaves(self, group: str, node: str, now_us: int) -> None:
        members = [seat.node for seat in self.scene.living(group)]
        for (name, _), shares in self._topics.items():
            held = [queue for queue, holders in shares.holders.items() if node in holders]
            if name == group and held:
                shares.changes(now_us, members)
                for queue in held:
                    shares.release(queue, node)


class _Shares:
    """One topic of one group: who has what, and who had it when it last was settled.

    Of several that hold a queue the one that claimed it last counts as its owner.
    """

    def __init__(self) -> None:
        self.owners: Owners = {}
        self.holders: dict[Queue, list[str]] = {}
        self.moved = self.necessary = self.settled_count = 0
        self._last: Owners = {}  # each queue's last owner
        self._before: Owners = {}  # as last settled
        self.longest_us = 0  # of all rebalances, from the first change to the last
        self._began_us = 0
        self._changed_us: int | None = None
        self._members: list[str] = []  # of the group, at the last change

    def changes(self, now_us: int, members: list[str]) -> None:
        """Something is claimed or released now: if all was quiet for long, a new rebalance."""
        if self._changed_us is None or now_us - self._changed_us > SETTLED_US:
            self.settle()
            self._began_us = now_us
        self._changed_us, self._members = now_us, members
        self.longest_us = max(self.longest_us, now_us - self._began_us)

    def claim(self, queue: Queue, node: str) -> None:
        """*node* has the queue now; a move if another one had it."""
        self.moved += self._last.get(queue, node) != node
        self._last[queue] = self.owners[queue] = node
        holders = self.holders.setdefault(queue, [])
        if node in holders:
            holders.remove(node)
        holders.append(node)

    def release(self, queue: Queue, node: str) -> None:
        """*node* has it no more; who held it before has it again."""
        holders = self.holders.get(queue, [])
        if node not in holders:
            return
        holders.remove(node)
        if not holders:
            del self.owners[queue]
        elif self.owners[queue] == node:
            self._last[queue] = self.owners[queue] = holders[-1]

    def settle(self) -> None:
        """The rebalance that was under way is over."""
        if self.owners == self._before:
            return
        self.settled_count += 1
        if self._before:
            self.necessary += fewest_moves(self._before, self._members)
        self._before = dict(self.owners)


def fewest_moves(before: Owners, members: list[str]) -> int:
    """Of queues that have an owner: how few must change hands for even shares of *members*."""
    if not members:
        return 0
    share, larger = divmod(len(before), len(members))
    held = Counter(owner for owner in before.values() if owner in members)
    orphans = len(before) - sum(held.values())
    sizes = sorted((held[member] for member in members), reverse=True)
    caps = [share + 1] * larger + [share] * (len(members) - larger)
    return orphans + sum(max(0, size - cap) for size, cap in zip(sizes, caps, strict=True))

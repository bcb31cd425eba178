"""Counts from the members' facts: sent, delivered, duplicates, waiting; owners of each queue.

``Ledger`` takes journal entries and the times of the kills; it reads no file and no clock.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from rocketmq_emulator.checks.state.queue_positions import QueueOwners
from rocketmq_emulator.cli.demo.timeline import GROUP, TOPIC
from rocketmq_emulator.facts import (
    MessageConsumed,
    MessageSent,
    NodeStarted,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SendFailed,
)

MemberFact: TypeAlias = (
    MessageSent | SendFailed | MessageConsumed | QueuesClaimed | QueuesReleased | NodeStarted
)
KINDS = (MessageSent, SendFailed, MessageConsumed, QueuesClaimed, QueuesReleased, NodeStarted)


class MemberEntry(msgspec.Struct, frozen=True):
    """One journal entry of a producer or consumer, with the fields that the demo reads."""

    seq: int
    at_ms: int
    node: str
    fact: MemberFact


read_entry = msgspec.json.Decoder(MemberEntry).decode


class Bar(msgspec.Struct):
    """Number of deliveries from a queue within one bar's time, and the last consumer."""

    delivered: int = 0
    consumer: str = ""


class QueueHistory(msgspec.Struct):
    """One queue's deliveries.

    ``waiting``: acknowledged to the producer, not delivered yet.  ``bars``: the bars with
    deliveries, by wall time divided by the bar's time.
    """

    delivered: int = 0
    waiting: int = 0
    bars: dict[int, Bar] = {}
    last_ms: int = 0
    longest_gap_ms: int = 0
    gap_began_ms: int = 0

    def deliver(self, at_ms: int, consumer: str, bar_ms: int) -> None:
        """Count a message of the queue that *consumer* consumed."""
        bar = self.bars.setdefault(at_ms // bar_ms, Bar())
        bar.delivered += 1
        bar.consumer = consumer
        if self.delivered and at_ms - self.last_ms > self.longest_gap_ms:
            self.longest_gap_ms, self.gap_began_ms = at_ms - self.last_ms, self.last_ms
        self.delivered += 1
        self.last_ms = max(at_ms, self.last_ms)


class Takeover(msgspec.Struct):
    """A queue whose owner was killed, and its next owner."""

    queue: Queue
    lost_by: str
    lost_ms: int
    owner: str = ""
    owned_after_ms: int | None = None
    delivered_after_ms: int | None = None


class Ledger:
    """Counts entry by entry; all times are wall milliseconds.  *bar_ms* is a bar's time."""

    def __init__(self, bar_ms: int = 1_000) -> None:
        self.bar_ms = bar_ms
        self.sent: dict[str, Queue] = {}  # acknowledged, by unique key
        self.delivered: set[str] = set()  # unique keys
        self.undelivered = 0  # acknowledged, not delivered yet
        self.deliveries = 0
        self.failed_sends = 0
        self.maybe_stored = 0
        self.queues: dict[Queue, QueueHistory] = {}
        self.owners = QueueOwners[int]()  # with the time of the claim
        self.of_member: dict[str, int] = {}  # messages sent or consumed
        self.takeovers: list[Takeover] = []
        self.broker_killed_ms = 0
        self.broker_back_ms = 0
        self.broker = ""
        self.broker_resumed_ms = 0  # first delivery from the restarted broker
        self._dead: set[str] = set()

    # Input ------------------------------------------------------------------------------

    def read(self, entry: MemberEntry) -> None:
        """Count *entry*; the entries of one member must come in their order."""
        fact = entry.fact
        if isinstance(fact, MessageSent):
            self._sent(entry.node, fact)
        elif isinstance(fact, SendFailed):
            self.failed_sends += 1
            self.maybe_stored += fact.maybe_stored
        elif isinstance(fact, MessageConsumed):
            self._consumed(entry.node, entry.at_ms, fact)
        elif isinstance(fact, QueuesClaimed):
            self._claimed(entry.node, entry.at_ms, fact.queues)
        elif isinstance(fact, QueuesReleased):
            for queue in fact.queues:
                self.owners.release(entry.node, GROUP, queue)

    def consumer_killed(self, name: str, at_ms: int) -> None:
        """Remove the consumer *name* as owner; its queues wait for a takeover."""
        self._dead.add(name)
        ended = self.owners.end(name)
        for queue in self.queues:
            if (GROUP, queue) in ended and not self.owners_of(queue):
                self.takeovers.append(Takeover(queue, name, at_ms))

    def broker_killed(self, name: str, at_ms: int) -> None:
        """Measure the return of the broker *name* from now on."""
        self.broker, self.broker_killed_ms = name, at_ms

    def broker_back(self, at_ms: int) -> None:
        """Note that the killed broker was started again and is ready."""
        self.broker_back_ms = at_ms

    # Results ----------------------------------------------------------------------------

    def owners_of(self, queue: Queue) -> tuple[str, ...]:
        """The owners of *queue*, the latest claim last; two or none during a rebalance."""
        return tuple(self.owners.of_queue(GROUP, queue))

    @property
    def duplicates(self) -> int:
        """Number of deliveries of messages that had been delivered before."""
        return self.deliveries - len(self.delivered)

    @property
    def unacknowledged(self) -> int:
        """Number of delivered messages whose producer got no acknowledgement."""
        return len(self.delivered - self.sent.keys())

    # Counting ---------------------------------------------------------------------------

    def _sent(self, node: str, fact: MessageSent) -> None:
        self._count(node)
        is_new = fact.uniq_key not in self.sent
        self.sent[fact.uniq_key] = fact.queue
        if is_new and fact.uniq_key not in self.delivered:
            self._wait(fact.queue, 1)

    def _consumed(self, node: str, at_ms: int, fact: MessageConsumed) -> None:
        if not fact.ok:
            return
        self._count(node)
        self.deliveries += 1
        if fact.uniq_key not in self.delivered:
            self.delivered.add(fact.uniq_key)
            if (queue := self.sent.get(fact.uniq_key)) is not None:
                self._wait(queue, -1)
        if fact.queue.topic != TOPIC:
            return
        self._history(fact.queue).deliver(at_ms, node, self.bar_ms)
        for takeover in self.takeovers:
            is_its = takeover.queue == fact.queue and takeover.owner == node
            if is_its and takeover.delivered_after_ms is None:
                takeover.delivered_after_ms = at_ms - takeover.lost_ms
        is_back = self.broker_back_ms and not self.broker_resumed_ms
        if is_back and fact.queue.broker == self.broker and at_ms >= self.broker_back_ms:
            self.broker_resumed_ms = at_ms

    def _claimed(self, node: str, at_ms: int, queues: tuple[Queue, ...]) -> None:
        for queue in queues:
            if queue.topic != TOPIC or node in self._dead:
                continue
            self._history(queue)
            self.owners.claim(node, GROUP, queue, at_ms)
            for takeover in self.takeovers:
                if takeover.queue == queue and takeover.owned_after_ms is None:
                    takeover.owner = node
                    takeover.owned_after_ms = at_ms - takeover.lost_ms

    def _wait(self, queue: Queue, more: int) -> None:
        self.undelivered += more
        self._history(queue).waiting += more

    def _history(self, queue: Queue) -> QueueHistory:
        return self.queues.setdefault(queue, QueueHistory())

    def _count(self, node: str) -> None:
        self.of_member[node] = self.of_member.get(node, 0) + 1

"""What the facts prove: sent, delivered, twice, lost; whose each queue was, and when nobody's.

A value: it is fed with journal lines and told of kills, and asked at the end.
"""

from __future__ import annotations

import msgspec

from emulator.cli.demo.evidence import Line
from emulator.cli.demo.plan import TOPIC
from emulator.facts import (
    MessageConsumed,
    MessageSent,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    SendFailed,
)


class QueueHistory(msgspec.Struct):
    """One queue's deliveries.  While queues change hands it may have two owners, or none."""

    owners: list[str] = []
    delivered: int = 0
    last_ms: int = 0
    longest_gap_ms: int = 0
    gap_began_ms: int = 0

    @property
    def owner(self) -> str:
        """Who took it last and still has it."""
        return self.owners[-1] if self.owners else ""

    def claim(self, member: str) -> None:
        self.release(member)
        self.owners.append(member)

    def release(self, member: str) -> None:
        if member in self.owners:
            self.owners.remove(member)

    def deliver(self, at_ms: int) -> None:
        if self.delivered and at_ms - self.last_ms > self.longest_gap_ms:
            self.longest_gap_ms, self.gap_began_ms = at_ms - self.last_ms, self.last_ms
        self.delivered += 1
        self.last_ms = max(at_ms, self.last_ms)


class Takeover(msgspec.Struct):
    """A queue that lost its owner, and who has it since."""

    queue: Queue
    lost_by: str
    lost_ms: int
    owner: str = ""
    owned_after_ms: int | None = None
    delivered_after_ms: int | None = None


class Ledger:
    """Fed line by line; all times are wall milliseconds."""

    def __init__(self) -> None:
        self.sent_ms: dict[str, int] = {}  # acknowledged, by unique key
        self.first_ms: dict[str, int] = {}  # delivered, by unique key
        self.deliveries = 0
        self.failed_sends = 0
        self.maybe_stored = 0
        self.queues: dict[Queue, QueueHistory] = {}
        self.of_member: dict[str, int] = {}  # messages sent or consumed
        self.takeovers: list[Takeover] = []
        self.broker_killed_ms = 0
        self.broker_back_ms = 0
        self.broker = ""
        self.broker_resumed_ms = 0  # first delivery from the restarted broker
        self._dead: set[str] = set()

    # What is told ---------------------------------------------------------------------

    def read(self, line: Line) -> None:
        fact = line.fact
        if isinstance(fact, MessageSent):
            self.sent_ms[fact.uniq_key] = line.at_ms
            self._count(line.node)
        elif isinstance(fact, SendFailed):
            self.failed_sends += 1
            self.maybe_stored += fact.maybe_stored
        elif isinstance(fact, MessageConsumed):
            self._consumed(line.node, line.at_ms, fact)
        elif isinstance(fact, QueuesClaimed):
            self._claimed(line.node, line.at_ms, fact.queues)
        elif isinstance(fact, QueuesReleased):
            for queue in fact.queues:
                if queue in self.queues:
                    self.queues[queue].release(line.node)

    def consumer_killed(self, name: str, at_ms: int) -> None:
        self._dead.add(name)
        for queue, history in self.queues.items():
            was_owned = bool(history.owners)
            history.release(name)
            if was_owned and not history.owners:
                self.takeovers.append(Takeover(queue, name, at_ms))

    def broker_killed(self, name: str, at_ms: int) -> None:
        self.broker, self.broker_killed_ms = name, at_ms

    def broker_back(self, at_ms: int) -> None:
        self.broker_back_ms = at_ms

    # What is asked --------------------------------------------------------------------

    @property
    def lost(self) -> int:
        """Acknowledged and not delivered to anybody, so far."""
        return len(self.sent_ms.keys() - self.first_ms.keys())

    @property
    def duplicates(self) -> int:
        return self.deliveries - len(self.first_ms)

    @property
    def unacknowledged(self) -> int:
        """Delivered although its producer was never told that it was stored."""
        return len(self.first_ms.keys() - self.sent_ms.keys())

    # Inside ---------------------------------------------------------------------------

    def _consumed(self, node: str, at_ms: int, fact: MessageConsumed) -> None:
        if not fact.ok:
            return
        self._count(node)
        self.deliveries += 1
        self.first_ms.setdefault(fact.uniq_key, at_ms)
        if fact.queue.topic != TOPIC:
            return
        self.queues.setdefault(fact.queue, QueueHistory()).deliver(at_ms)
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
            self.queues.setdefault(queue, QueueHistory()).claim(node)
            for takeover in self.takeovers:
                if takeover.queue == queue and takeover.owned_after_ms is None:
                    takeover.owner = node
                    takeover.owned_after_ms = at_ms - takeover.lost_ms

    def _count(self, node: str) -> None:
        self.of_member[node] = self.of_member.get(node, 0) + 1

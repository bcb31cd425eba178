"""What the members' facts prove: sent, delivered, twice, lost; who owned each queue, and when.

A value: it is fed with journal entries and with the times of the kills, and read at the end.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from emulator.cli.demo.plan import TOPIC
from emulator.facts import (
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
    """One journal entry of a producer or consumer, as far as the demo reads it."""

    seq: int
    at_ms: int
    node: str
    fact: MemberFact


read_entry = msgspec.json.Decoder(MemberEntry).decode


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
        """*member* took the queue."""
        self.release(member)
        self.owners.append(member)

    def release(self, member: str) -> None:
        """*member* gave the queue up, or died."""
        if member in self.owners:
            self.owners.remove(member)

    def deliver(self, at_ms: int) -> None:
        """A message of the queue was consumed."""
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
    """Fed entry by entry; all times are wall milliseconds."""

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

    # What it is fed with -----------------------------------------------------------------

    def read(self, entry: MemberEntry) -> None:
        """One entry; those of one member in their order."""
        fact = entry.fact
        if isinstance(fact, MessageSent):
            self.sent_ms[fact.uniq_key] = entry.at_ms
            self._count(entry.node)
        elif isinstance(fact, SendFailed):
            self.failed_sends += 1
            self.maybe_stored += fact.maybe_stored
        elif isinstance(fact, MessageConsumed):
            self._consumed(entry.node, entry.at_ms, fact)
        elif isinstance(fact, QueuesClaimed):
            self._claimed(entry.node, entry.at_ms, fact.queues)
        elif isinstance(fact, QueuesReleased):
            for queue in fact.queues:
                if queue in self.queues:
                    self.queues[queue].release(entry.node)

    def consumer_killed(self, name: str, at_ms: int) -> None:
        """Its queues are nobody's until somebody claims them."""
        self._dead.add(name)
        for queue, history in self.queues.items():
            was_owned = bool(history.owners)
            history.release(name)
            if was_owned and not history.owners:
                self.takeovers.append(Takeover(queue, name, at_ms))

    def broker_killed(self, name: str, at_ms: int) -> None:
        """The broker whose return is measured."""
        self.broker, self.broker_killed_ms = name, at_ms

    def broker_back(self, at_ms: int) -> None:
        """It was started again and is ready."""
        self.broker_back_ms = at_ms

    # What it proves --------------------------------------------------------------------

    @property
    def lost(self) -> int:
        """Acknowledged and not delivered to anybody, so far."""
        return len(self.sent_ms.keys() - self.first_ms.keys())

    @property
    def duplicates(self) -> int:
        """Deliveries of what had been delivered before."""
        return self.deliveries - len(self.first_ms)

    @property
    def unacknowledged(self) -> int:
        """Delivered although its producer got no acknowledgement."""
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

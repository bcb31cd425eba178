"""Small journals, made by hand: some to which a checker should object, and some without fault."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, Self

from rocketmq_emulator.checks.judging.judging import judge
from rocketmq_emulator.checks.state.violation import Judgement
from rocketmq_emulator.facts import (
    ConsumerStarted,
    ConsumerStopped,
    DelayedDelivered,
    Fact,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MessageConsumed,
    MessageGivenToListener,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    PullAnswered,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    RebalancePassed,
    ReleaseReason,
    RunEnded,
    RunStarted,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Entry, encode_entry

EPOCH_MS = 1_700_000_000_000
Q0, Q1 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
RECORD_BYTES = 100
PEER = "10.0.0.9:1"


def client_of(node: str) -> str:
    return f"{node}@1"


def a_member(client: str, peer: str = PEER, group: str = "billing", **fields: str) -> MemberJoined:
    """The fact that a broker notes of a push consumer in Java."""
    known = {"consume_type": "CONSUME_PASSIVELY", "message_model": "CLUSTERING", **fields}
    return MemberJoined(group, client, peer, language="JAVA", client_version=0, **known)


class AJournal:
    """Entries in the order in which they are noted; ``at_s`` moves the clock."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now_us = 0
        self._seq: Counter[str] = Counter()
        self._positions: Counter[str] = Counter()

    def at_s(self, seconds: float) -> Self:
        self.now_us = int(seconds * 1e6)
        return self

    def note(self, node: str, fact: Fact) -> Self:
        self._seq[node] += 1
        self.now_us += 10
        at_ms = EPOCH_MS + self.now_us // 1000
        self.entries.append(Entry(self._seq[node], at_ms, self.now_us, node, fact))
        return self

    def each(self, numbers: range, do: Callable[[int], object]) -> Self:
        for number in numbers:
            do(number)
        return self

    # The cluster ------------------------------------------------------------------------

    def runs(self, plan: str = "{}", release: str = "4.9.7") -> Self:
        return self.note(
            "world", RunStarted("a story", plan, "{}", 1, "virtual", release, "0.0.0")
        )

    def ends(self) -> Self:
        return self.note("world", RunEnded("finished", ""))

    def store(self, broker: str = "broker-a", *, sync: bool = False) -> Self:
        kind: Literal["SYNC_FLUSH", "ASYNC_FLUSH"] = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        return self.note(broker, StoreOpened(kind, outlives_process=True, retained_hours_max=72))

    def fault(self, word: str, *nodes: str, number: int = 1, **fields: float) -> Self:
        fault = json.dumps({"fault": word, **fields})
        return self.note("world", FaultBegan(number, fault, nodes))

    def healed(self, number: int = 1) -> Self:
        return self.note("world", FaultEnded(number, "healed", 1))

    # Messages ---------------------------------------------------------------------------

    def stored(self, offset: int, queue: Queue = Q0, key: str = "", tags: str = "") -> Self:
        position = self._positions[queue.broker]
        self._positions[queue.broker] += RECORD_BYTES
        key = key or f"{queue.queue_id}-{offset}"
        fact = MessageStored(queue, offset, position, key, RECORD_BYTES, tags)
        return self.note(queue.broker, fact)

    def delivered(self, offset: int, queue: Queue, level: int, key: str) -> Self:
        """A copy that waited at *level* is stored in its queue."""
        self.stored(offset, queue, key)
        return self.note(queue.broker, DelayedDelivered(queue, level, 0))

    def sent(
        self, offset: int, queue: Queue = Q0, key: str = "", tags: str = "", **fields: Any
    ) -> Self:
        self.stored(offset, queue, key, tags)
        return self.acknowledged(offset, queue, key, **fields)

    def acknowledged(self, offset: int, queue: Queue = Q0, key: str = "", **fields: Any) -> Self:
        key = key or f"{queue.queue_id}-{offset}"
        known: dict[str, Any] = {"attempts": 1, "took_ms": 1, "status": "SEND_OK", **fields}
        return self.note("producer", MessageSent(queue.topic, queue, offset, key, **known))

    def given(self, node: str, offset: int, queue: Queue = Q0, group: str = "billing") -> Self:
        key = f"{queue.queue_id}-{offset}"
        return self.note(node, MessageGivenToListener(group, queue, offset, key, 0))

    def consumed(
        self,
        node: str,
        offset: int,
        queue: Queue = Q0,
        *,
        group: str = "billing",
        key: str = "",
        times: int = 0,
        ok: bool = True,
    ) -> Self:
        key = key or f"{queue.queue_id}-{offset}"
        fact = MessageConsumed(group, queue.topic, queue, offset, key, times, ok)
        return self.note(node, fact)

    def pulled(self, offset: int, count: int, queue: Queue = Q0, group: str = "billing") -> Self:
        fact = PullAnswered(group, queue, offset, 0, count, offset + count, PEER, 0)
        return self.note(queue.broker, fact)

    def committed(
        self, offset: int, queue: Queue = Q0, group: str = "billing", peer: str = PEER
    ) -> Self:
        return self.note(queue.broker, OffsetCommitted(group, queue, offset, peer))

    # Members ----------------------------------------------------------------------------

    def consumer(self, node: str, **fields: Any) -> Self:
        known: dict[str, Any] = {
            "group": "billing",
            "client": client_of(node),
            "consumer_kind": "push",
            "broadcast": False,
            "orderly": False,
            "topics": ("orders",),
            "expressions": ("*",),
            "release": "4.9.7",
            **fields,
        }
        return self.note(node, ConsumerStarted(**known))

    def stopped(self, node: str, group: str = "billing") -> Self:
        return self.note(node, ConsumerStopped(group, client_of(node)))

    def claimed(
        self, node: str, *queues: Queue, group: str = "billing", offsets: tuple[int, ...] = ()
    ) -> Self:
        return self.note(node, QueuesClaimed(group, queues, offsets))

    def released(self, node: str, *queues: Queue, reason: ReleaseReason = "not mine") -> Self:
        return self.note(node, QueuesReleased("billing", queues, reason))

    def passed(
        self, node: str, own: int, *members: str, topic: str = "orders", queues: int = 2
    ) -> Self:
        """A rebalance lists *members* (of no other group) and gives *node* so many queues."""
        clients = tuple(map(client_of, members))
        fact = RebalancePassed("billing", topic, queues, clients, own, "timer")
        return self.note(node, fact)

    # Results ----------------------------------------------------------------------------

    def judged(self) -> Judgement:
        return judge(self.entries)

    def lines(self) -> list[bytes]:
        return [encode_entry(entry) for entry in self.entries]


def a_consumed_journal(count: int = 10) -> AJournal:
    """One member that consumes and commits all of one queue."""
    journal = AJournal().runs().store().consumer("billing-1").pulled(0, 0).claimed("billing-1", Q0)
    for offset in range(count):
        journal.sent(offset).pulled(offset, 1).given("billing-1", offset)
        journal.consumed("billing-1", offset)
    return journal.committed(count)


def objections(judgement: Judgement, checker: str) -> list[str]:
    assert judgement.raised == {}
    return [each.what for each in judgement.violations if each.checker == checker]

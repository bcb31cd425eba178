"""Small journals for tests of the report: entries sorted by time."""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_emulator.facts import (
    Fact,
    MessageConsumed,
    MessageSent,
    MessageStored,
    OffsetCommitted,
    Queue,
    QueuesClaimed,
    QueuesReleased,
    ReleaseReason,
)
from rocketmq_emulator.facts.journal import Entry

GROUP, TOPIC = "billing", "orders"
BOOT_US = 5_000_000_000  # a machine's monotonic time begins before the run
EPOCH_MS = 1_700_000_000_000


def a_queue(number: int = 0, topic: str = TOPIC) -> Queue:
    return Queue(topic, "broker-a", number)


def a_claim(*numbers: int) -> QueuesClaimed:
    return QueuesClaimed(GROUP, tuple(map(a_queue, numbers)))


def a_release(*numbers: int, reason: ReleaseReason = "not mine") -> QueuesReleased:
    return QueuesReleased(GROUP, tuple(map(a_queue, numbers)), reason)


def a_store(offset: int, number: int = 0) -> MessageStored:
    return MessageStored(a_queue(number), offset, offset * 200, f"KEY{offset:04}", 200)


def a_send(offset: int, took_ms: int = 3) -> MessageSent:
    return MessageSent(TOPIC, a_queue(), offset, f"KEY{offset:04}", 1, took_ms, "SEND_OK")


def a_consumption(offset: int, *, times: int = 0) -> MessageConsumed:
    return MessageConsumed(GROUP, TOPIC, a_queue(), offset, f"KEY{offset:04}", times, ok=True)


def a_commit(offset: int, peer: str = "10.0.0.9:4000", group: str = GROUP) -> OffsetCommitted:
    return OffsetCommitted(group, a_queue(), offset, peer)


def a_journal(
    *noted: tuple[float, str, Fact], lives: Sequence[tuple[float, str]] = ()
) -> list[Entry]:
    """Entries of (second, node, fact); at each of *lives* a node's numbers restart from 1."""
    entries, numbers = [], {}
    starts = sorted(lives)
    for at_s, node, fact in noted:
        while starts and starts[0][0] <= at_s:
            numbers[starts.pop(0)[1]] = 0
        numbers[node] = numbers.get(node, 0) + 1
        at_us = round(at_s * 1_000_000)
        entry = Entry(numbers[node], EPOCH_MS + at_us // 1_000, BOOT_US + at_us, node, fact)
        entries.append(entry)
    return entries

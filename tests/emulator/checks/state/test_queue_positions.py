"""Stored offsets, committed offsets and owners of queues, as facts give them."""

from __future__ import annotations

import copy

from rocketmq_emulator.checks.state.queue_positions import (
    QueueOwners,
    QueuePositions,
    UnflushedRecords,
)
from rocketmq_emulator.facts import (
    Fact,
    GroupOffsetMoved,
    LogFlushed,
    LogRecovered,
    MessageStored,
    OffsetCommitted,
    PowerLost,
    Queue,
)
from rocketmq_emulator.facts.journal import Entry

A0, A1 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
B0 = Queue("orders", "broker-b", 0)
BYTES = 100


def stored(queue: Queue, offset: int, record: int) -> MessageStored:
    return MessageStored(queue, offset, record * BYTES, f"k{record}", BYTES)


def read(positions: QueuePositions, *facts: Fact, node: str = "broker-a") -> None:
    table = positions.table()
    for seq, fact in enumerate(facts, 1):
        table[type(fact)](fact, Entry(seq, 0, seq, node, fact))


def test_a_backlog_is_stored_and_not_committed_and_offsets_may_move() -> None:
    positions = QueuePositions()
    read(positions, stored(A0, 4, 0), stored(A1, 0, 1), OffsetCommitted("billing", A0, 2, "me"))
    assert positions.backlog("billing", "orders") == 3 + 1
    read(positions, GroupOffsetMoved("billing", A0, 9, "broker", "me"))
    assert positions.backlog("billing", "orders") == 1
    assert positions.backlog("audit", "orders") == 5 + 1
    assert positions.backlog("billing", "others") == 0


def test_a_queue_ends_where_its_broker_lost_what_was_not_flushed() -> None:
    lost = list[tuple[str, str]]()
    positions = QueuePositions(on_lost=lambda broker, fact: lost.append((broker, fact.uniq_key)))
    read(positions, stored(A0, 0, 0), stored(A0, 1, 1), stored(A1, 0, 2))
    read(positions, LogFlushed(BYTES, BYTES, 1))
    read(positions, stored(B0, 0, 0), node="broker-b")
    read(positions, PowerLost(0, 1, 3 * BYTES, ()))  # less than was flushed
    assert positions.ends == {A0: 1, A1: 0, B0: 1}
    assert lost == [("broker-a", "k2"), ("broker-a", "k1")]
    read(positions, LogRecovered(0, 0, 0), node="broker-b")
    assert positions.ends[B0] == 0


def test_a_copy_changes_apart() -> None:
    positions = QueuePositions()
    read(positions, stored(A0, 0, 0), OffsetCommitted("billing", A0, 1, "me"))
    earlier = copy.deepcopy(positions)
    read(positions, stored(A0, 1, 1), OffsetCommitted("billing", A0, 2, "me"))
    assert (earlier.ends, earlier.committed["billing"]) == ({A0: 1}, {A0: 1})
    read(earlier, LogRecovered(0, 0, 0))
    assert (earlier.ends, positions.ends) == ({A0: 0}, {A0: 2})


def test_what_a_broker_had_in_its_memory_is_forgotten() -> None:
    positions = QueuePositions()
    read(positions, stored(A0, 7, 0), stored(B0, 7, 1), OffsetCommitted("billing", A0, 3, "me"))
    positions.forget("broker-a")
    assert (positions.ends, positions.committed["billing"]) == ({B0: 8}, {})
    assert positions.backlog("billing", "orders") == 8


def test_the_oldest_of_too_many_unflushed_records_count_as_flushed() -> None:
    unflushed = UnflushedRecords[str](records_max=2)
    for number in (1, 2, 3):
        unflushed.stored("broker-a", number, f"record {number}")
    assert list(unflushed.lost("broker-a", 0)) == ["record 3", "record 2"]
    assert list(unflushed.lost("broker-b", 0)) == []


def test_owners_are_those_that_claimed_and_neither_released_nor_ended() -> None:
    owners = QueueOwners[int]()
    assert owners.claim("billing-1", "billing", A0, 1)
    assert not owners.claim("billing-1", "billing", A0, 2)
    assert owners.claim("billing-2", "billing", A0, 3)
    assert owners.claim("billing-2", "audit", A0, 4)
    assert list(owners.of_queue("billing", A0).items()) == [("billing-1", 1), ("billing-2", 3)]
    assert owners.release("billing-1", "billing", A0) == 1
    assert owners.release("billing-1", "billing", A0) is None
    assert owners.end("billing-2", "audit") == {("audit", A0): 4}
    assert owners.owned_by("billing-2") == {("billing", A0): 3}
    assert owners.end("billing-2") == {("billing", A0): 3}
    assert not owners.of_queue("billing", A0)

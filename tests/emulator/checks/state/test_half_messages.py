"""Half messages as facts show them; their tables have a limit."""

from __future__ import annotations

import pytest

from rocketmq_emulator.checks.state import half_messages
from rocketmq_emulator.checks.state.half_messages import HalfMessages
from rocketmq_emulator.checks.state.queue_records import QueueRecords
from rocketmq_emulator.facts import HalfMessageStored, Queue, TransactionChecked
from rocketmq_emulator.facts.journal import EntryKey
from rocketmq_emulator.protocol.messages.names import TRANS_HALF_TOPIC

ORDERS = Queue("orders", "broker-a", 1)


def at(number: int) -> EntryKey:
    return EntryKey(number, "broker-a", number)


def stored(halves: HalfMessages, count: int) -> None:
    """Half messages K0, K1 … at the offsets 0, 1 …"""
    records = QueueRecords(Queue(TRANS_HALF_TOPIC, "broker-a", 0))
    for n in range(count):
        halves.stored(HalfMessageStored(ORDERS, n, n * 100, "pg", f"K{n}", -1), records, at(n))


def test_beyond_the_limit_the_oldest_half_messages_are_dropped_with_all_their_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(half_messages, "HALVES_MAX", 3)
    halves = HalfMessages()
    stored(halves, 2)
    halves.checked(TransactionChecked(ORDERS, 0, 90, 1, "p", "pg", "K0"), at(9), "broker-a")
    stored(halves, 5)
    assert len(list(halves)) == sum(map(len, halves.by_key.values())) == 3
    assert halves.at("broker-a", 90) is None
    assert len(halves._at) == 3
    assert [half.key for half in halves] == ["K2", "K3", "K4"]


def test_a_half_message_is_found_at_its_copies_until_the_log_loses_them() -> None:
    halves = HalfMessages()
    stored(halves, 1)
    halves.checked(TransactionChecked(ORDERS, 0, 1, 1, "p", "pg", "K0"), at(9), "broker-a")
    half = halves.at("broker-a", 1)
    assert half is halves.at("broker-a", 0)
    assert half is not None
    assert (half.offset, half.check_times) == (1, 1)
    halves.cut("broker-a", 1)
    assert (half.offset, half.is_lost, halves.at("broker-a", 1)) == (0, False, None)
    halves.cut("broker-a", 0)
    assert half.is_lost
    assert not half.is_open

"""Queue locks: one owner at a time, for as long as it says so."""

from __future__ import annotations

from emulator.broker.tables.locks import RebalanceLocks
from protocol.queues import MessageQueue

MINUTE_MS = 60_000
Q0, Q1, Q2 = (MessageQueue("t", "broker-a", n) for n in range(3))


def test_invariant_66_a_lock_is_exclusive_until_it_lapses() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    assert locks.lock("g", [Q0, Q1], "a", 0) == [Q0, Q1]
    assert locks.lock("g", [Q0, Q2], "b", MINUTE_MS) == [Q2]
    assert locks.lock("g", [Q0], "b", MINUTE_MS + 1) == [Q0]
    assert locks.owner("g", Q0, MINUTE_MS + 1) == "b"


def test_invariant_66_a_renewal_at_59_s_holds_until_119_s() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    locks.lock("g", [Q0], "a", 0)
    assert locks.lock("g", [Q0], "a", 59_000) == [Q0]
    assert locks.lock("g", [Q0], "b", 119_000) == []
    assert locks.lock("g", [Q0], "b", 119_001) == [Q0]


def test_invariant_66_an_unlocked_queue_is_free_at_once() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    locks.lock("g", [Q0], "a", 0)
    locks.unlock("g", [Q0], "a")
    assert locks.lock("g", [Q0], "b", 1) == [Q0]


def test_invariant_67_only_the_owner_unlocks() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    locks.lock("g", [Q0], "a", 0)
    locks.unlock("g", [Q0, Q1], "b")
    locks.unlock("never", [Q0], "a")
    assert locks.owner("g", Q0, 1) == "a"


def test_groups_do_not_lock_each_other_out() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    locks.lock("g", [Q0], "a", 0)
    assert locks.lock("h", [Q0], "b", 0) == [Q0]


def test_invariant_39_a_group_holds_locks_while_any_is_alive() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    assert not locks.holds_any("g", 0)
    locks.lock("g", [Q0], "a", 0)
    locks.lock("g", [Q1], "b", 30_000)
    assert locks.holds_any("g", 90_000)
    assert not locks.holds_any("g", 90_001)


def test_lapsed_locks_are_forgotten_and_live_ones_kept() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    for n in range(100):
        locks.lock(f"g{n}", [Q0], "a", 0)
    locks.lock("live", [Q0], "a", 59_999)
    locks.lock("other", [Q0], "a", 2 * MINUTE_MS - 1)
    assert sorted(locks._locks) == ["live", "other"]

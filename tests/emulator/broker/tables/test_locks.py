"""Queue locks: one owner at a time, until it unlocks or its lock expires."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_emulator.broker.tables.locks import RebalanceLocks
from rocketmq_emulator.facts import Queue, QueuesLocked, QueuesUnlocked
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.groups import LockBatchReply, LockBatchRequestBody
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.rpc import Rpc
from tests.support.broker.bench import Bench, Client

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


def test_lapsed_locks_are_looked_for_once_a_lifetime() -> None:
    locks = RebalanceLocks(MINUTE_MS)
    locks.lock("g", [Q0], "a", 0)
    locks.lock("h", [Q0], "a", 100)
    locks.lock("h", [Q1], "a", MINUTE_MS + 10)  # sweeps; the next sweep is in a minute
    assert locks.held_count == 2, "the lock of g was removed"
    locks.lock("h", [Q2], "a", 2 * MINUTE_MS + 9)
    assert locks.held_count == 3, "an expired lock of h is kept until the sweep"
    locks.lock("h", [Q2], "a", 2 * MINUTE_MS + 10)
    assert locks.held_count == 2


# Requests ---------------------------------------------------------------------------------


def asked(client: Client, rpc: Rpc, **fields: Any) -> RemotingCommand:
    body = LockBatchRequestBody(**{"consumer_group": "g", "client_id": "c", **fields})
    return client.must(rpc, None, encode_body(body, client.bench.broker.release))


def granted(client: Client, *queues: MessageQueue, **fields: Any) -> list[MessageQueue]:
    answer = asked(client, catalog.LOCK_BATCH_MQ, mq_set=list(queues), **fields)
    assert answer.code == 0, answer.remark
    return decode_body(answer.body, LockBatchReply).lock_ok_mq_set


async def test_as_many_locks_are_held_as_the_limit_says_and_not_one_more() -> None:
    client = Bench(locks_max=2).client()
    assert granted(client, Q0, Q1) == [Q0, Q1]
    assert granted(client, Q0, Q1) == [Q0, Q1], "a renewal needs no room"
    assert granted(client, Q0, client_id="d") == [], "a queue of another needs none"
    answer = asked(client, catalog.LOCK_BATCH_MQ, mq_set=[Q1, Q2])
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_BUSY,
        "too many queue locks at once: 3, the limit is 2",
    )


async def test_the_journal_says_which_locks_were_granted_and_which_refused() -> None:
    bench = Bench()
    client = bench.client()
    granted(client, Q0)
    assert granted(client, Q2, Q0, Q1, client_id="d") == [Q2, Q1]
    asked(client, catalog.UNLOCK_BATCH_MQ, mq_set=[Q1, Q0])
    q0, q1, q2 = (Queue("t", "broker-a", n) for n in range(3))
    assert bench.facts(QueuesLocked) == [
        QueuesLocked("g", "c", (q0,), ()),
        QueuesLocked("g", "d", (q1, q2), (q0,)),
    ]
    assert bench.facts(QueuesUnlocked) == [QueuesUnlocked("g", "c", (q0, q1))]


@pytest.mark.parametrize("rpc", [catalog.LOCK_BATCH_MQ, catalog.UNLOCK_BATCH_MQ])
async def test_locks_of_no_group_are_refused(rpc: Rpc) -> None:
    answer = asked(Bench().client(), rpc, consumer_group=None)
    assert answer.code != 0
    assert answer.remark == "locks of a group without a name"


async def test_a_client_without_an_id_locks_as_the_empty_name() -> None:
    bench = Bench()
    granted(bench.client(), Q0, client_id=None)
    assert bench.broker.locks.owner("g", Q0, bench.now_ms()) == ""

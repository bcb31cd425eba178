"""Transactions and the disk: flushes, refusals, kills and losses of power, in virtual time."""

from __future__ import annotations

from typing import Any

from rocketmq_emulator.broker.store.appender import PutRefused, PutStatus
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.requests.sending import SendMessageReply
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, SlowDisk, refuse_for_lack_of_replicas
from tests.support.broker.transacting import (
    BOTH,
    INTERVAL_S,
    MARKS,
    a_bench,
    a_half,
    answer,
    asked,
    bodies,
    end,
    end_of,
    passes,
    running,
)

SYNC = {"flush_disk_type": "SYNC_FLUSH", "store": "s"}


def flushed(client: Client, disk: SlowDisk) -> RemotingCommand:
    """The answer to the last request, which waits for a flush."""
    assert client.answer_to(client.last_opaque) is None
    disk.finish()
    found = client.answer_to(client.last_opaque)
    assert found is not None
    assert found.code == 0
    return found


def a_flushed_half(client: Client, disk: SlowDisk) -> SendMessageReply:
    client.post("Orders", b"half", properties=properties_text(MARKS, trailing=True), queue_id=1)
    return flushed(client, disk).decode(SendMessageReply)


async def test_a_commit_is_answered_when_it_is_flushed() -> None:
    disk = SlowDisk()
    async with running(Bench(disk, **SYNC)) as client:
        half = a_half(client, WAIT="false")
        assert end(client, half).code == 0, "WAIT is false"
        disk.finish()
        half = a_flushed_half(client, disk)
        client.ask(catalog.END_TRANSACTION, end_of(half))
        flushed(client, disk)


@BOTH
async def test_an_answered_transaction_survives_a_loss_of_power_with_synchronous_flushes(
    release: str,
) -> None:
    disk = SlowDisk()
    async with running(a_bench(release, disk, **SYNC)) as client:
        _still_open, done = [a_flushed_half(client, disk) for _ in range(2)]
        client.ask(catalog.END_TRANSACTION, end_of(done))
        flushed(client, disk)
        a_half(client, WAIT="false")  # not flushed
    disk.lose_power()
    again = a_bench(release, disk, **SYNC)
    client = again.client()
    client.heartbeat("p", producer="pg")
    assert bodies(client) == [b"half"]
    await passes(again, INTERVAL_S[release] + 1)
    # Before 5.1.0 the op is in the flush that the answer waited for; since then it is collected.
    open_count = 1 if release == LAST_4 else 2
    assert [check.tran_state_table_offset for check in asked(client)] == [2, 3][:open_count]


@BOTH
async def test_a_commit_that_was_not_flushed_leaves_an_open_half_message_and_no_double(
    release: str,
) -> None:
    disk = SlowDisk()
    async with running(a_bench(release, disk, store="s")) as client:
        half = a_half(client)
        client.bench.broker.store.flushing.flush_due()
        disk.finish()
        assert end(client, half).code == 0
    disk.lose_power()
    again = a_bench(release, disk, store="s")
    client = again.client()
    client.heartbeat("p", producer="pg")
    assert bodies(client) == []
    await passes(again, INTERVAL_S[release] + 1)
    (check,) = asked(client)
    assert answer(client, check).code == 0
    await passes(again, 3 * INTERVAL_S[release])
    assert bodies(client) == [b"half"]
    assert len(asked(client)) == 1


@BOTH
async def test_a_killed_broker_knows_open_and_ended_transactions_again(release: str) -> None:
    disk = MemoryDisk()
    bench = a_bench(release, disk)
    client = bench.client()
    still_open, done, undone = [a_half(client, UNIQ_KEY=key) for key in ("O", "C", "R")]
    end(client, done)
    end(client, undone, commit_or_rollback=TRANSACTION_ROLLBACK)
    await passes(bench, 7)  # since 5.1.0 ops are collected in memory for some seconds
    again = a_bench(release, disk)  # the first one was not closed
    client = again.client()
    client.heartbeat("p", producer="pg")
    assert bodies(client) == [b"half"]
    wrong = end(client, still_open, producer_group="other")
    assert (wrong.code, wrong.remark) == (ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    assert end(client, still_open).code == 0
    assert bodies(client) == [b"half"] * 2
    assert end(client, done).code == 0
    assert bodies(client) == [b"half"] * 3, "nothing is remembered of ended transactions"
    await passes(again, 3 * INTERVAL_S[release])
    assert asked(client) == []


async def test_a_commit_that_the_disk_refuses_leaves_the_half_message_open() -> None:
    disk = MemoryDisk()
    bench = a_bench(LAST_4, disk)
    client = bench.client()
    client.heartbeat("p", producer="pg")
    half = a_half(client)
    put, bench.broker.puts.put = bench.broker.puts.put, _refusing  # type: ignore[method-assign]
    refused = end(client, half)
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert refused.remark == "Service not available now."
    bench.broker.puts.put = put  # type: ignore[method-assign]
    await passes(bench, 61)
    assert len(asked(client)) == 1


async def test_too_few_replicas_in_sync_refuse_a_commit_whose_message_is_to_wait() -> None:
    """EndTransactionProcessor.endMessageTransaction sets WAIT before it takes the properties."""
    async with running(a_bench("5.3.3")) as client:
        halves = [a_half(client), a_half(client, WAIT="false"), a_half(client)]
        client.bench.broker.store.check_replicas = refuse_for_lack_of_replicas
        answers = [
            end(client, half, commit_or_rollback=how)
            for half, how in zip(
                halves,
                (TRANSACTION_COMMIT, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK),
                strict=True,
            )
        ]
        assert [each.code for each in answers] == [ResponseCode.SYSTEM_ERROR, 0, 0]
        assert answers[0].remark == "in-sync replicas not enough"
        assert bodies(client) == [b"half"]


def _refusing(*_: Any) -> Any:
    raise PutRefused(PutStatus.SERVICE_NOT_AVAILABLE, "the disk is full")

"""SYNC_FLUSH on a real disk: many senders share few syncs, and a kill loses no message."""

from __future__ import annotations

from contextlib import suppress

import trio

from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import FlushFailed, LogFlushed
from tests.durability.killed_cluster import (
    a_cluster,
    facts_of,
    kill_now,
    questions_to,
    wait_restarted,
)

SENDERS, SENDS = 32, 3_000


async def test_thirty_two_senders_share_their_syncs_and_lose_nothing_to_a_kill(tmp_path) -> None:
    acknowledged: dict[bytes, int] = {}

    async def send_until_killed(cluster, ask, sender: int) -> None:
        with suppress(RemoteError):
            for number in range(SENDS):
                body = b"%d/%d" % (sender, number)
                acknowledged[body] = await ask.stored("orders", sender % 4, body)
                if len(acknowledged) == SENDS:
                    kill_now(cluster)

    with a_cluster(tmp_path, flush_disk_type="SYNC_FLUSH") as cluster:
        async with questions_to(cluster) as ask:
            await ask.create_topic("orders")
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for sender in range(SENDERS):
                        nursery.start_soon(send_until_killed, cluster, ask, sender)
            flushes = facts_of(tmp_path, LogFlushed)
            await wait_restarted(cluster)
            found = {}
            for queue_id in range(4):
                for message in await ask.messages("orders", queue_id):
                    found[message.body] = message.queue_offset
    assert len(acknowledged) >= SENDS
    assert acknowledged.items() <= found.items()
    assert sum(fact["message_count"] for fact in flushes) >= len(acknowledged)
    assert len(flushes) * 4 < len(acknowledged)
    assert facts_of(tmp_path, FlushFailed) == []

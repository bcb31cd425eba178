"""Transactions of a whole broker without sockets: half messages, ends and checks of clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.command import ONE_WAY, RemotingCommand
from rocketmq_emulator.protocol.flags import TRANSACTION_COMMIT
from rocketmq_emulator.protocol.messages.properties import properties_text
from rocketmq_emulator.protocol.messages.records import StoredMessage, decode_records
from rocketmq_emulator.protocol.requests.groups import CheckTransactionStateRequest
from rocketmq_emulator.protocol.requests.sending import EndTransactionRequest, SendMessageReply
from rocketmq_emulator.settings.config import NetConfig
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5

BOTH = pytest.mark.parametrize("release", [LAST_4, LAST_5])
INTERVAL_S = {LAST_4: 60, LAST_5: 30}
MARKS = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "K1"}


def a_half(client: Client, topic: str = "Orders", **more: str) -> SendMessageReply:
    """Send a half message to queue 1 of *topic*; *more* are properties of it."""
    text = properties_text({**MARKS, **more}, trailing=True)
    born_ms = client.bench.now_ms()
    return client.sent(topic, b"half", properties=text, queue_id=1, born_timestamp=born_ms)


def position_in(reply: SendMessageReply) -> int:
    return int(reply.msg_id[-16:], 16)


def end_of(half: SendMessageReply, **changes: Any) -> EndTransactionRequest:
    """The request that commits *half*; *changes* are fields of it."""
    fields = {
        "producer_group": "pg",
        "tran_state_table_offset": half.queue_offset,
        "commit_log_offset": position_in(half),
        "commit_or_rollback": TRANSACTION_COMMIT,
        "msg_id": "K1",
        **changes,
    }
    return EndTransactionRequest(**fields)


def end(client: Client, half: SendMessageReply, **changes: Any) -> RemotingCommand:
    """Commit *half*, or end it as *changes* say; returns the answer."""
    return client.must(catalog.END_TRANSACTION, end_of(half, **changes))


def answer(client: Client, check: CheckTransactionStateRequest) -> RemotingCommand:
    """Commit the half message of *check*, as its answer."""
    place = check.tran_state_table_offset, check.commit_log_offset
    header = EndTransactionRequest(
        *place, TRANSACTION_COMMIT, "pg", "K1", from_transaction_check=True
    )
    return client.must(catalog.END_TRANSACTION, header)


def stored(client: Client, topic: str = "Orders", queue_id: int = 0) -> list[StoredMessage]:
    """The messages of a queue, as a consumer would get them."""
    slices = client.bench.broker.store.get(topic, queue_id, 0, 32).slices
    return decode_records(b"".join(slices))


def bodies(client: Client, queue_id: int = 1) -> list[bytes]:
    return [message.body for message in stored(client, queue_id=queue_id)]


def asked(client: Client) -> list[CheckTransactionStateRequest]:
    """The checks that *client* got, in order."""
    code = RequestCode.CHECK_TRANSACTION_STATE
    found = [command for command in client.heard if command.code == code]
    assert all(command.flag == ONE_WAY for command in found)
    return [command.decode(CheckTransactionStateRequest) for command in found]


def a_bench(release: str, disk: MemoryDisk | None = None, **settings: Any) -> Bench:
    """A broker whose clients stay connected without heartbeats."""
    patient: dict[str, Any] = {
        "client_silence_ms_max": 10**9,
        "net": NetConfig(idle_ms_max=10**9),
    }
    return Bench(disk, release=release, **patient, **settings)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Client]:
    """A client of the broker, whose scheduled tasks run inside, and end as if it was killed."""
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        yield bench.client()
        nursery.cancel_scope.cancel()
    bench.no_bugs()


async def passes(bench: Bench, seconds: float) -> None:
    """Let *seconds* pass, with the broker's scheduled tasks."""
    async with running(bench):
        await trio.sleep(seconds)

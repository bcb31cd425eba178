"""On 4.9, a PULL_OFFSET_MOVED answer also stores a message in OFFSET_MOVED_EVENT."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.names import OFFSET_MOVED_EVENT
from rocketmq_emulator.protocol.messages.records import StoredMessage
from tests.support.broker.bench import Bench, Client
from tests.support.broker.store_makers import LAST_4, LAST_5, TinyDisk


def a_member(bench: Bench) -> Client:
    client = bench.client()
    client.heartbeat("c", topics={"t": "*", OFFSET_MOVED_EVENT: "*"})
    client.sent("t", queue_id=0)
    return client


def moved(client: Client, offset: int, **fields: Any) -> None:
    answer = client.pull("t", offset, flags=0, **fields)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED


def events(client: Client) -> list[StoredMessage]:
    return client.pulled(OFFSET_MOVED_EVENT)


async def test_a_pull_beyond_the_end_is_an_event_with_both_offsets() -> None:
    client = a_member(Bench(release=LAST_4))
    moved(client, 7)
    [event] = events(client)
    assert json.loads(event.body) == {
        "consumerGroup": "g",
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "t"},
        "offsetNew": 1,
        "offsetRequest": 7,
    }
    assert event.properties == b"KEYS\x01g\x02DELAY\x010\x02TAGS\x01g"
    assert event.born_host == event.store_host


async def test_each_such_pull_is_an_event_and_no_other_is() -> None:
    client = a_member(Bench(release=LAST_4))
    client.pull("t", 0, flags=0)
    client.pull("t", 1, flags=0)
    moved(client, 7)
    moved(client, 8, queue_id=1)  # that queue was never written to
    assert len(events(client)) == 2


@pytest.mark.parametrize("release", ["5.0.0", LAST_5])
async def test_5_x_stores_no_events(release: str) -> None:
    client = a_member(Bench(release=release))
    moved(client, 7)
    client.bench.broker.topics.require(OFFSET_MOVED_EVENT)
    assert client.bench.broker.store.max_offset(OFFSET_MOVED_EVENT, 0) == 0


async def test_where_there_is_no_room_the_pull_is_answered_all_the_same() -> None:
    disk = TinyDisk()
    client = a_member(Bench(disk, release=LAST_4))
    disk.bytes_max = 0
    for _ in range(30):  # more than the segment has room for
        moved(client, 7)
    assert len(events(client)) < 30
    client.bench.no_bugs()

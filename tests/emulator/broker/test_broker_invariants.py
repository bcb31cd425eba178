"""Invariants of restarts, offsets and searches by time, for the whole broker.

The tables have their own tests; here the frames of a client pass through the whole broker.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import PullAnswered
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import LockBatchRequestBody, SubscriptionGroupConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.protocol.requests.groups import GetConsumerListByGroupRequest
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from tests.support.broker.bench import EPOCH_MS, Bench, Client

LAST_4, LAST_5 = "4.9.7", "5.3.3"
SMALL = {"segment_bytes": 300_000, "message_bytes_max": 100_000, "retained_bytes_max": 600_000}


def committed(client: Client, topic: str = "Orders", queue_id: int = 0) -> int | None:
    """The committed offset of group g; None for "not found"."""
    header = QueryConsumerOffsetRequest(consumer_group="g", topic=topic, queue_id=queue_id)
    answer = client.must(catalog.QUERY_CONSUMER_OFFSET, header)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    assert answer.code == 0, answer.remark
    return answer.decode(OffsetReply).offset


def commit(client: Client, offset: int) -> None:
    header = UpdateConsumerOffsetRequest(
        consumer_group="g", topic="Orders", queue_id=0, commit_offset=offset
    )
    assert client.must(catalog.UPDATE_CONSUMER_OFFSET, header).code == 0


def searched(client: Client, at_ms: int) -> int:
    header = SearchOffsetRequest(topic="Orders", queue_id=0, timestamp=at_ms)
    answer = client.must(catalog.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return answer.decode(OffsetReply).offset


def make_topic(client: Client, name: str, reads: int, writes: int, perm: int) -> None:
    header = CreateTopicRequest(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=reads,
        write_queue_nums=writes,
        perm=perm,
        topic_filter_type="SINGLE_TAG",
    )
    assert client.must(catalog.UPDATE_AND_CREATE_TOPIC, header).code == 0


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
async def test_invariant_22_a_restart_keeps_topics_groups_and_messages_exactly(
    release: str,
) -> None:
    before = Bench(release=release)
    client = before.client()
    client.sent("Orders", b"kept")
    make_topic(client, "Odd", reads=6, writes=2, perm=4)
    client.heartbeat("c", topics={"Orders": "*"})
    custom = SubscriptionGroupConfig(group_name="custom", retry_max_times=3, consume_enable=False)
    body = encode_body(custom, before.broker.release)
    assert client.must(catalog.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body).code == 0
    tables = [catalog.GET_ALL_TOPIC_CONFIG, catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
    told = [client.must(rpc).body for rpc in tables]
    before.broker.close(before.now_ms())

    after = Bench(before.disk, release=release)
    client = after.client()
    assert [client.must(rpc).body for rpc in tables] == told
    client.heartbeat("c", topics={"Orders": "*"})
    assert [message.body for message in client.pulled("Orders")] == [b"kept"]


async def test_invariant_28_queue_offsets_go_on_after_a_restart() -> None:
    before = Bench()
    assert [before.client().sent("Orders").queue_offset for _ in range(3)] == [0, 1, 2]
    before.broker.close(before.now_ms())
    assert Bench(before.disk).client().sent("Orders").queue_offset == 3


@pytest.mark.parametrize(("release", "empty"), [(LAST_4, 0), (LAST_5, None)])
async def test_invariant_64_a_new_group_begins_at_0_while_the_first_message_is_there(
    release: str, empty: int | None
) -> None:
    bench = Bench(release=release, **SMALL)
    client = bench.client()
    client.sent("Orders")
    assert committed(client) == 0
    assert committed(client, queue_id=1) == empty
    while bench.broker.store.min_offset("Orders", 0) == 0:
        client.sent("Orders", bytes(90_000))
    assert committed(client) is None


@pytest.mark.parametrize("release", [LAST_4, LAST_5])
async def test_invariant_65_a_smaller_offset_counts_as_well(release: str) -> None:
    client = Bench(release=release).client()
    client.sent("Orders")
    client.heartbeat("c", topics={"Orders": "*"})
    commit(client, 7)
    assert committed(client) == 7
    commit(client, 3)
    assert committed(client) == 3


@pytest.mark.parametrize(
    ("release", "before", "between", "after"),
    [(LAST_4, 0, 1, 2), (LAST_5, 0, 2, 3)],  # messages at 0, 10 and 20 s; search at 14 s
)
async def test_invariant_70_a_search_by_time_finds_what_the_release_finds(
    release: str, before: int, between: int, after: int, autojump_clock: MockClock
) -> None:
    client = Bench(release=release).client()
    for _ in range(3):
        client.sent("Orders")
        await trio.sleep(10)
    assert searched(client, EPOCH_MS - 1) == before
    assert searched(client, EPOCH_MS + 14_000) == between
    assert searched(client, EPOCH_MS + 10**9) == after


async def test_invariant_74_a_crash_forgets_who_is_there_and_five_seconds_of_offsets(
    autojump_clock: MockClock,
) -> None:
    crashed = Bench()
    queue = MessageQueue("Orders", "broker-a", 0)
    async with trio.open_nursery() as nursery:
        crashed.start(nursery)
        client = crashed.client()
        client.sent("Orders", b"acknowledged")
        client.heartbeat("c", topics={"Orders": "*"})
        body = LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=[queue])
        client.must(catalog.LOCK_BATCH_MQ, None, encode_body(body, crashed.broker.release))
        commit(client, 1)
        await trio.sleep(16)
        commit(client, 2)
        nursery.cancel_scope.cancel()

    bench = Bench(crashed.disk)
    client = bench.client()
    header = GetConsumerListByGroupRequest(consumer_group="g")
    assert client.must(catalog.GET_CONSUMER_LIST_BY_GROUP, header).code == 1
    assert bench.broker.locks.owner("g", queue, bench.now_ms()) is None
    assert committed(client) == 1
    client.heartbeat("c", topics={"Orders": "*"})
    assert [message.body for message in client.pulled("Orders")] == [b"acknowledged"]


@pytest.mark.parametrize("crash_s", [15.0, 17.3, 19.9, 20.0, 21.9, 22.6, 27.8, 31.4])
async def test_invariant_74_a_crash_takes_offsets_back_by_five_seconds_at_most(
    crash_s: float, autojump_clock: MockClock
) -> None:
    crashed = Bench()
    committed_at_s: dict[int, float] = {}
    async with trio.open_nursery() as nursery:
        crashed.start(nursery)
        client = crashed.client()
        client.sent("Orders")
        began_s = trio.current_time()
        with trio.move_on_at(began_s + crash_s):
            for offset in range(1, 10_000):
                await trio.sleep(0.1)
                commit(client, offset)
                committed_at_s[offset] = trio.current_time() - began_s
        nursery.cancel_scope.cancel()
    kept = committed(Bench(crashed.disk).client())
    assert kept is not None
    assert kept >= max(n for n, at_s in committed_at_s.items() if at_s <= crash_s - 5)
    if crash_s % 5:
        written_s = crash_s // 5 * 5
        assert committed_at_s[kept] == pytest.approx(written_s, abs=0.15), "saved every 5 s"


async def test_invariant_74_a_pull_held_at_a_crash_is_forgotten() -> None:
    crashed = Bench()
    client = crashed.client()
    client.sent("Orders")
    client.heartbeat("c", topics={"Orders": "*"})
    assert client.pull("Orders", 1) is None
    held = client.last_opaque

    bench = Bench(crashed.disk)
    bench.client().sent("Orders", b"news")
    assert client.answer_to(held) is None
    assert bench.facts(PullAnswered) == []
    again = bench.client()
    again.heartbeat("c", topics={"Orders": "*"})
    assert [message.body for message in again.pulled("Orders", 1)] == [b"news"]


async def test_a_commit_makes_no_group_since_5_3_0() -> None:
    header = UpdateConsumerOffsetRequest(
        consumer_group="stranger", topic="TBW102", queue_id=0, commit_offset=1
    )
    for release, code in ((LAST_4, 0), ("5.2.0", 0), (LAST_5, 26)):
        bench = Bench(release=release)
        assert bench.client().must(catalog.UPDATE_CONSUMER_OFFSET, header).code == code
        assert bench.broker.groups.get("stranger") is None

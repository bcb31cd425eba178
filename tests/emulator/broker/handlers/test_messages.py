"""Requests of tools: find messages, query members of groups, clean the store."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.broker.store import reading
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.groups import ProducerTableInfo
from rocketmq_emulator.protocol.bodies.offsets import QueryCorrectionOffsetBody
from rocketmq_emulator.protocol.bodies.stats import (
    ConsumeStatsList,
    QueryConsumeQueueReply,
    QueryConsumeTimeSpanBody,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RESPONSE, RemotingCommand, encode_command, ext_of
from rocketmq_emulator.protocol.messages.records import decode_records
from rocketmq_emulator.protocol.messages.subscription import tag_code
from rocketmq_emulator.protocol.requests.admin import (
    QueryConsumeQueueRequest,
)
from rocketmq_emulator.protocol.requests.groups import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumeStatsInBrokerRequest,
    QueryConsumeTimeSpanRequest,
)
from rocketmq_emulator.protocol.requests.offsets import QueryCorrectionOffsetRequest
from rocketmq_emulator.protocol.requests.pulling import QueryMessageReply, QueryMessageRequest
from tests.support.broker.bench import EPOCH_MS, Bench, Client, fields_of

LONG_MAX = 2**63 - 1


def searched(client: Client, key: str, topic: str = "Orders", **fields: Any) -> RemotingCommand:
    given = {
        "topic": topic,
        "key": key,
        "max_num": 32,
        "begin_timestamp": 0,
        "end_timestamp": LONG_MAX,
        **fields,
    }
    return client.must(catalog.QUERY_MESSAGE, QueryMessageRequest(**given))


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


# QUERY_MESSAGE ----------------------------------------------------------------------------


async def test_a_message_is_found_by_its_unique_key_and_by_each_of_its_keys(
    autojump_clock: MockClock,
) -> None:
    client = Bench().client()
    client.sent("Orders", b"one", properties="KEYS\x01red blue\x02UNIQ_KEY\x01ID1")
    last = client.sent("Orders", b"two", properties="KEYS\x01blue\x02UNIQ_KEY\x01ID2", queue_id=1)
    client.sent("Others", b"three", properties="KEYS\x01blue\x02UNIQ_KEY\x01ID1")
    assert bodies(searched(client, "ID1")) == [b"one"]
    assert bodies(searched(client, "red")) == [b"one"]
    answer = searched(client, "blue")
    assert (answer.code, bodies(answer)) == (0, [b"one", b"two"])
    header = answer.decode(QueryMessageReply)
    assert header.index_last_update_timestamp == EPOCH_MS
    assert header.index_last_update_phyoffset > int(last.msg_id[-16:], 16)


async def test_a_key_that_a_message_has_twice_finds_it_twice() -> None:
    client = Bench().client()
    client.sent("Orders", b"one", properties="KEYS\x01k k\x02UNIQ_KEY\x01k")
    assert bodies(searched(client, "k")) == [b"one"] * 3
    assert bodies(searched(client, "k", max_num=2)) == [b"one"] * 2


async def test_a_key_nobody_has_is_not_found_and_the_remark_blames_the_time_range(
    autojump_clock: MockClock,
) -> None:
    client = Bench().client()
    client.sent("Orders", properties="KEYS\x01red")
    for answer in (
        searched(client, "re"),
        searched(client, "red", topic="Nowhere"),
        searched(client, "red", begin_timestamp=EPOCH_MS + 1),
        searched(client, "red", end_timestamp=EPOCH_MS - 1),
        searched(client, "red", max_num=0),
    ):
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "can not find message, maybe time range not correct"
        assert answer.decode(QueryMessageReply).index_last_update_phyoffset == 0


async def test_the_newest_64_are_found_and_32_by_a_unique_key() -> None:
    client = Bench().client()
    for n in range(70):
        client.sent("Orders", b"%d" % n, properties="KEYS\x01k")
    assert bodies(searched(client, "k", max_num=1_000)) == [b"%d" % n for n in range(6, 70)]
    assert len(bodies(searched(client, "k", max_num=1, unique_key_query=True))) == 32


async def test_a_long_search_lets_others_through_and_names_its_end(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(reading, "SEARCH_ENTRIES_MAX", 8_000)
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = bench.client()
        for _ in range(9_000):
            client.sent("Orders", b"", properties="KEYS\x01other")
        header = QueryMessageRequest(
            topic="Orders", key="k", max_num=1, begin_timestamp=0, end_timestamp=LONG_MAX
        )
        assert client.ask(catalog.QUERY_MESSAGE, header) is None
        number = client.last_opaque
        client.sent("Orders", b"meanwhile")
        await trio.sleep(1)
        answer = client.answer_to(number)
        assert answer is not None
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert "only the newest 8000 of the topic were searched" in (answer.remark or "")
        nursery.cancel_scope.cancel()


# QUERY_CONSUME_QUEUE ----------------------------------------------------------------------


def entries(client: Client, **fields: Any) -> RemotingCommand:
    given = {"topic": "Orders", "queue_id": 0, "index": 0, "count": 10, **fields}
    return client.must(catalog.QUERY_CONSUME_QUEUE, QueryConsumeQueueRequest(**given))


async def test_the_entries_of_a_queue_are_shown() -> None:
    client = Bench().client()
    for tag in ("A", "B", "C"):
        client.sent("Orders", properties=f"TAGS\x01{tag}")
    body = decode_body(entries(client, index=1, count=1).body, QueryConsumeQueueReply)
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    assert body.queue_data is not None
    assert [entry.tags_code for entry in body.queue_data] == [tag_code("B")]
    record = client.bench.broker.store.message_at(body.queue_data[0].physic_offset)
    assert record is not None
    assert record.queue_offset == 1


async def test_a_queue_or_an_index_that_is_not_there_is_named() -> None:
    client = Bench().client()
    client.sent("Orders")
    answer = entries(client, queue_id=7)
    assert (answer.code, answer.remark) == (1, "7@Orders is not exist!")
    answer = entries(client, index=1)
    assert (answer.code, answer.body) == (0, b"")
    assert answer.remark == "Index 1 of 0@Orders is not exist!"


async def test_a_group_s_subscription_is_shown_with_the_entries() -> None:
    client = Bench().client()
    client.sent("Orders")
    client.heartbeat("c", topics={"Orders": "A"})
    online = decode_body(entries(client, consumer_group="g").body, QueryConsumeQueueReply)
    assert online.subscription_data is not None
    assert (online.subscription_data.sub_string, online.filter_data) == ("A", "null")
    offline = decode_body(entries(client, consumer_group="h").body, QueryConsumeQueueReply)
    assert offline.filter_data == "h@Orders is not online!"


# Requests that a member answers -----------------------------------------------------------

RUNNING = GetConsumerRunningInfoRequest(consumer_group="g", client_id="c", jstack_enable=True)


def reply_to(client: Client, asked: RemotingCommand, body: bytes, code: int = 0) -> None:
    reply = RemotingCommand(
        code=code, flag=RESPONSE, opaque=asked.opaque, body=body, ext=ext_of(None)
    )
    client.endpoint.feed(encode_command(reply))


async def test_a_member_is_asked_for_its_state_and_its_answer_is_forwarded() -> None:
    bench = Bench()
    tool, member = bench.client(), bench.client()
    member.heartbeat("c", topics={"Orders": "*"})
    member.heard.clear()
    assert tool.ask(catalog.GET_CONSUMER_RUNNING_INFO, RUNNING) is None
    number = tool.last_opaque
    (asked,) = member.heard
    assert (asked.code, asked.fields()["jstackEnable"]) == (307, "true")
    reply_to(member, asked, b'{"mqTable":{{"queueId":0}:{}}}', code=7)
    answer = tool.answer_to(number)
    assert answer is not None
    assert (answer.code, answer.body) == (7, b'{"mqTable":{{"queueId":0}:{}}}')


async def test_a_member_consumes_a_stored_message_directly() -> None:
    bench = Bench(release="5.3.3")
    tool, member = bench.client(), bench.client()
    msg_id = tool.sent("Orders", b"again").msg_id
    member.heartbeat("c", topics={"Orders": "*"})
    member.heard.clear()
    header = ConsumeMessageDirectlyRequest(
        consumer_group="g", client_id="c", msg_id=msg_id, topic="Orders"
    )
    assert tool.ask(catalog.CONSUME_MESSAGE_DIRECTLY, header) is None
    (asked,) = member.heard
    assert bodies(asked) == [b"again"]
    assert asked.fields()["brokerName"] == "broker-a"
    assert (asked.fields()["topicSysFlag"], asked.fields()["groupSysFlag"]) == ("0", "0")


async def test_nobody_is_asked_who_is_not_online_or_too_old() -> None:
    bench = Bench()
    tool = bench.client()
    answer = tool.must(catalog.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert (answer.code, answer.remark) == (1, "The Consumer <g> <c> not online")
    bench.client(version=61).heartbeat("c", topics={"Orders": "*"})
    answer = tool.must(catalog.GET_CONSUMER_RUNNING_INFO, RUNNING)
    assert answer.code == 1
    assert "too low to finish" in (answer.remark or "")


@pytest.mark.parametrize("msg_id", ["", "xyz", "00" * 16, "7F000001" * 3])
async def test_no_message_is_consumed_directly_that_is_not_there(msg_id: str) -> None:
    bench = Bench()
    bench.client().heartbeat("c", topics={"Orders": "*"})
    header = ConsumeMessageDirectlyRequest(consumer_group="g", client_id="c", msg_id=msg_id)
    assert bench.client().must(catalog.CONSUME_MESSAGE_DIRECTLY, header).code == 1
    bench.no_bugs()


async def test_a_member_that_does_not_answer_within_ten_seconds_is_reported(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        tool, member = bench.client(), bench.client()
        member.heartbeat("c", topics={"Orders": "*"})
        tool.ask(catalog.GET_CONSUMER_RUNNING_INFO, RUNNING)
        number = tool.last_opaque
        await trio.sleep(9.9)
        assert tool.answer_to(number) is None
        await trio.sleep(0.2)
        answer = tool.answer_to(number)
        assert answer is not None
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        assert "consumer <g> <c> Timeout" in (answer.remark or "")
        nursery.cancel_scope.cancel()


async def test_a_member_that_leaves_meanwhile_is_reported_at_once() -> None:
    bench = Bench()
    tool, member = bench.client(), bench.client()
    member.heartbeat("c", topics={"Orders": "*"})
    tool.ask(catalog.GET_CONSUMER_RUNNING_INFO, RUNNING)
    member.close()
    answer = tool.answer_to(tool.last_opaque)
    assert answer is not None
    assert answer.code == 1
    assert "has ended" in (answer.remark or "")


# Groups -----------------------------------------------------------------------------------


async def test_all_producers_are_listed_by_group(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    client = bench.client()
    client.heartbeat("p1", producer="pg")
    answer = client.must(catalog.GET_ALL_PRODUCER_INFO)
    ((group, (info,)),) = decode_body(answer.body, ProducerTableInfo).data.items()
    assert group == "pg"
    assert fields_of(info) == {
        "client_id": "p1",
        "remote_ip": "/127.0.0.1:40001",
        "language": "JAVA",
        "version": 409,
        "last_update_timestamp": EPOCH_MS,
    }


def all_stats(client: Client, *, is_order: bool = False) -> ConsumeStatsList:
    header = GetConsumeStatsInBrokerRequest(is_order=is_order)
    answer = client.must(catalog.GET_BROKER_CONSUME_STATS, header)
    return decode_body(answer.body, ConsumeStatsList)


async def test_the_backlog_of_every_group_is_shown(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(release="5.3.3")
    client, commit = bench.client(), bench.broker.offsets.commit
    for _ in range(5):
        client.sent("Orders")
    client.heartbeat("c", topics={"Orders": "*"})
    commit("g", "Orders", 0, 3, EPOCH_MS)
    commit("g", "Gone", 0, 3, EPOCH_MS)
    found = all_stats(client)
    (group,) = [one["g"] for one in found.consume_stats_list if "g" in one]
    (stats,) = group
    offsets = {queue.queue_id: wrapper for queue, wrapper in stats.offset_table.items()}
    assert (offsets[0].broker_offset, offsets[0].consumer_offset) == (5, 3)
    assert offsets[0].last_timestamp == EPOCH_MS
    assert (found.broker_addr, found.total_diff) == (bench.broker.address, 2)
    assert all(
        stats == []
        for one in all_stats(client, is_order=True).consume_stats_list
        for stats in one.values()
    )


@pytest.mark.parametrize(("release", "corrected"), [("4.9.7", 7), ("5.3.3", LONG_MAX)])
async def test_a_correction_is_the_lowest_offset_of_the_groups_that_are_not_filtered(
    release: str, corrected: int
) -> None:
    bench = Bench(release=release)
    for group, offset in (("a", 9), ("b", 7), ("filtered", 2), ("me", 5)):
        bench.broker.offsets.commit(group, "Orders", 0, offset, EPOCH_MS)
    header = QueryCorrectionOffsetRequest(
        compare_group="me", topic="Orders", filter_groups="filtered,me"
    )
    answer = bench.client().must(catalog.QUERY_CORRECTION_OFFSET, header)
    assert decode_body(answer.body, QueryCorrectionOffsetBody).correction_offsets == {0: corrected}
    assert bench.broker.offsets.query("filtered", "Orders", 0) == 2


async def test_the_time_span_of_a_queue_says_how_old_the_next_message_is(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    client = bench.client()
    for _ in range(3):
        client.sent("Orders")
        await trio.sleep(1)
    bench.broker.offsets.commit("g", "Orders", 0, 2, bench.now_ms())
    header = QueryConsumeTimeSpanRequest(topic="Orders", group="g")
    answer = client.must(catalog.QUERY_CONSUME_TIME_SPAN, header)
    first = decode_body(answer.body, QueryConsumeTimeSpanBody).consume_time_span_set[0]
    times = (first.min_time_stamp, first.consume_time_stamp, first.max_time_stamp)
    assert times == (EPOCH_MS, EPOCH_MS + 1_000, EPOCH_MS + 2_000)
    assert first.delay_time == 1_000
    header = QueryConsumeTimeSpanRequest(topic="Nowhere", group="g")
    assert client.must(catalog.QUERY_CONSUME_TIME_SPAN, header).code == 17


# Cleaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("cleaned", "next_offset"), [(False, 1), (True, 0)])
async def test_a_queue_whose_messages_have_expired_starts_again_when_it_is_cleaned(
    cleaned: bool, next_offset: int, autojump_clock: MockClock
) -> None:
    bench = Bench(segment_bytes=192_000, message_bytes_max=60_000, retained_hours_max=1)
    client = bench.client()
    client.sent("Old", bytes(60_000))
    for _ in range(4):
        client.sent("Orders", bytes(60_000))
    assert client.must(catalog.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    await trio.sleep(2 * 3_600)
    assert client.must(catalog.DELETE_EXPIRED_COMMITLOG).code == 0
    if cleaned:
        assert client.must(catalog.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert client.sent("Old", b"").queue_offset == next_offset
    assert client.sent("Orders", b"").queue_offset == 4
    again = Bench(disk=bench.disk, segment_bytes=192_000, message_bytes_max=60_000)
    assert again.broker.store.max_offset("Old", 0) == next_offset + 1


async def test_queues_of_a_topic_that_is_no_longer_in_the_table_are_dropped() -> None:
    bench = Bench()
    client = bench.client()
    for topic in ("Orders", "Lost"):
        client.sent(topic)
    client.sent("Orders", properties="DELAY\x013")
    del bench.broker.topics.topic_config_table["Lost"]
    assert client.must(catalog.CLEAN_UNUSED_TOPIC).code == 0
    assert bench.broker.store.queue("Lost", 0) is None
    assert bench.broker.store.max_offset("Orders", 0) == 1
    assert bench.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1

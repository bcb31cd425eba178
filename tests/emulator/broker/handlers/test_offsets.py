"""Tools move, copy and read the offsets of groups."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import GroupOffsetMoved, MemberAnswerIgnored
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.offsets import (
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.command import (
    ONE_WAY,
    RESPONSE,
    RemotingCommand,
    encode_command,
    ext_of,
)
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.protocol.requests.groups import GetConsumerStatusRequest
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from tests.support.broker.bench import Bench, Client, next_offset
from tests.support.broker.store_makers import LAST_4, LAST_5

QUEUES = [MessageQueue("t", "broker-a", n) for n in range(2)]
HELD_MS = 15_000


def a_consumer(bench: Bench) -> Client:
    """A member of group g, which has committed 3 and 1 in queues of 3 and 1 messages."""
    client = bench.client()
    topic = CreateTopicRequest(
        topic="t", read_queue_nums=2, write_queue_nums=2, perm=6, topic_filter_type="SINGLE_TAG"
    )
    client.must(catalog.UPDATE_AND_CREATE_TOPIC, topic)
    for queue_id in (0, 0, 0, 1):
        client.sent("t", queue_id=queue_id)
    client.heartbeat("A", topics={"t": "*"})
    for queue_id, offset in enumerate((3, 1)):
        committed(client, queue_id, offset)
    return client


def committed(client: Client, queue_id: int, offset: int) -> RemotingCommand:
    return client.must(
        catalog.UPDATE_CONSUMER_OFFSET,
        UpdateConsumerOffsetRequest(
            consumer_group="g", topic="t", queue_id=queue_id, commit_offset=offset
        ),
    )


def offset_of(client: Client, queue_id: int = 0) -> int:
    query = QueryConsumerOffsetRequest(consumer_group="g", topic="t", queue_id=queue_id)
    return client.must(catalog.QUERY_CONSUMER_OFFSET, query).decode(OffsetReply).offset


def reset_to_the_begin(client: Client, **more: Any) -> RemotingCommand:
    request = ResetOffsetRequest(**{"topic": "t", "group": "g", "is_force": True, **more})
    return client.must(catalog.INVOKE_BROKER_TO_RESET_OFFSET, request)


def pull(client: Client, offset: int, **fields: Any) -> tuple[int, int]:
    answer = client.pull("t", offset, flags=0, **fields)
    assert answer is not None
    return answer.code, next_offset(answer)


async def test_invariant_68_each_queue_s_next_pull_takes_a_reset_once_commits_wait() -> None:
    bench = Bench(release=LAST_5)
    client = a_consumer(bench)
    answer = reset_to_the_begin(client, queue_id=-1)
    table = decode_body(answer.body, ResetOffsetBody).offset_table
    assert (answer.code, table) == (0, dict.fromkeys(QUEUES, 0))
    for queue_id, end in enumerate((3, 1)):
        early = committed(client, queue_id, end)
        assert (early.code, early.remark) == (0, "Offset has been previously reset")
        assert offset_of(client, queue_id) == 0
        moved = ResponseCode.PULL_OFFSET_MOVED
        assert pull(client, end, queue_id=queue_id) == (moved, 0)
        assert pull(client, 0, queue_id=queue_id) == (0, end)
        committed(client, queue_id, end)
        assert offset_of(client, queue_id) == end
    assert {fact.by for fact in bench.facts(GroupOffsetMoved)} == {"broker"}
    bench.no_bugs()


async def test_invariant_69_on_4_x_a_group_nobody_is_in_is_not_reset() -> None:
    bench = Bench(release=LAST_4)
    client = a_consumer(bench)
    client.close()
    tool = bench.client()
    assert reset_to_the_begin(tool).code == ResponseCode.CONSUMER_NOT_ONLINE
    assert [offset_of(tool, n) for n in (0, 1)] == [3, 1]


async def test_a_group_nobody_is_in_is_reset_since_5_2() -> None:
    bench = Bench(release=LAST_5)
    client = a_consumer(bench)
    client.close()
    tool = bench.client()
    assert reset_to_the_begin(tool).code == 0
    assert [offset_of(tool, n) for n in (0, 1)] == [0, 0]


async def test_a_pull_that_is_held_takes_the_reset_when_its_time_is_over(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(release=LAST_5)
        bench.start(nursery)
        client = a_consumer(bench)
        assert client.pull("t", 3) is None
        held = client.last_opaque
        reset_to_the_begin(client)
        await trio.sleep(20)
        answer = client.answer_to(held)
        assert answer is not None
        assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_OFFSET_MOVED, 0)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("release", "settings"), [(LAST_4, {}), (LAST_5, {"server_side_reset": False})]
)
async def test_members_are_asked_to_move_themselves_where_the_broker_does_not(
    release: str, settings: dict[str, Any]
) -> None:
    bench = Bench(release=release, **settings)
    client = a_consumer(bench)
    answer = reset_to_the_begin(bench.client())
    (asked,) = [c for c in client.heard if c.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
    assert (asked.flag, asked.fields()["group"], asked.fields()["topic"]) == (ONE_WAY, "g", "t")
    table = dict.fromkeys(QUEUES, 0)
    assert decode_body(asked.body, ResetOffsetBody).offset_table == table
    assert decode_body(answer.body, ResetOffsetBody).offset_table == table
    assert [offset_of(client, n) for n in (0, 1)] == [3, 1]


async def test_a_tool_that_names_cpp_has_members_asked_with_a_list() -> None:
    bench = Bench(release=LAST_4)
    client, tool = a_consumer(bench), bench.client()
    request = ResetOffsetRequest(topic="t", group="g", is_force=True)
    code = catalog.INVOKE_BROKER_TO_RESET_OFFSET.code
    answer = tool.say(RemotingCommand(code=code, language="CPP", ext=ext_of(request)))
    assert answer is not None
    asked = client.heard[-1]
    rows = decode_body(asked.body, ResetOffsetBodyForC).offset_table
    assert [(row.topic, row.queue_id, row.offset) for row in rows] == [("t", 0, 0), ("t", 1, 0)]
    assert decode_body(answer.body, ResetOffsetBody).offset_table == dict.fromkeys(QUEUES, 0)


async def test_a_reset_that_is_not_forced_only_goes_back() -> None:
    bench = Bench(release=LAST_4)
    client = a_consumer(bench)
    committed(client, 0, 1)
    answer = reset_to_the_begin(client, is_force=False, timestamp=-1)
    table = decode_body(answer.body, ResetOffsetBody).offset_table
    assert table == {QUEUES[0]: 1, QUEUES[1]: 1}


async def test_the_status_of_a_group_is_what_each_member_answers_and_silence_is_left_out(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(release=LAST_4)
        bench.start(nursery)
        first, silent, tool = a_consumer(bench), bench.client(), bench.client()
        silent.heartbeat("B", topics={"t": "*"})
        request = GetConsumerStatusRequest(topic="t", group="g")
        assert tool.ask(catalog.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, request) is None
        answer_status(first, {QUEUES[0]: 2})
        await trio.sleep(6)
        answer = tool.answer_to(tool.last_opaque)
        assert answer is not None
        body = decode_body(answer.body, GetConsumerStatusBody)
        assert body.consumer_table == {"A": {QUEUES[0]: 2}}
        nursery.cancel_scope.cancel()


async def test_an_answer_of_a_member_that_cannot_be_read_is_left_out_with_a_fact() -> None:
    bench = Bench(release=LAST_4)
    member, tool = a_consumer(bench), bench.client()
    request = GetConsumerStatusRequest(topic="t", group="g")
    tool.ask(catalog.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, request)
    answer_with(member, b"no JSON")
    answer = tool.answer_to(tool.last_opaque)
    assert answer is not None
    assert decode_body(answer.body, GetConsumerStatusBody).consumer_table == {}
    (ignored,) = bench.facts(MemberAnswerIgnored)
    assert (ignored.group, ignored.client, ignored.severity) == ("g", "A", "warning")


def answer_status(client: Client, table: dict[MessageQueue, int]) -> None:
    body = GetConsumerStatusBody(message_queue_table=table)
    answer_with(client, encode_body(body, client.bench.broker.release))


def answer_with(client: Client, body: bytes) -> None:
    asked = client.heard[-1]
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    reply = RemotingCommand(code=0, flag=RESPONSE, opaque=asked.opaque, body=body)
    client.endpoint.feed(encode_command(reply))

"""The broker assigns queues to members, and keeps the request modes of groups."""

from __future__ import annotations

import pytest

from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body, encode_body
from rocketmq_emulator.protocol.bodies.running import (
    QueryAssignmentReply,
    QueryAssignmentRequestBody,
    SetMessageRequestModeBody,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.settings.releases import R_5_3_3
from tests.support.broker.bench import Bench, Client

QUEUES = [MessageQueue("Orders", "broker-a", number) for number in range(4)]


def assigned(client: Client, client_id: str, **fields: str) -> list[int] | None:
    """The assigned queue ids; None if the answer has no list."""
    given = {
        "topic": "Orders",
        "consumer_group": "g",
        "client_id": client_id,
        "strategy_name": "AVG",
        "message_model": "CLUSTERING",
        **fields,
    }
    body = encode_body(QueryAssignmentRequestBody(**given), R_5_3_3)
    answer = client.must(catalog.QUERY_ASSIGNMENT, None, body)
    assert answer.code == 0, answer.remark
    found = decode_body(answer.body, QueryAssignmentReply).message_queue_assignments
    if found is None:
        return None
    assert {one.mode for one in found} <= {"PULL"}
    return [one.message_queue.queue_id for one in found if one.message_queue is not None]


def a_bench() -> tuple[Bench, Client]:
    bench = Bench(release="5.3.3")
    bench.broker.routes.subscribe_info["Orders"] = list(QUEUES)
    for client_id in ("b", "a"):
        bench.client().heartbeat(client_id, topics={"Orders": "*"})
    return bench, bench.client()


@pytest.mark.parametrize(("strategy", "of_a"), [("AVG", [0, 1]), ("AVG_BY_CIRCLE", [0, 2])])
async def test_members_get_their_share_by_the_strategy_they_name(
    strategy: str, of_a: list[int]
) -> None:
    _, client = a_bench()
    assert assigned(client, "a", strategy_name=strategy) == of_a
    of_b = [number for number in range(4) if number not in of_a]
    assert assigned(client, "b", strategy_name=strategy) == of_b


async def test_who_is_no_member_gets_nothing_and_a_broadcasting_one_everything() -> None:
    _, client = a_bench()
    assert assigned(client, "stranger") == []
    assert assigned(client, "a", message_model="BROADCASTING") == [0, 1, 2, 3]


async def test_a_client_keeps_what_it_has_where_the_broker_cannot_tell() -> None:
    _, client = a_bench()
    assert assigned(client, "a", topic="Nowhere") is None
    assert assigned(client, "a", consumer_group="nobody") is None
    assert assigned(client, "a", strategy_name="CONSISTENT_HASH") is None
    assert assigned(client, "") is None


def set_mode(client: Client, **fields: str) -> int:
    given = {"topic": "Orders", "consumer_group": "g", "mode": "PULL", **fields}
    body = encode_body(SetMessageRequestModeBody(**given), R_5_3_3)
    return client.must(catalog.SET_MESSAGE_REQUEST_MODE, None, body).code


async def test_a_request_mode_outlives_its_broker() -> None:
    disk = MemoryDisk()
    client = Bench(disk, release="5.3.3").client()
    client.sent("Orders")
    assert set_mode(client) == 0
    kept = Bench(disk, release="5.3.3").broker.request_modes.get("Orders", "g")
    assert kept is not None
    assert kept.mode == "PULL"


async def test_no_request_mode_is_set_for_what_is_not_there_and_none_but_pull() -> None:
    bench = Bench(release="5.3.3", auto_create_group=False)
    client = bench.client()
    client.sent("Orders")
    assert set_mode(client, topic="%RETRY%g") == ResponseCode.NO_PERMISSION
    assert set_mode(client, topic="Nowhere") == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode(client) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    code = set_mode(client, consumer_group="TOOLS_CONSUMER", mode="POP")
    assert code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert bench.broker.request_modes.get("Orders", "TOOLS_CONSUMER") is None


async def test_a_new_request_mode_is_refused_if_the_table_is_full() -> None:
    bench = Bench(release="5.3.3", request_modes_max=1)
    client = bench.client()
    for topic in ("Orders", "Bills"):
        client.sent(topic)
    assert set_mode(client) == 0
    assert set_mode(client, topic="Bills") == ResponseCode.SYSTEM_BUSY
    assert bench.broker.request_modes.get("Bills", "g") is None
    assert set_mode(client, pop_share_queue_num=2) == 0  # a pair that is known
    assert bench.broker.request_modes.get("Orders", "g").pop_share_queue_num == 2

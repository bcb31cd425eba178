"""Pulls of groups that subscribe by an SQL92 expression."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import MisuseNoticed
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.groups import CheckClientRequestBody
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.flags import SUBSCRIPTION
from rocketmq_emulator.protocol.messages.subscription import SQL92, build_subscription
from rocketmq_emulator.protocol.requests.groups import UnregisterClientRequest
from tests.protocol.sql92.test_sql92_limits import TOO_LARGE
from tests.support.broker.bench import Bench, Client, next_offset

DEAR = "price > 5"
NO_FILTER = "The broker's consumer filter data is not exist!Your expression may be wrong!"


def priced(client: Client, *prices: int) -> None:
    for price in prices:
        client.sent("Orders", b"%d" % price, properties=f"price\x01{price}\x02UNIQ_KEY\x01{price}")


def a_consumer(bench: Bench, expression: str = DEAR, version: int = 1) -> Client:
    client = bench.client()
    client.heartbeat("c", topics={"Orders": (expression, SQL92)}, version=version)
    return client


async def test_a_group_gets_the_messages_that_its_expression_matches() -> None:
    bench = Bench(property_filter=True)
    client = bench.client()
    priced(client, 3, 7, 5, 9)
    client.sent("Orders", b"none")
    consumer = a_consumer(bench)
    assert [record.body for record in consumer.pulled("Orders")] == [b"7", b"9"]
    answer = consumer.pull("Orders", flags=0)
    assert answer is not None
    assert next_offset(answer) == 5, "a filter passes over what it left out"
    nothing = consumer.pull("Orders", 4, flags=0)
    assert nothing is not None
    assert nothing.code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_a_pull_that_carries_an_expression_needs_no_heartbeat() -> None:
    bench = Bench(property_filter=True)
    client = bench.client()
    priced(client, 3, 7)
    carried = {"flags": SUBSCRIPTION, "expression_type": SQL92}
    answer = client.pull("Orders", subscription=DEAR, **carried)
    assert answer is not None
    assert (answer.code, b"7" in answer.body, b"\x003" in answer.body) == (0, True, False)
    # Upstream's assertion against this is off: everything is delivered.
    broken = client.pull("Orders", subscription="price >", **carried)
    assert broken is not None
    assert (broken.code, next_offset(broken)) == (0, 2)


@pytest.mark.parametrize("expression", ["price >", "price > NULL"])
async def test_a_group_whose_expression_is_wrong_is_told_so_by_its_pulls(expression: str) -> None:
    bench = Bench(property_filter=True)
    consumer = a_consumer(bench, expression)
    priced(consumer, 7)
    answer = consumer.pull("Orders", flags=0)
    assert answer is not None
    assert (answer.code, answer.remark) == (ResponseCode.FILTER_DATA_NOT_EXIST, NO_FILTER)


async def test_a_held_pull_waits_for_a_message_that_matches() -> None:
    bench = Bench(property_filter=True)
    consumer = a_consumer(bench)
    priced(consumer, 3)
    assert consumer.pull("Orders", 1, sub_version=1) is None
    held, other = consumer.last_opaque, bench.client()
    priced(other, 4)
    assert consumer.answer_to(held) is None, "4 does not match"
    priced(other, 8)
    answer = consumer.answer_to(held)
    assert answer is not None
    assert (answer.code, next_offset(answer)) == (ResponseCode.SUCCESS, 3)


async def test_a_new_version_replaces_an_expression_and_an_older_one_does_not() -> None:
    bench = Bench(property_filter=True)
    priced(bench.client(), 3, 7)
    a_consumer(bench, "price < 5", version=2)
    consumer = a_consumer(bench, DEAR, version=1)
    assert [record.body for record in consumer.pulled("Orders", sub_version=1)] == [b"3"]
    newer = a_consumer(bench, DEAR, version=3)
    assert [record.body for record in newer.pulled("Orders", sub_version=3)] == [b"7"]
    a_consumer(bench, "price >", version=4)
    answer = newer.pull("Orders", flags=0, sub_version=4)
    assert answer is not None
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST, "the old filter is gone"


async def test_a_broker_without_property_filters_refuses_a_registered_group() -> None:
    bench = Bench()
    consumer = a_consumer(bench)
    priced(consumer, 7)
    answer = consumer.pull("Orders", flags=0)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "The broker does not support consumer to filter message by SQL92"


@pytest.mark.parametrize(
    ("expression", "is_on", "code"),
    [
        (DEAR, True, ResponseCode.SUCCESS),
        ("price >", True, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (DEAR, False, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_client_can_ask_whether_its_expression_is_read(expression, is_on, code) -> None:
    bench = Bench(property_filter=is_on)
    assert checked(bench.client(), expression).code == code


def checked(client: Client, expression: str) -> RemotingCommand:
    """The answer to CHECK_CLIENT_CONFIG."""
    data = build_subscription("Orders", expression, SQL92)
    body = CheckClientRequestBody(client_id="c", group="g", subscription_data=data)
    text = encode_body(body, client.bench.broker.release)
    return client.must(catalog.CHECK_CLIENT_CONFIG, None, text)


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_an_expression_beyond_a_limit_is_refused_and_harms_no_other_group(
    name: str,
) -> None:
    expression, limit = TOO_LARGE[name]
    bench = Bench(property_filter=True)
    well, hostile = a_consumer(bench), bench.client()
    priced(well, 3, 7)
    answer = checked(hostile, expression)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert limit in (answer.remark or "")
    topics = {"Orders": (expression, SQL92)}
    assert hostile.heartbeat("h", "hostile", topics).code == ResponseCode.SUCCESS
    told = hostile.pull("Orders", flags=0, consumer_group="hostile")
    assert told is not None
    assert told.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert [record.body for record in well.pulled("Orders")] == [b"7"]
    assert bench.broker.filters.get("Orders", "hostile") is None
    bench.no_bugs()


@pytest.mark.parametrize(
    ("release", "is_on", "expected"),
    [
        ("5.1.3", True, [b"7", b"1"]),
        ("5.1.4", True, [b"3", b"7", b"1"]),
        ("4.9.7", True, [b"7", b"1"]),
        ("4.9.7", False, [b"3", b"7", b"1"]),
    ],
)
async def test_retried_messages_are_filtered_by_the_expression_of_their_topic_before_5_1_4(
    release: str, is_on: bool, expected: list[bytes]
) -> None:
    bench = Bench(property_filter=True, filter_retries=is_on, release=release)
    consumer = bench.client()
    topics = {"Orders": (DEAR, SQL92), "%RETRY%g": "*"}
    consumer.heartbeat("c", topics=topics)
    for price, topic in ((3, "Orders"), (7, "Orders"), (1, "Elsewhere")):
        properties = f"price\x01{price}\x02RETRY_TOPIC\x01{topic}"
        consumer.sent("%RETRY%g", b"%d" % price, properties=properties)
    assert [record.body for record in consumer.pulled("%RETRY%g")] == expected


async def test_a_group_whose_last_member_leaves_has_a_dead_filter() -> None:
    bench = Bench(property_filter=True)
    first, last = a_consumer(bench), a_consumer(bench)
    filters = bench.broker.filters
    first.close()
    assert not filters.get("Orders", "g").is_dead
    header = UnregisterClientRequest(client_id="c", consumer_group="g")
    last.must(catalog.UNREGISTER_CLIENT, header)
    assert filters.get("Orders", "g").is_dead
    third = a_consumer(bench)
    assert not filters.get("Orders", "g").is_dead
    third.close()
    assert filters.get("Orders", "g").is_dead


async def test_filters_are_saved_every_ten_seconds_and_when_the_broker_stops(
    autojump_clock: MockClock,
) -> None:
    bench = Bench(property_filter=True)
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        a_consumer(bench)
        await trio.sleep(10.5)
        written = bench.disk.read("consumerFilter.json")
        assert written is not None
        assert b'"expression":"price > 5"' in written
        a_consumer(bench, "price > 6", version=2)
        bench.broker.close(bench.clock.now_ms())
        assert b'"expression":"price > 6"' in (bench.disk.read("consumerFilter.json") or b"")
        nursery.cancel_scope.cancel()


async def test_a_broker_that_does_not_filter_warns_once_and_names_its_setting() -> None:
    bench = Bench()
    body = CheckClientRequestBody(
        client_id="c", group="g", subscription_data=build_subscription("Orders", DEAR, SQL92)
    )
    data = encode_body(body, bench.broker.release)
    for _ in range(2):
        bench.client().must(catalog.CHECK_CLIENT_CONFIG, body=data)
    a_consumer(bench)
    (noticed,) = bench.facts(MisuseNoticed)
    assert (noticed.misuse, noticed.group, noticed.topic) == ("property_filter_off", "g", "Orders")
    bench = Bench(property_filter=True)
    a_consumer(bench)
    assert bench.facts(MisuseNoticed) == []

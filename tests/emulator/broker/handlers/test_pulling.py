"""Pulls: which are held, for how long, and what wakes them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketmq_emulator.facts import OffsetCommitted, PullAnswered, PullHeld
from rocketmq_emulator.protocol.bodies.groups import SubscriptionGroupConfig
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from rocketmq_emulator.protocol.messages.batch import BatchMessage, encode_batch
from rocketmq_emulator.protocol.messages.records import decode_records
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from tests.support.broker.bench import Bench, Client, next_offset


def a_consumer(bench: Bench, topics: dict[str, str] | None = None) -> Client:
    client = bench.client()
    client.sent("Orders", properties="TAGS\x01TagA")
    client.heartbeat("c", topics=topics or {"Orders": "*"})
    return client


async def test_invariant_45_a_held_pull_is_answered_between_15_and_20_seconds(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        await trio.sleep(2)  # a time between two sweeps
        client = a_consumer(bench)
        assert client.pull("Orders", 1) is None
        held = client.last_opaque
        await trio.sleep(14.99)
        assert client.answer_to(held) is None
        await trio.sleep(5.02)
        answer = client.answer_to(held)
        assert answer is not None
        assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_NOT_FOUND, 1)
        [fact] = bench.facts(PullHeld)
        assert 15_000 <= fact.until_ms - (bench.clock.now_ms() - 20_010) <= 20_000
        nursery.cancel_scope.cancel()


async def test_a_held_pull_is_no_slow_answer(autojump_clock: MockClock) -> None:
    bench = Bench()
    answered = []
    bench.server.chain.observer = answered.append
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = a_consumer(bench)
        assert client.pull("Orders", 1) is None
        await trio.sleep(21)
        last = answered[-1]
        assert (last.command.code, last.held_on_purpose) == (RequestCode.PULL_MESSAGE, True)
        nursery.cancel_scope.cancel()


async def test_invariant_46_without_the_suspend_bit_nothing_new_is_said_at_once() -> None:
    client = a_consumer(Bench())
    answer = client.pull("Orders", 1, flags=0)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_NOT_FOUND


async def test_invariant_47_a_matching_message_wakes_a_held_pull_at_once() -> None:
    bench = Bench()
    client = a_consumer(bench)
    client.pull("Orders", 1)
    held = client.last_opaque
    bench.client().sent("Orders", b"news")
    answer = client.answer_to(held)
    assert answer is not None
    assert answer.code == 0
    assert b"news" in answer.body


def a_batch(tags: list[str]) -> bytes:
    members = [
        BatchMessage(b"m%d" % n, b"TAGS\x01%b" % tag.encode()) for n, tag in enumerate(tags)
    ]
    return encode_batch(members)


@pytest.mark.parametrize("expression", ["*", "TagA || TagB", "TagC"])
async def test_a_held_pull_wakes_once_for_a_whole_batch(expression: str) -> None:
    bench = Bench()
    client = a_consumer(bench, {"Orders": expression})
    client.pull("Orders", 1)
    held = client.last_opaque
    tags = ["TagA", "TagB", "TagC", *["TagA"] * 7]  # one expression matches only the third of ten
    bench.client().sent("Orders", a_batch(tags), batch=True)
    answer = client.answer_to(held)
    assert answer is not None
    wanted = [tag for tag in tags if expression == "*" or tag in expression]
    assert [m.property_map()["TAGS"] for m in decode_records(answer.body)] == wanted
    [fact] = bench.facts(PullAnswered)
    assert fact.message_count == len(wanted)
    assert bench.server.bells.held_count == 0


async def test_a_batch_nobody_wants_is_seen_by_the_next_sweep_only(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = a_consumer(bench, {"Orders": "TagD"})
        client.pull("Orders", 1)
        held = client.last_opaque
        await trio.sleep(1)
        bench.client().sent("Orders", a_batch(["TagA"] * 10), batch=True)
        assert client.answer_to(held) is None
        await trio.sleep(4.01)
        answer = client.answer_to(held)
        assert answer is not None
        assert next_offset(answer) == 11
        nursery.cancel_scope.cancel()


async def test_sends_that_are_read_together_wake_a_held_pull_once() -> None:
    bench = Bench()
    client = a_consumer(bench)
    client.pull("Orders", 1)
    held = client.last_opaque
    with bench.server.batch():
        for _ in range(10):
            bench.client().post("Orders")
    answer = client.answer_to(held)
    assert answer is not None
    assert len(decode_records(answer.body)) == 10


async def test_invariant_47_another_tag_is_seen_by_the_next_sweep_only(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    async with trio.open_nursery() as nursery:
        bench.start(nursery)
        client = a_consumer(bench, {"Orders": "TagA"})
        client.pull("Orders", 1)
        held = client.last_opaque
        await trio.sleep(1)
        bench.client().sent("Orders", properties="TAGS\x01TagB")
        assert client.answer_to(held) is None
        await trio.sleep(4.01)
        answer = client.answer_to(held)
        assert answer is not None
        assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("queue_id", "offset", "code", "goes_to"),
    [
        (0, 9, ResponseCode.PULL_OFFSET_MOVED, 1),
        (1, 7, ResponseCode.PULL_OFFSET_MOVED, 0),
        (1, 0, ResponseCode.PULL_NOT_FOUND, 0),
    ],
)
async def test_invariant_48_offsets_out_of_range_are_corrected(
    queue_id: int, offset: int, code: int, goes_to: int
) -> None:
    client = a_consumer(Bench())
    answer = client.pull("Orders", offset, flags=0, queue_id=queue_id)
    assert answer is not None
    assert (answer.code, next_offset(answer)) == (code, goes_to)


async def test_invariant_48_an_offset_before_the_first_message_is_corrected() -> None:
    bench = Bench(segment_bytes=300_000, message_bytes_max=100_000, retained_bytes_max=600_000)
    client = a_consumer(bench)
    while (first := bench.broker.store.min_offset("Orders", 0)) == 0:
        client.sent("Orders", bytes(90_000))
    answer = client.pull("Orders", first - 1)
    assert answer is not None
    assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_OFFSET_MOVED, first)


async def test_invariant_48_the_start_of_a_queue_never_written_is_waited_for() -> None:
    bench = Bench()
    client = a_consumer(bench)
    assert client.pull("Orders", 0, queue_id=1) is None
    held = client.last_opaque
    client.sent("Orders", b"first", queue_id=1)
    answer = client.answer_to(held)
    assert answer is not None
    assert [message.body for message in decode_records(answer.body)] == [b"first"]


async def test_invariant_49_no_more_than_32_messages_at_once() -> None:
    bench = Bench()
    client = a_consumer(bench)
    for _ in range(50):
        client.sent("Orders", b"x")
    assert len(client.pulled("Orders", max_msg_nums=1_000)) == 32


async def test_invariant_50_one_filtered_pull_examines_800_entries() -> None:
    bench = Bench()
    client = a_consumer(bench, {"Orders": "TagA"})
    for _ in range(900):
        client.sent("Orders", b"x", properties="TAGS\x01TagB")
    answer = client.pull("Orders", 1, flags=0)
    assert answer is not None
    assert (answer.code, next_offset(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 801)


@pytest.mark.parametrize(("release", "code"), [("4.9.7", 1), ("5.3.3", 29)])
async def test_invariant_51_a_queue_beyond_the_read_count_is_refused(
    release: str, code: int
) -> None:
    answer = a_consumer(Bench(release=release)).pull("Orders", queue_id=4)
    assert answer is not None
    assert answer.code == code


async def test_invariant_51_permissions_of_topic_and_group_are_asked() -> None:
    bench = Bench()
    client = a_consumer(bench, {"Orders": "*", "Closed": "*"})
    closed = TopicConfig(topic_name="Closed", read_queue_nums=1, write_queue_nums=1, perm=2)
    bench.broker.topics.update(closed, bench.now_ms())
    bench.broker.groups.update(
        SubscriptionGroupConfig(group_name="asleep", consume_enable=False), bench.now_ms()
    )
    pulls: list[tuple[dict[str, Any], int]] = [
        ({"topic": "Closed"}, ResponseCode.NO_PERMISSION),
        ({"topic": "Orders", "consumer_group": "asleep"}, ResponseCode.NO_PERMISSION),
        ({"topic": "Nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
    ]
    for fields, code in pulls:
        answer = client.pull(**fields)
        assert answer is not None
        assert answer.code == code


async def test_invariant_52_who_did_not_say_what_he_consumes_gets_nothing() -> None:
    bench = Bench()
    bench.client().sent("Orders")
    stranger = bench.client()
    answer = stranger.pull("Orders", flags=0)
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    stranger.heartbeat("c", topics={"Other": "*"})
    answer = stranger.pull("Orders", flags=0)
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    stranger.heartbeat("c", topics={"Orders": "*"}, version=5)
    answer = stranger.pull("Orders", flags=0, sub_version=6)
    assert answer is not None
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST


async def test_a_pull_may_carry_its_own_subscription() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("Orders", b"a", properties="TAGS\x01TagA")
    client.sent("Orders", b"b", properties="TAGS\x01TagB")
    stored = client.pull(
        "Orders", flags=SUBSCRIPTION, subscription="TagB || TagC", expression_type="TAG"
    )
    assert stored is not None
    assert b"TagB" in stored.body
    assert b"TagA" not in stored.body
    broken = client.pull("Orders", flags=SUBSCRIPTION, subscription="||")
    assert broken is not None
    assert broken.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    many = client.pull("Orders", flags=SUBSCRIPTION, subscription="a||" * 10_000 + "a")
    assert many is not None
    assert many.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert many.remark == "a subscription to 10001 tags: the limit is 10000"


async def test_a_broker_without_property_filters_says_so() -> None:
    client = Bench().client()
    client.sent("Orders")
    answer = client.pull(
        "Orders", flags=SUBSCRIPTION, subscription="a > 1", expression_type="SQL92"
    )
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "SQL92" in str(answer.remark)


async def test_a_broker_with_slaves_sends_who_is_far_behind_to_one() -> None:
    client = a_consumer(Bench(slave_read=True, behind_bytes_max=500))
    for _ in range(5):
        client.sent("Orders", bytes(100))
    suggested = []
    for offset in (0, 4):
        answer = client.pull("Orders", offset, flags=0, max_msg_nums=1)
        assert answer is not None
        suggested.append(answer.decode(PullMessageReply).suggest_which_broker_id)
    assert suggested == [1, 0]


async def test_a_commit_that_a_pull_carries_is_a_fact_when_it_is_news() -> None:
    bench = Bench()
    client = a_consumer(bench)
    for offset in (1, 1, 2):
        client.pull("Orders", flags=COMMIT_OFFSET, commit_offset=offset)
    assert [fact.offset for fact in bench.facts(OffsetCommitted)] == [1, 2]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (0, ResponseCode.SUCCESS),
        (1, ResponseCode.PULL_RETRY_IMMEDIATELY),  # no message has the tag
        (2, ResponseCode.PULL_NOT_FOUND),
        (7, ResponseCode.PULL_OFFSET_MOVED),
    ],
)
async def test_invariant_54_nobody_is_sent_to_a_slave(
    offset: int, code: int, release: str
) -> None:
    bench = Bench(release=release, behind_bytes_max=0, slave_read=False)  # all are far behind
    client = a_consumer(bench, {"Orders": "TagA"})
    client.sent("Orders", properties="TAGS\x01TagB")
    client.sent("Orders2")  # another topic, so that the log is ahead of this queue
    answer = client.pull("Orders", offset, flags=0)
    assert answer is not None
    assert answer.code == code
    assert answer.fields()["suggestWhichBrokerId"] == "0"
    assert answer.decode(PullMessageReply).suggest_which_broker_id == 0


async def test_invariant_55_a_pull_that_is_held_has_committed_already() -> None:
    bench = Bench()
    client = a_consumer(bench)
    assert client.pull("Orders", 1, flags=SUSPEND | COMMIT_OFFSET, commit_offset=1) is None
    assert bench.broker.offsets.query("g", "Orders", 0) == 1


async def test_a_held_pull_whose_topic_is_closed_meanwhile_hears_so() -> None:
    bench = Bench()
    client = a_consumer(bench)
    client.pull("Orders", 1)
    held = client.last_opaque
    closed = TopicConfig(topic_name="Orders", read_queue_nums=4, write_queue_nums=4, perm=2)
    bench.broker.topics.update(closed, bench.now_ms())
    client.sent("Orders")
    answer = client.answer_to(held)
    assert answer is not None
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_the_late_answer_to_a_closed_connection_is_dropped() -> None:
    bench = Bench()
    client = a_consumer(bench)
    client.pull("Orders", 1)
    held = client.last_opaque
    client.close()
    bench.client().sent("Orders")
    assert client.answer_to(held) is None
    bench.no_bugs()


async def test_facts_of_a_pull_say_what_it_got() -> None:
    bench = Bench()
    a_consumer(bench).pull("Orders", flags=0)
    [fact] = bench.facts(PullAnswered)
    assert (fact.response_code, fact.message_count, fact.next_offset) == (0, 1, 1)


async def test_held_pulls_have_a_limit() -> None:
    bench = Bench(held_pulls_max=2)
    client = a_consumer(bench)
    assert client.pull("Orders", 1) is None
    assert client.pull("Orders", 1) is None
    answer = client.pull("Orders", 1)
    assert answer is not None
    assert answer.code == ResponseCode.SYSTEM_BUSY


async def test_a_pull_whose_asker_has_gone_makes_room_for_another() -> None:
    bench = Bench(held_pulls_max=1)
    first, second = a_consumer(bench), a_consumer(bench)
    assert first.pull("Orders", 2) is None
    refused = second.pull("Orders", 2)
    assert refused is not None
    assert refused.code == ResponseCode.SYSTEM_BUSY
    first.close()
    assert second.pull("Orders", 2) is None
    second.sent("Orders")
    assert bench.facts(PullAnswered)[-1].next_offset == 3
    assert bench.server.bells.held_count == 0

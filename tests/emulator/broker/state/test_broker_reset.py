"""A reset broker has the state of a new one, except for connected clients."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import msgspec
import pytest

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.state.consistency import reset_broker
from rocketmq_emulator.facts import BrokerReset
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.running import SetMessageRequestModeBody
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.flags import COMMIT_OFFSET
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from rocketmq_emulator.protocol.requests.pulling import PullMessageReply
from tests.support.broker.bench import EPOCH_MS, Bench, Client, next_offset

RELEASES = ("4.9.7", "5.3.3")
QUEUE = MessageQueue("orders", "broker-a", 0)

OURS = "rocketmq_emulator."
# What a reset leaves unchanged on purpose: (class, attribute).
STAYS = {
    ("CommitLog", "end_position"),  # positions are not used twice
    ("Flushing", "flushed_to"),
    ("Flushing", "_end"),
    ("Flushing", "_asked_to"),
    ("Flushing", "_message_count"),
    ("Flushing", "_safe_count"),
    ("MemberNotices", "_room"),  # pushes still allowed in this millisecond
    ("MemberNotices", "_room_at_ms"),
    ("TopicConfigs", "data_version"),  # NameServers ignore a version that they have seen
    ("SubscriptionGroups", "data_version"),
    ("ConsumerOffsets", "_data_version"),
    ("ConsumerOffsets", "_changes"),
    ("ConsumerOffsets", "_written"),
    ("Document", "text_bytes"),
    ("TableDocument", "_saved_version"),
    ("TimerCheckpoint", "saved_ms"),
    ("TimerCheckpoint", "counter"),
    ("TimerMessageStore", "on_planned"),
    ("ScheduleMessageService", "_first_tick_ms"),  # ticks count from the reset
    ("TimerMessageStore", "_first_tick_ms"),
    ("ScheduleMessageService", "_is_dirty"),  # at the start, its version is not on disk yet
}


def state_of(value: Any) -> dict[str, Any]:
    """The plain values inside *value*, by path; only this project's classes are opened."""
    found: dict[str, Any] = {}
    _collect(value, type(value).__name__, (), found)
    return found


def _collect(value: Any, path: str, seen: tuple[int, ...], found: dict[str, Any]) -> None:
    if value is None or isinstance(value, str | bytes | int | float):
        found[path] = value
        return
    if id(value) in seen or isinstance(value, FunctionType | MethodType | type):
        return
    inside, kind = (*seen, id(value)), type(value)
    if isinstance(value, Mapping):
        found[f"{path}: keys"] = sorted(map(str, value))
        for key, each in value.items():
            _collect(each, f"{path}[{key}]", inside, found)
    elif isinstance(value, list | deque | array | set | frozenset) or kind is tuple:
        found[path] = sorted(str(each) for each in value if not callable(each))
    elif isinstance(value, msgspec.Struct) and not kind.__module__.startswith(OURS):
        found[path] = str(value)
    if kind.__module__.startswith(OURS) and not kind.__module__.startswith(f"{OURS}disk"):
        for name, each in members_of(value):
            if (kind.__name__, name) not in STAYS:
                _collect(each, f"{path}.{name}", inside, found)


def members_of(value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "_fields"):  # a named tuple
        yield from value._asdict().items()
        return
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


def use_all(bench: Bench) -> Client:
    """Put an entry into every table; returns the consuming client, still connected."""
    producer, member = bench.client(), bench.client()
    for number in range(5):
        producer.sent("orders", properties=f"KEYS\x01k{number}")
        producer.sent("mails", properties="DELAY\x013")
    if bench.broker.release >= bench.broker.release.parse("5.0.0"):
        producer.sent("notes", properties=f"TIMER_DELIVER_MS\x01{EPOCH_MS + 60_000}")
    bench.broker.update_topic(TopicConfig(topic_name="sealed", perm=4), bench.now_ms())
    member.heartbeat("c-1", "billing", {"orders": "*", "%RETRY%billing": "*"}, producer="shop")
    commit(member, 3)
    assert member.pull("orders", 4, consumer_group="billing", flags=0) is not None
    assert bench.broker.locks.lock("billing", [QUEUE], "c-1", bench.now_ms())
    assert bench.broker.locks.lock("mailing", [QUEUE], "gone", bench.now_ms())
    bench.broker.offsets.reset("billing", "orders", 2, 0)
    body = SetMessageRequestModeBody(topic="orders", consumer_group="billing", mode="PULL")
    bench.broker.request_modes.set("orders", "billing", body)
    bench.broker.routes.subscribe_info["orders"] = [QUEUE]
    member.must(catalog.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4\nlongPollingEnable=false")
    bench.broker.store.figures.returned("orders", "billing", bench.now_ms())
    bench.broker.offsets.persist()
    assert bench.broker.delays.deliver_due(bench.now_ms() + 20_000)
    bench.broker.delays.persist()
    bench.no_bugs()
    return member


def commit(client: Client, offset: int) -> None:
    header = UpdateConsumerOffsetRequest(
        consumer_group="billing", topic="orders", queue_id=0, commit_offset=offset
    )
    client.must(catalog.UPDATE_CONSUMER_OFFSET, header)


def begins_at(client: Client, group: str, topic: str = "orders") -> int | None:
    header = QueryConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=0)
    answer = client.must(catalog.QUERY_CONSUMER_OFFSET, header)
    return answer.decode(OffsetReply).offset if answer.code == 0 else None


@pytest.mark.parametrize("release", RELEASES)
async def test_nothing_is_left_in_any_table_when_nobody_is_connected(release) -> None:
    bench, fresh = Bench(release=release), Bench(release=release)
    reset_broker(fresh.broker, EPOCH_MS)  # both count from the same time
    was_new = state_of(fresh.broker)
    use_all(bench).close()
    assert state_of(bench.broker) != was_new
    reset_broker(bench.broker, EPOCH_MS)
    assert state_of(bench.broker) == was_new


@pytest.mark.parametrize("release", RELEASES)
async def test_a_broker_that_is_started_again_after_a_reset_finds_nothing_either(release) -> None:
    bench = Bench(release=release)
    use_all(bench).close()
    reset_broker(bench.broker, bench.now_ms())
    journal = Journal("broker-a", bench.clock)
    config = bench.broker.config
    again = Broker(config, disk=bench.disk, journal=journal, now_ms=bench.now_ms())
    assert again.offsets.offset_table == again.delays.offset_table == {}
    assert again.store.log.segments == ()
    assert again.topics.get("orders") is None
    assert again.groups.get("billing") is None
    assert not again.store.max_offset("orders", 0)


@pytest.mark.parametrize("release", RELEASES)
async def test_who_is_connected_stays_a_member_and_gets_the_next_message_at_once(release) -> None:
    bench = Bench(release=release)
    member = use_all(bench)
    producer = bench.client()
    reset_broker(bench.broker, bench.now_ms())
    held = member.pull("orders", 5, consumer_group="billing")
    assert held is None, "a pull of the next message is held"
    opaque = member.last_opaque
    assert producer.sent("orders", b"the next one").queue_offset == 5
    answer = member.answer_to(opaque)
    assert answer is not None
    assert b"the next one" in answer.body
    assert bench.broker.locks.owner("billing", QUEUE, bench.now_ms()) == "c-1"
    assert bench.broker.locks.owner("mailing", QUEUE, bench.now_ms()) is None
    assert bench.facts(BrokerReset) == [
        BrokerReset(("billing",), tuple(sorted(("%RETRY%billing", "orders"))))
    ]
    bench.no_bugs()


async def test_a_pull_that_was_held_goes_on_waiting_through_a_reset() -> None:
    bench = Bench()
    member, producer = use_all(bench), bench.client()
    reset_broker(bench.broker, bench.now_ms())  # turns long polling on again
    assert member.pull("orders", 5, consumer_group="billing") is None
    opaque = member.last_opaque
    reset_broker(bench.broker, bench.now_ms())
    assert member.answer_to(opaque) is None
    producer.sent("orders", b"after it")
    answer = member.answer_to(opaque)
    assert answer is not None
    assert b"after it" in answer.body


@pytest.mark.parametrize("release", RELEASES)
async def test_an_offset_of_before_leads_to_the_next_message_without_a_wait(release) -> None:
    bench = Bench(release=release)
    member = use_all(bench)
    reset_broker(bench.broker, bench.now_ms())
    commit(member, 2)  # late: an offset of before the reset
    answer = member.pull("orders", 2, consumer_group="billing", flags=COMMIT_OFFSET)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.decode(PullMessageReply).next_begin_offset == next_offset(answer) == 5


@pytest.mark.parametrize("release", RELEASES)
async def test_a_new_group_misses_no_message_of_a_queue_that_goes_on_counting(release) -> None:
    bench = Bench(release=release)
    member, producer = use_all(bench), bench.client()
    reset_broker(bench.broker, bench.now_ms())
    producer.sent("orders", b"the first one of this test")
    assert begins_at(member, "a new group") == 5
    assert begins_at(member, "billing") == 5, "the end at the reset, whatever was committed"


async def test_queues_that_nobody_reads_begin_at_0_again() -> None:
    bench = Bench()
    use_all(bench)
    reset_broker(bench.broker, bench.now_ms())
    producer = bench.client()
    assert producer.sent("mails").queue_offset == 0
    assert producer.sent("orders").queue_offset == 5
    assert begins_at(producer, "g", "mails") == 0


async def test_messages_may_be_stored_read_and_reset_over_and_over() -> None:
    bench = Bench(segment_bytes=150_000, message_bytes_max=10_000)
    producer = bench.client()
    for number in range(5):
        for _ in range(20):
            producer.sent("t", b"x" * 9_000, queue_id=1)
        assert len(bench.broker.store.log.segments) > 1
        assert bench.broker.store.max_offset("t", 1) == 20, number
        reset_broker(bench.broker, bench.now_ms())
        assert list(bench.broker.store.messages_by_topic()) == []
    bench.no_bugs()

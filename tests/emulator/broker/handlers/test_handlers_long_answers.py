"""Long answers are built in slices, and equal an answer that is built at once."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_emulator.broker.handlers import overview
from rocketmq_emulator.broker.handlers.queues import SLICE_QUEUES
from rocketmq_emulator.disk.memory import MemoryDisk
from rocketmq_emulator.facts import QueuesLocked, QueuesUnlocked
from rocketmq_emulator.net.results import Call, Handler, Peer, Reply, Result, Wait
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.extensions import BrokerOverview
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumerConnection,
    LockBatchReply,
    LockBatchRequestBody,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
)
from rocketmq_emulator.protocol.bodies.stats import ConsumeStatsList, QueryConsumeTimeSpanBody
from rocketmq_emulator.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from rocketmq_emulator.protocol.command import RemotingCommand, ext_of
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.groups import (
    GetConsumerConnectionListRequest,
    GetConsumeStatsInBrokerRequest,
    QueryConsumeTimeSpanRequest,
)
from rocketmq_emulator.protocol.requests.offsets import (
    QueryCorrectionOffsetRequest,
    ResetOffsetRequest,
)
from rocketmq_emulator.protocol.rpc import AnyRpc
from tests.support.broker.bench import EPOCH_MS, Bench, Client

RELEASES = ("4.9.7", "5.3.3")
GROUPS, WIDE = 700, 1_300
ASKER = Peer("10.0.0.1:1", 1)


def a_broker_with_much(release: str, *, queues: int = 20) -> Bench:
    """Many topics and groups, all with committed offsets; one topic has many queues."""
    bench = Bench(release=release, keeps_facts=False)
    broker = bench.broker
    for number in range(GROUPS):
        topic = TopicConfig(topic_name=f"t{number}", read_queue_nums=1, write_queue_nums=1)
        broker.update_topic(topic, EPOCH_MS)
        broker.groups.update(SubscriptionGroupConfig(group_name=f"g{number}"), EPOCH_MS)
        for queue_id in range(queues):
            broker.offsets.commit(f"g{number}", f"t{number}", queue_id, number, EPOCH_MS)
    wide = TopicConfig(topic_name="wide", read_queue_nums=WIDE, write_queue_nums=WIDE)
    broker.update_topic(wide, EPOCH_MS)
    for queue_id in range(WIDE):
        broker.offsets.commit("g0", "wide", queue_id, 0, EPOCH_MS)
    return bench


def answered(bench: Bench, rpc: AnyRpc, header: Header | None = None) -> tuple[Reply, int]:
    """The whole answer, and the number of its slices."""
    handler: Handler = bench.server.handlers[rpc.code][1]
    command = RemotingCommand(code=rpc.code, ext=ext_of(header))
    result = handler(Call(command, header or Header(), ASKER, EPOCH_MS))
    slices = 1
    while isinstance(result, Wait):
        result, slices = result.resume(EPOCH_MS, True), slices + 1
    assert isinstance(result, Reply)
    return result, slices


@pytest.mark.parametrize("release", RELEASES)
async def test_every_topic_is_told_in_slices(release: str) -> None:
    bench = a_broker_with_much(release)
    reply, slices = answered(bench, catalog.GET_ALL_TOPIC_CONFIG)
    assert slices > 1
    told = decode_unlimited_body(reply.body, TopicConfigSerializeWrapper)
    assert told.topic_config_table == bench.broker.topics.topic_config_table
    assert told.data_version == bench.broker.topics.data_version


@pytest.mark.parametrize("release", RELEASES)
async def test_every_group_is_told_in_slices(release: str) -> None:
    bench = a_broker_with_much(release)
    reply, slices = answered(bench, catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert slices > 1
    groups = bench.broker.groups
    whole = SubscriptionGroupWrapper(
        subscription_group_table=groups.subscription_group_table,
        data_version=groups.data_version,
        forbidden_table={} if release == "5.3.3" else None,
    )
    assert reply.body == encode_body(whole, bench.broker.release)


@pytest.mark.parametrize("release", RELEASES)
async def test_every_offset_is_told_in_slices(release: str) -> None:
    bench = a_broker_with_much(release)
    reply, slices = answered(bench, catalog.GET_ALL_CONSUMER_OFFSET)
    assert slices > 1
    assert reply.body == encode_body(bench.broker.offsets.wrapper(), bench.broker.release)
    told = decode_unlimited_body(reply.body, ConsumerOffsetSerializeWrapper)
    assert len(told.offset_table["wide@g0"]) == WIDE


async def test_an_overview_is_told_in_slices_and_counts_what_is_too_much(monkeypatch) -> None:
    bench = a_broker_with_much("4.9.7")
    reply, slices = answered(bench, catalog.GET_BROKER_OVERVIEW)
    assert slices > 1
    told = msgspec.json.decode(reply.body, type=BrokerOverview)
    topics = {topic.name: topic.queues for topic in told.topics}
    assert topics == {**{f"t{number}": 1 for number in range(GROUPS)}, "wide": WIDE}
    groups = {group.name: group for group in told.groups}
    assert {name for name in groups if name.startswith("g")} == {f"g{n}" for n in range(GROUPS)}
    assert len(groups["g0"].queues) == 1 + WIDE
    assert [queue.committed for queue in groups["g7"].queues] == [7]
    monkeypatch.setattr(overview, "ROWS_MAX", 100)
    reply, _ = answered(bench, catalog.GET_BROKER_OVERVIEW)
    few = msgspec.json.decode(reply.body, type=BrokerOverview)
    assert (few.topics, few.groups) == (told.topics[:100], told.groups[:100])
    assert (few.more_topics, few.more_groups) == (GROUPS + 1 - 100, len(told.groups) - 100)


async def test_what_is_deleted_between_two_slices_is_not_told() -> None:
    bench = a_broker_with_much("4.9.7", queues=60)
    handler: Handler = bench.server.handlers[catalog.GET_ALL_CONSUMER_OFFSET.code][1]
    result = handler(Call(RemotingCommand(), Header(), ASKER, EPOCH_MS))
    bench.broker.offsets.delete_group(f"g{GROUPS - 1}")
    while isinstance(result, Wait):
        result = result.resume(EPOCH_MS, True)
    assert isinstance(result, Reply)
    told = decode_unlimited_body(result.body, ConsumerOffsetSerializeWrapper)
    assert len(told.offset_table) == GROUPS


def a_client_in_many_groups(bench: Bench) -> Client:
    client = bench.client()
    for number in range(GROUPS):
        client.heartbeat("c", producer=f"p{number}")
    client.heartbeat("c", "g", {f"t{number}": "*" for number in range(GROUPS)})
    return client


async def test_the_members_and_subscriptions_of_a_group_are_told_in_slices() -> None:
    bench = Bench(keeps_facts=False)
    a_client_in_many_groups(bench)
    request = GetConsumerConnectionListRequest(consumer_group="g")
    reply, slices = answered(bench, catalog.GET_CONSUMER_CONNECTION_LIST, request)
    assert slices > 1
    told = decode_unlimited_body(reply.body, ConsumerConnection)
    assert [one.client_id for one in told.connection_set] == ["c"]
    assert len(told.subscription_table) == GROUPS
    assert told.consume_type == "CONSUME_PASSIVELY"


async def test_every_producer_is_told_in_slices() -> None:
    bench = Bench(keeps_facts=False, release="5.3.3")
    a_client_in_many_groups(bench)
    reply, slices = answered(bench, catalog.GET_ALL_PRODUCER_INFO)
    assert slices > 1
    told = decode_unlimited_body(reply.body, ProducerTableInfo).data
    assert list(told) == [f"p{number}" for number in range(GROUPS)]


async def test_the_backlog_of_every_group_is_told_in_slices() -> None:
    bench = a_broker_with_much("5.3.3")
    for queue_id in (0, WIDE - 1):
        bench.client().sent("wide", queue_id=queue_id)
    request = GetConsumeStatsInBrokerRequest(is_order=False)
    reply, slices = answered(bench, catalog.GET_BROKER_CONSUME_STATS, request)
    assert slices > 1
    told = decode_unlimited_body(reply.body, ConsumeStatsList)
    by_group = {name: stats for row in told.consume_stats_list for name, stats in row.items()}
    assert by_group.keys() == bench.broker.groups.subscription_group_table.keys()
    assert [len(one.offset_table) for one in by_group["g0"]] == [1, WIDE]
    committed = sum(range(GROUPS))  # each group in the only queue of its topic
    assert (told.total_diff, told.total_inflight_diff) == (2 - committed, -committed)
    assert told.broker_addr == bench.broker.address


@pytest.mark.parametrize("release", RELEASES)
async def test_corrections_are_gathered_in_slices(release: str) -> None:
    bench = a_broker_with_much(release)
    for number in range(20):
        for queue_id in range(WIDE):
            bench.broker.offsets.commit(f"g{number}", "wide", queue_id, number, EPOCH_MS)
    request = QueryCorrectionOffsetRequest(
        topic="wide", compare_group="none", filter_groups="g0,g1"
    )
    reply, slices = answered(bench, catalog.QUERY_CORRECTION_OFFSET, request)
    assert slices > 1
    told = decode_unlimited_body(reply.body, QueryCorrectionOffsetBody)
    assert told.correction_offsets == dict.fromkeys(range(WIDE), 2)


async def test_time_spans_are_told_in_slices() -> None:
    bench = a_broker_with_much("4.9.7")
    request = QueryConsumeTimeSpanRequest(topic="wide", group="g0")
    reply, slices = answered(bench, catalog.QUERY_CONSUME_TIME_SPAN, request)
    assert slices > 1
    told = decode_unlimited_body(reply.body, QueryConsumeTimeSpanBody)
    queues = [
        span.message_queue.queue_id for span in told.consume_time_span_set if span.message_queue
    ]
    assert queues == list(range(WIDE))


@pytest.mark.parametrize("release", RELEASES)
async def test_a_wide_topic_is_reset_in_slices(release: str) -> None:
    bench = a_broker_with_much(release)
    bench.client().heartbeat("c", "g0", {"wide": "*"})
    request = ResetOffsetRequest(topic="wide", group="g0", timestamp=-1, is_force=True)
    reply, slices = answered(bench, catalog.INVOKE_BROKER_TO_RESET_OFFSET, request)
    assert slices > 1
    told = decode_unlimited_body(reply.body, ResetOffsetBody).offset_table
    assert [queue.queue_id for queue in told] == list(range(WIDE))


class CountingDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def replace(self, name: str, data: bytes, *, flushed: bool = False) -> None:
        self.written.append(name)
        super().replace(name, data, flushed=flushed)


async def test_unused_topics_are_dropped_with_one_write_however_many_there_are() -> None:
    disk = CountingDisk()
    bench = Bench(disk)
    client = bench.client()
    for number in range(30):
        client.sent(f"t{number}")
    for number in range(30):
        bench.broker.topics.delete(f"t{number}", EPOCH_MS)
    disk.written.clear()
    answered(bench, catalog.CLEAN_UNUSED_TOPIC)
    assert disk.written == ["queueFloors.json"]
    assert bench.broker.store.queue("t0", 0) is None


async def test_locks_of_many_queues_are_taken_at_once_and_told_in_slices() -> None:
    bench = Bench()
    queues = [MessageQueue("wide", "broker-a", n) for n in range(SLICE_QUEUES + 10)]
    body = encode_body(
        LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=queues),
        bench.broker.release,
    )

    def asked(rpc: AnyRpc) -> Result:
        handler: Handler = bench.server.handlers[rpc.code][1]
        return handler(Call(RemotingCommand(code=rpc.code, body=body), Header(), ASKER, EPOCH_MS))

    result, slices = asked(catalog.LOCK_BATCH_MQ), 1  # the first slice only decodes the request
    assert isinstance(result, Wait)
    result = result.resume(EPOCH_MS, True)
    assert bench.broker.locks.owner("g", queues[-1], EPOCH_MS) == "c"
    while isinstance(result, Wait):
        result, slices = result.resume(EPOCH_MS, True), slices + 1
    assert isinstance(result, Reply)
    assert slices > 2
    assert decode_unlimited_body(result.body, LockBatchReply).lock_ok_mq_set == queues
    assert [len(fact.granted) for fact in bench.facts(QueuesLocked)] == [SLICE_QUEUES, 10]
    result = asked(catalog.UNLOCK_BATCH_MQ)
    while isinstance(result, Wait):
        result = result.resume(EPOCH_MS, True)
    assert bench.broker.locks.held_count == 0
    assert [len(fact.queues) for fact in bench.facts(QueuesUnlocked)] == [SLICE_QUEUES, 10]

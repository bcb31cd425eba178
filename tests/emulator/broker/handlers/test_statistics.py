"""GET_TOPIC_STATS_INFO of a topic with many queues is built in slices."""

from __future__ import annotations

import pytest

from rocketmq_emulator.broker.handlers.statistics import SLICE_ROWS, StatisticsProcessor
from rocketmq_emulator.net.results import Call, Peer, Reply, Wait
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.stats import TopicStatsTable
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.requests.admin import GetTopicStatsInfoRequest
from tests.support.broker.bench import Bench


@pytest.mark.parametrize("queues", [0, 1, SLICE_ROWS, SLICE_ROWS * 2 + 1])
async def test_a_long_table_is_gathered_in_slices_and_whole(queues: int) -> None:
    broker = Bench().broker
    broker.update_topic(
        TopicConfig(topic_name="Wide", read_queue_nums=queues, write_queue_nums=queues), 0
    )
    request = GetTopicStatsInfoRequest(topic="Wide")
    call = Call(RemotingCommand(), request, Peer("10.0.0.1:1", 1), 0)
    result, slices = StatisticsProcessor(broker).topic_stats(call), 1
    while isinstance(result, Wait):
        result, slices = result.resume(0, True), slices + 1
    assert isinstance(result, Reply)
    table = decode_unlimited_body(result.body, TopicStatsTable).offset_table
    assert [queue.queue_id for queue in table] == list(range(queues))
    assert slices == max(1, -(-queues // SLICE_ROWS))

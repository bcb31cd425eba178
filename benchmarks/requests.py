"""The requests that the benchmarks send to a broker."""

from __future__ import annotations

import time

from benchmarks.stream import Stream, request
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.flags import pull_flag
from rocketmq_emulator.protocol.messages.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    UNIQ_KEY,
    WAIT,
)
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2

GROUP = "bench-group"
BODY = b"x" * 100
HOLD_MS = 60_000
UNIQUE = "7F0000010001" + "0" * 20
PROPERTIES = "".join(
    f"{name}{NAME_VALUE_SEPARATOR}{value}{PROPERTY_SEPARATOR}"
    for name, value in ((UNIQ_KEY, UNIQUE), (WAIT, "true"))
)


def create_topic(address: str, topic: str, queues: int) -> None:
    with Stream(address) as stream:
        stream.ask(
            catalog.UPDATE_AND_CREATE_TOPIC,
            CreateTopicRequest(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
            ),
        )


def send_frame(topic: str, queue_id: int) -> bytes:
    """The frame of a Java producer for one message of 100 bytes."""
    header = SendMessageRequestV2(
        producer_group="bench-producer",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties=PROPERTIES,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
    return request(catalog.SEND_MESSAGE_V2, header, BODY)


def held_pull_frame(topic: str, queue_id: int) -> bytes:
    """A pull at the start of an empty queue, to be held for a minute."""
    header = PullMessageRequest(
        consumer_group=GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=pull_flag(suspend=True, subscription=True),
        commit_offset=0,
        suspend_timeout_millis=HOLD_MS,
        sub_version=1,
        subscription="*",
        expression_type="TAG",
    )
    return request(catalog.PULL_MESSAGE, header)

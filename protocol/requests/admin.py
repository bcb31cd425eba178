"""Requests of tools to a broker: topics, configuration, statistics."""

from __future__ import annotations

from typing import get_args

from rocketmq_emulator.protocol.bodies.topics import TopicFilterType
from rocketmq_emulator.protocol.fields import Header, Int, Long

TOPIC_FILTER_TYPES = get_args(TopicFilterType)


class CreateTopicRequest(Header, kw_only=True):
    """Upstream: CreateTopicRequestHeader."""

    topic: str | None = None
    default_topic: str | None = None  # never read
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: TopicFilterType
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None  # 5.x: "+k=v,-k"
    force: bool | None = None  # 5.x

    def __post_init__(self) -> None:
        if self.topic_filter_type not in TOPIC_FILTER_TYPES:
            raise ValueError(f"topicFilterType = [{self.topic_filter_type}] value invalid")


class DeleteTopicRequest(Header):
    """Upstream: DeleteTopicRequestHeader."""

    topic: str = ""


class GetTopicConfigRequest(Header):
    """Upstream: GetTopicConfigRequestHeader."""

    topic: str


class GetAllTopicConfigRequest(Header):
    """Paging of the newest 5.x; absent everywhere else."""

    topic_seq: Int | None = None
    data_version: str | None = None
    max_topic_num: Int | None = None


class GetTopicStatsInfoRequest(Header):
    """Upstream: GetTopicStatsInfoRequestHeader."""

    topic: str


class GetBrokerConfigReply(Header):
    """Upstream: GetBrokerConfigResponseHeader."""

    version: str  # a DataVersion as JSON


class ViewBrokerStatsDataRequest(Header):
    """Upstream: ViewBrokerStatsDataRequestHeader."""

    stats_name: str | None = None
    stats_key: str | None = None


class QueryConsumeQueueRequest(Header):
    """Upstream: QueryConsumeQueueRequestHeader."""

    topic: str
    queue_id: Int
    index: Long
    count: Int
    consumer_group: str | None = None


class ResumeCheckHalfMessageRequest(Header):
    """Upstream: ResumeCheckHalfMessageRequestHeader."""

    msg_id: str | None = None
    topic: str | None = None  # 5.x

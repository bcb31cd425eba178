"""Requests of tools to a broker: topics, configuration, statistics."""

from __future__ import annotations

from typing import Self, get_args

from rocketmq_emulator.protocol.bodies.topics import TopicConfig, TopicFilterType
from rocketmq_emulator.protocol.fields import Header, Int, Long
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC

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

    @classmethod
    def of(cls, config: TopicConfig) -> Self:
        """The request that creates or updates the topic, and sets its attributes (5.x)."""
        attributes = ",".join(f"+{name}={value}" for name, value in config.attributes.items())
        return cls(
            topic=config.topic_name or "",
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            order=config.order,
            attributes=attributes or None,
        )

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

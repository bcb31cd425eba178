"""System topics and groups, and the prefixes of retry, dead-letter and reply topics.

5.x has more system topics than 4.9, so ``is_system_topic`` takes the set of known ones.
Upstream: MixAll, TopicValidator.
"""

from __future__ import annotations

RETRY_GROUP_TOPIC_PREFIX = "%RETRY%"
DLQ_GROUP_TOPIC_PREFIX = "%DLQ%"
REPLY_TOPIC_POSTFIX = "_REPLY_TOPIC"
CID_RMQ_SYS_PREFIX = "CID_RMQ_SYS_"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"

AUTO_CREATE_TOPIC_KEY_TOPIC = "TBW102"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"  # 5.2.0
TIMER_TOPIC = "rmq_sys_wheel_timer"  # 5.x

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC_KEY_TOPIC,
        BENCHMARK_TOPIC,
        OFFSET_MOVED_EVENT,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        TRACE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
    }
)
SYSTEM_TOPICS_5_2 = SYSTEM_TOPICS | {CHECKPOINT_TOPIC}

TOPICS_NOT_SENDABLE = frozenset(
    {
        OFFSET_MOVED_EVENT,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
    }
)

DEFAULT_PRODUCER_GROUP = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
SCHEDULE_CONSUMER_GROUP = "SCHEDULE_CONSUMER"
FILTERSRV_CONSUMER_GROUP = "FILTERSRV_CONSUMER"
MONITOR_CONSUMER_GROUP = "__MONITOR_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
SELF_TEST_PRODUCER_GROUP = "SELF_TEST_P_GROUP"
SELF_TEST_CONSUMER_GROUP = "SELF_TEST_C_GROUP"
ONS_HTTP_PROXY_GROUP = "CID_ONS-HTTP-PROXY"
CID_ONSAPI_PERMISSION_GROUP = "CID_ONSAPI_PERMISSION"
CID_ONSAPI_OWNER_GROUP = "CID_ONSAPI_OWNER"
CID_ONSAPI_PULL_GROUP = "CID_ONSAPI_PULL"
CID_SYS_RMQ_TRANS = "CID_RMQ_SYS_TRANS"

SYSTEM_GROUPS = frozenset(
    {
        DEFAULT_PRODUCER_GROUP,
        DEFAULT_CONSUMER_GROUP,
        TOOLS_CONSUMER_GROUP,
        SCHEDULE_CONSUMER_GROUP,
        FILTERSRV_CONSUMER_GROUP,
        MONITOR_CONSUMER_GROUP,
        CLIENT_INNER_PRODUCER_GROUP,
        SELF_TEST_PRODUCER_GROUP,
        SELF_TEST_CONSUMER_GROUP,
        ONS_HTTP_PROXY_GROUP,
        CID_ONSAPI_PERMISSION_GROUP,
        CID_ONSAPI_OWNER_GROUP,
        CID_ONSAPI_PULL_GROUP,
        CID_SYS_RMQ_TRANS,
    }
)

DEFAULT_REGION = "DefaultRegion"
MASTER_ID = 0


def retry_topic(group: str) -> str:
    """The topic of messages that consumers of *group* sent back."""
    return RETRY_GROUP_TOPIC_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of *group*'s dead letters."""
    return DLQ_GROUP_TOPIC_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic of a cluster's replies to request messages, which are pushed to the requester."""
    return cluster + REPLY_TOPIC_POSTFIX


def is_retry_topic(topic: str) -> bool:
    """Whether it is some group's retry topic."""
    return topic.startswith(RETRY_GROUP_TOPIC_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    """Whether it is some group's dead-letter topic."""
    return topic.startswith(DLQ_GROUP_TOPIC_PREFIX)


def is_system_topic(topic: str, known: frozenset[str] = SYSTEM_TOPICS) -> bool:
    """Whether it is one of the *known* system topics, or has the prefix of system topics.

    Upstream: TopicValidator.isSystemTopic.
    """
    return topic in known or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_consumer_group(group: str) -> bool:
    """Upstream: MixAll.isSysConsumerGroup."""
    return group.startswith(CID_RMQ_SYS_PREFIX)

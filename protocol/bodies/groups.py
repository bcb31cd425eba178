"""Groups: heartbeats, members and their connections, queue locks, subscriptions, settings.

Clients send heartbeats and lock requests; connections of producers and consumers are replies to
tools.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.java.java_convert import ConcurrentMap
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import (
    GROUPS_HAVE_ATTRIBUTES,
    GROUPS_KEEP_SUBSCRIPTIONS,
    HEARTBEATS_HAVE_FINGERPRINTS,
    R_5_0_0,
)

# Enums in the order of their numbers, which some clients send.
ConsumeType: TypeAlias = Literal["CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"]
MessageModel: TypeAlias = Literal["BROADCASTING", "CLUSTERING"]
ConsumeFromWhere: TypeAlias = Literal[
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
]


class ProducerData(Body, frozen=True):
    """Upstream: ProducerData."""

    group_name: str | None = None


class ConsumerData(Body, frozen=True):
    """Upstream: ConsumerData."""

    group_name: str | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body, frozen=True):
    """Upstream: HeartbeatData."""

    since = dict.fromkeys(("heartbeat_fingerprint", "without_sub"), HEARTBEATS_HAVE_FINGERPRINTS)

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class GetConsumerListByGroupReply(Body, frozen=True):
    """Upstream: GetConsumerListByGroupResponseBody."""

    consumer_id_list: list[str | None] = []  # null for a client that sent no id


class LockBatchRequestBody(Body, frozen=True):
    """For locking and for unlocking.  Upstream: LockBatchRequestBody, UnlockBatchRequestBody."""

    since = {"only_this_broker": R_5_0_0}

    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: list[MessageQueue] = []


class LockBatchReply(Body, frozen=True):
    """Upstream: LockBatchResponseBody."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(
        default_factory=list[MessageQueue], name="lockOKMQSet"
    )


class CheckClientRequestBody(Body, frozen=True):
    """Upstream: CheckClientRequestBody."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


class GroupRetryPolicy(Body, frozen=True):
    """Upstream: GroupRetryPolicy."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: dict[str, Any] | None = None
    customized_retry_policy: dict[str, Any] | None = None


class SubscriptionGroupConfig(Body, frozen=True):
    """Upstream: SubscriptionGroupConfig."""

    since = dict.fromkeys(
        (
            "consume_message_orderly",
            "group_retry_policy",
            "consume_timeout_minute",
            "group_sys_flag",
        ),
        R_5_0_0,
    )
    since |= {
        "subscription_data_set": GROUPS_KEEP_SUBSCRIPTIONS,
        "attributes": GROUPS_HAVE_ATTRIBUTES,
    }

    group_name: str | None = None
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupWrapper(Body, frozen=True):
    """All groups of a broker, and their file.

    Upstream: SubscriptionGroupWrapper, SubscriptionGroupManager.
    """

    since = {"forbidden_table": R_5_0_0}

    subscription_group_table: ConcurrentMap[str, SubscriptionGroupConfig] = {}
    data_version: DataVersion = DataVersion()
    forbidden_table: ConcurrentMap[str, ConcurrentMap[str, int]] | None = None  # in 5.x's file


class SubscriptionGroupList(Body, frozen=True):
    """Upstream: SubscriptionGroupList."""

    group_config_list: list[SubscriptionGroupConfig] = []


class BloomFilterData(Body, frozen=True):
    """The positions of a group in a filter of ``bit_num`` bits.  Upstream: BloomFilterData."""

    bit_num: int = 0
    bit_pos: tuple[int, ...] | None = None


class ConsumerFilterData(Body, frozen=True):
    """The expression of a group for a topic; times in ms.  Upstream: ConsumerFilterData."""

    consumer_group: str | None = None
    topic: str | None = None
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0  # when the last member left; 0 while one is connected
    dead: bool = False  # written, never read
    bloom_filter_data: BloomFilterData | None = None
    client_version: int = 0


class FilterDataMapByTopic(Body, frozen=True):
    """The expressions of one topic, by group.  Upstream: FilterDataMapByTopic."""

    group_filter_data: ConcurrentMap[str, ConsumerFilterData] = {}
    topic: str | None = None


class ConsumerFilterTable(Body, frozen=True):
    """The broker's file ``consumerFilter.json``.  Upstream: ConsumerFilterManager."""

    filter_data_by_topic: ConcurrentMap[str, FilterDataMapByTopic] = {}


class GroupForbidden(Body, frozen=True):
    """Upstream: GroupForbidden."""

    topic: str | None = None
    group: str | None = None
    readable: bool | None = None


class GroupList(Body, frozen=True):
    """Upstream: GroupList."""

    group_list: list[str] = []


class QuerySubscriptionReply(Body, frozen=True):
    """Upstream: QuerySubscriptionResponseBody."""

    subscription_data: SubscriptionData | None = None
    group: str | None = None
    topic: str | None = None


# Connections of producers and consumers -----------------------------------------------


class ClientConnection(Body, frozen=True):
    """Upstream: Connection."""

    client_id: str | None = None
    client_addr: str | None = None
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body, frozen=True):
    """Upstream: ConsumerConnection."""

    connection_set: list[ClientConnection] = []
    subscription_table: ConcurrentMap[str, SubscriptionData] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body, frozen=True):
    """Upstream: ProducerConnection."""

    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, frozen=True):
    """Upstream: ProducerInfo."""

    client_id: str | None = None
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body, frozen=True):
    """Upstream: ProducerTableInfo."""

    data: dict[str, list[ProducerInfo]] = {}

"""Every setting of the clients, with upstream's name and default beside it.

The rules of each struct define the valid values.  ``ClientConfig`` has the settings that producers
and consumers share; ``GroupMemberConfig`` and ``ConsumeFromConfig`` those that several kinds of
consumers share.  This file imports no module that uses trio: a scenario reads it to check a plan.

At the end: names of settings in the clients for Java, Node, Go and Python.  They are not accepted,
but the error for ``Producer(retryTimesWhenSendFailed=3)`` suggests ``sync_retries``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import msgspec

from rocketmq_emulator.errors.call_errors import BadArgument
from rocketmq_emulator.net.address_server import DEFAULT_SUBGROUP
from rocketmq_emulator.protocol.bodies.groups import ConsumeFromWhere, MessageModel
from rocketmq_emulator.protocol.messages.validation import (
    MESSAGE_BYTES_MAX,
    short_repr,
    type_error_text,
)
from rocketmq_emulator.settings.config import NetConfig
from rocketmq_emulator.settings.quirks import check_quirks
from rocketmq_emulator.settings.releases import STREAMS_MARKED, Release, known_release
from rocketmq_emulator.settings.setting_rules import (
    LONG_MAX,
    BadField,
    CheckedConfig,
    Range,
    Relation,
    SettingRules,
    convert_fields,
    ranges,
)
from rocketmq_emulator.text.values import check_connect_address, split_address

NO_INSTANCE_NAME = "DEFAULT"
FAULT_TABLE_NAMES = ("", "4.x", "5.1.4", "articles")


def _check_namesrv(namesrv: str) -> None:
    for address in _parts(namesrv):
        split_address(address)
        try:
            check_connect_address(address)
        except ValueError:
            text = f"it is host:port, several separated by ';', not {address!r}"
            raise ValueError(text) from None


def _check_fault_table(name: str) -> None:
    if name not in FAULT_TABLE_NAMES:
        raise ValueError(f"it is {', '.join(FAULT_TABLE_NAMES[1:])} or empty, not {name!r}")


CLIENT_RULES = SettingRules(
    ranges(
        (Range(1), "route_poll_interval_ms heartbeat_interval_ms offset_persist_interval_ms"),
        (Range(0), "route_poll_first_ms heartbeat_first_ms offset_persist_first_ms"),
        (Range(0), "route_lock_wait_ms_max rebalance_interval_ms_min"),
        (Range(1), "rebalance_interval_ms api_timeout_ms trace_batch_max"),
    ),
    {"release": known_release, "namesrv": _check_namesrv, "quirks": check_quirks},
    (
        Relation(
            ("namesrv", "namesrv_domain"),
            lambda config: config.namesrv_addresses or config.namesrv_domain,
            "namesrv has no address, and there is no namesrv_domain to query",
        ),
    ),
)

PRODUCER_RULES = SettingRules(
    ranges(
        (Range(1), "default_topic_queues send_timeout_ms message_bytes_max async_sends_max"),
        (Range(-1), "send_timeout_ms_per_attempt"),  # -1: no limit
        (Range(0), "sync_retries async_retries compress_bytes_min"),
        (Range(0, 9), "compress_level"),  # of zlib
        (Range(1), "detect_timeout_ms detect_interval_ms"),
    ),
    {"fault_table": _check_fault_table},
)


class ClientConfig(CheckedConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that producers and consumers share.  Upstream: ClientConfig."""

    release: str = "4.9.8"  # the RocketMQ release whose client is emulated
    namesrv: str = "127.0.0.1:9876"  # namesrvAddr, separated by ";"; empty = see the next two
    namesrv_domain: str = ""  # rocketmq.namesrv.domain: host or host:port of an address server
    namesrv_subgroup: str = DEFAULT_SUBGROUP  # rocketmq.namesrv.domain.subgroup
    client_ip: str = ""  # clientIP; empty = the address of the machine
    instance_name: str = NO_INSTANCE_NAME  # instanceName, property rocketmq.client.name
    unit_name: str = ""  # unitName
    unit_mode: bool = False  # unitMode
    route_poll_interval_ms: int = 30_000  # pollNameServerInterval
    route_poll_first_ms: int = 10  # MQClientInstance.startScheduledTask
    route_lock_wait_ms_max: int = 3_000  # MQClientInstance.LOCK_TIMEOUT_MILLIS
    heartbeat_interval_ms: int = 30_000  # heartbeatBrokerInterval
    heartbeat_first_ms: int = 1_000  # MQClientInstance.startScheduledTask
    offset_persist_interval_ms: int = 5_000  # persistConsumerOffsetInterval
    offset_persist_first_ms: int = 10_000  # MQClientInstance.startScheduledTask
    rebalance_interval_ms: int = 20_000  # rocketmq.client.rebalance.waitInterval
    rebalance_interval_ms_min: int = 1_000  # rocketmq.client.rebalance.minInterval (5.2.0)
    api_timeout_ms: int = 3_000  # mqClientApiTimeout
    stream_requests: bool = False  # enableStreamRequestType (4.9.4)
    vip_channel_enabled: bool = False  # vipChannelEnabled
    trace: bool = False  # enableMsgTrace: write message traces; a pull consumer writes none
    trace_topic: str = ""  # customizedTraceTopic; empty = RMQ_SYS_TRACE_TOPIC
    trace_batch_max: int = 10  # traceMsgBatchNum (5.3.1), 20 at most
    quirks: tuple[str, ...] = ()  # ours: bugs switched on by name
    strict: bool = False  # ours: likely mistakes raise errors instead of warnings
    net: NetConfig = NetConfig()
    setting_rules: ClassVar[SettingRules] = CLIENT_RULES

    @property
    def rules(self) -> Release:
        """``release`` as a ``Release``, which can be compared."""
        return known_release(self.release)

    @property
    def marks_streams(self) -> bool:
        """Whether requests and the client id are marked as those of a stream client."""
        return self.stream_requests and self.rules >= STREAMS_MARKED

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """The addresses in ``namesrv``, each ``host:port``."""
        return _parts(self.namesrv)


QUICK_TIMERS: Mapping[str, int] = {
    "route_poll_interval_ms": 300,
    "heartbeat_interval_ms": 300,
    "offset_persist_interval_ms": 300,
    "rebalance_interval_ms": 300,
    "pull_error_delay_ms": 20,  # a first pull is refused if it comes before the heartbeat
    "unlock_delay_ms": 300,  # of orderly consumers
}
"""For tests: a client notices within a second what production clients notice within 30 s.

``quick=True`` gives a client those of them that it has.
"""


class ProducerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One producer's settings.  Upstream: DefaultMQProducer."""

    group: str
    topics: tuple[str, ...] = ()  # topics (5.2.0): their routes are queried at the start
    create_topic_key: str = "TBW102"  # createTopicKey
    default_topic_queues: int = 4  # defaultTopicQueueNums
    send_timeout_ms: int = 3_000  # sendMsgTimeout, for the whole call
    send_timeout_ms_per_attempt: int = -1  # sendMsgMaxTimeoutPerRequest (5.3.3); -1 = no limit
    sync_retries: int = 2  # retryTimesWhenSendFailed
    async_retries: int = 2  # retryTimesWhenSendAsyncFailed
    retry_another_broker_when_not_store_ok: bool = False  # retryAnotherBrokerWhenNotStoreOK
    compress_bytes_min: int = 4_096  # compressMsgBodyOverHowmuch
    compress_level: int = 5  # property rocketmq.message.compressLevel
    message_bytes_max: int = MESSAGE_BYTES_MAX  # maxMessageSize
    send_latency_fault_enable: bool = False  # sendLatencyFaultEnable
    fault_table: str = ""  # ours: 4.x, 5.1.4 or articles; empty = that of the release
    start_detector_enable: bool = False  # startDetectorEnable (5.1.4)
    detect_timeout_ms: int = 200  # detectTimeout (5.1.4)
    detect_interval_ms: int = 2_000  # detectInterval (5.1.4)
    async_sends_max: int = (
        50_000  # queue of the async sender pool; more sends or requests are refused
    )
    setting_rules: ClassVar[SettingRules] = PRODUCER_RULES


TRANSACTION_PRODUCER_RULES = SettingRules(
    ranges(
        (Range(1, 1_000), "check_threads_max local_transactions_max"),
        (Range(1), "check_requests_max"),
        (Range(0), "listener_ms"),
    )
)


class TransactionProducerConfig(
    ProducerConfig, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Settings of a producer of transactional messages.  Upstream: TransactionMQProducer."""

    check_threads_max: int = 1  # checkThreadPoolMinSize and checkThreadPoolMaxSize
    check_requests_max: int = 2_000  # checkRequestHoldMax: checks that wait; more are dropped
    local_transactions_max: int = 64  # ours: plain functions that run at once, in threads
    listeners_inline: bool = False  # ours: plain functions run on the event loop, in every world
    listener_ms: int | None = None  # ours: duration of an inline call of a plain function
    setting_rules: ClassVar[SettingRules] = TRANSACTION_PRODUCER_RULES


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of every kind of consumer.  Upstream: DefaultMQPushConsumer."""

    group: str


C = TypeVar("C", bound=ClientConfig)


def merged_config(kind: type[C], config: C | None, settings: dict[str, object]) -> C:
    """*config* changed by *settings*, which are fields by name; without one, the defaults.

    The setting ``quick`` stands for ``QUICK_TIMERS``; others override them.
    Raises ``BadArgument`` for an unknown field, a wrong type, or an invalid value.
    """
    if config is not None and not isinstance(config, kind):
        text = type_error_text("config", f"a {kind.__name__}", config)
        raise BadArgument(f"{text}: single settings are given by name")
    if isinstance(several := settings.get("namesrv"), list | tuple):
        text = f"namesrv is one str, not {short_repr(several)}"
        raise BadArgument(f"{text}: separate several addresses by ';'")
    given = {} if config is None else msgspec.structs.asdict(config)
    if settings.pop("quick", False):
        given |= {name: ms for name, ms in QUICK_TIMERS.items() if name in kind.__struct_fields__}
    try:
        owner = kind.__name__.removesuffix("Config")
        return convert_fields(kind, {**given, **settings}, owner, SETTING_NAMES_OF_OTHER_CLIENTS)
    except BadField as error:
        raise BadArgument(str(error)) from None


def _parts(namesrv: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in namesrv.split(";") if part.strip())


# Settings that several kinds of consumers share ---------------------------------------


MS_A_MINUTE = 60_000
HALF_AN_HOUR_MS = 30 * MS_A_MINUTE  # consumeTimestamp


class GroupMemberConfig(ConsumerConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a consumer as a member of its group."""

    model: MessageModel = "CLUSTERING"  # messageModel
    offset_folder: str = ""  # ~/.rocketmq_offsets upstream; empty = offsets are kept in memory

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message."""
        return self.model == "BROADCASTING"


class ConsumeFromConfig(GroupMemberConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The start of a new group, for consumers that find the first offset themselves."""

    consume_from: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"  # consumeFromWhere
    consume_from_time_ms: int | None = None  # consumeTimestamp; None = 30 minutes before the start
    setting_rules: ClassVar[SettingRules] = SettingRules(
        ranges((Range(0, LONG_MAX), "consume_from_time_ms"))
    )

    def new_group_from_ms(self, started_ms: int) -> int:
        """The wall time (ms) of CONSUME_FROM_TIMESTAMP for a consumer started at *started_ms*."""
        if self.consume_from_time_ms is not None:
            return self.consume_from_time_ms
        return started_ms - HALF_AN_HOUR_MS


# The push consumer --------------------------------------------------------------------


RECONSUME_TIMES_UNLIMITED = 2**31 - 1


PUSH_CONSUMER_RULES = SettingRules(  # DefaultMQPushConsumerImpl.checkConfig, if it has a rule
    ranges(
        (Range(1, 1_024), "pull_batch_max consume_batch_max"),
        (Range(1), "pull_bytes_max pull_timeout_ms"),
        (Range(0), "pull_interval_ms pull_hold_ms_max first_pull_delay_ms"),
        (Range(0), "pull_error_delay_ms pull_full_delay_ms pull_busy_delay_ms"),
        (Range(0), "pull_paused_delay_ms"),
        (Range(1, 65_535), "queue_messages_max queue_span_max"),
        (Range(1, 1_024), "queue_mib_max"),
        (Range(1, 6_553_500), "topic_messages_max"),
        (Range(1, 102_400), "topic_mib_max"),
        (Range(1, 1_000), "consume_threads_max"),
        (Range(1), "consume_timeout_ms continuous_ms_max"),
        (Range(-1), "reconsume_times_max"),  # -1: see PushConsumerConfig
        (Range(0), "suspend_queue_ms consume_again_delay_ms termination_ms_max listener_ms"),
        (Range(1), "lock_interval_ms"),
        (Range(0), "lock_first_ms unlock_delay_ms"),
    ),
    relations=(
        Relation(
            ("pull_timeout_ms", "pull_hold_ms_max"),
            lambda config: config.pull_timeout_ms > config.pull_hold_ms_max,
            "{pull_timeout_ms} must be above {pull_hold_ms_max}",
        ),
    ),
)


class PushConsumerConfig(ConsumeFromConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One push consumer's settings.  Upstream: DefaultMQPushConsumer, constants of services."""

    orderly: bool = False  # a MessageListenerOrderly instead of a MessageListenerConcurrently

    # Pulling
    pull_batch_max: int = 32  # pullBatchSize
    pull_bytes_max: int = 262_144  # pullBatchSizeInBytes (5.x)
    pull_interval_ms: int = 0  # pullInterval
    pull_hold_ms_max: int = 15_000  # BROKER_SUSPEND_MAX_TIME_MILLIS
    pull_timeout_ms: int = 30_000  # CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND
    pull_error_delay_ms: int = 1_000  # pullTimeDelayMillsWhenException (3000 before 4.6.0)
    pull_full_delay_ms: int = 50  # PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
    pull_busy_delay_ms: int = 20  # PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
    pull_paused_delay_ms: int = 1_000  # PULL_TIME_DELAY_MILLS_WHEN_SUSPEND
    first_pull_delay_ms: int = 500  # RebalancePushImpl.dispatchPullRequest (5.0.0)
    post_subscription_when_pull: bool = False  # postSubscriptionWhenPull

    # Flow control
    queue_messages_max: int = 1_000  # pullThresholdForQueue
    queue_mib_max: int = 100  # pullThresholdSizeForQueue
    queue_span_max: int = 2_000  # consumeConcurrentlyMaxSpan
    topic_messages_max: int | None = None  # pullThresholdForTopic
    topic_mib_max: int | None = None  # pullThresholdSizeForTopic

    # Consuming
    consume_threads_max: int = 20  # consumeThreadMax
    consume_batch_max: int = 1  # consumeMessageBatchMaxSize
    consume_timeout_ms: int = 15 * MS_A_MINUTE  # consumeTimeout
    reconsume_times_max: int = -1  # maxReconsumeTimes; -1 = 16, or forever when orderly
    suspend_queue_ms: int = 1_000  # suspendCurrentQueueTimeMillis
    consume_again_delay_ms: int = (
        5_000  # ConsumeMessageConcurrentlyService.submitConsumeRequestLater
    )
    continuous_ms_max: int = 60_000  # rocketmq.client.maxTimeConsumeContinuously (orderly)
    termination_ms_max: int = 0  # awaitTerminationMillisWhenShutdown
    listeners_inline: bool = False  # ours: plain functions run on the event loop, in every world
    listener_ms: int | None = None  # ours: duration of an inline call of a plain function

    # Locks
    lock_interval_ms: int = 20_000  # rocketmq.client.rebalance.lockInterval
    lock_first_ms: int = 1_000  # ConsumeMessageOrderlyService.start
    unlock_delay_ms: int = 20_000  # rocketmq.client.unlockDelayTimeMills
    setting_rules: ClassVar[SettingRules] = PUSH_CONSUMER_RULES

    @property
    def retries_max(self) -> int:
        """How often a message is consumed again before it is sent to the dead letter queue."""
        if self.reconsume_times_max != -1:
            return self.reconsume_times_max
        return RECONSUME_TIMES_UNLIMITED if self.orderly else 16


# The pull consumer and the lite pull consumer -----------------------------------------


CONSUME_FROM_ALLOWED = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
HOLD_BELOW_TIMEOUT = Relation(
    ("pull_held_timeout_ms", "pull_hold_ms_max"),
    lambda config: config.pull_held_timeout_ms >= config.pull_hold_ms_max,
    "{pull_held_timeout_ms} must be at least {pull_hold_ms_max}",
)

PULL_CONSUMER_RULES = SettingRules(
    ranges(
        (Range(0), "pull_hold_ms_max reconsume_times_max default_broker_id"),
        (Range(1), "pull_held_timeout_ms pull_timeout_ms"),
    ),
    relations=(HOLD_BELOW_TIMEOUT,),
)

LITE_PULL_CONSUMER_RULES = SettingRules(  # DefaultLitePullConsumerImpl.checkConfig
    ranges(
        (Range(0), "poll_timeout_ms pull_hold_ms_max default_broker_id"),
        (Range(1_000), "auto_commit_interval_ms"),
        (Range(1, 1_024), "pull_batch_max"),
        (Range(1, 1_000), "pull_threads_max"),
        (Range(1), "pull_held_timeout_ms pull_timeout_ms"),
        (Range(0), "pull_error_delay_ms pull_full_delay_ms pull_busy_delay_ms"),
        (Range(0), "pull_paused_delay_ms start_error_delay_ms topic_check_first_ms"),
        (Range(1), "all_messages_max queue_messages_max queue_mib_max queue_span_max"),
        (Range(1), "topic_check_interval_ms"),
    ),
    relations=(
        HOLD_BELOW_TIMEOUT,
        Relation(
            ("consume_from",),
            lambda config: config.consume_from in CONSUME_FROM_ALLOWED,
            f"{{consume_from}} must be one of {', '.join(CONSUME_FROM_ALLOWED)}",
        ),
    ),
)


class PullConsumerConfig(GroupMemberConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pull consumer's settings.  Upstream: DefaultMQPullConsumer."""

    stream_requests: bool = True  # enableStreamRequestType (4.9.4)
    pull_hold_ms_max: int = 20_000  # brokerSuspendMaxTimeMillis
    pull_held_timeout_ms: int = 30_000  # consumerTimeoutMillisWhenSuspend
    pull_timeout_ms: int = 10_000  # consumerPullTimeoutMillis
    reconsume_times_max: int = 16  # maxReconsumeTimes
    enable_rebalance: bool = True  # enableRebalance (5.3.2)
    connect_broker_by_user: bool = False  # connectBrokerByUser
    default_broker_id: int = 0  # defaultBrokerId, with connect_broker_by_user
    setting_rules: ClassVar[SettingRules] = PULL_CONSUMER_RULES

    @property
    def retries_max(self) -> int:
        """How often a message that was sent back is delivered before it is a dead letter."""
        return self.reconsume_times_max

    @property
    def broker_id(self) -> int | None:
        """The broker id to pull from; None: as brokers suggest in replies."""
        return self.default_broker_id if self.connect_broker_by_user else None


class LitePullConsumerConfig(
    ConsumeFromConfig, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """One lite pull consumer's settings.

    Upstream: DefaultLitePullConsumer, constants of its tasks.
    """

    stream_requests: bool = True  # enableStreamRequestType (4.9.4)

    # Polling and committing
    poll_timeout_ms: int = 5_000  # pollTimeoutMillis
    auto_commit: bool = True  # autoCommit
    auto_commit_interval_ms: int = 5_000  # autoCommitIntervalMillis, at least 1000

    # Pulling
    pull_batch_max: int = 10  # pullBatchSize
    pull_threads_max: int = 20  # pullThreadNums (before 5.3.1 always 20)
    pull_hold_ms_max: int = 20_000  # brokerSuspendMaxTimeMillis
    pull_held_timeout_ms: int = 30_000  # consumerTimeoutMillisWhenSuspend
    pull_timeout_ms: int = (
        10_000  # consumerPullTimeoutMillis; no effect: it is for pulls that are not held
    )
    pull_error_delay_ms: int = 1_000  # pullTimeDelayMillsWhenException
    pull_full_delay_ms: int = 50  # PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
    pull_busy_delay_ms: int = 20  # PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
    pull_paused_delay_ms: int = 1_000  # PULL_TIME_DELAY_MILLS_WHEN_PAUSE
    start_error_delay_ms: int = 3_000  # PULL_TIME_DELAY_MILLS_ON_EXCEPTION
    connect_broker_by_user: bool = False  # connectBrokerByUser
    default_broker_id: int = 0  # defaultBrokerId, with connect_broker_by_user

    # Flow control
    all_messages_max: int = 10_000  # pullThresholdForAll
    queue_messages_max: int = 1_000  # pullThresholdForQueue
    queue_mib_max: int = 100  # pullThresholdSizeForQueue
    queue_span_max: int = 2_000  # consumeMaxSpan

    # Checking for changes of a topic's queues
    topic_check_interval_ms: int = 30_000  # topicMetadataCheckIntervalMillis
    topic_check_first_ms: int = 10_000  # DefaultLitePullConsumerImpl.startScheduleTask
    setting_rules: ClassVar[SettingRules] = LITE_PULL_CONSUMER_RULES

    @property
    def broker_id(self) -> int | None:
        """The broker id to pull from; None: as brokers suggest in replies."""
        return self.default_broker_id if self.connect_broker_by_user else None


# Names of settings in other clients ---------------------------------------------------


UPSTREAM_NAMES: Mapping[str, str] = {  # the setters of DefaultMQProducer and DefaultMQPushConsumer
    "namesrvAddr": "namesrv",
    "clientIP": "client_ip",
    "unitName": "unit_name",
    "unitMode": "unit_mode",
    "instanceName": "instance_name",
    "pollNameServerInterval": "route_poll_interval_ms",
    "heartbeatBrokerInterval": "heartbeat_interval_ms",
    "persistConsumerOffsetInterval": "offset_persist_interval_ms",
    "mqClientApiTimeout": "api_timeout_ms",
    "vipChannelEnabled": "vip_channel_enabled",
    "enableMsgTrace": "trace",
    "enableTrace": "trace",
    "customizedTraceTopic": "trace_topic",
    "traceTopic": "trace_topic",
    "traceMsgBatchNum": "trace_batch_max",
    "producerGroup": "group",
    "consumerGroup": "group",
    "createTopicKey": "create_topic_key",
    "defaultTopicQueueNums": "default_topic_queues",
    "sendMsgTimeout": "send_timeout_ms",
    "sendMsgMaxTimeoutPerRequest": "send_timeout_ms_per_attempt",
    "retryTimesWhenSendFailed": "sync_retries",
    "retryTimesWhenSendAsyncFailed": "async_retries",
    "retryAnotherBrokerWhenNotStoreOK": "retry_another_broker_when_not_store_ok",
    "compressMsgBodyOverHowmuch": "compress_bytes_min",
    "maxMessageSize": "message_bytes_max",
    "sendLatencyFaultEnable": "send_latency_fault_enable",
    "startDetectorEnable": "start_detector_enable",
    "detectTimeout": "detect_timeout_ms",
    "detectInterval": "detect_interval_ms",
    "checkThreadPoolMinSize": "check_threads_max",
    "checkThreadPoolMaxSize": "check_threads_max",
    "checkRequestHoldMax": "check_requests_max",
    "messageModel": "model",
    "consumeFromWhere": "consume_from",
    "consumeTimestamp": "consume_from_time_ms",
    "pullBatchSize": "pull_batch_max",
    "pullBatchSizeInBytes": "pull_bytes_max",
    "pullInterval": "pull_interval_ms",
    "postSubscriptionWhenPull": "post_subscription_when_pull",
    "pullThresholdForQueue": "queue_messages_max",
    "pullThresholdSizeForQueue": "queue_mib_max",
    "consumeConcurrentlyMaxSpan": "queue_span_max",
    "pullThresholdForAll": "all_messages_max",
    "consumeMaxSpan": "queue_span_max",
    "pullThreadNums": "pull_threads_max",
    "pollTimeoutMillis": "poll_timeout_ms",
    "autoCommit": "auto_commit",
    "autoCommitIntervalMillis": "auto_commit_interval_ms",
    "brokerSuspendMaxTimeMillis": "pull_hold_ms_max",
    "consumerTimeoutMillisWhenSuspend": "pull_held_timeout_ms",
    "consumerPullTimeoutMillis": "pull_timeout_ms",
    "topicMetadataCheckIntervalMillis": "topic_check_interval_ms",
    "enableRebalance": "enable_rebalance",
    "enableStreamRequestType": "stream_requests",
    "connectBrokerByUser": "connect_broker_by_user",
    "defaultBrokerId": "default_broker_id",
    "pullThresholdForTopic": "topic_messages_max",
    "pullThresholdSizeForTopic": "topic_mib_max",
    "consumeThreadMax": "consume_threads_max",
    "consumeMessageBatchMaxSize": "consume_batch_max",
    "consumeTimeout": "consume_timeout_ms",
    "maxReconsumeTimes": "reconsume_times_max",
    "suspendCurrentQueueTimeMillis": "suspend_queue_ms",
    "awaitTerminationMillisWhenShutdown": "termination_ms_max",
}
OTHER_NAMES: Mapping[str, str] = {  # of clients in other languages, and likely guesses
    "groupName": "group",
    "groupId": "group",
    "nameSrv": "namesrv",
    "nameServer": "namesrv",
    "nameServerAddress": "namesrv",
    "namesrvAddress": "namesrv",
    "endpoints": "namesrv",
    "bootstrapServers": "namesrv",
    "retries": "sync_retries",
    "timeout": "send_timeout_ms",
    "sendTimeout": "send_timeout_ms",
    "broadcasting": "model",
    "consumeThreadNums": "consume_threads_max",
    "consumeThreadMin": "consume_threads_max",
    "maxBatchSize": "consume_batch_max",
}
SETTING_NAMES_OF_OTHER_CLIENTS: Mapping[str, str] = {**OTHER_NAMES, **UPSTREAM_NAMES}

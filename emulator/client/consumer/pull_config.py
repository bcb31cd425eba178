"""The settings of the two pull consumers, with upstream's name and default beside each."""

from __future__ import annotations

from typing import ClassVar

from emulator.client.consumer.consumer_config import GroupMemberConfig, StartingConfig
from emulator.setting_rules import Range, Relation, SettingRules, ranges

SUBSCRIBED_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
HOLD = Relation(
    ("pull_held_timeout_ms", "pull_hold_ms_max"),
    lambda config: config.pull_held_timeout_ms >= config.pull_hold_ms_max,
    "{pull_held_timeout_ms} must be at least {pull_hold_ms_max}",
)

PULL_CONSUMER_RULES = SettingRules(
    ranges(
        (Range(0), "pull_hold_ms_max reconsume_times_max default_broker_id"),
        (Range(1), "pull_held_timeout_ms pull_timeout_ms"),
    ),
    relations=(HOLD,),
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
        HOLD,
        Relation(
            ("consume_from",),
            lambda config: config.consume_from in SUBSCRIBED_FROM,
            f"{{consume_from}} must be one of {', '.join(SUBSCRIBED_FROM)}",
        ),
    ),
)


class PullConsumerConfig(GroupMemberConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pull consumer.  Upstream: DefaultMQPullConsumer."""

    stream_requests: bool = True  # enableStreamRequestType (4.9.4)
    pull_hold_ms_max: int = 20_000  # brokerSuspendMaxTimeMillis
    pull_held_timeout_ms: int = 30_000  # consumerTimeoutMillisWhenSuspend
    pull_timeout_ms: int = 10_000  # consumerPullTimeoutMillis
    reconsume_times_max: int = 16  # maxReconsumeTimes
    enable_rebalance: bool = True  # enableRebalance (5.3.2)
    connect_broker_by_user: bool = False  # connectBrokerByUser
    default_broker_id: int = 0  # defaultBrokerId, with the one above
    setting_rules: ClassVar[SettingRules] = PULL_CONSUMER_RULES

    @property
    def retries_max(self) -> int:
        """How often a message that was sent back comes again before it is a dead letter."""
        return self.reconsume_times_max

    @property
    def broker_id(self) -> int | None:
        """Which broker to pull from, whatever brokers suggest; None: as they suggest."""
        return self.default_broker_id if self.connect_broker_by_user else None


class LitePullConsumerConfig(
    StartingConfig, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """One lite pull consumer.  Upstream: DefaultLitePullConsumer, and its tasks' constants."""

    stream_requests: bool = True  # enableStreamRequestType (4.9.4)

    # Polling and committing
    poll_timeout_ms: int = 5_000  # pollTimeoutMillis
    auto_commit: bool = True  # autoCommit
    auto_commit_interval_ms: int = 5_000  # autoCommitIntervalMillis, at least 1000

    # Pulling
    pull_batch_max: int = 10  # pullBatchSize
    pull_threads_max: int = 20  # pullThreadNums (before 5.3.1 it is 20 whatever is set)
    pull_hold_ms_max: int = 20_000  # brokerSuspendMaxTimeMillis
    pull_held_timeout_ms: int = 30_000  # consumerTimeoutMillisWhenSuspend
    pull_timeout_ms: int = (
        10_000  # consumerPullTimeoutMillis; every pull may be held: of no effect
    )
    pull_error_delay_ms: int = 1_000  # pullTimeDelayMillsWhenException
    pull_full_delay_ms: int = 50  # PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
    pull_busy_delay_ms: int = 20  # PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
    pull_paused_delay_ms: int = 1_000  # PULL_TIME_DELAY_MILLS_WHEN_PAUSE
    start_error_delay_ms: int = 3_000  # PULL_TIME_DELAY_MILLS_ON_EXCEPTION
    connect_broker_by_user: bool = False  # connectBrokerByUser
    default_broker_id: int = 0  # defaultBrokerId, with the one above

    # Flow control
    all_messages_max: int = 10_000  # pullThresholdForAll
    queue_messages_max: int = 1_000  # pullThresholdForQueue
    queue_mib_max: int = 100  # pullThresholdSizeForQueue
    queue_span_max: int = 2_000  # consumeMaxSpan

    # Listening for a topic's queues
    topic_check_interval_ms: int = 30_000  # topicMetadataCheckIntervalMillis
    topic_check_first_ms: int = 10_000  # DefaultLitePullConsumerImpl.startScheduleTask
    setting_rules: ClassVar[SettingRules] = LITE_PULL_CONSUMER_RULES

    @property
    def broker_id(self) -> int | None:
        """Which broker to pull from, whatever brokers suggest; None: as they suggest."""
        return self.default_broker_id if self.connect_broker_by_user else None

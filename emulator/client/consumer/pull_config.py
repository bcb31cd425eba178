"""The settings of the two pull consumers, with upstream's name and default beside each."""

from __future__ import annotations

from emulator.client.consumer.consumer_config import GroupMemberConfig, StartingConfig

SUBSCRIBED_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hold(self.pull_hold_ms_max, self.pull_held_timeout_ms)

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
    pull_threads_max: int = 20  # pullThreadNums
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hold(self.pull_hold_ms_max, self.pull_held_timeout_ms)
        if self.auto_commit_interval_ms < 1_000:
            raise ValueError("auto_commit_interval_ms is at least 1000")
        if not 1 <= self.pull_batch_max <= 1024:
            raise ValueError("pull_batch_max is between 1 and 1024")
        if not 1 <= self.pull_threads_max <= 1000:
            raise ValueError("pull_threads_max is between 1 and 1000")
        if self.consume_from not in SUBSCRIBED_FROM:
            raise ValueError(f"consume_from is one of {', '.join(SUBSCRIBED_FROM)}")

    @property
    def broker_id(self) -> int | None:
        """Which broker to pull from, whatever brokers suggest; None: as they suggest."""
        return self.default_broker_id if self.connect_broker_by_user else None


def check_hold(hold_ms_max: int, timeout_ms: int) -> None:
    """Raises ``ValueError`` if brokers may hold a pull longer than the consumer waits."""
    if timeout_ms < hold_ms_max:
        raise ValueError("pull_held_timeout_ms is at least pull_hold_ms_max")

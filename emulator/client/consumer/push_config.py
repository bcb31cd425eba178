"""The settings of a push consumer, with upstream's name and default beside each."""

from __future__ import annotations

from typing import ClassVar

from emulator.client.consumer.consumer_config import MS_A_MINUTE, StartingConfig
from emulator.setting_rules import Range, Relation, SettingRules, ranges

FOREVER = 2**31 - 1


PUSH_CONSUMER_RULES = SettingRules(  # DefaultMQPushConsumerImpl.checkConfig, where it has one
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
        (Range(-1), "reconsume_times_max"),  # -1: see there
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


class PushConsumerConfig(StartingConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One push consumer.  Upstream: DefaultMQPushConsumer, and the services' own constants."""

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
    listener_ms: int | None = None  # ours: how long an inline call of a plain function takes

    # Locks
    lock_interval_ms: int = 20_000  # rocketmq.client.rebalance.lockInterval
    lock_first_ms: int = 1_000  # ConsumeMessageOrderlyService.start
    unlock_delay_ms: int = 20_000  # rocketmq.client.unlockDelayTimeMills
    setting_rules: ClassVar[SettingRules] = PUSH_CONSUMER_RULES

    @property
    def retries_max(self) -> int:
        """How often a message is consumed again before it goes to the group's dead letters."""
        if self.reconsume_times_max != -1:
            return self.reconsume_times_max
        return FOREVER if self.orderly else 16

"""What a consumer says of itself when it is asked: settings, subscriptions, queues, figures.

The settings have the names of the fields of a Java client, which shows all that it has: from
5.1.0 also those that every client has.  Left out are those that do not exist here, and
fields that are objects of a JVM (listener, strategy, offset store, log).  No stacks either.

Upstream: DefaultMQPushConsumerImpl.consumerRunningInfo, MQClientInstance.consumerRunningInfo,
MixAll.object2Properties.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from emulator.client.consumer.consumer_config import MS_A_MINUTE, StartingConfig
from emulator.client.consumer.process_queue import MIB
from emulator.client.consumer.pull_config import LitePullConsumerConfig, PullConsumerConfig
from emulator.releases import CLIENT_FIELDS_SHOWN, PULL_LIMITS_BYTES
from protocol.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from protocol.versions import version_desc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.client.consumer.member import Member, PushMember
    from emulator.client.consumer.process_queue import ProcessQueue
    from protocol.queues import MessageQueue
    from protocol.subscription import SubscriptionData

OF_A_CONSUMER = {  # field of DefaultMQPushConsumer: ours, in the same unit
    "consumerGroup": "group",
    "messageModel": "model",
    "consumeFromWhere": "consume_from",
    "consumeThreadMin": "consume_threads_max",
    "consumeThreadMax": "consume_threads_max",
    "consumeConcurrentlyMaxSpan": "queue_span_max",
    "pullThresholdForQueue": "queue_messages_max",
    "pullThresholdSizeForQueue": "queue_mib_max",
    "pullThresholdForTopic": "topic_messages_max",
    "pullThresholdSizeForTopic": "topic_mib_max",
    "pullInterval": "pull_interval_ms",
    "consumeMessageBatchMaxSize": "consume_batch_max",
    "pullBatchSize": "pull_batch_max",
    "postSubscriptionWhenPull": "post_subscription_when_pull",
    "unitMode": "unit_mode",
    "maxReconsumeTimes": "reconsume_times_max",
    "suspendCurrentQueueTimeMillis": "suspend_queue_ms",
    "awaitTerminationMillisWhenShutdown": "termination_ms_max",
}
OF_A_CONSUMER_OF_5 = {"pullBatchSizeInBytes": "pull_bytes_max"}
OF_A_PULL_CONSUMER = {  # field of DefaultMQPullConsumer
    "consumerGroup": "group",
    "brokerSuspendMaxTimeMillis": "pull_hold_ms_max",
    "consumerTimeoutMillisWhenSuspend": "pull_held_timeout_ms",
    "consumerPullTimeoutMillis": "pull_timeout_ms",
    "messageModel": "model",
    "unitMode": "unit_mode",
    "maxReconsumeTimes": "reconsume_times_max",
}
OF_A_LITE_PULL_CONSUMER = {  # field of DefaultLitePullConsumer
    "consumerGroup": "group",
    "brokerSuspendMaxTimeMillis": "pull_hold_ms_max",
    "consumerTimeoutMillisWhenSuspend": "pull_held_timeout_ms",
    "consumerPullTimeoutMillis": "pull_timeout_ms",
    "messageModel": "model",
    "unitMode": "unit_mode",
    "autoCommit": "auto_commit",
    "pullThreadNums": "pull_threads_max",
    "autoCommitIntervalMillis": "auto_commit_interval_ms",
    "pullBatchSize": "pull_batch_max",
    "pullThresholdForAll": "all_messages_max",
    "consumeMaxSpan": "queue_span_max",
    "pullThresholdForQueue": "queue_messages_max",
    "pullThresholdSizeForQueue": "queue_mib_max",
    "pollTimeoutMillis": "poll_timeout_ms",
    "topicMetadataCheckIntervalMillis": "topic_check_interval_ms",
    "consumeFromWhere": "consume_from",
}
OF_ACTIVE_MEMBERS = {
    PullConsumerConfig: OF_A_PULL_CONSUMER,
    LitePullConsumerConfig: OF_A_LITE_PULL_CONSUMER,
}
OF_EVERY_CLIENT = {  # field of ClientConfig
    "namesrvAddr": "namesrv",
    "heartbeatBrokerInterval": "heartbeat_interval_ms",
    "persistConsumerOffsetInterval": "offset_persist_interval_ms",
    "pollNameServerInterval": "route_poll_interval_ms",
    "mqClientApiTimeout": "api_timeout_ms",
    "pullTimeDelayMillsWhenException": "pull_error_delay_ms",
    "vipChannelEnabled": "vip_channel_enabled",
}
NO_LIMIT = -1  # pullThresholdForTopic and its like


def running_info(member: PushMember) -> ConsumerRunningInfo:
    """The state of *member* now."""
    now_ms = member.now_ms()
    subscriptions = list(member.subscriptions.values())
    held = sorted(member.held.items())
    return ConsumerRunningInfo(
        properties=_properties(member),
        subscription_set=subscriptions,
        mq_table={queue: _about(member, queue, found) for queue, found in held},
        status_table={s.topic: member.figures.status(s.topic, now_ms) for s in subscriptions},
    )


def of_active_member(
    member: Member,
    subscriptions: list[SubscriptionData],
    held: Mapping[MessageQueue, ProcessQueue],
) -> ConsumerRunningInfo:
    """The state of a pull consumer now.

    Upstream: DefaultMQPullConsumerImpl.consumerRunningInfo, DefaultLitePullConsumerImpl's.
    """
    fields = OF_ACTIVE_MEMBERS[type(member.config)]
    if member.release >= CLIENT_FIELDS_SHOWN:
        fields = fields | OF_EVERY_CLIENT
    own = {name: getattr(member.config, field, None) for name, field in fields.items()}
    properties = {name: _text(value) for name, value in own.items() if value is not None}
    if isinstance(member.config, StartingConfig):
        properties["consumeTimestamp"] = _timestamp(member.config, member.started_ms)
    return ConsumerRunningInfo(
        properties={**properties, **_of_instance(member, "CONSUME_ACTIVELY")},
        subscription_set=subscriptions,
        mq_table={queue: _about(member, queue, found) for queue, found in sorted(held.items())},
    )


def _properties(member: PushMember) -> dict[str, str]:
    config = member.config
    fields = dict(OF_A_CONSUMER)
    if member.release >= PULL_LIMITS_BYTES:
        fields |= OF_A_CONSUMER_OF_5
    if member.release >= CLIENT_FIELDS_SHOWN:
        fields |= OF_EVERY_CLIENT
    return {
        **{name: _text(getattr(config, field)) for name, field in fields.items()},
        "consumeTimeout": str(config.consume_timeout_ms // MS_A_MINUTE),
        "consumeTimestamp": _timestamp(config, member.started_ms),
        "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads_max),
        "PROP_CONSUMEORDERLY": _text(config.orderly),
        **_of_instance(member, "CONSUME_PASSIVELY"),
    }


def _of_instance(member: Member, consume_type: str) -> dict[str, str]:
    addresses = member.instance.name_servers.addresses
    return {
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in addresses),
        "PROP_CONSUME_TYPE": consume_type,
        "PROP_CLIENT_VERSION": version_desc(member.release.version),
        "PROP_CONSUMER_START_TIMESTAMP": str(member.started_ms),
    }


def _timestamp(config: StartingConfig, started_ms: int) -> str:
    from_ms = config.new_group_from_ms(started_ms)
    return f"{datetime.fromtimestamp(from_ms / 1_000, UTC):%Y%m%d%H%M%S}"


def _text(value: object) -> str:
    if value is None:
        return str(NO_LIMIT)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _about(member: Member, queue: MessageQueue, found: ProcessQueue) -> ProcessQueueInfo:
    """Upstream: ProcessQueue.fillProcessQueueInfo."""
    first = found.first()
    waiting = found.count - len(found.taken)
    taken = [message.queue_offset for message in found.taken]
    return ProcessQueueInfo(
        commit_offset=member.offsets.table.get(queue) or 0,
        cached_msg_min_offset=first.queue_offset if first else 0,
        cached_msg_max_offset=first.queue_offset + found.span if first else 0,
        cached_msg_count=waiting,
        cached_msg_size_in_mib=found.bytes_cached // MIB,
        transaction_msg_min_offset=min(taken, default=0),
        transaction_msg_max_offset=max(taken, default=0),
        transaction_msg_count=len(taken),
        locked=found.locked,
        try_unlock_times=found.unlock_tries,
        last_lock_timestamp=found.last_lock_ms,
        droped=found.dropped,
        last_pull_timestamp=found.last_pull_ms,
        last_consume_timestamp=found.last_consume_ms,
    )

"""Requests of brokers to a consumer: report its state, consume a message, reset its offsets.

The requests: RESET_CONSUMER_CLIENT_OFFSET (220), GET_CONSUMER_STATUS_FROM_CLIENT (221),
GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309).  The instance finds the consumer
by its group.  In the running info settings have the field names of the Java client; from 5.1.0 it
also has the settings that all clients share.  It lacks settings that do not exist here, fields
that are objects of a JVM (listener, strategy, offset store, log), and thread stacks.

Upstream: ClientRemotingProcessor, MQClientInstance (consumerRunningInfo, resetOffset),
ConsumeMessageConcurrentlyService.consumeMessageDirectly, and the orderly one's;
DefaultMQPushConsumerImpl.consumerRunningInfo, MixAll.object2Properties.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import trio

from rocketmq_emulator.client.consumer.group.listeners import (
    ConsumeContext,
    ConsumeResult,
    restore_topic,
)
from rocketmq_emulator.client.consumer.group.process_queue import MIB
from rocketmq_emulator.client.settings.config import (
    MS_A_MINUTE,
    ConsumeFromConfig,
    LitePullConsumerConfig,
    PullConsumerConfig,
)
from rocketmq_emulator.net.results import NO_REPLY, Call, Reply, Result, Wait
from rocketmq_emulator.protocol.bodies.body import Body, decode_unlimited_body, encode_body
from rocketmq_emulator.protocol.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketmq_emulator.protocol.bodies.running import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.messages.message import decode_messages
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import version_desc
from rocketmq_emulator.settings.releases import CLIENT_FIELDS_SHOWN, PULL_LIMITS_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from rocketmq_emulator.client.consumer.group.listeners import ListenerInvoker
    from rocketmq_emulator.client.consumer.group.member import Member, PushMember
    from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
    from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.requests.groups import (
        ConsumeMessageDirectlyRequest,
        GetConsumerStatusRequest,
    )
    from rocketmq_emulator.protocol.requests.offsets import ResetOffsetRequest


RESET_WAIT_S = 10  # MQClientInstance.resetOffset
DIRECT_MS_MAX = 10 * 60_000  # ours: after that the request gets no reply

RESULTS: dict[ConsumeResult, CMResult] = {
    ConsumeResult.SUCCESS: "CR_SUCCESS",
    ConsumeResult.RECONSUME_LATER: "CR_LATER",
    ConsumeResult.SUSPEND: "CR_LATER",
    ConsumeResult.COMMIT: "CR_COMMIT",
    ConsumeResult.ROLLBACK: "CR_ROLLBACK",
}


class PushConsumerRequests:
    """Handles brokers' requests for one push consumer."""

    def __init__(self, member: PushMember, reset: OffsetReset, directly: DirectConsume) -> None:
        self._member = member
        self._offset_reset = reset
        self._directly = directly

    def reset_offset(self, call: Call[ResetOffsetRequest]) -> Result:
        """Start the reset, which takes ten seconds; there is no reply (one-way)."""
        table = decode_unlimited_body(call.body, ResetOffsetBody).offset_table
        topic = call.request.topic
        offsets = {queue: offset for queue, offset in table.items() if queue.topic == topic}
        self._member.start_soon(lambda: self._offset_reset.run(offsets))
        return NO_REPLY

    def consumer_status(self, call: Call[GetConsumerStatusRequest]) -> Result:
        """Reply with one topic's offsets in this client's memory."""
        table = self._member.offsets.table.of_topic(call.request.topic)
        return self._reply(GetConsumerStatusBody(message_queue_table=table))

    def running_info(self, _call: Call[Header]) -> Result:
        """Reply with the consumer's settings, subscriptions, process queues and figures."""
        return self._reply(running_info(self._member))

    def consume_directly(self, call: Call[ConsumeMessageDirectlyRequest]) -> Result:
        """Call the listener with the body's message; reply when it has returned."""
        messages = decode_messages(call.body, call.request.broker_name or "")
        if not messages:
            raise BadFields("the body is no message")
        consumed = object()
        results: list[ConsumeMessageDirectlyResult] = []

        async def consume() -> None:
            results.append(await self._directly.consume(messages[0]))
            self._member.instance.remoting.ring(consumed, None)

        def resume(_now_ms: int, expired: bool) -> Result:
            return NO_REPLY if expired else self._reply(results[0])

        self._member.start_soon(consume)
        return Wait(on=consumed, until_ms=call.now_ms + DIRECT_MS_MAX, resume=resume)

    # Inside ---------------------------------------------------------------------------

    def _reply(self, body: Body) -> Reply:
        return Reply(body=encode_body(body, self._member.release))


class DirectConsume:
    """Calls the listener with one message; it is neither acknowledged nor sent back."""

    def __init__(self, member: PushMember, invoker: ListenerInvoker) -> None:
        self._member = member
        self._invoker = invoker

    async def consume(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Call the listener; returns its outcome."""
        member = self._member
        restore_topic(message, member.retry_topic)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        began_ms = member.now_ms()
        outcome = await self._invoker.wait_outcome(
            [message], ConsumeContext(queue), ConsumeResult.RECONSUME_LATER
        )
        return ConsumeMessageDirectlyResult(
            order=member.config.orderly,
            auto_commit=outcome.context.auto_commit,
            consume_result="CR_THROW_EXCEPTION" if outcome.error else RESULTS[outcome.result],
            remark=repr(outcome.error) if outcome.error else None,
            spent_time_mills=member.now_ms() - began_ms,
        )


class OffsetReset:
    """Sets a consumer's offsets: pause, drop the queues, wait, set the offsets, resume.

    The wait is for listeners that still run; their acknowledgements change no offset, because
    their queues are dropped.  *resume* ends the pause and rebalances, which claims the queues
    again.  Upstream: MQClientInstance.resetOffset.
    """

    def __init__(
        self, member: PushMember, rebalance: Rebalance, resume: Callable[[], Awaitable[object]]
    ) -> None:
        self._member = member
        self._rebalance = rebalance
        self._resume = resume

    async def run(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets of the held queues among *offsets*; takes ten seconds."""
        self._member.is_paused = True
        for queue, process_queue in self._member.process_queue_table.items():
            if queue in offsets:
                process_queue.dropped = True
                process_queue.clear()
        await trio.sleep(RESET_WAIT_S)
        await self._rebalance.reset(offsets)
        await self._resume()


# Running info -------------------------------------------------------------------------


PUSH_CONSUMER_FIELDS = {  # field of DefaultMQPushConsumer: ours, in the same unit
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
PUSH_CONSUMER_FIELDS_OF_5 = {"pullBatchSizeInBytes": "pull_bytes_max"}
PULL_CONSUMER_FIELDS = {  # field of DefaultMQPullConsumer
    "consumerGroup": "group",
    "brokerSuspendMaxTimeMillis": "pull_hold_ms_max",
    "consumerTimeoutMillisWhenSuspend": "pull_held_timeout_ms",
    "consumerPullTimeoutMillis": "pull_timeout_ms",
    "messageModel": "model",
    "unitMode": "unit_mode",
    "maxReconsumeTimes": "reconsume_times_max",
}
LITE_PULL_CONSUMER_FIELDS = {  # field of DefaultLitePullConsumer
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
FIELDS_BY_CONFIG = {
    PullConsumerConfig: PULL_CONSUMER_FIELDS,
    LitePullConsumerConfig: LITE_PULL_CONSUMER_FIELDS,
}
CLIENT_CONFIG_FIELDS = {  # field of ClientConfig
    "namesrvAddr": "namesrv",
    "heartbeatBrokerInterval": "heartbeat_interval_ms",
    "persistConsumerOffsetInterval": "offset_persist_interval_ms",
    "pollNameServerInterval": "route_poll_interval_ms",
    "mqClientApiTimeout": "api_timeout_ms",
    "pullTimeDelayMillsWhenException": "pull_error_delay_ms",
    "vipChannelEnabled": "vip_channel_enabled",
}
NO_LIMIT = -1  # pullThresholdForTopic, pullThresholdSizeForTopic


def running_info(member: PushMember) -> ConsumerRunningInfo:
    """The running info of a push consumer."""
    now_ms = member.now_ms()
    subscriptions = list(member.subscriptions.values())
    held = sorted(member.process_queue_table.items())
    return ConsumerRunningInfo(
        properties=_properties(member),
        subscription_set=subscriptions,
        mq_table={queue: _process_queue_info(member, queue, found) for queue, found in held},
        status_table={s.topic: member.stats.status(s.topic, now_ms) for s in subscriptions},
    )


def pull_consumer_running_info(
    member: Member,
    subscriptions: list[SubscriptionData],
    held: Mapping[MessageQueue, ProcessQueue],
) -> ConsumerRunningInfo:
    """The running info of a pull consumer or a lite pull consumer.

    Upstream: DefaultMQPullConsumerImpl.consumerRunningInfo, DefaultLitePullConsumerImpl's.
    """
    fields = FIELDS_BY_CONFIG[type(member.config)]
    if member.release >= CLIENT_FIELDS_SHOWN:
        fields = fields | CLIENT_CONFIG_FIELDS
    own = {name: getattr(member.config, field, None) for name, field in fields.items()}
    properties = {name: _text(value) for name, value in own.items() if value is not None}
    if isinstance(member.config, ConsumeFromConfig):
        properties["consumeTimestamp"] = _timestamp(member.config, member.started_ms)
    return ConsumerRunningInfo(
        properties={**properties, **_instance_properties(member, "CONSUME_ACTIVELY")},
        subscription_set=subscriptions,
        mq_table={
            queue: _process_queue_info(member, queue, found)
            for queue, found in sorted(held.items())
        },
    )


def _properties(member: PushMember) -> dict[str, str]:
    config = member.config
    fields = dict(PUSH_CONSUMER_FIELDS)
    if member.release >= PULL_LIMITS_BYTES:
        fields |= PUSH_CONSUMER_FIELDS_OF_5
    if member.release >= CLIENT_FIELDS_SHOWN:
        fields |= CLIENT_CONFIG_FIELDS
    return {
        **{name: _text(getattr(config, field)) for name, field in fields.items()},
        "consumeTimeout": str(config.consume_timeout_ms // MS_A_MINUTE),
        "consumeTimestamp": _timestamp(config, member.started_ms),
        "PROP_THREADPOOL_CORE_SIZE": str(config.consume_threads_max),
        "PROP_CONSUMEORDERLY": _text(config.orderly),
        **_instance_properties(member, "CONSUME_PASSIVELY"),
    }


def _instance_properties(member: Member, consume_type: str) -> dict[str, str]:
    addresses = member.instance.name_servers.addresses
    return {
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in addresses),
        "PROP_CONSUME_TYPE": consume_type,
        "PROP_CLIENT_VERSION": version_desc(member.release.version),
        "PROP_CONSUMER_START_TIMESTAMP": str(member.started_ms),
    }


def _timestamp(config: ConsumeFromConfig, started_ms: int) -> str:
    from_ms = config.new_group_from_ms(started_ms)
    return f"{datetime.fromtimestamp(from_ms / 1_000, UTC):%Y%m%d%H%M%S}"


def _text(value: object) -> str:
    if value is None:
        return str(NO_LIMIT)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _process_queue_info(
    member: Member, queue: MessageQueue, found: ProcessQueue
) -> ProcessQueueInfo:
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

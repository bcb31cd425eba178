"""What settings are called elsewhere, for an error that says what they are called here.

Who comes from a client in Java, Node, Go or Python writes that client's names.  They are not
taken, but ``Producer(retryTimesWhenSendFailed=3)`` is told about ``sync_retries``.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    "pullThresholdForTopic": "topic_messages_max",
    "pullThresholdSizeForTopic": "topic_mib_max",
    "consumeThreadMax": "consume_threads_max",
    "consumeMessageBatchMaxSize": "consume_batch_max",
    "consumeTimeout": "consume_timeout_ms",
    "maxReconsumeTimes": "reconsume_times_max",
    "suspendCurrentQueueTimeMillis": "suspend_queue_ms",
    "awaitTerminationMillisWhenShutdown": "termination_ms_max",
}
OTHER_NAMES: Mapping[str, str] = {  # of clients in other languages, and words that people try
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
ELSEWHERE: Mapping[str, str] = {**OTHER_NAMES, **UPSTREAM_NAMES}

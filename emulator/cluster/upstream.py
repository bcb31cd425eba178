"""RocketMQ's own property names, and what each is here.

Three literal tables a role.  A property is a setting of ours; or harmless, because it
tunes what we have not got (threads, files, JVM matters), for every value or for some; or
it is refused by name: whoever sets it relies on something that would not happen.

Upstream: BrokerConfig, MessageStoreConfig, NamesrvConfig, NettyServerConfig, NettyClientConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LISTEN_HOST, LISTEN_PORT, ADVERTISED_HOST = "listen host", "listen port", "advertised host"
ANY_VALUE: frozenset[str] = frozenset()


class Property(NamedTuple):
    """One setting: our field, and how many of our units one of upstream's is."""

    field: str
    unit: int = 1


class Dialect(NamedTuple):
    """The names one role understands."""

    settings: Mapping[str, Property]
    harmless: Mapping[str, frozenset[str]]  # values that change nothing; ANY_VALUE: all of them


_NET = {
    "listenPort": Property(LISTEN_PORT),
    "bindAddress": Property(LISTEN_HOST),
    "serverChannelMaxIdleTimeSeconds": Property("net.idle_ms_max", unit=1_000),
}
_NET_HARMLESS = dict.fromkeys(
    (
        "rocketmqHome",
        "configStorePath",
        "serverWorkerThreads",
        "serverSelectorThreads",
        "serverCallbackExecutorThreads",
        "serverOnewaySemaphoreValue",
        "serverAsyncSemaphoreValue",
        "serverSocketSndBufSize",
        "serverSocketRcvBufSize",
        "serverSocketBacklog",
        "serverPooledByteBufAllocatorEnable",
        "useEpollNativeSelector",
        "clientWorkerThreads",
        "clientCallbackExecutorThreads",
        "clientAsyncSemaphoreValue",
        "clientOnewaySemaphoreValue",
    ),
    ANY_VALUE,
)
_OFF = frozenset({"false"})

NAME_SERVER = Dialect(
    settings={
        **_NET,
        "orderMessageEnable": Property("order_message_enable"),
        "returnOrderTopicConfigToBroker": Property("return_order_topic_config_to_broker"),
        "deleteTopicWithBrokerRegistration": Property("delete_topic_with_broker_registration"),
        "enableAllTopicList": Property("enable_all_topic_list"),
        "enableTopicList": Property("enable_topic_list"),
        "supportActingMaster": Property("support_acting_master"),
        "notifyMinBrokerIdChanged": Property("notify_min_broker_id_changed"),
        "needWaitForService": Property("need_wait_for_service"),
        "waitSecondsForService": Property("wait_for_service_ms", unit=1_000),
        "scanNotActiveBrokerInterval": Property("scan_interval_ms"),
        "configBlackList": Property("config_black_list"),
    },
    harmless={
        **_NET_HARMLESS,
        "kvConfigPath": ANY_VALUE,
        "productEnvName": ANY_VALUE,
        "clientRequestThreadPoolNums": ANY_VALUE,
        "defaultThreadPoolNums": ANY_VALUE,
        "clientRequestThreadPoolQueueCapacity": ANY_VALUE,
        "defaultThreadPoolQueueCapacity": ANY_VALUE,
        "unRegisterBrokerQueueCapacity": ANY_VALUE,
        "clusterTest": _OFF,
        "enableControllerInNamesrv": _OFF,
    },
)

BROKER = Dialect(
    settings={
        **_NET,
        "brokerClusterName": Property("cluster"),
        "brokerName": Property("name"),
        "brokerId": Property("broker_id"),
        "brokerIP1": Property(ADVERTISED_HOST),
        "namesrvAddr": Property("namesrv"),
        "brokerPermission": Property("perm"),
        "regionId": Property("region"),
        "traceOn": Property("trace_on"),
        "registerNameServerPeriod": Property("register_interval_ms"),
        "registerBrokerTimeoutMills": Property("register_call_ms_max"),
        "autoCreateTopicEnable": Property("auto_create_topic"),
        "autoCreateSubscriptionGroup": Property("auto_create_group"),
        "defaultTopicQueueNums": Property("default_topic_queues"),
        "clusterTopicEnable": Property("cluster_topic"),
        "brokerTopicEnable": Property("broker_topic"),
        "traceTopicEnable": Property("trace_topic"),
        "rejectTransactionMessage": Property("reject_transactions"),
        "enablePropertyFilter": Property("property_filter"),
        "slaveReadEnable": Property("slave_read"),
        "channelExpiredTimeout": Property("client_silence_ms_max"),
        "notifyConsumerIdsChangedEnable": Property("notify_consumer_ids_changed"),
        "longPollingEnable": Property("long_polling"),
        "shortPollingTimeMills": Property("short_polling_ms"),
        "maxTransferBytesOnMessageInMemory": Property("transfer_bytes_max"),
        "maxTransferCountOnMessageInMemory": Property("transfer_messages_max"),
        "maxMessageSize": Property("message_bytes_max"),
        "messageDelayLevel": Property("delay_levels"),
        "storePathRootDir": Property("store"),
        "fileReservedTime": Property("retained_hours_max"),
        "flushConsumerOffsetInterval": Property("persist_offsets_interval_ms"),
        "flushDelayOffsetInterval": Property("persist_delays_interval_ms"),
        "flushDiskType": Property("flush_disk_type"),
        "syncFlushTimeout": Property("sync_flush_ms_max"),
        "flushIntervalCommitLog": Property("flush_interval_ms"),
        "flushCommitLogLeastPages": Property("flush_least_pages"),
        "flushCommitLogThoroughInterval": Property("flush_thorough_interval_ms"),
    },
    harmless={
        **_NET_HARMLESS,
        **dict.fromkeys(
            (
                "brokerIP2",
                "haListenPort",
                "storePathCommitLog",
                "storePathConsumeQueue",
                "storePathIndex",
                "storePathEpochFile",
                "storeCheckpoint",
                "abortFile",
                "mappedFileSizeCommitLog",
                "mappedFileSizeConsumeQueue",
                "deleteWhen",
                "diskMaxUsedSpaceRatio",
                "destroyMapedFileIntervalForcibly",
                "redeleteHangedFileInterval",
                "deleteCommitLogFilesInterval",
                "deleteConsumeQueueFilesInterval",
                "warmMapedFileEnable",
                "transientStorePoolEnable",
                "transientStorePoolSize",
                "transferMsgByHeap",
                "useReentrantLockWhenPutMessage",
                "osPageCacheBusyTimeOutMills",
                "waitTimeMillsInSendQueue",
                "flushIntervalConsumeQueue",
                "maxHashSlotNum",
                "maxIndexNum",
                "checkCRCOnRecover",
                "sendMessageThreadPoolNums",
                "pullMessageThreadPoolNums",
                "queryMessageThreadPoolNums",
                "adminBrokerThreadPoolNums",
                "clientManageThreadPoolNums",
                "consumerManageThreadPoolNums",
                "heartbeatThreadPoolNums",
                "endTransactionThreadPoolNums",
                "sendThreadPoolQueueCapacity",
                "pullThreadPoolQueueCapacity",
            ),
            ANY_VALUE,
        ),
        "brokerRole": frozenset({"ASYNC_MASTER"}),
        "aclEnable": _OFF,
        "enableDLegerCommitLog": _OFF,
        "enableControllerMode": _OFF,
        "fetchNamesrvAddrByAddressServer": _OFF,
        "compressedRegister": _OFF,
        "enableCalcFilterBitMap": _OFF,
    },
)

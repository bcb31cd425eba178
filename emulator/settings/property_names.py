"""RocketMQ's own property names, and the setting of ours that each one is.

Two literal tables a role.  A property is one of our settings; or harmless for every value or
for some, because it tunes a part that the emulator does not have (threads, files, the JVM).
Every other property is refused by name, because it would have no effect here.

Upstream: BrokerConfig, MessageStoreConfig, NamesrvConfig, ControllerConfig, NettyServerConfig,
NettyClientConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rocketmq_emulator.settings.setting_rules import BadField, unknown_setting

LISTEN_HOST, LISTEN_PORT, ADVERTISED_HOST = "listen host", "listen port", "advertised host"
ADDRESS_PARTS = {
    LISTEN_HOST: "listen_address",
    LISTEN_PORT: "listen_address",
    ADVERTISED_HOST: "advertised_address",
}
NET = "net."  # before the names of settings in the table ``net``
ANY_VALUE: frozenset[str] = frozenset()
SYSTEM_PROPERTIES = {  # of the JVM (-D): no file of RocketMQ can set them
    "lock_ms_max": "rocketmq.broker.rebalance.lockMaxLiveTime",
    "net.frame_bytes_max": "com.rocketmq.remoting.frameMaxLength",
}


class Setting(NamedTuple):
    """One setting: our field, and the number of our units in one unit of upstream."""

    field: str
    unit: int = 1


class PropertyTable(NamedTuple):
    """The property names that a role accepts."""

    settings: Mapping[str, Setting]
    harmless: Mapping[str, frozenset[str]]  # values that change nothing; ANY_VALUE: every value

    def names_by_setting(self) -> dict[str, str]:
        """RocketMQ's name of each of our settings, for messages; system properties too."""
        names = dict(SYSTEM_PROPERTIES)
        for name, setting in self.settings.items():
            names.setdefault(ADDRESS_PARTS.get(setting.field, setting.field), name)
        return names

    def by_our_names(
        self, given: Mapping[str, Any], *, ours: tuple[str, ...], owner: str
    ) -> dict[str, Any]:
        """*given*, settings by our names (*ours*) or RocketMQ's, as fields of a config struct.

        A value keeps its type; a number in another unit is converted.  Properties that are
        harmless are left out.  Raises ``BadField``, which names *owner*, for an unknown name, for
        a setting that is given twice, and for addresses, which a cluster sets.
        """
        found: dict[str, Any] = {}
        names: dict[str, str] = {}  # the name that was given, by ours
        for name, value in given.items():
            is_ours = name in ours or name.startswith(NET)
            setting = Setting(name) if is_ours else self._setting(name, value, ours, owner)
            if setting is None:
                continue
            other = names.setdefault(setting.field, name)
            if other != name:
                raise BadField(f"{owner}: {other} and {name} are the same setting: give one")
            is_number = isinstance(value, int) and not isinstance(value, bool)
            found[setting.field] = value * setting.unit if is_number else value
        flat = [name for name in found if name.startswith(NET)]
        net = {name.removeprefix(NET): found.pop(name) for name in flat}
        return {**found, "net": {**found.get("net", {}), **net}} if net else found

    def _setting(
        self, name: str, value: object, ours: tuple[str, ...], owner: str
    ) -> Setting | None:
        """The setting of RocketMQ's property *name*; None for a harmless one."""
        setting = self.settings.get(name)
        if setting is not None and setting.field in ADDRESS_PARTS:
            raise BadField(
                f"{owner}: {name}: a cluster sets the addresses of its nodes: give host and port"
            )
        if setting is not None:
            return setting
        values = self.harmless.get(name)
        if values is None:
            raise BadField(f"{owner}: {unknown_setting(name, [*ours, *self.settings])}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if values is not ANY_VALUE and text not in values:
            allowed = " or ".join(sorted(values))
            raise BadField(f"{owner}: {name}={text} is not supported; only {allowed} is")
        return None


_NET = {
    "listenPort": Setting(LISTEN_PORT),
    "bindAddress": Setting(LISTEN_HOST),
    "serverChannelMaxIdleTimeSeconds": Setting("net.idle_ms_max", unit=1_000),
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

NAME_SERVER = PropertyTable(
    settings={
        **_NET,
        "orderMessageEnable": Setting("order_message_enable"),
        "returnOrderTopicConfigToBroker": Setting("return_order_topic_config_to_broker"),
        "deleteTopicWithBrokerRegistration": Setting("delete_topic_with_broker_registration"),
        "enableAllTopicList": Setting("enable_all_topic_list"),
        "enableTopicList": Setting("enable_topic_list"),
        "supportActingMaster": Setting("support_acting_master"),
        "notifyMinBrokerIdChanged": Setting("notify_min_broker_id_changed"),
        "needWaitForService": Setting("need_wait_for_service"),
        "waitSecondsForService": Setting("wait_for_service_ms", unit=1_000),
        "scanNotActiveBrokerInterval": Setting("scan_interval_ms"),
        "configBlackList": Setting("config_black_list"),
        "enableControllerInNamesrv": Setting("controller_in_namesrv"),
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
    },
)

CONTROLLER = PropertyTable(
    settings={
        **_NET,
        "controllerDLegerGroup": Setting("group"),
        "controllerDLegerPeers": Setting("peers"),
        "controllerDLegerSelfId": Setting("self_id"),
        "controllerStorePath": Setting("store"),
        "scanNotActiveBrokerInterval": Setting("scan_interval_ms"),
        "scanInactiveMasterInterval": Setting("scan_masters_interval_ms"),
        "electMasterMaxRetryCount": Setting("elections_max"),
        "controllerType": Setting("controller_type"),
        "enableElectUncleanMaster": Setting("elect_unclean_master"),
        "notifyBrokerRoleChanged": Setting("notify_role_changed"),
        "configBlackList": Setting("config_black_list"),
    },
    harmless={
        **_NET_HARMLESS,
        "controllerThreadPoolNums": ANY_VALUE,
        "controllerRequestThreadPoolQueueCapacity": ANY_VALUE,
        "mappedFileSize": ANY_VALUE,
        "processReadEvent": ANY_VALUE,
        "metricsExporterType": frozenset({"DISABLE"}),
    },
)

BROKER = PropertyTable(
    settings={
        **_NET,
        "brokerClusterName": Setting("cluster"),
        "brokerName": Setting("name"),
        "brokerId": Setting("broker_id"),
        "brokerIP1": Setting(ADVERTISED_HOST),
        "namesrvAddr": Setting("namesrv"),
        "fetchNamesrvAddrByAddressServer": Setting("fetch_namesrv"),
        "rmqAddressServerDomain": Setting("address_server_domain"),
        "rmqAddressServerSubGroup": Setting("address_server_subgroup"),
        "brokerPermission": Setting("perm"),
        "regionId": Setting("region"),
        "traceOn": Setting("trace_on"),
        "registerNameServerPeriod": Setting("register_interval_ms"),
        "registerBrokerTimeoutMills": Setting("register_call_ms_max"),
        "autoCreateTopicEnable": Setting("auto_create_topic"),
        "autoCreateSubscriptionGroup": Setting("auto_create_group"),
        "defaultTopicQueueNums": Setting("default_topic_queues"),
        "clusterTopicEnable": Setting("cluster_topic"),
        "brokerTopicEnable": Setting("broker_topic"),
        "traceTopicEnable": Setting("trace_topic"),
        "msgTraceTopicName": Setting("trace_topic_name"),
        "rejectTransactionMessage": Setting("reject_transactions"),
        "transactionTimeOut": Setting("transaction_immunity_ms"),
        "transactionCheckMax": Setting("transaction_checks_max"),
        "transactionCheckInterval": Setting("transaction_check_interval_ms"),
        "transactionOpBatchInterval": Setting("transaction_op_interval_ms"),
        "transactionOpMsgMaxSize": Setting("transaction_op_bytes_max"),
        "storeReplyMessageEnable": Setting("store_replies"),
        "enablePropertyFilter": Setting("property_filter"),
        "filterSupportRetry": Setting("filter_retries"),
        "enableCalcFilterBitMap": Setting("calc_filter_bit_map"),
        "enableConsumeQueueExt": Setting("consume_queue_ext"),
        "filterDataCleanTimeSpan": Setting("filter_dead_ms_max"),
        "expectConsumerNumUseFilter": Setting("filter_groups_expected"),
        "maxErrorRateOfBloomFilter": Setting("filter_error_percent"),
        "useServerSideResetOffset": Setting("server_side_reset"),
        "slaveReadEnable": Setting("slave_read"),
        "offsetCheckInSlave": Setting("offset_check_in_slave"),
        "brokerRole": Setting("broker_role"),
        "haListenPort": Setting("ha_port"),
        "haMasterAddress": Setting("ha_master_address"),
        "haSendHeartbeatInterval": Setting("ha_heartbeat_interval_ms"),
        "haHousekeepingInterval": Setting("ha_silence_ms_max"),
        "haTransferBatchSize": Setting("ha_frame_bytes_max"),
        "haSlaveFallbehindMax": Setting("ha_behind_bytes_max"),
        "haMaxGapNotInSync": Setting("ha_behind_bytes_max"),
        "haFlowControlEnable": Setting("ha_flow_control"),
        "maxHaTransferByteInSecond": Setting("ha_bytes_per_second_max"),
        "haMaxTimeSlaveNotCatchup": Setting("ha_not_caught_up_ms_max"),
        "syncFromLastFile": Setting("sync_from_last_file"),
        "asyncLearner": Setting("async_learner"),
        "allAckInSyncStateSet": Setting("all_ack_in_sync_state_set"),
        "readUnCommitted": Setting("read_uncommitted"),
        "slaveTimeout": Setting("slave_ack_ms_max"),
        "inSyncReplicas": Setting("in_sync_replicas"),
        "minInSyncReplicas": Setting("min_in_sync_replicas"),
        "enableSlaveActingMaster": Setting("slave_acting_master"),
        "enableRemoteEscape": Setting("remote_escape"),
        "skipPreOnline": Setting("skip_pre_online"),
        "totalReplicas": Setting("total_replicas"),
        "enableAutoInSyncReplicas": Setting("auto_in_sync_replicas"),
        "syncMasterFlushOffsetWhenStartup": Setting("sync_master_flush_offset"),
        "brokerHeartbeatInterval": Setting("broker_heartbeat_interval_ms"),
        "brokerNotActiveTimeoutMillis": Setting("broker_silence_ms_max"),
        "syncBrokerMemberGroupPeriod": Setting("member_group_interval_ms"),
        "sendHeartbeatTimeoutMillis": Setting("heartbeat_call_ms_max"),
        "compatibleWithOldNameSrv": Setting("compatible_with_old_namesrv"),
        "enableControllerMode": Setting("enable_controller_mode"),
        "controllerAddr": Setting("controllers"),
        "syncBrokerMetadataPeriod": Setting("sync_role_interval_ms"),
        "checkSyncStateSetPeriod": Setting("check_sync_state_set_interval_ms"),
        "syncControllerMetadataPeriod": Setting("sync_controllers_interval_ms"),
        "controllerHeartBeatTimeoutMills": Setting("controller_silence_ms_max"),
        "brokerElectionPriority": Setting("election_priority"),
        "channelExpiredTimeout": Setting("client_silence_ms_max"),
        "notifyConsumerIdsChangedEnable": Setting("notify_consumer_ids_changed"),
        "realTimeNotifyConsumerChange": Setting("real_time_notices"),
        "longPollingEnable": Setting("long_polling"),
        "shortPollingTimeMills": Setting("short_polling_ms"),
        "maxTransferBytesOnMessageInMemory": Setting("transfer_bytes_max"),
        "maxTransferCountOnMessageInMemory": Setting("transfer_messages_max"),
        "maxMessageSize": Setting("message_bytes_max"),
        "messageDelayLevel": Setting("delay_levels"),
        "storePathRootDir": Setting("store"),
        "fileReservedTime": Setting("retained_hours_max"),
        "flushConsumerOffsetInterval": Setting("persist_offsets_interval_ms"),
        "flushDelayOffsetInterval": Setting("persist_delays_interval_ms"),
        "flushDiskType": Setting("flush_disk_type"),
        "syncFlushTimeout": Setting("sync_flush_ms_max"),
        "flushIntervalCommitLog": Setting("flush_interval_ms"),
        "flushCommitLogLeastPages": Setting("flush_least_pages"),
        "flushCommitLogThoroughInterval": Setting("flush_thorough_interval_ms"),
        "timerWheelEnable": Setting("timer_wheel"),
        "timerMaxDelaySec": Setting("timer_delay_s_max"),
        "timerPrecisionMs": Setting("timer_precision_ms"),
        "timerRollWindowSlot": Setting("timer_roll_window_slots"),
        "timerCongestNumEachSlot": Setting("timer_slot_messages_max"),
        "timerEnableRetryUntilSuccess": Setting("timer_retry_until_success"),
        "timerFlushIntervalMs": Setting("persist_timers_interval_ms"),
        "sendMessageThreadPoolNums": Setting("send_threads"),
        "pullMessageThreadPoolNums": Setting("pull_threads"),
        "litePullMessageThreadPoolNums": Setting("lite_pull_threads"),
        "queryMessageThreadPoolNums": Setting("query_threads"),
        "clientManageThreadPoolNums": Setting("client_manage_threads"),
        "consumerManageThreadPoolNums": Setting("consumer_manage_threads"),
        "heartbeatThreadPoolNums": Setting("heartbeat_threads"),
        "endTransactionThreadPoolNums": Setting("end_transaction_threads"),
        "loadBalanceProcessorThreadPoolNums": Setting("load_balance_threads"),
        "processReplyMessageThreadPoolNums": Setting("reply_threads"),
        "adminBrokerThreadPoolNums": Setting("admin_threads"),
        "sendThreadPoolQueueCapacity": Setting("send_queue_max"),
        "pullThreadPoolQueueCapacity": Setting("pull_queue_max"),
        "litePullThreadPoolQueueCapacity": Setting("lite_pull_queue_max"),
        "queryThreadPoolQueueCapacity": Setting("query_queue_max"),
        "clientManagerThreadPoolQueueCapacity": Setting("client_manage_queue_max"),
        "consumerManagerThreadPoolQueueCapacity": Setting("consumer_manage_queue_max"),
        "heartbeatThreadPoolQueueCapacity": Setting("heartbeat_queue_max"),
        "endTransactionPoolQueueCapacity": Setting("end_transaction_queue_max"),
        "loadBalanceThreadPoolQueueCapacity": Setting("load_balance_queue_max"),
        "replyThreadPoolQueueCapacity": Setting("reply_queue_max"),
        "adminBrokerThreadPoolQueueCapacity": Setting("admin_queue_max"),
        "brokerFastFailureEnable": Setting("fast_failure"),
        "waitTimeMillsInSendQueue": Setting("send_wait_ms_max"),
        "waitTimeMillsInPullQueue": Setting("pull_wait_ms_max"),
        "waitTimeMillsInLitePullQueue": Setting("lite_pull_wait_ms_max"),
        "waitTimeMillsInHeartbeatQueue": Setting("heartbeat_wait_ms_max"),
        "waitTimeMillsInTransactionQueue": Setting("end_transaction_wait_ms_max"),
        "waitTimeMillsInAdminBrokerQueue": Setting("admin_wait_ms_max"),
        "osPageCacheBusyTimeOutMills": Setting("page_cache_busy_ms"),
        "disableConsumeIfConsumerReadSlowly": Setting("disable_slow_consumers"),
        "consumerFallbehindThreshold": Setting("slow_consumer_bytes_max"),
        "enableNetWorkFlowControl": Setting("network_flow_control"),
        "recallMessageEnable": Setting("recall_message"),
        "allowRecallWhenBrokerNotWriteable": Setting("recall_when_not_writeable"),
    },
    harmless={
        **_NET_HARMLESS,
        **dict.fromkeys(
            (
                "brokerIP2",
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
                "ackMessageThreadPoolNums",  # no request of this pool is answered
                "ackThreadPoolQueueCapacity",
                "waitTimeMillsInAckQueue",
                "putMessageFutureThreadPoolNums",  # replies after a put take no thread here
                "putThreadPoolQueueCapacity",
                "flushIntervalConsumeQueue",
                "maxHashSlotNum",
                "maxIndexNum",
                "checkCRCOnRecover",
                "mappedFileSizeConsumeQueueExt",
                "bitMapLengthConsumeQueueExt",
                "transactionMetricFlushInterval",
            ),
            ANY_VALUE,
        ),
        "aclEnable": _OFF,
        "enableDLegerCommitLog": _OFF,
        "fetchControllerAddrByDnsLookup": _OFF,
        "compressedRegister": _OFF,
        "lockInStrictMode": _OFF,  # on: a lock of a queue asks the other replicas, too
    },
)

"""A broker's settings for tools: listed by upstream's names, and changed while it runs.

Answers GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG in every release.  The settings of ``LIVE``
(and of later releases: ``LIVE_SINCE``) are applied at once; a changed ``brokerPermission`` is also
registered at the NameServers before the answer.  The address that clients are given is not such a
setting, because upstream cannot change its port: ADVERTISE_ADDRESS, a call of our own, changes it.
All other settings are answered SUCCESS, as
upstream does, change nothing, and are noted by a warning.  Changes end with the process: no file
is written.  Lists settings that have an effect here, and ``enableCalcFilterBitMap`` and
``enableConsumeQueueExt``, which have none; upstream lists some three hundred more.

Upstream: AdminBrokerProcessor, Configuration.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import msgspec

from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.store.transactions import check_interval_ms
from rocketmq_emulator.facts import SettingsChanged, SettingsIgnored
from rocketmq_emulator.net.reply_rules import check_allowed, extension_body_of
from rocketmq_emulator.net.results import Call, Refusal, Reply, Result, Wait
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.extensions import AdvertisedAddress
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.java import java_properties
from rocketmq_emulator.protocol.requests.admin import GetBrokerConfigReply
from rocketmq_emulator.settings.releases import (
    ADMIN_QUEUE_FAILS_FAST,
    ADMIN_QUEUE_IS_BOUNDED,
    BROKER_HAS_BLACK_LIST,
    BROKER_PATH_IS_FIXED,
    CLIENT_SILENCE_IS_SET,
    FILTER_SERVERS_GONE,
    SERVER_SIDE_RESET,
)

LIVE = {  # upstream's name to the field of BrokerConfig, in the same unit
    "autoCreateSubscriptionGroup": "auto_create_group",
    "autoCreateTopicEnable": "auto_create_topic",
    "brokerFastFailureEnable": "fast_failure",
    "brokerPermission": "perm",
    "consumerFallbehindThreshold": "slow_consumer_bytes_max",
    "disableConsumeIfConsumerReadSlowly": "disable_slow_consumers",
    "enableCalcFilterBitMap": "calc_filter_bit_map",
    "enableConsumeQueueExt": "consume_queue_ext",
    "enablePropertyFilter": "property_filter",
    "fileReservedTime": "retained_hours_max",
    "filterSupportRetry": "filter_retries",
    "longPollingEnable": "long_polling",
    "maxTransferBytesOnMessageInMemory": "transfer_bytes_max",
    "maxTransferCountOnMessageInMemory": "transfer_messages_max",
    "notifyConsumerIdsChangedEnable": "notify_consumer_ids_changed",
    "offsetCheckInSlave": "offset_check_in_slave",
    "osPageCacheBusyTimeOutMills": "page_cache_busy_ms",
    "rejectTransactionMessage": "reject_transactions",
    "shortPollingTimeMills": "short_polling_ms",
    "slaveReadEnable": "slave_read",
    "slaveTimeout": "slave_ack_ms_max",
    "storeReplyMessageEnable": "store_replies",
    "syncFlushTimeout": "sync_flush_ms_max",
    "transactionCheckInterval": "transaction_check_interval_ms",
    "transactionCheckMax": "transaction_checks_max",
    "transactionTimeOut": "transaction_immunity_ms",
    "waitTimeMillsInHeartbeatQueue": "heartbeat_wait_ms_max",
    "waitTimeMillsInPullQueue": "pull_wait_ms_max",
    "waitTimeMillsInSendQueue": "send_wait_ms_max",
    "waitTimeMillsInTransactionQueue": "end_transaction_wait_ms_max",
}
LIVE_5_0 = {
    **LIVE,
    "enableNetWorkFlowControl": "network_flow_control",
    "inSyncReplicas": "in_sync_replicas",
    "waitTimeMillsInLitePullQueue": "lite_pull_wait_ms_max",
}
LIVE_5_1 = {
    **LIVE_5_0,
    "channelExpiredTimeout": "client_silence_ms_max",
    "transactionOpBatchInterval": "transaction_op_interval_ms",
    "transactionOpMsgMaxSize": "transaction_op_bytes_max",
}
LIVE_5_2 = {**LIVE_5_1, "useServerSideResetOffset": "server_side_reset"}
LIVE_5_3 = {**LIVE_5_2, "waitTimeMillsInAdminBrokerQueue": "admin_wait_ms_max"}
LIVE_SINCE = (  # the settings from each release on, the latest first
    (ADMIN_QUEUE_FAILS_FAST, LIVE_5_3),
    (SERVER_SIDE_RESET, LIVE_5_2),
    (CLIENT_SILENCE_IS_SET, LIVE_5_1),
    (ADMIN_QUEUE_IS_BOUNDED, LIVE_5_0),
)
FIXED = {
    "adminBrokerThreadPoolNums": "admin_threads",
    "brokerClusterName": "cluster",
    "brokerId": "broker_id",
    "brokerName": "name",
    "brokerRole": "broker_role",
    "brokerTopicEnable": "broker_topic",
    "clientManageThreadPoolNums": "client_manage_threads",
    "clientManagerThreadPoolQueueCapacity": "client_manage_queue_max",
    "clusterTopicEnable": "cluster_topic",
    "consumerManageThreadPoolNums": "consumer_manage_threads",
    "consumerManagerThreadPoolQueueCapacity": "consumer_manage_queue_max",
    "defaultTopicQueueNums": "default_topic_queues",
    "endTransactionPoolQueueCapacity": "end_transaction_queue_max",
    "endTransactionThreadPoolNums": "end_transaction_threads",
    "expectConsumerNumUseFilter": "filter_groups_expected",
    "filterDataCleanTimeSpan": "filter_dead_ms_max",
    "flushCommitLogLeastPages": "flush_least_pages",
    "flushCommitLogThoroughInterval": "flush_thorough_interval_ms",
    "flushConsumerOffsetInterval": "persist_offsets_interval_ms",
    "flushDelayOffsetInterval": "persist_delays_interval_ms",
    "flushDiskType": "flush_disk_type",
    "flushIntervalCommitLog": "flush_interval_ms",
    "haHousekeepingInterval": "ha_silence_ms_max",
    "haMasterAddress": "ha_master_address",
    "haSendHeartbeatInterval": "ha_heartbeat_interval_ms",
    "haTransferBatchSize": "ha_frame_bytes_max",
    "heartbeatThreadPoolNums": "heartbeat_threads",
    "heartbeatThreadPoolQueueCapacity": "heartbeat_queue_max",
    "mappedFileSizeCommitLog": "segment_bytes",
    "maxErrorRateOfBloomFilter": "filter_error_percent",
    "maxMessageSize": "message_bytes_max",
    "messageDelayLevel": "delay_levels",
    "msgTraceTopicName": "trace_topic_name",
    "namesrvAddr": "namesrv",
    "processReplyMessageThreadPoolNums": "reply_threads",
    "pullMessageThreadPoolNums": "pull_threads",
    "pullThreadPoolQueueCapacity": "pull_queue_max",
    "queryMessageThreadPoolNums": "query_threads",
    "queryThreadPoolQueueCapacity": "query_queue_max",
    "regionId": "region",
    "registerNameServerPeriod": "register_interval_ms",
    "replyThreadPoolQueueCapacity": "reply_queue_max",
    "sendMessageThreadPoolNums": "send_threads",
    "sendThreadPoolQueueCapacity": "send_queue_max",
    "storePathRootDir": "store",
    "traceOn": "trace_on",
    "traceTopicEnable": "trace_topic",
}
FIXED_4 = {**FIXED, "haSlaveFallbehindMax": "ha_behind_bytes_max"}
FIXED_5 = {
    **FIXED,
    "adminBrokerThreadPoolQueueCapacity": "admin_queue_max",
    "haMaxGapNotInSync": "ha_behind_bytes_max",
    "litePullMessageThreadPoolNums": "lite_pull_threads",
    "litePullThreadPoolQueueCapacity": "lite_pull_queue_max",
    "loadBalanceProcessorThreadPoolNums": "load_balance_threads",
    "loadBalanceThreadPoolQueueCapacity": "load_balance_queue_max",
    "minInSyncReplicas": "min_in_sync_replicas",
}
NULL_UNLESS_SET = frozenset({"haMasterAddress"})  # not listed while it is null
CONSTANT_SETTINGS = {  # the same for every broker of the emulator
    "useTLS": "false",
}
CONSTANT_SETTINGS_4 = {**CONSTANT_SETTINGS, "filterServerNums": "0"}
FIXED_PATH = frozenset({"brokerConfigPath"})
BLACK_LIST = FIXED_PATH | {"rocketmqHome", "configBlackList"}
NUMBER_DIGITS_MAX = 15


class ConfigurationProcessor:
    """GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        release = broker.release
        self._live = next((live for since, live in LIVE_SINCE if release >= since), LIVE)
        self._fixed = FIXED_5 if release >= ADMIN_QUEUE_IS_BOUNDED else FIXED_4
        self._version = DataVersion(timestamp=broker.store.figures.began_ms)

    def get(self, _call: Call[Header]) -> Result:
        """The settings by upstream's names, as the text of a Java properties file."""
        broker = self._broker
        host, _, port = broker.address.rpartition(":")
        found = {name: self._text(field) for name, field in {**self._fixed, **self._live}.items()}
        found = {name: found[name] for name in found if found[name] or name not in NULL_UNLESS_SET}
        found |= (
            CONSTANT_SETTINGS if broker.release >= FILTER_SERVERS_GONE else CONSTANT_SETTINGS_4
        )
        found |= {
            "brokerIP1": host,
            "haListenPort": broker.ha_address.rpartition(":")[2],
            "listenPort": port,
            "registerBrokerTimeoutMills": str(broker.register_call_ms_max),
            "serverChannelMaxIdleTimeSeconds": str(broker.config.net.idle_ms_max // 1_000),
            "transactionCheckInterval": str(check_interval_ms(broker.config)),
        }
        version = encode_body(self._version, broker.release).decode()
        header = GetBrokerConfigReply(version=version)
        return Reply(header, java_properties.render(found).encode())

    def update(self, call: Call[Header]) -> Result:
        """Change settings; a changed permission is answered after its registration has ended.

        A name that is fixed or in the black list is refused; then nothing changes.
        """
        if not call.body:
            return Reply()
        wanted = _settings_of(call.body)
        if (remark := self._refusal(wanted)) is not None:
            raise Refusal(ResponseCode.NO_PERMISSION, remark)
        self._version = self._version.next(call.now_ms)
        changed = [name for name, text in sorted(wanted.items()) if self._apply(name, text)]
        ignored = [name for name in sorted(wanted) if name not in changed]
        if changed:
            texts = tuple(f"{name}={wanted[name].strip()}" for name in changed)
            self._broker.note(SettingsChanged(call.peer.address, texts))
        if ignored:
            self._broker.note(SettingsIgnored(call.peer.address, tuple(ignored)))
        bell = None
        if "brokerPermission" in wanted:
            bell = self._broker.register_again(call.now_ms)
        return self._reply_after(bell, call.now_ms)

    def advertise(self, call: Call[Header]) -> Result:
        """Register another address for clients; answered when the NameServers have it."""
        broker = self._broker
        check_allowed("this is", allowed=broker.config.reply_rules_allowed)
        wanted = extension_body_of(call, AdvertisedAddress)
        bell = broker.advertise(wanted.address, wanted.store_host, call.now_ms)
        text = f"advertised_address={wanted.address}"
        broker.note(SettingsChanged(call.peer.address, (text,)))
        return self._reply_after(bell, call.now_ms)

    def _reply_after(self, bell: Hashable | None, now_ms: int) -> Result:
        """A reply when *bell* rings: a registration has ended; at once if there is none."""
        if bell is None:
            return Reply()
        until_ms = now_ms + self._broker.register_call_ms_max
        return Wait(bell, until_ms, lambda _now_ms, _expired: Reply())

    def _refusal(self, wanted: Mapping[str, str]) -> str | None:
        release = self._broker.release
        if BROKER_HAS_BLACK_LIST.reached(release) and not BLACK_LIST.isdisjoint(wanted):
            return "Can not update config in black list."
        if release >= BROKER_PATH_IS_FIXED and not FIXED_PATH.isdisjoint(wanted):
            return "Can not update config path"
        return None

    def _apply(self, name: str, text: str) -> bool:
        """Apply a setting; False if it cannot be changed, or *text* is not a valid value."""
        field = self._live.get(name)
        if field is None:
            return False
        config = self._broker.config
        value = _value(text.strip(), like=getattr(config, field))
        if value is None:
            return False
        try:
            config = msgspec.structs.replace(config, **{field: value})
        except ValueError:  # BrokerConfig refuses the value
            return False
        self._broker.reconfigure(config)
        return True

    def _text(self, field: str) -> str:
        value = getattr(self._broker.config, field)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ";".join(value)
        return str(value)


def _settings_of(body: bytes) -> Mapping[str, str]:
    """The settings in the text of a properties file, as upstream reads it.  Raises ``Refusal``."""
    try:
        return java_properties.parse_body(body)
    except java_properties.TextTooLong as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
    except ValueError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error


def _value(text: str, *, like: object) -> bool | int | None:
    """The value in the type of *like*; None if it is not a number: upstream keeps the old one."""
    if isinstance(like, bool):
        return text.lower() == "true"
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if is_number else None

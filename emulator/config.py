"""Every setting of every role, with upstream's name and default beside it.

One frozen struct per role, unknown fields refused, units last in the names.  Defaults
are upstream's; where upstream has no such limit the comment has "ours".  What each may be
is in ``server_rules``.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from msgspec import field

from emulator.releases import Release
from emulator.server_rules import BROKER_RULES, NAME_SERVER_RULES, NET_RULES
from emulator.setting_rules import Checked, SettingRules
from protocol.delay_levels import DEFAULT_DELAY_LEVELS
from protocol.validation import MESSAGE_BYTES_MAX

FlushDiskType: TypeAlias = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]


class NetConfig(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one end of the protocol.

    With ``close_on_timeout`` a synchronous call that times out closes its connection.
    When more than ``outboxes_bytes_max`` wait for all peers of a server, it closes those
    that have read least recently.
    """

    frame_bytes_max: int = 16 * 1024 * 1024  # com.rocketmq.remoting.frameMaxLength
    header_bytes_max: int = 128 * 1024  # ours, as the next three: of a request
    body_objects_max: int = 60_000  # ours: in a client's JSON body
    body_members_max: int = 500_000  # ours: the same, by its commas
    registration_objects_max: int = 250_000  # ours: in a broker's, which has one a topic
    idle_ms_max: int = 120_000  # NettyServerConfig.serverChannelMaxIdleTimeSeconds
    connect_ms_max: int = 3_000  # NettyClientConfig.connectTimeoutMillis
    close_on_timeout: bool = True  # NettyClientConfig.clientCloseSocketIfTimeout (4.9.1)
    outbox_bytes_max: int = 4 * 1024 * 1024  # ours: above it no decoding, pushes are dropped
    outboxes_bytes_max: int = 256 * 1024 * 1024  # ours: of a server's peers together, see above
    slow_answer_ms: int = 0  # ours: slower answers are noted as slow; 0 = none is
    setting_rules: ClassVar[SettingRules] = NET_RULES


class NameServerConfig(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One NameServer's settings.  Defaults are upstream's; the class is named beside each."""

    release: str = "4.9.7"
    listen_address: str = "127.0.0.1:9876"  # NettyServerConfig.listenPort; loopback is ours
    broker_silence_ms_max: int = 120_000  # RouteInfoManager.BROKER_CHANNEL_EXPIRED_TIME
    scan_first_ms: int = 5_000  # NamesrvController.initialize
    scan_interval_ms: int = 0  # NamesrvConfig.scanNotActiveBrokerInterval; 0 = the release's
    order_message_enable: bool = False  # NamesrvConfig.orderMessageEnable
    return_order_topic_config_to_broker: bool = True  # NamesrvConfig (5.x)
    delete_topic_with_broker_registration: bool = False  # NamesrvConfig (5.1.4)
    enable_all_topic_list: bool = True  # NamesrvConfig (5.x)
    enable_topic_list: bool = True  # NamesrvConfig (5.x)
    support_acting_master: bool = False  # NamesrvConfig (5.x)
    notify_min_broker_id_changed: bool = False  # NamesrvConfig (5.x)
    need_wait_for_service: bool = False  # NamesrvConfig (5.1)
    wait_for_service_ms: int = 45_000  # NamesrvConfig.waitSecondsForService (5.1)
    config_black_list: str = ""  # NamesrvConfig.configBlackList
    store: str = ""  # ours: folder of kvConfig.json; empty = in memory
    brokers_max: int = 10_000  # ours, as are the next two
    topics_max: int = 500_000
    kv_entries_max: int = 100_000
    reply_rules_allowed: bool = False  # ours: every client of the port may set reply rules
    facts_on_demand: tuple[str, ...] = ()  # ours: more kinds of facts for the journal
    journal_bytes_max: int = 256 * 1024 * 1024  # ours: of one file; a full one becomes FILE.1
    journal_files_max: int = 4  # ours: the oldest is removed
    net: NetConfig = NetConfig()
    setting_rules: ClassVar[SettingRules] = NAME_SERVER_RULES

    @property
    def profile(self) -> Release:
        """``release`` as a value that compares.  Raises ``ValueError`` if it is none."""
        return Release.parse(self.release)


class BrokerConfig(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One broker's settings.  Defaults are upstream's; the class is named beside each."""

    release: str = "4.9.7"
    cluster: str = "DefaultCluster"  # BrokerConfig.brokerClusterName
    name: str = "broker-a"  # BrokerConfig.brokerName
    broker_id: int = 0  # BrokerConfig.brokerId
    listen_address: str = "127.0.0.1:10911"  # NettyServerConfig.listenPort; loopback is ours
    advertised_address: str = ""  # BrokerConfig.brokerIP1:listenPort; empty = listen_address
    namesrv: tuple[str, ...] = ()  # BrokerConfig.namesrvAddr
    advertised_to: dict[str, str] = field(default_factory=dict)  # ours: by NameServer
    fetch_namesrv: bool = False  # BrokerConfig.fetchNamesrvAddrByAddressServer; without namesrv
    address_server_domain: str = ""  # rmqAddressServerDomain (jmenv.tbsite.net): host or host:port
    address_server_subgroup: str = "nsaddr"  # rmqAddressServerSubGroup
    perm: int = 6  # BrokerConfig.brokerPermission
    region: str = "DefaultRegion"  # BrokerConfig.regionId
    trace_on: bool = True  # BrokerConfig.traceOn

    # Registration
    register_first_ms: int = 10_000  # BrokerController.start
    register_retry_ms: int = 200  # ours: after a first registration that failed; 0 = as RocketMQ
    register_interval_ms: int = 30_000  # BrokerConfig.registerNameServerPeriod
    register_call_ms_max: int = 0  # BrokerConfig.registerBrokerTimeoutMills; 0 = the release's

    # Topics and groups
    auto_create_topic: bool = True  # BrokerConfig.autoCreateTopicEnable
    auto_create_group: bool = True  # BrokerConfig.autoCreateSubscriptionGroup
    default_topic_queues: int = 8  # BrokerConfig.defaultTopicQueueNums
    cluster_topic: bool = True  # BrokerConfig.clusterTopicEnable
    broker_topic: bool = True  # BrokerConfig.brokerTopicEnable
    trace_topic: bool = False  # BrokerConfig.traceTopicEnable
    reject_transactions: bool = True  # BrokerConfig.rejectTransactionMessage (there: false)
    property_filter: bool = False  # BrokerConfig.enablePropertyFilter
    server_side_reset: bool = True  # BrokerConfig.useServerSideResetOffset (5.2; before, never)
    slave_read: bool = False  # BrokerConfig.slaveReadEnable
    behind_bytes_max: int = (
        4 * 1024**3
    )  # pulls that far behind suggest a slave (40 % of memory upstream)

    # Room for all that (ours, every one: upstream has no such limits)
    topics_max: int = 100_000
    topic_queues_max: int = 100_000  # of one topic
    groups_max: int = 100_000
    producer_groups_max: int = 100_000
    members_max: int = 100_000  # of all groups together
    heartbeat_groups_max: int = 10_000  # in one heartbeat, consumers and producers together
    subscriptions_max: int = 10_000  # of one group
    locks_max: int = 1_000_000
    committed_max: int = 100_000  # topics that groups have committed offsets of

    # Clients
    client_silence_ms_max: int = 120_000  # BrokerConfig.channelExpiredTimeout
    client_scan_interval_ms: int = 10_000  # ClientHousekeepingService.start
    notify_consumer_ids_changed: bool = True  # BrokerConfig.notifyConsumerIdsChangedEnable
    real_time_notices: bool = True  # BrokerConfig.realTimeNotifyConsumerChange (5.x)
    lock_ms_max: int = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime

    # Pulling
    long_polling: bool = True  # BrokerConfig.longPollingEnable
    short_polling_ms: int = 1_000  # BrokerConfig.shortPollingTimeMills
    hold_sweep_interval_ms: int = 5_000  # PullRequestHoldService.run
    held_pulls_max: int = 100_000  # ours: upstream's pull queue capacity
    transfer_bytes_max: int = 262_144  # MessageStoreConfig.maxTransferBytesOnMessageInMemory
    transfer_messages_max: int = 32  # MessageStoreConfig.maxTransferCountOnMessageInMemory
    scan_entries_max: int = 800  # MessageStoreConfig.maxFilterMessageCount / 20 bytes

    # Messages and their store
    message_bytes_max: int = MESSAGE_BYTES_MAX  # MessageStoreConfig.maxMessageSize
    delay_levels: str = DEFAULT_DELAY_LEVELS  # MessageStoreConfig.messageDelayLevel
    store: str = ""  # MessageStoreConfig.storePathRootDir; empty = in memory
    segment_bytes: int = 8 * 1024 * 1024  # MessageStoreConfig.mappedFileSizeCommitLog (1 GiB)
    retained_bytes_max: int = 64 * 1024 * 1024  # ours, in memory only; 0 = no limit
    retained_hours_max: int = 72  # MessageStoreConfig.fileReservedTime
    persist_offsets_interval_ms: int = 5_000  # BrokerConfig.flushConsumerOffsetInterval
    persist_delays_interval_ms: int = 10_000  # MessageStoreConfig.flushDelayOffsetInterval
    durable_offsets: bool = False  # ours: every commit is on disk before it is answered
    flush_disk_type: FlushDiskType = "ASYNC_FLUSH"  # MessageStoreConfig; SYNC_FLUSH with a store
    sync_flush_ms_max: int = 5_000  # MessageStoreConfig.syncFlushTimeout
    flush_interval_ms: int = 500  # MessageStoreConfig.flushIntervalCommitLog
    flush_least_pages: int = 4  # MessageStoreConfig.flushCommitLogLeastPages
    flush_thorough_interval_ms: int = 10_000  # MessageStoreConfig.flushCommitLogThoroughInterval

    # Timer messages (5.x)
    timer_wheel: bool = True  # MessageStoreConfig.timerWheelEnable
    timer_delay_s_max: int = 259_200  # MessageStoreConfig.timerMaxDelaySec
    timer_precision_ms: int = 1_000  # MessageStoreConfig.timerPrecisionMs: 100, 200, 500 or 1000
    timer_roll_window_slots: int = 172_800  # MessageStoreConfig.timerRollWindowSlot
    timer_slot_messages_max: int = 2**31 - 1  # MessageStoreConfig.timerCongestNumEachSlot
    timer_retry_until_success: bool = False  # MessageStoreConfig.timerEnableRetryUntilSuccess
    persist_timers_interval_ms: int = 1_000  # MessageStoreConfig.timerFlushIntervalMs
    recall_message: bool = False  # BrokerConfig.recallMessageEnable (5.3.2)
    recall_when_not_writeable: bool = True  # BrokerConfig.allowRecallWhenBrokerNotWriteable

    reply_rules_allowed: bool = False  # ours: every client of the port may set reply rules
    quirks: tuple[str, ...] = ()  # ours: bugs switched on by name
    facts_on_demand: tuple[str, ...] = ()  # ours: more kinds of facts for the journal
    journal_bytes_max: int = 256 * 1024 * 1024  # ours: of one file; a full one becomes FILE.1
    journal_files_max: int = 4  # ours: the oldest is removed
    net: NetConfig = NetConfig()
    setting_rules: ClassVar[SettingRules] = BROKER_RULES

    @property
    def asks_address_server(self) -> bool:
        """Whether NameServers are found by HTTP.  Upstream: BrokerController.initialize."""
        return self.fetch_namesrv and not self.namesrv

    @property
    def is_sync_flush(self) -> bool:
        """Whether what was acknowledged survives a loss of power."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def profile(self) -> Release:
        """``release`` as a value that compares.  Raises ``ValueError`` if it is none."""
        return Release.parse(self.release)

"""Every setting of the servers, with upstream's name and default, and its allowed values.

One frozen struct per role, unknown fields refused, units last in the names.  Defaults are
upstream's; if upstream has no such limit the comment has "ours".  The comment after a field
is its explanation in docs/configuration.md.

The ranges, checks and relations of each struct are before it: ``NET_RULES``,
``NAME_SERVER_RULES``, ``CONTROLLER_RULES``, ``BROKER_RULES``.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from msgspec import field

from rocketmq_emulator.facts import kinds_on_demand
from rocketmq_emulator.protocol.messages.delay_levels import (
    DEFAULT_DELAY_LEVELS,
)
from rocketmq_emulator.protocol.messages.names import TRACE_TOPIC
from rocketmq_emulator.protocol.messages.validation import MESSAGE_BYTES_MAX
from rocketmq_emulator.protocol.versions import BROKER_IDS_APPLIED
from rocketmq_emulator.settings.allowed_values import (
    NEEDS_JRAFT,
    check_advertised,
    check_advertised_to,
    check_delay_levels,
    check_not_empty,
    check_peers,
    check_targets,
    peers_in,
    release_with_controller,
)
from rocketmq_emulator.settings.property_names import BROKER, CONTROLLER, NAME_SERVER
from rocketmq_emulator.settings.quirks import check_quirks
from rocketmq_emulator.settings.releases import ACTING_MASTER_SENT, Release, known_release
from rocketmq_emulator.settings.setting_rules import (
    LONG_MAX,
    CheckedConfig,
    Range,
    Relation,
    SettingRules,
    ranges,
)
from rocketmq_emulator.text.values import PORT_MAX, check_listen_address

# Allowed values ------------------------------------------------------------------------


HA_FRAME_BYTES_MAX = 4 * 1024 * 1024 - 12  # a slave's buffer: HAClient.READ_MAX_BUFFER_SIZE
TIMER_PRECISIONS_MS = (100, 200, 500, 1_000)  # MessageStoreConfig.setTimerPrecisionMs

NET_RULES = SettingRules(
    ranges(
        (Range(16_384), "frame_bytes_max"),  # the registration of a broker must fit
        (Range(256), "header_bytes_max"),
        (Range(1), "body_objects_max body_members_max registration_objects_max"),
        (Range(1), "idle_ms_max connect_ms_max outbox_bytes_max"),
        (Range(1, LONG_MAX), "outboxes_bytes_max"),
        (Range(0), "slow_answer_ms"),
    ),
    relations=(
        Relation(
            ("outboxes_bytes_max", "outbox_bytes_max"),
            lambda net: net.outboxes_bytes_max >= net.outbox_bytes_max,
            "{outboxes_bytes_max} must be at least {outbox_bytes_max}",
        ),
    ),
    properties=BROKER.names_by_setting(),
    prefix="net.",
)

NAME_SERVER_RULES = SettingRules(
    ranges(
        (Range(1), "broker_silence_ms_max scan_first_ms"),
        (Range(0), "scan_interval_ms wait_for_service_ms"),
        (Range(1), "brokers_max topics_max kv_entries_max"),
        (Range(1, LONG_MAX), "journal_bytes_max"),
        (Range(1), "journal_files_max"),
    ),
    {
        "release": known_release,
        "listen_address": check_listen_address,
        "facts_on_demand": kinds_on_demand,
    },
    (
        Relation(
            ("scan_first_ms", "broker_silence_ms_max"),
            lambda config: config.scan_first_ms <= config.broker_silence_ms_max,
            "{scan_first_ms} must be at most {broker_silence_ms_max}",
        ),
    ),
    NAME_SERVER.names_by_setting(),
)

CONTROLLER_RULES = SettingRules(
    ranges(
        (Range(1), "scan_first_ms scan_interval_ms scan_masters_interval_ms"),
        (Range(0, 100), "elections_max"),
        (Range(1), "groups_max replicas_max live_brokers_max events_max"),
        (Range(1, LONG_MAX), "journal_bytes_max"),
        (Range(1), "journal_files_max"),
    ),
    {
        "release": release_with_controller,
        "listen_address": check_listen_address,
        "self_id": check_not_empty,
        "peers": check_peers,
        "facts_on_demand": kinds_on_demand,
    },
    (
        Relation(
            ("peers", "self_id"),
            lambda config: not config.peers or config.self_id in peers_in(config.peers),
            "{self_id} must be one of the controllers that {peers} names",
        ),
        NEEDS_JRAFT,
    ),
    CONTROLLER.names_by_setting(),
)

BROKER_RULES = SettingRules(
    ranges(
        (Range(0), "broker_id"),
        (Range(0, 7, "4 for read, 2 for write, 1 for inherit, added up"), "perm"),
        (Range(0), "register_first_ms register_retry_ms register_call_ms_max"),
        (Range(1), "register_interval_ms"),
        (Range(1), "default_topic_queues topic_queues_max"),
        (Range(0, LONG_MAX), "behind_bytes_max"),
        (Range(100), "topics_max groups_max"),  # the broker itself needs some
        (Range(1), "producer_groups_max members_max heartbeat_groups_max subscriptions_max"),
        (Range(1), "locks_max committed_max request_modes_max"),
        (Range(1), "client_silence_ms_max client_scan_interval_ms lock_ms_max"),
        (Range(1), "short_polling_ms hold_sweep_interval_ms"),
        (Range(0), "held_pulls_max"),
        (Range(1), "transfer_bytes_max transfer_messages_max scan_entries_max"),
        (Range(1), "message_bytes_max segment_bytes"),
        (Range(0, LONG_MAX), "retained_bytes_max"),
        (Range(0), "retained_hours_max"),
        (Range(1), "persist_offsets_interval_ms persist_delays_interval_ms"),
        (Range(1), "sync_flush_ms_max flush_interval_ms flush_thorough_interval_ms"),
        (Range(0), "flush_least_pages"),
        (Range(1), "timer_delay_s_max timer_precision_ms timer_roll_window_slots"),
        (Range(1), "timer_slot_messages_max persist_timers_interval_ms"),
        (Range(0), "transaction_immunity_ms transaction_checks_max"),
        (Range(0), "transaction_check_interval_ms slave_sync_interval_ms"),
        (Range(1), "transaction_op_interval_ms transaction_op_bytes_max"),
        (Range(0, PORT_MAX), "ha_port"),
        (Range(1), "ha_heartbeat_interval_ms ha_silence_ms_max ha_connect_interval_ms"),
        (Range(1, HA_FRAME_BYTES_MAX), "ha_frame_bytes_max"),
        (Range(1, LONG_MAX), "ha_behind_bytes_max ha_bytes_per_second_max"),
        (Range(1), "ha_not_caught_up_ms_max"),
        (Range(1), "slave_ack_ms_max in_sync_replicas min_in_sync_replicas"),
        (Range(1), "total_replicas broker_heartbeat_interval_ms broker_silence_ms_max"),
        (Range(1), "member_group_interval_ms heartbeat_call_ms_max"),
        (Range(1), "sync_role_interval_ms check_sync_state_set_interval_ms"),
        (Range(1), "sync_controllers_interval_ms controller_silence_ms_max"),
        (Range(-(2**31)), "election_priority"),
        (Range(1), "send_threads pull_threads lite_pull_threads query_threads admin_threads"),
        (Range(1), "client_manage_threads consumer_manage_threads heartbeat_threads"),
        (Range(1), "end_transaction_threads load_balance_threads reply_threads"),
        (Range(1), "send_queue_max pull_queue_max lite_pull_queue_max query_queue_max"),
        (Range(1), "client_manage_queue_max consumer_manage_queue_max heartbeat_queue_max"),
        (Range(1), "end_transaction_queue_max load_balance_queue_max reply_queue_max"),
        (Range(1), "admin_queue_max"),
        (Range(0, LONG_MAX), "send_wait_ms_max pull_wait_ms_max lite_pull_wait_ms_max"),
        (Range(0, LONG_MAX), "heartbeat_wait_ms_max end_transaction_wait_ms_max"),
        (Range(0, LONG_MAX), "admin_wait_ms_max page_cache_busy_ms"),
        (Range(0, LONG_MAX), "slow_consumer_bytes_max filter_dead_ms_max"),
        (Range(1, 1_000_000), "filter_groups_expected"),
        (Range(1, 99), "filter_error_percent"),
        (Range(1, LONG_MAX), "journal_bytes_max"),
        (Range(1), "journal_files_max"),
    ),
    {
        "release": known_release,
        "name": check_not_empty,
        "cluster": check_not_empty,
        "listen_address": check_listen_address,
        "advertised_address": check_advertised,
        "ha_master_address": check_advertised,
        "advertised_to": check_advertised_to,
        "namesrv": check_targets,
        "controllers": check_targets,
        "delay_levels": check_delay_levels,
        "quirks": check_quirks,
        "facts_on_demand": kinds_on_demand,
    },
    (
        Relation(
            ("advertised_to", "namesrv"),
            lambda config: set(config.advertised_to) <= set(config.namesrv),
            "{advertised_to}: each NameServer named there must be in {namesrv}",
        ),
        Relation(
            ("register_interval_ms", "client_silence_ms_max"),
            lambda config: config.register_interval_ms < config.client_silence_ms_max,
            "{register_interval_ms} must be below {client_silence_ms_max}",
        ),
        Relation(
            ("segment_bytes", "message_bytes_max"),
            lambda config: config.message_bytes_max + 131_072 <= config.segment_bytes,
            "{segment_bytes} must have room for a message of {message_bytes_max}, and 131072 more",
        ),
        Relation(
            ("retained_bytes_max", "segment_bytes"),
            lambda config: (
                config.retained_bytes_max >= 2 * config.segment_bytes
                or config.retained_bytes_max == 0
            ),
            "{retained_bytes_max} must hold at least two segments of {segment_bytes}, or be 0",
        ),
        Relation(
            ("broker_role", "broker_id"),
            lambda config: (
                config.enable_controller_mode or config.is_slave == (config.broker_id > 0)
            ),
            "{broker_role} and {broker_id} must fit: a SLAVE has an id above 0, a master has 0",
        ),
        Relation(
            ("ha_port", "listen_address"),
            lambda config: (
                not config.listen_address.endswith(f":{config.ha_port}") or not config.ha_port
            ),
            "{ha_port} must be another port than that of {listen_address}",
        ),
        Relation(
            ("slave_acting_master", "release"),
            lambda config: (
                not config.slave_acting_master or config.parsed_release >= ACTING_MASTER_SENT
            ),
            "{slave_acting_master} needs release 5.0.0 or a later one, not {release}",
        ),
        Relation(
            ("enable_controller_mode", "controllers"),
            lambda config: bool(config.controllers) or not config.enable_controller_mode,
            "{enable_controller_mode} needs {controllers}: the addresses of the controllers",
        ),
        Relation(
            ("enable_controller_mode", "release"),
            lambda config: (
                not config.enable_controller_mode or config.parsed_release >= BROKER_IDS_APPLIED
            ),
            f"{{enable_controller_mode}} needs {{release}} {BROKER_IDS_APPLIED} or a later one",
        ),
        Relation(
            ("min_in_sync_replicas", "in_sync_replicas"),
            lambda config: config.min_in_sync_replicas <= config.in_sync_replicas,
            "{min_in_sync_replicas} must be at most {in_sync_replicas}",
        ),
        Relation(
            ("flush_disk_type", "store"),
            lambda config: config.flush_disk_type != "SYNC_FLUSH" or config.store,
            "{flush_disk_type} needs a store (storePathRootDir, --store): "
            "memory cannot be flushed",
        ),
        Relation(
            ("flush_thorough_interval_ms", "flush_interval_ms"),
            lambda config: config.flush_thorough_interval_ms >= config.flush_interval_ms,
            "{flush_thorough_interval_ms} must be at least {flush_interval_ms}",
        ),
        Relation(
            ("timer_precision_ms",),
            lambda config: config.timer_precision_ms in TIMER_PRECISIONS_MS,
            f"{{timer_precision_ms}} must be one of {TIMER_PRECISIONS_MS}",
        ),
        Relation(
            ("fetch_namesrv", "address_server_domain"),
            lambda config: config.address_server_domain or not config.asks_address_server,
            "{fetch_namesrv} without namesrv (namesrvAddr) needs an address_server_domain "
            "(rmqAddressServerDomain) to ask",
        ),
    ),
    BROKER.names_by_setting(),
)


# The settings -------------------------------------------------------------------------


BrokerRole: TypeAlias = Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"]
FlushDiskType: TypeAlias = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]


class NetConfig(CheckedConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one end of the protocol.

    With ``close_on_timeout`` a synchronous call that times out closes its connection.
    When more than ``outboxes_bytes_max`` wait for all peers of a server, it closes the
    connections that have read least recently.
    """

    frame_bytes_max: int = 16 * 1024 * 1024  # com.rocketmq.remoting.frameMaxLength
    header_bytes_max: int = 128 * 1024  # ours, as the next three: of a request
    body_objects_max: int = 60_000  # ours: in a client's JSON body
    body_members_max: int = 500_000  # ours: members in that body, counted by its commas
    registration_objects_max: int = 250_000  # ours: in a broker's registration, one for each topic
    idle_ms_max: int = 120_000  # NettyServerConfig.serverChannelMaxIdleTimeSeconds
    connect_ms_max: int = 3_000  # NettyClientConfig.connectTimeoutMillis
    close_on_timeout: bool = True  # NettyClientConfig.clientCloseSocketIfTimeout (4.9.1)
    outbox_bytes_max: int = 4 * 1024 * 1024  # ours: above it requests wait, pushes are dropped
    outboxes_bytes_max: int = 256 * 1024 * 1024  # ours: of a server's peers together, see above
    slow_answer_ms: int = 0  # ours: slower answers are noted; 0 = none
    setting_rules: ClassVar[SettingRules] = NET_RULES


class NameServerConfig(CheckedConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    controller_in_namesrv: bool = False  # NamesrvConfig.enableControllerInNamesrv (5.0)
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
    def parsed_release(self) -> Release:
        """``release`` as a value that compares.  Raises ``ValueError`` if it is none."""
        return Release.parse(self.release)


class ControllerConfig(CheckedConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One controller's settings.  Defaults are upstream's; the class is named beside each."""

    release: str = "5.3.3"
    listen_address: str = "127.0.0.1:9878"  # ours: upstream has no default; unused with peers
    group: str = "DefaultControllerGroup"  # ControllerConfig.controllerDLegerGroup; ours
    controller_type: Literal["DLedger", "jRaft"] = "DLedger"  # ControllerConfig.controllerType
    self_id: str = "n0"  # ControllerConfig.controllerDLegerSelfId; the default is ours
    peers: str = ""  # ControllerConfig.controllerDLegerPeers: n0-host:port;… of the group
    scan_first_ms: int = 2_000  # DefaultBrokerHeartbeatManager.start
    scan_interval_ms: int = 5_000  # ControllerConfig.scanNotActiveBrokerInterval
    scan_masters_interval_ms: int = 5_000  # ControllerConfig.scanInactiveMasterInterval
    elections_max: int = 3  # ControllerConfig.electMasterMaxRetryCount
    elect_unclean_master: bool = False  # ControllerConfig.enableElectUncleanMaster
    notify_role_changed: bool = True  # ControllerConfig.notifyBrokerRoleChanged
    config_black_list: str = "configBlackList;configStorePath"  # ControllerConfig
    store: str = ""  # ControllerConfig.controllerStorePath; empty = in memory
    groups_max: int = 10_000  # ours, as are the next three: broker names
    replicas_max: int = 100  # brokers of one name
    live_brokers_max: int = 20_000
    events_max: int = 10_000  # in the file; then one line replaces them
    reply_rules_allowed: bool = False  # ours: every client of the port may set reply rules
    facts_on_demand: tuple[str, ...] = ()  # ours: more kinds of facts for the journal
    journal_bytes_max: int = 256 * 1024 * 1024  # ours: of one file; a full one becomes FILE.1
    journal_files_max: int = 4  # ours: the oldest is removed
    net: NetConfig = NetConfig()
    setting_rules: ClassVar[SettingRules] = CONTROLLER_RULES

    @property
    def parsed_release(self) -> Release:
        """``release`` as a value that compares.  Raises ``ValueError`` if it is none."""
        return Release.parse(self.release)

    @property
    def served_address(self) -> str:
        """Where it listens: at its own entry in ``peers``, as upstream's does."""
        return peers_in(self.peers).get(self.self_id, self.listen_address)


class BrokerConfig(CheckedConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    reject_transactions: bool = False  # BrokerConfig.rejectTransactionMessage
    trace_topic: bool = False  # BrokerConfig.traceTopicEnable: create the topic of traces
    trace_topic_name: str = TRACE_TOPIC  # BrokerConfig.msgTraceTopicName
    store_replies: bool = True  # BrokerConfig.storeReplyMessageEnable
    property_filter: bool = False  # BrokerConfig.enablePropertyFilter
    filter_retries: bool = False  # BrokerConfig.filterSupportRetry
    calc_filter_bit_map: bool = False  # BrokerConfig.enableCalcFilterBitMap: no effect here
    consume_queue_ext: bool = False  # MessageStoreConfig.enableConsumeQueueExt: no effect here
    filter_dead_ms_max: int = 86_400_000  # BrokerConfig.filterDataCleanTimeSpan
    filter_groups_expected: int = 32  # BrokerConfig.expectConsumerNumUseFilter
    filter_error_percent: int = 20  # BrokerConfig.maxErrorRateOfBloomFilter
    server_side_reset: bool = True  # BrokerConfig.useServerSideResetOffset (5.2; before, never)
    slave_read: bool = False  # BrokerConfig.slaveReadEnable
    slave_sync_interval_ms: int = 0  # ours: of tables, 0 = the times of the release, 10 to 60 s
    offset_check_in_slave: bool = False  # MessageStoreConfig.offsetCheckInSlave
    behind_bytes_max: int = (
        4 * 1024**3
    )  # pulls that far behind suggest a slave (40 % of memory upstream)

    disable_slow_consumers: bool = False  # BrokerConfig.disableConsumeIfConsumerReadSlowly
    network_flow_control: bool = False  # BrokerConfig.enableNetWorkFlowControl (5.0)
    slow_consumer_bytes_max: int = 16 * 1024**3  # BrokerConfig.consumerFallbehindThreshold

    # Limits of tables (all ours: upstream has no such limits)
    topics_max: int = 100_000
    topic_queues_max: int = 100_000  # of one topic
    groups_max: int = 100_000
    producer_groups_max: int = 100_000
    members_max: int = 100_000  # of all groups together
    heartbeat_groups_max: int = 10_000  # in one heartbeat, consumers and producers together
    subscriptions_max: int = 10_000  # of one group
    locks_max: int = 1_000_000
    committed_max: int = 100_000  # pairs of group and topic with committed offsets
    request_modes_max: int = 100_000  # pairs of group and topic with a request mode (pull or POP)

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
    store_is_temporary: bool = False  # ours: it is removed with its cluster
    retained_bytes_max: int = 64 * 1024 * 1024  # ours, in memory and temporary; 0 = no limit
    retained_hours_max: int = 72  # MessageStoreConfig.fileReservedTime
    persist_offsets_interval_ms: int = 5_000  # BrokerConfig.flushConsumerOffsetInterval
    persist_delays_interval_ms: int = 10_000  # MessageStoreConfig.flushDelayOffsetInterval
    durable_offsets: bool = False  # ours: every commit is on disk before it is answered
    flush_disk_type: FlushDiskType = "ASYNC_FLUSH"  # MessageStoreConfig; SYNC_FLUSH with a store
    sync_flush_ms_max: int = 5_000  # MessageStoreConfig.syncFlushTimeout
    flush_interval_ms: int = 500  # MessageStoreConfig.flushIntervalCommitLog
    flush_least_pages: int = 4  # MessageStoreConfig.flushCommitLogLeastPages
    flush_thorough_interval_ms: int = 10_000  # MessageStoreConfig.flushCommitLogThoroughInterval

    # Replication
    broker_role: BrokerRole = "ASYNC_MASTER"  # MessageStoreConfig.brokerRole
    ha_port: int = 0  # MessageStoreConfig.haListenPort (5.1.1); 0 = the port after listen_address
    ha_master_address: str = ""  # MessageStoreConfig.haMasterAddress; empty = as registered
    ha_heartbeat_interval_ms: int = 5_000  # MessageStoreConfig.haSendHeartbeatInterval
    ha_silence_ms_max: int = 20_000  # MessageStoreConfig.haHousekeepingInterval
    ha_frame_bytes_max: int = 32_768  # MessageStoreConfig.haTransferBatchSize
    ha_behind_bytes_max: int = 256 * 1024 * 1024  # haSlaveFallbehindMax, in 5.x haMaxGapNotInSync
    ha_connect_interval_ms: int = 5_000  # ours: between tries to connect; HAClient.run waits 5 s
    ha_flow_control: bool = False  # MessageStoreConfig.haFlowControlEnable (5.x), controller mode
    ha_bytes_per_second_max: int = 100 * 1024 * 1024  # maxHaTransferByteInSecond: to one slave
    ha_not_caught_up_ms_max: int = 15_000  # MessageStoreConfig.haMaxTimeSlaveNotCatchup
    sync_from_last_file: bool = False  # MessageStoreConfig.syncFromLastFile: of an empty slave
    async_learner: bool = False  # MessageStoreConfig.asyncLearner: a slave that is never in sync
    all_ack_in_sync_state_set: bool = False  # MessageStoreConfig.allAckInSyncStateSet
    read_uncommitted: bool = False  # MessageStoreConfig.readUnCommitted (5.3; before, never)
    slave_ack_ms_max: int = 3_000  # MessageStoreConfig.slaveTimeout
    in_sync_replicas: int = 1  # MessageStoreConfig.inSyncReplicas (5.x): with the master
    min_in_sync_replicas: int = 1  # MessageStoreConfig.minInSyncReplicas (5.x)

    # Slaves that act as a master (5.x)
    slave_acting_master: bool = False  # BrokerConfig.enableSlaveActingMaster
    remote_escape: bool = False  # BrokerConfig.enableRemoteEscape
    skip_pre_online: bool = False  # BrokerConfig.skipPreOnline
    total_replicas: int = 1  # MessageStoreConfig.totalReplicas: above 1 a broker starts isolated
    auto_in_sync_replicas: bool = False  # MessageStoreConfig.enableAutoInSyncReplicas
    sync_master_flush_offset: bool = False  # syncMasterFlushOffsetWhenStartup: no effect but 907
    broker_heartbeat_interval_ms: int = 1_000  # BrokerConfig.brokerHeartbeatInterval
    broker_silence_ms_max: int = 10_000  # BrokerConfig.brokerNotActiveTimeoutMillis
    member_group_interval_ms: int = 1_000  # BrokerConfig.syncBrokerMemberGroupPeriod
    heartbeat_call_ms_max: int = 1_000  # BrokerConfig.sendHeartbeatTimeoutMillis
    compatible_with_old_namesrv: bool = True  # BrokerConfig.compatibleWithOldNameSrv

    # Roles by a controller (5.1.1)
    enable_controller_mode: bool = False  # BrokerConfig.enableControllerMode
    controllers: tuple[str, ...] = ()  # BrokerConfig.controllerAddr: all of the group
    sync_role_interval_ms: int = 5_000  # BrokerConfig.syncBrokerMetadataPeriod
    check_sync_state_set_interval_ms: int = 5_000  # BrokerConfig.checkSyncStateSetPeriod
    sync_controllers_interval_ms: int = 10_000  # BrokerConfig.syncControllerMetadataPeriod
    controller_silence_ms_max: int = 10_000  # BrokerConfig.controllerHeartBeatTimeoutMills
    election_priority: int = 2**31 - 1  # BrokerConfig.brokerElectionPriority: smaller wins

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

    # Transactions
    transaction_immunity_ms: int = 6_000  # BrokerConfig.transactionTimeOut: before a first check
    transaction_checks_max: int = 15  # BrokerConfig.transactionCheckMax
    transaction_check_interval_ms: int = 0  # transactionCheckInterval; 0 = the release's
    transaction_op_interval_ms: int = 3_000  # BrokerConfig.transactionOpBatchInterval (5.1)
    transaction_op_bytes_max: int = 4_096  # BrokerConfig.transactionOpMsgMaxSize (5.1)

    # Pools (requests wait only in a busy one: the fault ``busy``; threads as on 4 processors)
    send_threads: int = 4  # BrokerConfig.sendMessageThreadPoolNums
    pull_threads: int = 24  # BrokerConfig.pullMessageThreadPoolNums
    lite_pull_threads: int = 24  # BrokerConfig.litePullMessageThreadPoolNums (5.x)
    query_threads: int = 12  # BrokerConfig.queryMessageThreadPoolNums
    client_manage_threads: int = 32  # BrokerConfig.clientManageThreadPoolNums
    consumer_manage_threads: int = 32  # BrokerConfig.consumerManageThreadPoolNums
    heartbeat_threads: int = 4  # BrokerConfig.heartbeatThreadPoolNums
    end_transaction_threads: int = 16  # BrokerConfig.endTransactionThreadPoolNums
    load_balance_threads: int = 32  # BrokerConfig.loadBalanceProcessorThreadPoolNums (5.x)
    reply_threads: int = 24  # BrokerConfig.processReplyMessageThreadPoolNums
    admin_threads: int = 16  # BrokerConfig.adminBrokerThreadPoolNums
    send_queue_max: int = 10_000  # BrokerConfig.sendThreadPoolQueueCapacity
    pull_queue_max: int = 100_000  # BrokerConfig.pullThreadPoolQueueCapacity
    lite_pull_queue_max: int = 100_000  # BrokerConfig.litePullThreadPoolQueueCapacity (5.x)
    query_queue_max: int = 20_000  # BrokerConfig.queryThreadPoolQueueCapacity
    client_manage_queue_max: int = 1_000_000  # BrokerConfig.clientManagerThreadPoolQueueCapacity
    consumer_manage_queue_max: int = 1_000_000  # consumerManagerThreadPoolQueueCapacity (5.x)
    heartbeat_queue_max: int = 50_000  # BrokerConfig.heartbeatThreadPoolQueueCapacity
    end_transaction_queue_max: int = 100_000  # BrokerConfig.endTransactionPoolQueueCapacity
    load_balance_queue_max: int = 100_000  # BrokerConfig.loadBalanceThreadPoolQueueCapacity (5.x)
    reply_queue_max: int = 10_000  # BrokerConfig.replyThreadPoolQueueCapacity
    admin_queue_max: int = 10_000  # BrokerConfig.adminBrokerThreadPoolQueueCapacity (5.x)
    fast_failure: bool = True  # BrokerConfig.brokerFastFailureEnable: SYSTEM_BUSY after the waits
    send_wait_ms_max: int = 200  # BrokerConfig.waitTimeMillsInSendQueue
    pull_wait_ms_max: int = 5_000  # BrokerConfig.waitTimeMillsInPullQueue
    lite_pull_wait_ms_max: int = 5_000  # BrokerConfig.waitTimeMillsInLitePullQueue (5.x)
    heartbeat_wait_ms_max: int = 31_000  # BrokerConfig.waitTimeMillsInHeartbeatQueue
    end_transaction_wait_ms_max: int = 3_000  # BrokerConfig.waitTimeMillsInTransactionQueue
    admin_wait_ms_max: int = 5_000  # BrokerConfig.waitTimeMillsInAdminBrokerQueue (5.3.0)
    page_cache_busy_ms: int = 1_000  # osPageCacheBusyTimeOutMills: a put holds the log for longer

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
    def is_slave(self) -> bool:
        """Whether it copies a master of its name and stores nothing itself."""
        return self.broker_role == "SLAVE"

    @property
    def is_sync_flush(self) -> bool:
        """Whether acknowledged messages survive a power loss."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def parsed_release(self) -> Release:
        """``release`` as a value that compares.  Raises ``ValueError`` if it is none."""
        return Release.parse(self.release)

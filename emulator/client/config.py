"""Every setting of the clients, with upstream's name and default beside it.

What each may be stands in the rules of its struct.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec

from emulator.addresses import check_target, split_address
from emulator.client.errors import BadArgument
from emulator.client.setting_names import ELSEWHERE
from emulator.config import NetConfig
from emulator.fitting import BadField, fitted
from emulator.net.address_server import DEFAULT_SUBGROUP
from emulator.quirks import check_quirks
from emulator.releases import STREAMS_MARKED, Release, known_release
from emulator.setting_rules import Checked, Range, Relation, SettingRules, ranges
from protocol.arguments import not_a, shown
from protocol.validation import MESSAGE_BYTES_MAX

NO_INSTANCE_NAME = "DEFAULT"
FAULT_TABLE_NAMES = ("", "4.x", "5.1.4", "seed_prose")


def _check_namesrv(namesrv: str) -> None:
    for address in _parts(namesrv):
        split_address(address)
        try:
            check_target(address)
        except ValueError:
            raise ValueError(f"it is host:port, several split by ';', not {address!r}") from None


def _check_fault_table(name: str) -> None:
    if name not in FAULT_TABLE_NAMES:
        raise ValueError(f"it is {', '.join(FAULT_TABLE_NAMES[1:])} or empty, not {name!r}")


CLIENT_RULES = SettingRules(
    ranges(
        (Range(1), "route_poll_interval_ms heartbeat_interval_ms offset_persist_interval_ms"),
        (Range(0), "route_poll_first_ms heartbeat_first_ms offset_persist_first_ms"),
        (Range(0), "route_lock_wait_ms_max rebalance_interval_ms_min"),
        (Range(1), "rebalance_interval_ms api_timeout_ms"),
    ),
    {"release": known_release, "namesrv": _check_namesrv, "quirks": check_quirks},
    (
        Relation(
            ("namesrv", "namesrv_domain"),
            lambda config: config.namesrv_addresses or config.namesrv_domain,
            "namesrv names no address, and there is no namesrv_domain to ask",
        ),
    ),
)

PRODUCER_RULES = SettingRules(
    ranges(
        (Range(1), "default_topic_queues send_timeout_ms message_bytes_max async_sends_max"),
        (Range(-1), "send_timeout_ms_per_attempt"),  # -1: no such limit
        (Range(0), "sync_retries async_retries compress_bytes_min"),
        (Range(0, 9), "compress_level"),  # of zlib
        (Range(1), "detect_timeout_ms detect_interval_ms"),
    ),
    {"fault_table": _check_fault_table},
)


class ClientConfig(Checked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What producers and consumers share.  Upstream: ClientConfig."""

    release: str = "4.9.8"  # whose rules are followed
    namesrv: str = "127.0.0.1:9876"  # namesrvAddr, several split by ";"; empty = see the next two
    namesrv_domain: str = ""  # rocketmq.namesrv.domain: host or host:port of an address server
    namesrv_subgroup: str = DEFAULT_SUBGROUP  # rocketmq.namesrv.domain.subgroup
    client_ip: str = ""  # clientIP; empty = the address of the machine
    instance_name: str = NO_INSTANCE_NAME  # instanceName, property rocketmq.client.name
    unit_name: str = ""  # unitName
    unit_mode: bool = False  # unitMode
    route_poll_interval_ms: int = 30_000  # pollNameServerInterval
    route_poll_first_ms: int = 10  # MQClientInstance.startScheduledTask
    route_lock_wait_ms_max: int = 3_000  # MQClientInstance.LOCK_TIMEOUT_MILLIS
    heartbeat_interval_ms: int = 30_000  # heartbeatBrokerInterval
    heartbeat_first_ms: int = 1_000  # MQClientInstance.startScheduledTask
    offset_persist_interval_ms: int = 5_000  # persistConsumerOffsetInterval
    offset_persist_first_ms: int = 10_000  # MQClientInstance.startScheduledTask
    rebalance_interval_ms: int = 20_000  # rocketmq.client.rebalance.waitInterval
    rebalance_interval_ms_min: int = 1_000  # rocketmq.client.rebalance.minInterval (5.2.0)
    api_timeout_ms: int = 3_000  # mqClientApiTimeout
    stream_requests: bool = False  # enableStreamRequestType (4.9.4)
    vip_channel_enabled: bool = False  # vipChannelEnabled
    quirks: tuple[str, ...] = ()  # ours: bugs switched on by name
    net: NetConfig = NetConfig()
    setting_rules: ClassVar[SettingRules] = CLIENT_RULES

    @property
    def rules(self) -> Release:
        """``release`` as a number, which behaviour depends on."""
        return known_release(self.release)

    @property
    def marks_streams(self) -> bool:
        """Whether requests say that they are a stream's, and the client id does."""
        return self.stream_requests and self.rules >= STREAMS_MARKED

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """``namesrv`` one by one, each ``host:port``."""
        return _parts(self.namesrv)


class ProducerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One producer's settings.  Upstream: DefaultMQProducer."""

    group: str
    create_topic_key: str = "TBW102"  # createTopicKey
    default_topic_queues: int = 4  # defaultTopicQueueNums
    send_timeout_ms: int = 3_000  # sendMsgTimeout, for the whole call
    send_timeout_ms_per_attempt: int = -1  # sendMsgMaxTimeoutPerRequest (5.3.3); -1 = no limit
    sync_retries: int = 2  # retryTimesWhenSendFailed
    async_retries: int = 2  # retryTimesWhenSendAsyncFailed
    retry_another_broker_when_not_store_ok: bool = False  # retryAnotherBrokerWhenNotStoreOK
    compress_bytes_min: int = 4_096  # compressMsgBodyOverHowmuch
    compress_level: int = 5  # property rocketmq.message.compressLevel
    message_bytes_max: int = MESSAGE_BYTES_MAX  # maxMessageSize
    send_latency_fault_enable: bool = False  # sendLatencyFaultEnable
    fault_table: str = ""  # ours: 4.x, 5.1.4 or seed_prose; empty = that of the release
    start_detector_enable: bool = False  # startDetectorEnable (5.1.4)
    detect_timeout_ms: int = 200  # detectTimeout (5.1.4)
    detect_interval_ms: int = 2_000  # detectInterval (5.1.4)
    async_sends_max: int = 50_000  # the async sender pool's queue; more are refused
    setting_rules: ClassVar[SettingRules] = PRODUCER_RULES


class ConsumerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind of consumer has.  Upstream: DefaultMQPushConsumer."""

    group: str


C = TypeVar("C", bound=ClientConfig)


def merged_config(kind: type[C], config: C | None, settings: dict[str, Any]) -> C:
    """A whole *config*, or single fields by name, or the one changed by the others.

    Raises ``BadArgument`` for a field there is not, of another type, or of a value that
    cannot be.
    """
    if config is not None and not isinstance(config, kind):
        text = not_a("config", f"a {kind.__name__}", config)
        raise BadArgument(f"{text}: single settings are given by name")
    if isinstance(several := settings.get("namesrv"), list | tuple):
        raise BadArgument(f"namesrv is one str, not {shown(several)}: split several by ';'")
    given = {} if config is None else msgspec.structs.asdict(config)
    try:
        owner = kind.__name__.removesuffix("Config")
        return fitted(kind, {**given, **settings}, owner, ELSEWHERE)
    except BadField as error:
        raise BadArgument(str(error)) from None


def _parts(namesrv: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in namesrv.split(";") if part.strip())

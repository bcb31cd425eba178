"""The settings of a NameServer, and its key-values.

Settings are the config of the start and the changes by UPDATE_NAMESRV_CONFIG (318); changes end
with the process.  Operators use upstream's names.  A name that upstream does not have is ignored
without an error, as upstream does.  A setting without an effect here is listed as changed, as
upstream does for settings that take effect after a restart only.
Key-values are the only state that survives a restart of a NameServer: every change replaces the
document ``kvConfig.json`` before it is answered.

Upstream: NamesrvConfig, NettyServerConfig, Configuration, KVConfigManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rocketmq_emulator.disk.port import WRITE_ERRORS, StoreDamaged
from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body, encode_config_file
from rocketmq_emulator.protocol.bodies.routes import KVConfigSerializeWrapper
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.java.java_json_writer import CachedTextDict
from rocketmq_emulator.settings.releases import (
    KV_CONFIG_PATH_IS_FIXED,
    NAMESRV_DROPS_UNLISTED,
    NAMESRV_HAS_BLACK_LIST,
    NAMESRV_HAS_MORE_SETTINGS,
    NAMESRV_MAY_WAIT,
    R_4_9_7,
    SERVERS_END_GRACEFULLY,
    STORE_PATH_IS_FIXED,
    WORKERS_ARE_OPTIONAL,
    Release,
)

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.settings.config import NameServerConfig


class SettingField(NamedTuple):
    """The field of NameServerConfig for a setting; one unit of upstream's is *unit* of ours."""

    field: str
    unit: int = 1


SETTINGS = {  # settings that 318 may change
    "orderMessageEnable": SettingField("order_message_enable"),
}
SETTINGS_5 = {
    "returnOrderTopicConfigToBroker": SettingField("return_order_topic_config_to_broker"),
    "enableAllTopicList": SettingField("enable_all_topic_list"),
    "enableTopicList": SettingField("enable_topic_list"),
    "supportActingMaster": SettingField("support_acting_master"),
    "notifyMinBrokerIdChanged": SettingField("notify_min_broker_id_changed"),
}
SETTINGS_5_1 = {
    "needWaitForService": SettingField("need_wait_for_service"),
    "waitSecondsForService": SettingField("wait_for_service_ms", unit=1_000),
}
SETTINGS_5_1_4 = {
    "deleteTopicWithBrokerRegistration": SettingField("delete_topic_with_broker_registration"),
}
SETTINGS_WITHOUT_EFFECT = {  # settings that 318 may change without an effect: threads, port, …
    "clusterTest": "false",
    "productEnvName": "center",
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "true",
    "serverSelectorThreads": "3",
    "serverSocketBacklog": "1024",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "8",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}
SETTINGS_WITHOUT_EFFECT_5 = {
    "clientRequestThreadPoolNums": "8",
    "clientRequestThreadPoolQueueCapacity": "50000",
    "defaultThreadPoolNums": "16",
    "defaultThreadPoolQueueCapacity": "10000",
    "scanNotActiveBrokerInterval": "5000",
    "unRegisterBrokerQueueCapacity": "3000",
}
GRACEFUL = {"enableShutdownGracefully": "false", "shutdownWaitTimeSeconds": "30"}
RESERVED_VARIABLES: dict[str, str] = {}
SETTINGS_BY_RELEASE: tuple[tuple[Release, Mapping[str, SettingField], Mapping[str, str]], ...] = (
    (NAMESRV_HAS_MORE_SETTINGS, SETTINGS_5, SETTINGS_WITHOUT_EFFECT_5),
    (NAMESRV_MAY_WAIT, SETTINGS_5_1, RESERVED_VARIABLES),
    (NAMESRV_DROPS_UNLISTED, SETTINGS_5_1_4, RESERVED_VARIABLES),
    (SERVERS_END_GRACEFULLY, {}, GRACEFUL),
    (WORKERS_ARE_OPTIONAL, {}, {"serverNettyWorkerGroupEnable": "true"}),
)
FIXED_PATHS = {"kvConfigPath": KV_CONFIG_PATH_IS_FIXED, "configStorePath": STORE_PATH_IS_FIXED}
BLACK_LIST_SHOWN = "configBlackList;configStorePath;kvConfigPath"  # NamesrvConfig
BLACK_LIST = (*FIXED_PATHS, "configBlackList", "rocketmqHome")


class NameServerSettings:
    """The settings; each change by an operator replaces ``config``, which is frozen."""

    def __init__(self, config: NameServerConfig) -> None:
        self.config = self._first_config = config
        self.release = config.parsed_release
        self._has_more = self.release >= NAMESRV_HAS_MORE_SETTINGS
        self._has_black_list = NAMESRV_HAS_BLACK_LIST.reached(self.release)
        self._paths = {p for p, fixed in FIXED_PATHS.items() if fixed.reached(self.release)}
        self._changeable = dict(SETTINGS)
        self._first_shown = dict(SETTINGS_WITHOUT_EFFECT)
        for since, changeable, shown in SETTINGS_BY_RELEASE:
            if self.release >= since:
                self._changeable |= changeable
                self._first_shown |= shown
        self._show(config)
        self.set_listen_address(config.listen_address)

    def reset(self) -> None:
        """Undo all changes by operators."""
        self.config = self._first_config
        self._show(self.config)
        self.set_listen_address(self._listen_address)

    def _show(self, config: NameServerConfig) -> None:
        self._shown = {
            **self._first_shown,
            "rocketmqHome": config.store,
            "serverChannelMaxIdleTimeSeconds": str(config.net.idle_ms_max // 1_000),
        }
        if self._has_more:
            self._shown["enableControllerInNamesrv"] = str(config.controller_in_namesrv).lower()
            if config.scan_interval_ms:
                self._shown["scanNotActiveBrokerInterval"] = str(config.scan_interval_ms)

    def properties(self) -> dict[str, str]:
        """All settings by upstream's names, as texts."""
        fixed = {"configStorePath": "", "kvConfigPath": KV_CONFIG}
        if self._has_black_list:
            fixed["configBlackList"] = self.config.config_black_list or BLACK_LIST_SHOWN
        live = {name: self._text(known) for name, known in self._changeable.items()}
        return fixed | self._shown | live

    def set_listen_address(self, address: str) -> None:
        """Set the listed address, once the port is known."""
        self._listen_address = address
        host, _, port = address.rpartition(":")
        self._shown |= {"bindAddress": host, "listenPort": port}

    def update(self, wanted: Mapping[str, str]) -> tuple[str, ...]:
        """Change settings; returns the sorted names of those without an effect.

        Raises ``Refusal`` for a black-listed name; then nothing changes.
        """
        if self._has_black_list and not wanted.keys().isdisjoint(
            (*BLACK_LIST, *self.config.config_black_list.split(";"))
        ):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        if not wanted.keys().isdisjoint(self._paths):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config path")
        changes: dict[str, Any] = {}
        for name, known in self._changeable.items():
            value = self._read(known, wanted[name]) if name in wanted else None
            if value is not None:
                changes[known.field] = value
        self.config = msgspec.structs.replace(self.config, **changes)
        for name in wanted.keys() & self._shown.keys():
            self._shown[name] = _changed(self._shown[name], wanted[name])
        return tuple(sorted(name for name in wanted if self._field(name) not in changes))

    def _field(self, name: str) -> str | None:
        known = self._changeable.get(name)
        return None if known is None else known.field

    def _text(self, known: SettingField) -> str:
        value = getattr(self.config, known.field)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value // known.unit)

    def _read(self, known: SettingField, text: str) -> bool | int | None:
        """The value of *text*; None if it is not a number: upstream keeps the old one."""
        if isinstance(getattr(self.config, known.field), bool):
            return text.strip().lower() == "true"
        text = text.strip()
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        return int(text) * known.unit if is_number else None


def _changed(text: str, wanted: str) -> str:
    """A setting's new text; the old *text* determines its type.

    Upstream: MixAll.properties2Object.
    """
    if text in ("true", "false"):
        return "true" if wanted.lower() == "true" else "false"
    if text.isdigit():
        is_number = wanted.isascii() and wanted.removeprefix("-").isdigit() and len(wanted) < 11
        return wanted if is_number else text
    return wanted


# Key-values ---------------------------------------------------------------------------


KV_CONFIG = "kvConfig.json"
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # namespace: topic to "broker-a:4;broker-b:4"


class KVConfig:
    """Values by namespace and key, read from *disk* once at the start."""

    def __init__(self, disk: Disk, entries_max: int) -> None:
        self._disk = disk
        self._entries_max = entries_max
        self._config_table = _load(disk)

    def get(self, namespace: str, key: str) -> str | None:
        """The value; None if the key is unknown."""
        return self._config_table.get(namespace, {}).get(key)

    def of(self, namespace: str) -> dict[str, str] | None:
        """The keys and values of a namespace; None if it never had a key."""
        return self._config_table.get(namespace)

    def reset(self) -> None:
        """Remove all values."""
        if self._config_table:
            self._config_table = {}
            self._disk.replace(KV_CONFIG, encode_config_file(KVConfigSerializeWrapper(), R_4_9_7))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.  Raises ``Refusal`` if there are too many or the disk fails: no change."""
        if self.get(namespace, key) is None and self._count() >= self._entries_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another key")
        self._change(namespace, key, value)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key.  The namespace stays without keys, as in upstream."""
        if self.get(namespace, key) is not None:
            self._change(namespace, key, None)

    def _count(self) -> int:
        return sum(len(items) for items in self._config_table.values())

    def _change(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value, or remove it (None), in memory and on disk, or in neither."""
        is_new = namespace not in self._config_table
        items = self._config_table.setdefault(namespace, CachedTextDict())
        before = items.get(key)
        _set(items, key, value)
        whole = KVConfigSerializeWrapper(config_table=self._config_table)
        try:
            self._disk.replace(KV_CONFIG, encode_config_file(whole, R_4_9_7))
        except WRITE_ERRORS as error:
            _set(items, key, before)
            if is_new:
                del self._config_table[namespace]
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{KV_CONFIG}: {error}") from error


def _set(items: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        del items[key]
    else:
        items[key] = value


def _load(disk: Disk) -> dict[str, dict[str, str]]:
    """The saved tables, which cache their encoded entries: each change writes the file."""
    text = disk.read(KV_CONFIG)
    if text is None:
        return {}
    try:
        loaded = decode_unlimited_body(text, KVConfigSerializeWrapper).config_table
    except BadFields as error:
        raise StoreDamaged(f"{KV_CONFIG} cannot be read: {error}") from error
    return {namespace: CachedTextDict(items.items()) for namespace, items in loaded.items()}

"""The settings as they are now: the config it was born with, and what 318 changed since.

Operators know them by upstream's names.  A name that upstream does not have either is
ignored in silence, as upstream does; changes are forgotten at a restart.
Upstream: NamesrvConfig, NettyServerConfig, Configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from emulator.nameserver.kv_config import KV_CONFIG
from emulator.net.results import Refusal
from emulator.releases import FIVE
from protocol.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.config import NameServerConfig


class Property(NamedTuple):
    """One setting: our field, and how many of our units one of upstream's is."""

    field: str
    unit: int = 1


PROPERTIES = {  # what 318 may change
    "orderMessageEnable": Property("order_message_enable"),
}
PROPERTIES_5 = {
    **PROPERTIES,
    "returnOrderTopicConfigToBroker": Property("return_order_topic_config_to_broker"),
    "deleteTopicWithBrokerRegistration": Property("delete_topic_with_broker_registration"),
    "enableAllTopicList": Property("enable_all_topic_list"),
    "enableTopicList": Property("enable_topic_list"),
    "supportActingMaster": Property("support_acting_master"),
    "notifyMinBrokerIdChanged": Property("notify_min_broker_id_changed"),
    "needWaitForService": Property("need_wait_for_service"),
    "waitSecondsForService": Property("wait_for_service_ms", unit=1_000),
}
BLACK_LIST = ("kvConfigPath", "configStorePath")
BLACK_LIST_5 = (*BLACK_LIST, "configBlackList", "rocketmqHome")


class Settings:
    """``config`` is frozen, but replaced when an operator changes a setting."""

    def __init__(self, config: NameServerConfig) -> None:
        self.config = config
        self.release = config.profile
        self._five = self.release >= FIVE
        self._changeable = PROPERTIES_5 if self._five else PROPERTIES

    def properties(self) -> dict[str, str]:
        """Every setting by upstream's name, as text."""
        fixed = {
            "clusterTest": "false",
            "configStorePath": "",
            "kvConfigPath": KV_CONFIG,
            "listenPort": self.config.listen_address.rpartition(":")[2],
            "productEnvName": "center",
            "rocketmqHome": self.config.store,
            "serverChannelMaxIdleTimeSeconds": str(self.config.net.idle_ms_max // 1_000),
        }
        if self._five:
            fixed["configBlackList"] = self.config.config_black_list
        live = {name: self._text(known) for name, known in self._changeable.items()}
        return fixed | live

    def update(self, wanted: Mapping[str, str]) -> None:
        """Raises ``Refusal`` if a black-listed name is among them; then nothing changes."""
        if self._five and not wanted.keys().isdisjoint(
            (*BLACK_LIST_5, *self.config.config_black_list.split(";"))
        ):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        if not wanted.keys().isdisjoint(BLACK_LIST):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config path")
        changes: dict[str, Any] = {}
        for name, known in self._changeable.items():
            value = self._read(known, wanted[name]) if name in wanted else None
            if value is not None:
                changes[known.field] = value
        self.config = msgspec.structs.replace(self.config, **changes)

    def _text(self, known: Property) -> str:
        value = getattr(self.config, known.field)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value // known.unit)

    def _read(self, known: Property, text: str) -> bool | int | None:
        """None for a number that is none: upstream keeps the old one."""
        if isinstance(getattr(self.config, known.field), bool):
            return text.strip().lower() == "true"
        text = text.strip()
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        return int(text) * known.unit if is_number else None

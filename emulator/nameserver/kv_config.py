"""Operators' key-values: the only thing that a NameServer keeps over a restart.

Every change replaces the document ``kvConfig.json`` before it is answered.
Upstream: KVConfigManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.disk.port import NOT_WRITTEN, StoreDamaged
from emulator.net.results import Refusal
from emulator.releases import R_4_9_7
from protocol.bodies.body import decode_long_body, encode_config_file
from protocol.bodies.routes import KVConfigSerializeWrapper
from protocol.codes import ResponseCode
from protocol.fields import BadFields

if TYPE_CHECKING:
    from emulator.disk.port import Disk

KV_CONFIG = "kvConfig.json"
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # namespace: topic to "broker-a:4;broker-b:4"


class KVConfig:
    """Values by namespace and key; read from *disk* once, at the start."""

    def __init__(self, disk: Disk, entries_max: int) -> None:
        self._disk = disk
        self._entries_max = entries_max
        self._config_table = _load(disk)

    def get(self, namespace: str, key: str) -> str | None:
        """The value; None if the key is unknown."""
        return self._config_table.get(namespace, {}).get(key)

    def of(self, namespace: str) -> dict[str, str] | None:
        """All of a namespace, or None if nothing was ever put there."""
        return self._config_table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.  Raises ``Refusal`` when there is no room or the disk fails: unchanged."""
        if self.get(namespace, key) is None and self._count() >= self._entries_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another key")
        items = {**self._config_table.get(namespace, {}), key: value}
        self._replace({**self._config_table, namespace: items})

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key.  The namespace stays, as upstream's does, even without a key."""
        items = self._config_table.get(namespace, {})
        if key in items:
            left = {name: value for name, value in items.items() if name != key}
            self._replace({**self._config_table, namespace: left})

    def _count(self) -> int:
        return sum(len(items) for items in self._config_table.values())

    def _replace(self, config_table: dict[str, dict[str, str]]) -> None:
        text = encode_config_file(KVConfigSerializeWrapper(config_table=config_table), R_4_9_7)
        try:
            self._disk.replace(KV_CONFIG, text)
        except NOT_WRITTEN as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{KV_CONFIG}: {error}") from error
        self._config_table = config_table


def _load(disk: Disk) -> dict[str, dict[str, str]]:
    text = disk.read(KV_CONFIG)
    if text is None:
        return {}
    try:
        return decode_long_body(text, KVConfigSerializeWrapper).config_table
    except BadFields as error:
        raise StoreDamaged(f"{KV_CONFIG} cannot be read: {error}") from error

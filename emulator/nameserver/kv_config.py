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
from protocol.text_table import TextTable

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

    def reset(self) -> None:
        """Nothing was ever put."""
        if self._config_table:
            self._config_table = {}
            self._disk.replace(KV_CONFIG, encode_config_file(KVConfigSerializeWrapper(), R_4_9_7))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.  Raises ``Refusal`` when there is no room or the disk fails: unchanged."""
        if self.get(namespace, key) is None and self._count() >= self._entries_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another key")
        self._change(namespace, key, value)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key.  The namespace stays, as upstream's does, even without a key."""
        if self.get(namespace, key) is not None:
            self._change(namespace, key, None)

    def _count(self) -> int:
        return sum(len(items) for items in self._config_table.values())

    def _change(self, namespace: str, key: str, value: str | None) -> None:
        """Set or remove it, on disk too; if that fails all is as it was."""
        is_new = namespace not in self._config_table
        items = self._config_table.setdefault(namespace, TextTable())
        before = items.get(key)
        _set(items, key, value)
        whole = KVConfigSerializeWrapper(config_table=self._config_table)
        try:
            self._disk.replace(KV_CONFIG, encode_config_file(whole, R_4_9_7))
        except NOT_WRITTEN as error:
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
    """Tables that keep the texts of their entries: the file is written for each change."""
    text = disk.read(KV_CONFIG)
    if text is None:
        return {}
    try:
        loaded = decode_long_body(text, KVConfigSerializeWrapper).config_table
    except BadFields as error:
        raise StoreDamaged(f"{KV_CONFIG} cannot be read: {error}") from error
    return {namespace: TextTable(items.items()) for namespace, items in loaded.items()}

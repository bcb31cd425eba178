"""The settings of a controller, and their changes by UPDATE_CONTROLLER_CONFIG (1009).

Changes end with the process.  A name that upstream does not have is ignored without an error, as
upstream does.  A setting without an effect here is listed as changed: threads, ports, and the
intervals, which upstream reads at its start only.

Upstream: ControllerConfig, NettyServerConfig, Configuration; the settings of its JRaft controller
and of its metrics are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rocketmq_emulator.net.results import Refusal
from rocketmq_emulator.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from rocketmq_emulator.settings.config import ControllerConfig

SETTINGS = {  # settings that 1009 changes, and our fields
    "electMasterMaxRetryCount": "elections_max",
    "enableElectUncleanMaster": "elect_unclean_master",
    "notifyBrokerRoleChanged": "notify_role_changed",
}
WITHOUT_EFFECT = {  # settings that 1009 may change without an effect
    "controllerRequestThreadPoolQueueCapacity": "50000",
    "controllerThreadPoolNums": "16",
    "isProcessReadEvent": "false",
    "mappedFileSize": "1073741824",
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
}
NAMES_OF_SETTERS = {"processReadEvent": "isProcessReadEvent"}  # Java drops the "is"
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
TEXT_CHARS_MAX = 1_024  # ours: of a changed text


class ControllerSettings:
    """The settings; each change by an operator replaces ``config``, which is frozen."""

    def __init__(self, config: ControllerConfig) -> None:
        self._first_config = config
        self.address = config.served_address  # until the port is known
        self.reset()

    def reset(self) -> None:
        """Undo all changes by operators."""
        config = self.config = self._first_config
        self._shown = {
            **WITHOUT_EFFECT,
            "controllerDLegerGroup": config.group,
            "controllerDLegerSelfId": config.self_id,
            "controllerStorePath": config.store,
            "controllerType": config.controller_type,
            "scanInactiveMasterInterval": str(config.scan_masters_interval_ms),
            "scanNotActiveBrokerInterval": str(config.scan_interval_ms),
            "serverChannelMaxIdleTimeSeconds": str(config.net.idle_ms_max // 1_000),
        }

    @property
    def peers(self) -> str:
        """All controllers of the group, "n0-host:port", as in upstream's setting."""
        return self.config.peers or f"{self.config.self_id}-{self.address}"

    def properties(self) -> dict[str, str]:
        """All settings by upstream's names, as texts."""
        host, _, port = self.address.rpartition(":")
        fixed = {
            "bindAddress": host,
            "configBlackList": self.config.config_black_list,
            "configStorePath": "",
            "controllerDLegerPeers": self.peers,
            "listenPort": port,
            "rocketmqHome": "",
        }
        live = {name: _text(getattr(self.config, field)) for name, field in SETTINGS.items()}
        return self._shown | fixed | live

    def update(self, wanted: Mapping[str, str]) -> tuple[str, ...]:
        """Change settings; returns the sorted names of those without an effect.

        Raises ``Refusal`` for a black-listed name; then nothing changes.
        """
        black_list = BLACK_LIST.union(self.config.config_black_list.split(";"))
        if not black_list.isdisjoint(wanted):
            raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        changes: dict[str, Any] = {}
        for name, text in wanted.items():
            if field := SETTINGS.get(name):
                value = _read(getattr(self.config, field), text)
                changes |= {} if value is None else {field: value}
            elif (shown := NAMES_OF_SETTERS.get(name, name)) in self._shown:
                self._shown[shown] = text.strip()[:TEXT_CHARS_MAX]
        self.config = msgspec.structs.replace(self.config, **changes)
        return tuple(sorted(name for name in wanted if SETTINGS.get(name) not in changes))


def _text(value: bool | int) -> str:
    return str(value).lower()


def _read(old: bool | int, text: str) -> bool | int | None:
    """The value of *text*; None if it is not a number: upstream keeps the old one."""
    text = text.strip()
    if isinstance(old, bool):
        return text.lower() == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

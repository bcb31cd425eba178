"""Which brokers were heard, when, and over which connection.

Upstream: RouteInfoManager.brokerLiveTable, BrokerLiveInfo.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from emulator.net.results import Peer, Refusal
from protocol.bodies.topics import DataVersion
from protocol.codes import ResponseCode


class BrokerKey(NamedTuple):
    """A replica's identity.  4.x knows addresses only: there ``cluster`` is empty."""

    cluster: str
    address: str


class LiveBroker(msgspec.Struct):
    """One replica that was heard.  Its version is the one of the topics it last told."""

    broker: str
    broker_id: int
    heard_ms: int
    silence_ms_max: int
    data_version: DataVersion
    peer: Peer
    ha_address: str


class Liveness:
    """The live table, and the filter servers brokers named (a relic that clients still read)."""

    def __init__(self, brokers_max: int) -> None:
        self.broker_live_table: dict[BrokerKey, LiveBroker] = {}
        self.filter_server_table: dict[BrokerKey, list[str]] = {}
        self._brokers_max = brokers_max

    def check_room(self, key: BrokerKey) -> None:
        """Raises ``Refusal`` when one more broker would not fit."""
        if key not in self.broker_live_table and len(self.broker_live_table) >= self._brokers_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for the broker at {key.address}")

    def heard(self, key: BrokerKey, live: LiveBroker, filter_servers: list[str] | None) -> None:
        self.broker_live_table[key] = live
        if filter_servers:
            self.filter_server_table[key] = filter_servers
        elif filter_servers is not None:
            self.filter_server_table.pop(key, None)

    def refresh(self, key: BrokerKey, now_ms: int) -> None:
        """It was heard again; nothing if it is not known."""
        if (live := self.broker_live_table.get(key)) is not None:
            live.heard_ms = now_ms

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        live = self.broker_live_table.get(key)
        return None if live is None else live.data_version

    def of(self, peer: Peer) -> list[tuple[BrokerKey, LiveBroker]]:
        """Who registered over *peer* last; an older connection of theirs is nobody's."""
        return [entry for entry in self.broker_live_table.items() if entry[1].peer is peer]

    def silent(self, now_ms: int) -> list[tuple[BrokerKey, LiveBroker]]:
        return [
            (key, live)
            for key, live in self.broker_live_table.items()
            if live.heard_ms + live.silence_ms_max < now_ms
        ]

    def forget(self, key: BrokerKey) -> None:
        self.filter_server_table.pop(key, None)
        self.broker_live_table.pop(key, None)

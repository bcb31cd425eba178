"""Which brokers are alive, and how far their logs are: the heartbeats of brokers.

A broker is alive as long as its last heartbeat is younger than the timeout that it has sent.
Heartbeats are not events: each controller of a group has its own.  As in upstream the connection
of a broker is that of its first heartbeat, so a broker that connects again dies with its first
connection, and is alive again with its next heartbeat; and its log's end only moves up.

Upstream: DefaultBrokerHeartbeatManager, BrokerLiveInfo, BrokerIdentityInfo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from rocketmq_emulator.net.results import Peer, Refusal
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.requests.nameserver import BrokerHeartbeatRequest
from rocketmq_emulator.settings.setting_rules import INT_MAX

SILENCE_MS_MAX = 10_000  # BrokerHeartbeatManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME


class BrokerIdentity(NamedTuple):
    """Upstream: BrokerIdentityInfo."""

    cluster: str | None
    broker_name: str
    broker_id: int


IsAlive: TypeAlias = Callable[[BrokerIdentity], bool]


class BrokerLiveInfo(msgspec.Struct):
    """The fields of a broker's heartbeats; -1 for those that none had."""

    peer: Peer
    heard_ms: int
    silence_ms_max: int
    election_priority: int
    epoch: int = -1
    max_offset: int = -1


class BrokerLiveTable:
    """The last heartbeat of each broker, of at most *brokers_max*."""

    def __init__(self, brokers_max: int) -> None:
        self.broker_live_table: dict[BrokerIdentity, BrokerLiveInfo] = {}
        self._brokers_max = brokers_max

    def heard(self, request: BrokerHeartbeatRequest, peer: Peer, now_ms: int) -> bool:
        """Take a heartbeat with a broker id; true if the broker was not alive before.

        Raises ``Refusal`` if there is no room for another broker.
        """
        assert request.broker_id is not None
        broker = BrokerIdentity(request.cluster_name, request.broker_name, request.broker_id)
        known = self.broker_live_table.get(broker)
        if known is None:
            if len(self.broker_live_table) >= self._brokers_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, "no room for another live broker")
            known = BrokerLiveInfo(peer, now_ms, 0, 0)
            self.broker_live_table[broker] = known
            is_new = True
        else:
            is_new = not _is_fresh(known, now_ms)
        known.heard_ms = now_ms
        known.silence_ms_max = _or(request.heartbeat_timeout_mills, SILENCE_MS_MAX)
        known.election_priority = _or(request.election_priority, INT_MAX)
        end = (_or(request.epoch, -1), _or(request.max_offset, -1))
        known.epoch, known.max_offset = max(end, (known.epoch, known.max_offset))
        return is_new

    def is_active(self, broker: BrokerIdentity, now_ms: int) -> bool:
        """Whether its last heartbeat is young enough."""
        known = self.broker_live_table.get(broker)
        return known is not None and _is_fresh(known, now_ms)

    def expire(self, now_ms: int) -> list[tuple[BrokerIdentity, BrokerLiveInfo]]:
        """Remove silent brokers, and return them.  Upstream: scanNotActiveBroker."""
        gone = [
            (broker, known)
            for broker, known in self.broker_live_table.items()
            if not _is_fresh(known, now_ms)
        ]
        for broker, _ in gone:
            del self.broker_live_table[broker]
        return gone

    def closed(self, peer: Peer) -> BrokerIdentity | None:
        """Remove the broker of a connection, and return it; one only, as in upstream.

        Upstream: onBrokerChannelClose.
        """
        for broker, known in self.broker_live_table.items():
            if known.peer is peer:
                del self.broker_live_table[broker]
                return broker
        return None


def _is_fresh(known: BrokerLiveInfo, now_ms: int) -> bool:
    return now_ms - known.heard_ms <= known.silence_ms_max


def _or(value: int | None, default: int) -> int:
    return default if value is None else value

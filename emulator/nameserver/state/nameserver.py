"""A NameServer as a value: its tables, and the outlet to brokers.

The request processors read and change it; the shell calls ``closed`` for closed connections and
``scan`` at intervals.  No method waits.  Upstream: NamesrvController.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.facts import NameServerReset
from rocketmq_emulator.nameserver.state.routes import Routes, SmallestIdChanged
from rocketmq_emulator.nameserver.state.settings import KVConfig, NameServerSettings
from rocketmq_emulator.protocol.requests.nameserver import NotifyMinBrokerIdChangeRequest
from rocketmq_emulator.settings.releases import (
    MIN_BROKER_ID_NOTIFIED,
    SCAN_EVERY_5_S,
    UNKNOWN_CODE_REFUSED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.disk.port import Disk
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.net.results import Peer
    from rocketmq_emulator.settings.config import NameServerConfig

SCAN_INTERVAL_MS, SCAN_INTERVAL_5_MS = 10_000, 5_000


Notify: TypeAlias = Callable[[str, NotifyMinBrokerIdChangeRequest], object]


def no_notice(_address: str, _header: NotifyMinBrokerIdChangeRequest) -> None:
    """The default ``notify``, which sends nothing."""


class NameServer:
    """State of one NameServer.  *started_ms* is used only if routes are refused after a start.

    Set ``notify(address, header)`` to let it notify brokers.  ``unknown_is_silent``: requests with
    an unknown code are not answered.
    """

    def __init__(
        self,
        config: NameServerConfig,
        *,
        disk: Disk,
        note: Note,
        notify: Notify = no_notice,
        started_ms: int = 0,
    ) -> None:
        self.settings = NameServerSettings(config)
        self.release = config.parsed_release
        self.note = note
        self.kv_config = KVConfig(disk, config.kv_entries_max)
        self.routes = Routes(self.settings, note, self._notify_smallest_id)
        self.notify = notify
        self.unknown_is_silent = self.release < UNKNOWN_CODE_REFUSED
        own_ms = SCAN_INTERVAL_5_MS if self.release >= SCAN_EVERY_5_S else SCAN_INTERVAL_MS
        self.scan_interval_ms = config.scan_interval_ms or own_ms
        self._started_ms = started_ms

    def closed(self, peer: Peer, _now_ms: int) -> None:
        """Remove the brokers that registered over *peer*.  Upstream: BrokerHousekeepingService."""
        self.routes.closed(peer)

    def scan(self, now_ms: int) -> list[Peer]:
        """Remove brokers without a recent heartbeat; returns their connections, to be closed."""
        return self.routes.expire(now_ms)

    def reset(self, now_ms: int) -> None:
        """Reset all state but the brokers, which must register their topics again."""
        self.settings.reset()
        self.kv_config.reset()
        self.routes.reset(now_ms)
        self.note(NameServerReset())

    def is_ready(self, now_ms: int) -> bool:
        """False while routes are refused so that brokers can register first (5.1, by setting)."""
        config = self.settings.config
        uptime_ms = now_ms - self._started_ms
        return not config.need_wait_for_service or uptime_ms >= config.wait_for_service_ms

    def _notify_smallest_id(self, change: SmallestIdChanged) -> None:
        """5.x: notify replicas of the smallest id: the replica with it may act as the master.

        Upstream: RouteInfoManager.notifyMinBrokerIdChanged, which leaves the broker name out.
        """
        config = self.settings.config
        if self.release < MIN_BROKER_ID_NOTIFIED or not config.notify_min_broker_id_changed:
            return
        replicas = change.replicas
        header = NotifyMinBrokerIdChangeRequest(
            min_broker_id=replicas.smallest_id,
            min_broker_addr=replicas.addresses[replicas.smallest_id],
            offline_broker_addr=change.gone_address,
            ha_broker_addr=change.new_ha_address,
        )
        for address in change.addresses_to_notify():
            self.notify(address, header)

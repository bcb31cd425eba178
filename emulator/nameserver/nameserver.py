"""A NameServer as a value: its tables, and the outlet to brokers.

``handlers`` are built from it and change it; the shell tells it of closed connections and
of time passing.  It never waits.  Upstream: NamesrvController.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from emulator.nameserver.kv_config import KVConfig
from emulator.nameserver.min_broker_id import IdsChanged, notification, who_hears
from emulator.nameserver.routes import Routes
from emulator.nameserver.settings import Settings
from emulator.net.results import Peer, Push
from emulator.releases import FIVE
from protocol import catalog

if TYPE_CHECKING:
    from emulator.config import NameServerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Note
    from protocol.fields import Header

SCAN_INTERVAL_MS, SCAN_INTERVAL_5_MS = 10_000, 5_000


def nobody(_peer: Peer, _code: int, _header: Header | None, _body: bytes) -> bool:
    """A ``push`` that reaches no one."""
    return False


class NameServer:
    """State of one NameServer; ``unknown_code`` says how an unknown request is met.

    Set ``push`` to let it speak to brokers.  *started_ms* matters only to one that refuses
    routes for a while after its start.
    """

    def __init__(
        self,
        config: NameServerConfig,
        *,
        disk: Disk,
        note: Note,
        push: Push = nobody,
        started_ms: int = 0,
    ) -> None:
        self.settings = Settings(config)
        self.release = config.profile
        self.kv_config = KVConfig(disk, config.kv_entries_max)
        self.routes = Routes(self.settings, note, self._ids_changed)
        self.push = push
        five = self.release >= FIVE
        self.unknown_code: Literal["silent", "refuse"] = "refuse" if five else "silent"
        own_interval_ms = SCAN_INTERVAL_5_MS if five else SCAN_INTERVAL_MS
        self.scan_interval_ms = config.scan_interval_ms or own_interval_ms
        self.scan_first_ms = config.scan_first_ms
        self._started_ms = started_ms

    @property
    def unknown_is_silent(self) -> bool:
        return self.unknown_code == "silent"

    def closed(self, peer: Peer, _now_ms: int) -> None:
        """A connection ended, whoever it was.  Upstream: BrokerHousekeepingService."""
        self.routes.closed(peer)

    def scan(self, now_ms: int) -> list[Peer]:
        """Drop brokers that fell silent; the caller closes these connections of theirs."""
        return self.routes.expire(now_ms)

    def is_ready(self, now_ms: int) -> bool:
        """5.1 can be told to refuse routes until every broker had the time to register."""
        config = self.settings.config
        uptime_ms = now_ms - self._started_ms
        return not config.need_wait_for_service or uptime_ms >= config.wait_for_service_ms

    def _ids_changed(self, change: IdsChanged) -> None:
        if self.release < FIVE or not self.settings.config.notify_min_broker_id_changed:
            return
        header = notification(change)
        live = self.routes.live.broker_live_table
        for address in who_hears(change):
            found = live.get(self.routes.key(change.replicas.cluster, address))
            if found is not None:
                code = catalog.NOTIFY_MIN_BROKER_ID_CHANGE.code
                self.push(found.peer, code, header, b"")

"""A NameServer as a value: tables, and what is answered to whom.

It is told of requests, closed connections and the passing of time; it never waits.
Upstream: NamesrvController, DefaultRequestProcessor, ClientRequestProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from emulator.nameserver import handlers_admin as admin
from emulator.nameserver import handlers_brokers as brokers
from emulator.nameserver import handlers_routes as routes
from emulator.nameserver.kv_config import KVConfig
from emulator.nameserver.min_broker_id import IdsChanged, notification, who_hears
from emulator.nameserver.routes import Routes
from emulator.nameserver.settings import Settings
from emulator.net.results import Call, Handler, Peer, Push, Reply
from emulator.releases import FIVE
from protocol import catalog
from protocol.bodies.remembered import Remembered

if TYPE_CHECKING:
    from emulator.config import NameServerConfig
    from emulator.disk.port import Disk
    from emulator.facts import Note
    from protocol.fields import Header
    from protocol.rpc import Rpc

Answer: TypeAlias = Callable[["NameServer", Call], Reply]

ANSWERS: tuple[tuple[Rpc, Answer], ...] = (
    (catalog.PUT_KV_CONFIG, admin.put_kv_config),
    (catalog.GET_KV_CONFIG, admin.get_kv_config),
    (catalog.DELETE_KV_CONFIG, admin.delete_kv_config),
    (catalog.REGISTER_BROKER, brokers.register_broker),
    (catalog.UNREGISTER_BROKER, brokers.unregister_broker),
    (catalog.GET_ROUTEINFO_BY_TOPIC, routes.get_route_info),
    (catalog.GET_BROKER_CLUSTER_INFO, routes.get_broker_cluster_info),
    (catalog.WIPE_WRITE_PERM_OF_BROKER, admin.wipe_write_perm),
    (catalog.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, routes.get_all_topic_list),
    (catalog.DELETE_TOPIC_IN_NAMESRV, admin.delete_topic),
    (catalog.REGISTER_TOPIC_IN_NAMESRV, admin.register_topic),
    (catalog.GET_KVLIST_BY_NAMESPACE, admin.get_kv_list),
    (catalog.GET_TOPICS_BY_CLUSTER, routes.get_topics_by_cluster),
    (catalog.GET_SYSTEM_TOPIC_LIST_FROM_NS, routes.get_system_topic_list),
    (catalog.GET_UNIT_TOPIC_LIST, routes.get_unit_topic_list),
    (catalog.GET_HAS_UNIT_SUB_TOPIC_LIST, routes.get_unit_topic_list),
    (catalog.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, routes.get_unit_topic_list),
    (catalog.UPDATE_NAMESRV_CONFIG, admin.update_config),
    (catalog.GET_NAMESRV_CONFIG, admin.get_config),
    (catalog.QUERY_DATA_VERSION, brokers.query_data_version),
    (catalog.ADD_WRITE_PERM_OF_BROKER, admin.add_write_perm),
    (catalog.GET_BROKER_MEMBER_GROUP, brokers.get_broker_member_group),
    (catalog.BROKER_HEARTBEAT, brokers.broker_heartbeat),
)
SCAN_INTERVAL_MS, SCAN_INTERVAL_5_MS = 10_000, 5_000


def nobody(_peer: Peer, _code: int, _header: Header | None, _body: bytes) -> bool:
    """A ``push`` that reaches no one."""
    return False


class NameServer:
    """``handlers`` answers requests; an unknown code is met with ``unknown_code``.

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
        self.route_texts = Remembered(routes.encode_route)
        self.handlers: Mapping[int, tuple[Rpc, Handler]] = {
            rpc.code: (rpc, partial(answer, self))
            for rpc, answer in ANSWERS
            if rpc.known_to(self.release)
        }
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

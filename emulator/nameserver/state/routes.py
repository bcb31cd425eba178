"""The routes from topics to brokers: registration, removal of silent brokers, lookups.

No route survives a restart, and NameServers are not connected to each other: every broker
registers at each.  A registration only adds or overwrites topics; they are removed with the
*last* replica of their broker, so a route may list writable queues of a broker without a master.
Answers (routes, clusters, lists of topics) are copies: changing one does not change the tables.

Upstream: RouteInfoManager; its pickupTopicRouteData and the getters beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.facts import BrokerExpired, BrokerUnregistered, WritePermChanged
from rocketmq_emulator.nameserver.state.tables import (
    BrokerKey,
    BrokerNames,
    LiveBroker,
    LiveBrokers,
    Replicas,
    TopicQueues,
)
from rocketmq_emulator.net.results import Peer, Refusal
from rocketmq_emulator.protocol.bodies.routes import (
    BrokerData,
    QueueData,
    TopicList,
    TopicRouteData,
)
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.flags import (
    PERM_READ_WRITE,
    PERM_WRITE,
    TOPIC_UNIT,
    TOPIC_UNIT_SUB,
    is_writeable,
)
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerReply
from rocketmq_emulator.settings.releases import (
    BROKERS_KEYED_BY_CLUSTER,
    LONE_TOPIC_REFUSED,
    MISSING_TOPICS_TAKEN,
    OUTDATED_BROKER_IGNORED,
    UNREGISTERED_BY_ADDRESS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.nameserver.state.registration import BrokerRegistration
    from rocketmq_emulator.nameserver.state.settings import NameServerSettings
    from rocketmq_emulator.protocol.bodies.topics import TopicConfig


class MasterAddresses(NamedTuple):
    """The addresses of a slave's master; None while no master is registered."""

    address: str | None = None
    ha_address: str | None = None


class SmallestIdChanged(NamedTuple):
    """The replica with the smallest broker id was removed, or one with a smaller id was added."""

    replicas: Replicas
    gone_address: str | None = None
    new_ha_address: str | None = None

    def addresses_to_notify(self) -> list[str]:
        """The addresses of all replicas after a removal; without the new one after a registration.

        Upstream: RouteInfoManager.chooseBrokerAddrsToNotify.
        """
        addresses = self.replicas.addresses
        if self.gone_address is not None or len(addresses) == 1:
            return list(addresses.values())
        smallest = self.replicas.smallest_id
        return [address for number, address in addresses.items() if number != smallest]


class Routes:
    """The tables, and the methods that change them; the functions below read them.

    *id_changed* is called when the smallest id of a broker name has changed.
    """

    def __init__(
        self,
        settings: NameServerSettings,
        note: Note,
        id_changed: Callable[[SmallestIdChanged], object],
    ) -> None:
        config = settings.config
        self.topics = TopicQueues(config.topics_max)
        self.brokers = BrokerNames(config.brokers_max)
        self.live = LiveBrokers(config.brokers_max)
        self._settings = settings
        self._release = settings.release
        self._note = note
        self._id_changed = id_changed

    def key(self, cluster: str, address: str) -> BrokerKey:
        """The key of a replica in this release: 4.x uses the address alone."""
        return BrokerKey(cluster if self._release >= BROKERS_KEYED_BY_CLUSTER else "", address)

    def reset(self, now_ms: int) -> None:
        """Remove all topics; brokers stay, with a heartbeat at *now_ms*."""
        self.topics.clear()
        self.live.refresh_all(now_ms)

    # Registering ----------------------------------------------------------------------

    def register(self, given: BrokerRegistration, peer: Peer, now_ms: int) -> MasterAddresses:
        """Register a broker; for a slave returns the addresses of its master.

        Raises ``Refusal`` if the tables are full or, in 5.x, a new broker sends a single topic.
        """
        key = self.key(given.cluster, given.address)
        self._check_room(given, key)
        replicas = self._replicas_of(given)
        smallest_before = replicas.smallest_id
        replicas.keep_one_id(given.address, given.broker_id)
        if self._is_outdated(given, replicas):
            self.live.remove(key)
            return MasterAddresses()
        is_new = given.broker_id not in replicas.addresses
        if is_new and len(given.topics) == 1 and self._release >= LONE_TOPIC_REFUSED:
            # Else the route would be incomplete: the broker's other topics are missing.
            remark = "register broker failed"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark, RegisterBrokerReply())
        first = not replicas.addresses.get(given.broker_id)
        replicas.addresses[given.broker_id] = given.address
        if given.broker_id == MASTER_ID or self._is_prime_slave(given, replicas):
            self._take_topics(given, first=first)
        self.live.put(key, self._live(given, peer, now_ms), given.filter_servers)
        known_count = len(self.topics.at(given.broker))
        self._note(given.fact(first=first, known_count=known_count))
        if given.broker_id < smallest_before:
            self._id_changed(SmallestIdChanged(replicas, new_ha_address=given.ha_address))
        return self._master_addresses(given, replicas)

    # Removing -------------------------------------------------------------------------

    def unregister(self, cluster: str, broker: str, broker_id: int, address: str) -> None:
        """Remove one replica; nothing if it is unknown.

        5.x removes replicas in batches, shortly after its answer; here it is done before.
        """
        self.live.remove(self.key(cluster, address))
        replicas = self.brokers.broker_addr_table.get(broker)
        if replicas is None:
            return
        by_address = self._release >= UNREGISTERED_BY_ADDRESS
        for number, where in list(replicas.addresses.items()):
            if where == address if by_address else number == broker_id:
                self._remove(replicas, number, cluster)
                self._note(BrokerUnregistered(broker, number, where, "asked"))

    def closed(self, peer: Peer) -> None:
        """Remove the brokers that registered last over a closed connection."""
        for key, live in self.live.of(peer):
            self._remove_live(key, live)
            gone = live.broker, live.broker_id, key.address
            self._note(BrokerUnregistered(*gone, "channel closed"))

    def expire(self, now_ms: int) -> list[Peer]:
        """Remove brokers without a recent heartbeat; returns their connections, to be closed."""
        silent = self.live.silent(now_ms)
        for key, live in silent:
            self._remove_live(key, live)
            self._note(BrokerExpired(live.broker, key.address, now_ms - live.last_update_ms))
        return [live.peer for _, live in silent]

    # Operators ------------------------------------------------------------------------

    def set_writable(self, broker: str, *, writable: bool) -> int:
        """Remove W from each perm, or set each to RW; returns the number of topics.

        Upstream: RouteInfoManager.wipeWritePermOfBrokerByLock and addWritePermOfBrokerByLock.
        """
        count = self.topics.change_perm(broker, _read_write if writable else _without_write)
        self._note(WritePermChanged(broker, count, writable))
        return count

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Remove the topic, or only its queues at the brokers of one cluster."""
        if cluster:
            self.topics.remove((topic,), self.brokers.in_cluster(cluster))
        else:
            self.topics.remove_topic(topic)

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add *queues* up to the first one of an unknown broker.  Upstream: registerTopic."""
        self.topics.check_room((topic,))
        for queue in queues:
            if queue.broker_name not in self.brokers.broker_addr_table:
                return
            self.topics.put(topic, queue)

    # Inside: registering --------------------------------------------------------------

    def _check_room(self, given: BrokerRegistration, key: BrokerKey) -> None:
        self.live.check_room(key)
        self.brokers.check_room(given.broker, given.cluster)
        self.topics.check_room(given.topics, given.mappings)

    def _replicas_of(self, given: BrokerRegistration) -> Replicas:
        replicas = self.brokers.ensure(given.broker, given.cluster)
        replicas.enable_acting_master = bool(given.enable_acting_master)
        replicas.zone = given.zone
        return replicas

    def _is_outdated(self, given: BrokerRegistration, replicas: Replicas) -> bool:
        """Whether another address has registered this id with a later state version."""
        if self._release < OUTDATED_BROKER_IGNORED:
            return False
        address = replicas.addresses.get(given.broker_id)
        if not address or address == given.address:
            return False
        held = self.live.data_version(self.key(given.cluster, address))
        return held is not None and held.state_version > given.data_version.state_version

    def _is_prime_slave(self, given: BrokerRegistration, replicas: Replicas) -> bool:
        """5.x: whether it has the smallest id, not the master's, and may act as the master."""
        return (
            given.enable_acting_master is not None
            and given.broker_id == replicas.smallest_id != MASTER_ID
        )

    def _take_topics(self, given: BrokerRegistration, *, first: bool) -> None:
        known = self.live.data_version(self.key(given.cluster, given.address))
        all_anew = first or known != given.data_version
        sees_missing = self._release >= MISSING_TOPICS_TAKEN
        self._remove_unlisted(given)
        for topic, config in given.topics.items():
            if all_anew or (sees_missing and not self.topics.is_at(topic, given.broker)):
                self.topics.put(topic, _queue_data(given, config))
        if all_anew:
            self.topics.put_mappings(given.broker, given.mappings)

    def _remove_unlisted(self, given: BrokerRegistration) -> None:
        if self._settings.config.delete_topic_with_broker_registration and not given.mappings:
            known = self.topics.at(given.broker)
            self.topics.remove([t for t in known if t not in given.topics], (given.broker,))

    def _live(self, given: BrokerRegistration, peer: Peer, now_ms: int) -> LiveBroker:
        silence_ms_max = given.silence_ms_max
        if silence_ms_max is None:
            silence_ms_max = self._settings.config.broker_silence_ms_max
        return LiveBroker(
            broker=given.broker,
            broker_id=given.broker_id,
            last_update_ms=now_ms,
            silence_ms_max=silence_ms_max,
            data_version=given.data_version,
            peer=peer,
            ha_address=given.ha_address,
        )

    def _master_addresses(self, given: BrokerRegistration, replicas: Replicas) -> MasterAddresses:
        """For a slave masterAddr and haServerAddr, if its master is alive; else neither."""
        address = replicas.addresses.get(MASTER_ID)
        if given.broker_id == MASTER_ID or address is None:
            return MasterAddresses()
        live = self.live.broker_live_table.get(self.key(given.cluster, address))
        return MasterAddresses() if live is None else MasterAddresses(address, live.ha_address)

    # Inside: removing -----------------------------------------------------------------

    def _remove_live(self, key: BrokerKey, live: LiveBroker) -> None:
        self.live.remove(key)
        replicas = self.brokers.broker_addr_table.get(live.broker)
        if replicas is not None:
            for number in replicas.ids_at(key.address):
                self._remove(replicas, number, key.cluster or replicas.cluster)

    def _remove(self, replicas: Replicas, number: int, cluster: str) -> None:
        was_smallest = number == replicas.smallest_id
        address = replicas.addresses.pop(number)
        broker = replicas.broker
        if not replicas.addresses:
            self.brokers.remove(broker, cluster)
            self.topics.remove(self.topics.at(broker), (broker,))
        elif replicas.enable_acting_master:
            if MASTER_ID not in replicas.addresses:
                self.topics.change_perm(broker, _without_write)
            if was_smallest:
                self._id_changed(SmallestIdChanged(replicas, gone_address=address))


def _read_write(_: int) -> int:
    return PERM_READ_WRITE  # without other bits: TBW102 loses its INHERIT


def _without_write(perm: int) -> int:
    return perm & ~PERM_WRITE


def _queue_data(given: BrokerRegistration, config: TopicConfig) -> QueueData:
    acts = bool(given.enable_acting_master) and given.broker_id != MASTER_ID
    return QueueData(
        broker_name=given.broker,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=_without_write(config.perm) if acts else config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


# Answers read from the tables ---------------------------------------------------------


UNIT_LISTS = {  # code: mask of the flag bits, and the wanted values
    RequestCode.GET_UNIT_TOPIC_LIST: (TOPIC_UNIT, (TOPIC_UNIT,)),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (TOPIC_UNIT_SUB, (TOPIC_UNIT_SUB,)),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (
        TOPIC_UNIT | TOPIC_UNIT_SUB,
        (TOPIC_UNIT_SUB,),
    ),
}
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def route_of(routes: Routes, topic: str) -> TopicRouteData | None:
    """The queues of *topic* and their registered brokers; None if either is missing."""
    queues = routes.topics.topic_queue_table.get(topic)
    known = routes.brokers.broker_addr_table
    brokers = [known[name].data() for name in queues or () if name in known]
    if not queues or not brokers:
        return None
    return TopicRouteData(
        queue_datas=list(queues.values()),
        broker_datas=brokers,
        filter_server_table=_filter_servers(routes, brokers),
        topic_queue_mapping_by_broker=routes.topics.topic_queue_mapping_table.get(topic),
    )


def with_acting_masters(topic: str, route: TopicRouteData) -> TopicRouteData:
    """5.x: *route* with id 0 for the smallest id of each read-only broker without a master."""
    if topic.startswith(SYNC_BROKER_MEMBER_PREFIX):
        return route
    read_only = {q.broker_name for q in route.queue_datas if not is_writeable(q.perm)}
    brokers = [_acting(b) if b.broker_name in read_only else b for b in route.broker_datas]
    return msgspec.structs.replace(route, broker_datas=brokers)


def in_zone(zone: str, route: TopicRouteData) -> TopicRouteData:
    """*route* with only the brokers of *zone* and those without a master.

    Upstream: ZoneRouteRPCHook.
    """
    kept = [
        broker
        for broker in route.broker_datas
        if MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == zone.lower()
    ]
    names = {broker.broker_name for broker in kept}
    addresses = {address for broker in kept for address in broker.broker_addrs.values()}
    servers = route.filter_server_table or {}
    return msgspec.structs.replace(
        route,
        broker_datas=kept,
        queue_datas=[queue for queue in route.queue_datas if queue.broker_name in names],
        filter_server_table={a: found for a, found in servers.items() if a in addresses},
    )


def all_topics(routes: Routes) -> TopicList:
    """All topics that have queues at a broker."""
    return TopicList(topic_list=list(routes.topics.topic_queue_table))


def topics_of_cluster(routes: Routes, cluster: str) -> TopicList:
    """The topics of the cluster's brokers; none for an unknown cluster."""
    found: dict[str, None] = {}
    for broker in routes.brokers.in_cluster(cluster):
        found.update(dict.fromkeys(routes.topics.at(broker)))
    return TopicList(topic_list=list(found))


def system_topics(routes: Routes) -> TopicList:
    """The names of clusters and brokers, which are topics too, and the address of one broker.

    Clients get the other system topics from that broker.
    """
    brokers = routes.brokers
    names: dict[str, None] = {}
    for cluster, members in brokers.cluster_addr_table.items():
        names.update({cluster: None, **members})
    addresses = (a for b in brokers.broker_addr_table.values() for a in b.addresses.values())
    return TopicList(topic_list=list(names), broker_addr=next(addresses, None))


def topics_by_flag(routes: Routes, code: int) -> TopicList:
    """The list of unit topics for one of three request codes."""
    wanted, values = UNIT_LISTS[code]
    return TopicList(topic_list=routes.topics.with_flag(lambda flag: flag & wanted in values))


def _acting(broker: BrokerData) -> BrokerData:
    addresses = dict(broker.broker_addrs)
    if not addresses or MASTER_ID in addresses or not broker.enable_acting_master:
        return broker
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return msgspec.structs.replace(broker, broker_addrs=addresses)


def _filter_servers(routes: Routes, brokers: list[BrokerData]) -> dict[str, list[str]]:
    table = routes.live.filter_server_table
    if not table:
        return {}
    found = {}
    for broker in brokers:
        for address in broker.broker_addrs.values():
            servers = table.get(routes.key(broker.cluster, address))
            if servers is not None:
                found[address] = servers
    return found

"""Answers read from the tables: routes, clusters, lists of topics.

They are copies: changing one does not change the tables.
Upstream: RouteInfoManager.pickupTopicRouteData and the getters beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from protocol.bodies.routes import (
    BrokerData,
    TopicList,
    TopicRouteData,
)
from protocol.codes import RequestCode
from protocol.names import MASTER_ID
from protocol.perm import is_writeable
from protocol.sysflag import TOPIC_UNIT, TOPIC_UNIT_SUB

if TYPE_CHECKING:
    from emulator.nameserver.routes import Routes

UNIT_LISTS = {  # which flag bits are looked at, and what they may be
    RequestCode.GET_UNIT_TOPIC_LIST: (TOPIC_UNIT, (TOPIC_UNIT,)),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (TOPIC_UNIT_SUB, (TOPIC_UNIT_SUB,)),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (
        TOPIC_UNIT | TOPIC_UNIT_SUB,
        (TOPIC_UNIT_SUB,),
    ),
}
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def route_of(routes: Routes, topic: str) -> TopicRouteData | None:
    """The queues of *topic* and its registered brokers; None unless there are both."""
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
    """5.x: where no master is left and nothing can be written, the smallest id shows as id 0."""
    if topic.startswith(SYNC_BROKER_MEMBER_PREFIX):
        return route
    read_only = {q.broker_name for q in route.queue_datas if not is_writeable(q.perm)}
    brokers = [_acting(b) if b.broker_name in read_only else b for b in route.broker_datas]
    return msgspec.structs.replace(route, broker_datas=brokers)


def in_zone(zone: str, route: TopicRouteData) -> TopicRouteData:
    """Only brokers of that zone, and those without a master.  Upstream: ZoneRouteRPCHook."""
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
    """Every topic that has queues at some broker."""
    return TopicList(topic_list=list(routes.topics.topic_queue_table))


def topics_of_cluster(routes: Routes, cluster: str) -> TopicList:
    """Topics of the cluster's brokers; none for an unknown cluster."""
    found: dict[str, None] = {}
    for broker in routes.brokers.in_cluster(cluster):
        found.update(dict.fromkeys(routes.topics.at(broker)))
    return TopicList(topic_list=list(found))


def system_topics(routes: Routes) -> TopicList:
    """Names of clusters and brokers, each a topic too, and one broker that has the others."""
    brokers = routes.brokers
    names: dict[str, None] = {}
    for cluster, members in brokers.cluster_addr_table.items():
        names.update({cluster: None, **members})
    addresses = (a for b in brokers.broker_addr_table.values() for a in b.addresses.values())
    return TopicList(topic_list=list(names), broker_addr=next(addresses, None))


def topics_by_flag(routes: Routes, code: int) -> TopicList:
    """The three lists of unit topics, by request code."""
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

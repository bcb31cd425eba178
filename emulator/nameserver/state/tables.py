"""The tables of routes: broker addresses, topic queues, live brokers.

Each class owns one of upstream's tables and its limit; ``routes`` holds the rules that
change them together.  Upstream: RouteInfoManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocketmq_emulator.net.results import Peer, Refusal
from rocketmq_emulator.protocol.bodies.routes import BrokerData
from rocketmq_emulator.protocol.bodies.topics import DataVersion
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.messages.names import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rocketmq_emulator.protocol.bodies.routes import QueueData
    from rocketmq_emulator.protocol.bodies.topics import TopicQueueMappingInfo


# Broker names -------------------------------------------------------------------------


class Replicas(msgspec.Struct):
    """All addresses of one broker name by broker id; id 0 is the master's.

    Upstream: BrokerData.
    """

    cluster: str
    broker: str
    addresses: dict[int, str] = {}
    enable_acting_master: bool = (
        False  # 5.x enableActingMaster: without a master the other replicas are read-only
    )
    zone: str | None = None

    @property
    def smallest_id(self) -> int:
        """The smallest broker id; the master's if there is no replica."""
        return min(self.addresses, default=MASTER_ID)

    def keep_one_id(self, address: str, broker_id: int) -> None:
        """Remove other ids at *address*: a slave may have become the master."""
        for number in self.ids_at(address):
            if number != broker_id:
                del self.addresses[number]

    def ids_at(self, address: str) -> list[int]:
        """The broker ids with *address*, usually one."""
        return [number for number, where in self.addresses.items() if where == address]

    def data(self) -> BrokerData:
        """The replicas as a BrokerData, a copy."""
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.broker,
            broker_addrs=dict(sorted(self.addresses.items())),
            enable_acting_master=self.enable_acting_master,
            zone_name=self.zone,
        )


class BrokerNames:
    """The replicas of each broker name, and the names of each cluster.

    Upstream: brokerAddrTable, clusterAddrTable.
    """

    def __init__(self, brokers_max: int) -> None:
        self.broker_addr_table: dict[str, Replicas] = {}
        self.cluster_addr_table: dict[str, dict[str, None]] = {}  # values are ordered sets
        self._brokers_max = brokers_max

    def check_room(self, broker: str, cluster: str) -> None:
        """Raises ``Refusal`` if there is no room for a new name."""
        for table, name in ((self.broker_addr_table, broker), (self.cluster_addr_table, cluster)):
            if name not in table and len(table) >= self._brokers_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for another name: {name}")

    def ensure(self, broker: str, cluster: str) -> Replicas:
        """The entry of *broker*; a missing one is created.  Two clusters may share an entry."""
        self.cluster_addr_table.setdefault(cluster, {})[broker] = None
        return self.broker_addr_table.setdefault(broker, Replicas(cluster, broker))

    def remove(self, broker: str, cluster: str) -> None:
        """Remove the name, and the cluster with its last name."""
        del self.broker_addr_table[broker]
        names = self.cluster_addr_table.get(cluster, {})
        names.pop(broker, None)
        if not names:
            self.cluster_addr_table.pop(cluster, None)

    def in_cluster(self, cluster: str) -> list[str]:
        """The broker names of a cluster, in the order of their first registration."""
        return list(self.cluster_addr_table.get(cluster, ()))


# Topics -------------------------------------------------------------------------------


class TopicQueues:
    """The queues of each topic by broker name (replicas share them), and 5.x's static topics.

    Upstream: topicQueueTable, topicQueueMappingInfoTable.
    """

    def __init__(self, topics_max: int) -> None:
        self.topic_queue_table: dict[str, dict[str, QueueData]] = {}
        self.topic_queue_mapping_table: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._topics_max = topics_max

    def check_room(self, topics: Iterable[str], mapped: Iterable[str] = ()) -> None:
        """Raises ``Refusal`` if there is no room for all of these topics."""
        for table, wanted in (
            (self.topic_queue_table, topics),
            (self.topic_queue_mapping_table, mapped),
        ):
            new = sum(topic not in table for topic in wanted)
            if new and len(table) + new > self._topics_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for {new} more topics")

    def put(self, topic: str, queue: QueueData) -> None:
        """Set the topic's queues at one broker."""
        self.topic_queue_table.setdefault(topic, {})[queue.broker_name] = queue

    def put_mappings(self, broker: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Set the queue mappings of static topics, by topic, at one broker."""
        for topic, mapping in mappings.items():
            self.topic_queue_mapping_table.setdefault(topic, {})[broker] = mapping

    def is_at(self, topic: str, broker: str) -> bool:
        """Whether the topic has queues at a broker."""
        return broker in self.topic_queue_table.get(topic, ())

    def at(self, broker: str) -> list[str]:
        """The topics that have queues at a broker."""
        return [topic for topic, queues in self.topic_queue_table.items() if broker in queues]

    def with_flag(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics with a *wanted* system flag at their first broker."""
        return [
            topic
            for topic, queues in self.topic_queue_table.items()
            if wanted(next(iter(queues.values())).topic_sys_flag)
        ]

    def change_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """Change the permission of all topics of a broker; returns the number of topics."""
        topics = self.at(broker)
        for topic in topics:
            queue = self.topic_queue_table[topic][broker]
            self.put(topic, msgspec.structs.replace(queue, perm=change(queue.perm)))
        return len(topics)

    def clear(self) -> None:
        """Remove all topics and mappings."""
        self.topic_queue_table.clear()
        self.topic_queue_mapping_table.clear()

    def remove_topic(self, topic: str) -> None:
        """Remove the topic at every broker; nothing if it is unknown."""
        self.topic_queue_table.pop(topic, None)

    def remove(self, topics: Iterable[str], brokers: Collection[str]) -> None:
        """Remove the queues of *topics* at *brokers*; a topic without queues is removed too."""
        for topic in topics:
            queues = self.topic_queue_table.get(topic)
            if queues is None:
                continue
            for broker in brokers:
                queues.pop(broker, None)
            if not queues:
                del self.topic_queue_table[topic]


# Live brokers -------------------------------------------------------------------------


class BrokerKey(NamedTuple):
    """The key of a replica.  4.x uses the address alone: there ``cluster`` is empty."""

    cluster: str
    address: str


class LiveBroker(msgspec.Struct):
    """One replica and the time of its last heartbeat.  Upstream: BrokerLiveInfo."""

    broker: str
    broker_id: int
    last_update_ms: int
    silence_ms_max: int
    data_version: DataVersion  # of the topics it registered last
    peer: Peer
    ha_address: str


class LiveBrokers:
    """The live brokers, and their filter servers (obsolete, but clients read them).

    Upstream: brokerLiveTable, filterServerTable.
    """

    def __init__(self, brokers_max: int) -> None:
        self.broker_live_table: dict[BrokerKey, LiveBroker] = {}
        self.filter_server_table: dict[BrokerKey, list[str]] = {}
        self._brokers_max = brokers_max

    def check_room(self, key: BrokerKey) -> None:
        """Raises ``Refusal`` if there is no room for another broker."""
        if key not in self.broker_live_table and len(self.broker_live_table) >= self._brokers_max:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"no room for the broker at {key.address}")

    def put(self, key: BrokerKey, live: LiveBroker, filter_servers: list[str] | None) -> None:
        """Set a broker's entry; *filter_servers* is None if the registration has none."""
        self.broker_live_table[key] = live
        if filter_servers:
            self.filter_server_table[key] = filter_servers
        elif filter_servers is not None:
            self.filter_server_table.pop(key, None)

    def refresh(self, key: BrokerKey, now_ms: int) -> None:
        """Set the time of its last heartbeat; nothing if the broker is unknown."""
        if (live := self.broker_live_table.get(key)) is not None:
            live.last_update_ms = now_ms

    def refresh_all(self, now_ms: int) -> None:
        """Set the last heartbeat of every broker to *now_ms*."""
        for live in self.broker_live_table.values():
            live.last_update_ms = now_ms

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        """The version of the topics that a broker registered; None if it is unknown."""
        live = self.broker_live_table.get(key)
        return None if live is None else live.data_version

    def of(self, peer: Peer) -> list[tuple[BrokerKey, LiveBroker]]:
        """Brokers that registered last over *peer*."""
        return [entry for entry in self.broker_live_table.items() if entry[1].peer is peer]

    def silent(self, now_ms: int) -> list[tuple[BrokerKey, LiveBroker]]:
        """Brokers whose last heartbeat is older than their ``silence_ms_max``."""
        return [
            (key, live)
            for key, live in self.broker_live_table.items()
            if live.last_update_ms + live.silence_ms_max < now_ms
        ]

    def remove(self, key: BrokerKey) -> None:
        """Remove the broker and its filter servers; nothing if it is unknown."""
        self.filter_server_table.pop(key, None)
        self.broker_live_table.pop(key, None)

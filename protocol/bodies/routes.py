"""Routes, clusters and lists: the answers of the NameServer."""

from __future__ import annotations

from typing import Any

from protocol.bodies.body import Body
from protocol.versions import R_5_0_0


class QueueData(Body, frozen=True):
    """A topic's queues on one broker name.  Upstream: QueueData."""

    broker_name: str = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class BrokerData(Body, frozen=True):
    """A broker name and its addresses by id; 0 is the master.  Upstream: BrokerData."""

    since = {"enable_acting_master": R_5_0_0, "zone_name": R_5_0_0}

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body, frozen=True):
    """The queues of a topic and the addresses of its brokers.  Upstream: TopicRouteData."""

    since = {"topic_queue_mapping_by_broker": R_5_0_0}

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] | None = {}
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class ClusterInfo(Body, frozen=True):
    """Every broker of every cluster.  Upstream: ClusterInfo."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body, frozen=True):
    """The addresses of one broker name.  Upstream: BrokerMemberGroup."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[int, str] = {}


class GetBrokerMemberGroupReply(Body, frozen=True):
    """Upstream: GetBrokerMemberGroupResponseBody."""

    broker_member_group: BrokerMemberGroup = BrokerMemberGroup()


class TopicList(Body, frozen=True):
    """Names of topics, sometimes with the address of one broker.  Upstream: TopicList."""

    topic_list: list[str] = []
    broker_addr: str | None = None


class KVTable(Body, frozen=True):
    """Texts by name.  Upstream: KVTable."""

    table: dict[str, str] = {}


class KVConfigSerializeWrapper(Body, frozen=True):
    """The NameServer's key-value file, by namespace.  Upstream: KVConfigSerializeWrapper."""

    config_table: dict[str, dict[str, str]] = {}

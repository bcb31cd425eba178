"""Routes, clusters and lists: the answers of the NameServer; and which queues of a route are idle.

A broker under maintenance turns read-only (perm 4).  Its queues stay in the route and are
allocated as before.  Members that get only such queues are idle once they have consumed the
messages left in them.  Upstream has no term for this; apache/rocketmq#3465 proposed one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rocketmq_emulator.protocol.bodies.body import Body
from rocketmq_emulator.protocol.flags import is_readable, is_writeable
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.versions import R_5_0_0


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


# Idle queues --------------------------------------------------------------------------


def is_read_only_and_drained(perm: int, lag: int) -> bool:
    """Whether a queue is read-only and fully consumed: it gets no more messages.

    *lag* is the number of messages that the group has not consumed.
    """
    return is_readable(perm) and not is_writeable(perm) and lag <= 0


def no_load_ratio(route: Iterable[QueueData]) -> float:
    """The part of a topic's readable queues that are not writable: 1 - sum(write) / sum(read).

    A read-only broker keeps its write count, so write queues count only on brokers where the
    topic is writable, and at most as many as the broker has read queues.  0 for a topic without
    readable queues.
    """
    readable = [row for row in route if is_readable(row.perm)]
    read = sum(row.read_queue_nums for row in readable)
    write = sum(
        min(row.write_queue_nums, row.read_queue_nums)
        for row in readable
        if is_writeable(row.perm)
    )
    return 1 - write / read if read else 0.0


def starved(
    queues: Collection[MessageQueue], shares: Mapping[str, Sequence[MessageQueue]]
) -> list[MessageQueue]:
    """The *queues* of a topic that are in no member's share, sorted."""
    owned = {queue for share in shares.values() for queue in share}
    return sorted(queue for queue in queues if queue not in owned)

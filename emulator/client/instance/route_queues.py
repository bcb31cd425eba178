"""From a topic's route to its queues, as producers and as consumers see them.

The two views differ on purpose: a producer needs a master that takes writes; a consumer
takes every queue that may be read, even if only slaves are left, or no broker at all.

Upstream: MQClientInstance.topicRouteData2TopicPublishInfo, topicRouteData2TopicSubscribeInfo,
topicRouteDataIsChange.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from protocol.fields import BadFields
from protocol.names import MASTER_ID
from protocol.perm import is_readable, is_writeable
from protocol.queues import MessageQueue, java_order

if TYPE_CHECKING:
    from protocol.bodies.routes import TopicRouteData


QUEUES_MAX = 100_000  # ours, of one topic at one broker: a route with more is taken for damaged


def check_route(route: TopicRouteData) -> None:
    """Raises ``BadFields`` for a queue count above ``QUEUES_MAX`` or an unreadable order list."""
    counts = [
        n for data in route.queue_datas for n in (data.read_queue_nums, data.write_queue_nums)
    ]
    counts += [count for _, count in _order_entries(route.order_topic_conf or "")]
    if max(counts, default=0) > QUEUES_MAX:
        raise BadFields(f"{max(counts)} queues of one topic at one broker")


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """By broker name and number, or as the order configuration lists them if there is one."""
    if route.order_topic_conf:
        return list(_ordered_queues(topic, route.order_topic_conf))
    masters = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: java_order(data.broker_name))
        if is_writeable(data.perm) and data.broker_name in masters
        for number in range(data.write_queue_nums)
    ]


def subscribe_queues(topic: str, route: TopicRouteData) -> frozenset[MessageQueue]:
    """Every queue that may be read, even if no broker of it is registered."""
    return frozenset(
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if is_readable(data.perm)
        for number in range(data.read_queue_nums)
    )


def write_queues(route: TopicRouteData) -> dict[str, int]:
    """The number of write queues by broker, with any permission: the first entry counts."""
    return {data.broker_name: data.write_queue_nums for data in reversed(route.queue_datas)}


def has_changed(old: TopicRouteData | None, new: TopicRouteData) -> bool:
    """Whether anything but the order of its entries is different."""
    return old is None or _normal(old) != _normal(new)


def as_default(route: TopicRouteData, queues_max: int) -> TopicRouteData:
    """The default topic's route, lent to a topic that does not exist yet.

    Both counts become the smaller of *queues_max* and what may be read there.
    """
    lent = []
    for data in route.queue_datas:
        count = min(queues_max, data.read_queue_nums)
        lent.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return msgspec.structs.replace(route, queue_datas=lent)


def addresses_of(route: TopicRouteData) -> Iterator[str]:
    """Of all its brokers, masters and slaves."""
    for broker in route.broker_datas:
        yield from broker.broker_addrs.values()


def _ordered_queues(topic: str, configuration: str) -> Iterator[MessageQueue]:
    """``broker-a:4;broker-b:2``, used as it is: permissions and masters are not checked."""
    for broker, count in _order_entries(configuration):
        for number in range(count):
            yield MessageQueue(topic, broker, number)


def _order_entries(configuration: str) -> Iterator[tuple[str, int]]:
    for entry in filter(None, configuration.split(";")):
        broker, _, count = entry.partition(":")
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            raise BadFields(f"an order configuration looks like broker-a:4, not {entry!r:.50}")
        yield broker, int(count)


def _normal(route: TopicRouteData) -> tuple[Any, ...]:
    queues = sorted(route.queue_datas, key=lambda data: java_order(data.broker_name))
    brokers = sorted((b.broker_name, sorted(b.broker_addrs.items())) for b in route.broker_datas)
    return (route.order_topic_conf, queues, brokers, route.filter_server_table)

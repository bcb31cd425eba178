"""Why a topic has no queue to write or to read: the sentences that end such errors.

A NameServer answers TOPIC_NOT_EXIST in three situations: no broker is registered, since it keeps
no topic of a broker that has left; the topic's name is wrong; or the topic does not exist yet and
no broker creates topics.  Its list of topics tells them apart.  A broker whose address was given
for a NameServer's answers REQUEST_CODE_NOT_SUPPORTED.

Nothing is requested here: callers pass what they were answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from rocketmq_emulator.protocol.bodies.routes import QueueData, TopicRouteData
from rocketmq_emulator.protocol.codes import RESPONSE_NAMES, ResponseCode
from rocketmq_emulator.protocol.flags import is_readable, is_writeable, perm_text
from rocketmq_emulator.protocol.messages.names import (
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    MASTER_ID,
    is_dlq_topic,
    is_retry_topic,
    is_system_topic,
)
from rocketmq_emulator.text.suggestions import nearest

TOPICS_COMPARED_MAX = 5_000  # about 50 ms
TOPICS_WAIT_MS_MAX = 1_000  # for the list of topics: an error waits for it
REMARK_CHARS_MAX = 200


class RouteRefusal(NamedTuple):
    """A NameServer's answer without a route, and the address that sent it."""

    address: str
    code: int
    remark: str = ""
    since_ms: int = 0  # wall time of the first one in a row

    @property
    def is_unknown_topic(self) -> bool:
        """Whether the list of topics could tell more."""
        return self.code == ResponseCode.TOPIC_NOT_EXIST


def why_no_route(
    topic: str, refusal: RouteRefusal | None, topics: Collection[str] | None = None
) -> str:
    """Why *topic* has no route.  *topics* are those of the NameServer; None: not requested."""
    if refusal is None:
        return "no answer about its route has come yet; send again"
    address, code, remark, _ = refusal
    if code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return not_a_name_server(address)
    if not refusal.is_unknown_topic:
        name = RESPONSE_NAMES.get(code, str(code))
        reason = f": {remark:.{REMARK_CHARS_MAX}}" if remark else ""
        return f"the NameServer at {address} refused its route with {name}{reason}"
    return _why_unknown(topic, address, topics)


def _why_unknown(topic: str, address: str, topics: Collection[str] | None) -> str:
    if topics is None:
        return (
            f"the NameServer at {address} does not know it: no broker is registered there, or "
            "the name is wrong and no broker creates topics (autoCreateTopicEnable is off)"
        )
    if not topics:
        return (
            f"no broker is registered at the NameServer {address}: the brokers are dead or have "
            "not started yet; start them, and send again"
        )
    if near := nearest_topic(topic, topics):
        return f"the NameServer at {address} does not know it; did you mean {near}?"
    creates = "brokers create it when a message is sent to it"
    if AUTO_CREATE_TOPIC_KEY_TOPIC not in topics:
        creates = "no broker creates topics (autoCreateTopicEnable is off)"
    return (
        f"the NameServer at {address} does not know it, and {creates}: correct the name, or "
        f"create it with `rmqemu topic create {topic}`"
    )


def not_a_name_server(address: str) -> str:
    """The server at *address* does not answer queries for routes."""
    return (
        f"the server at {address} is no NameServer: is it a broker's address? "
        "Give the NameServer's, whose usual port is 9876"
    )


def nearest_topic(topic: str, topics: Iterable[str]) -> str:
    """The topic of users whose name is most similar; empty if none is.

    Compares at most ``TOPICS_COMPARED_MAX``.
    """
    own = (name for name in topics if not _is_internal(name))
    return nearest(topic, islice(own, TOPICS_COMPARED_MAX))


def why_not_writable(route: TopicRouteData) -> str:
    """Why no queue of *route* can be written, broker by broker."""
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}

    def reasons(data: QueueData) -> Iterator[str]:
        if not is_writeable(data.perm):
            yield f"has permission {perm_text(data.perm)}, which allows no writes"
        elif data.broker_name not in masters:
            yield "has no master: it is dead, and only a slave is registered"
        elif not data.write_queue_nums:
            yield "has no write queues"

    return _by_broker(route, reasons)


def why_not_readable(route: TopicRouteData) -> str:
    """Why no queue of *route* can be read, broker by broker."""

    def reasons(data: QueueData) -> Iterator[str]:
        if not is_readable(data.perm):
            yield f"has permission {perm_text(data.perm)}, which allows no reads"
        elif not data.read_queue_nums:
            yield "has no read queues"

    return _by_broker(route, reasons)


def _by_broker(route: TopicRouteData, reasons: Callable[[QueueData], Iterator[str]]) -> str:
    told = [f"{data.broker_name} {why}" for data in route.queue_datas for why in reasons(data)]
    return "; ".join(told) or "its route names no broker"


def _is_internal(topic: str) -> bool:
    return is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic)

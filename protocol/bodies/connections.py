"""The connections of producers and consumers: replies to tools."""

from __future__ import annotations

import msgspec

from protocol.bodies.body import Body
from protocol.bodies.groups import ConsumeFromWhere, ConsumeType, MessageModel
from protocol.java_convert import ConcurrentMap
from protocol.subscription import SubscriptionData


class ClientConnection(Body, frozen=True):
    """Upstream: Connection."""

    client_id: str | None = None
    client_addr: str | None = None
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body, frozen=True):
    """Upstream: ConsumerConnection."""

    connection_set: list[ClientConnection] = []
    subscription_table: ConcurrentMap[str, SubscriptionData] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body, frozen=True):
    """Upstream: ProducerConnection."""

    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, frozen=True):
    """Upstream: ProducerInfo."""

    client_id: str | None = None
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body, frozen=True):
    """Upstream: ProducerTableInfo."""

    data: dict[str, list[ProducerInfo]] = {}

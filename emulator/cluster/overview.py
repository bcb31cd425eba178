"""A cluster at one moment, as tools show it: brokers, topics, groups.

Tables are read, never facts: this works on any cluster that speaks the protocol.  What
a broker keeps for itself (its system topics and groups) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from emulator.cluster.admin import Admin, AdminError, NotFound
from protocol.names import (
    REPLY_TOPIC_POSTFIX,
    SYSTEM_GROUPS,
    is_dlq_topic,
    is_retry_topic,
    is_system_consumer_group,
    is_system_topic,
)

if TYPE_CHECKING:
    from protocol.bodies.stats import OffsetWrapper
    from protocol.queues import MessageQueue

TOPICS_MAX, GROUPS_MAX = 200, 200


class BrokerView(msgspec.Struct, frozen=True):
    """A broker that is in the route; ``problem`` says why it did not answer."""

    name: str
    address: str
    cluster: str
    topics: int = 0
    messages: int = 0  # ever stored and still counted, over its shown topics
    problem: str = ""


class TopicView(msgspec.Struct, frozen=True):
    """A topic, over all brokers that have it."""

    name: str
    queues: int
    messages: int  # stored and not yet dropped
    stored: int  # ever stored
    brokers: tuple[str, ...]


class QueueView(msgspec.Struct, frozen=True):
    """One queue as one group sees it."""

    topic: str
    broker: str
    queue_id: int
    end: int
    committed: int

    @property
    def lag(self) -> int:
        """Messages stored and not committed."""
        return max(0, self.end - self.committed)


class MemberView(msgspec.Struct, frozen=True):
    """A client that is online in a group."""

    client: str
    address: str
    language: str


class GroupView(msgspec.Struct, frozen=True):
    """A consumer group: who is online, what they want, how far they are."""

    name: str
    model: str
    members: tuple[MemberView, ...]
    subscriptions: dict[str, str]  # expression by topic
    queues: tuple[QueueView, ...]

    @property
    def lag(self) -> int:
        """Messages stored and not committed, over all queues."""
        return sum(queue.lag for queue in self.queues)

    @property
    def committed(self) -> int:
        """The sum of the committed offsets."""
        return sum(queue.committed for queue in self.queues)


class Overview(msgspec.Struct, frozen=True):
    """Brokers, topics and groups, as they were read at about the same time."""

    namesrv: str
    brokers: tuple[BrokerView, ...]
    topics: tuple[TopicView, ...]
    groups: tuple[GroupView, ...]


class ClusterReader:
    """Reads a cluster.  A broker that does not answer is shown as one that does not."""

    def __init__(self, admin: Admin, namesrv: str) -> None:
        self._admin = admin
        self._namesrv = namesrv

    async def read(self) -> Overview:
        """Everything.  Raises ``AdminError`` only when no NameServer answers."""
        info = await self._admin.cluster_info()
        masters = await self._admin.masters()
        brokers: list[BrokerView] = []
        topics: dict[str, list[TopicView]] = {}
        names: dict[str, None] = {}
        for name, address in masters.items():
            cluster = info.broker_addr_table[name].cluster
            try:
                own = await self._topics_of(name, address, cluster)
                names |= dict.fromkeys(await self._groups_of(address))
            except AdminError as error:
                brokers.append(BrokerView(name, address, cluster, problem=str(error)))
                continue
            stored = sum(topic.stored for topic in own)
            brokers.append(BrokerView(name, address, cluster, len(own), stored))
            for topic in own:
                topics.setdefault(topic.name, []).append(topic)
        answering = {b.name: b.address for b in brokers if not b.problem}
        groups = [await self.group(name, answering) for name in sorted(names)[:GROUPS_MAX]]
        merged = [_merged(views) for _, views in sorted(topics.items())]
        return Overview(self._namesrv, tuple(brokers), tuple(merged), tuple(groups))

    async def group(self, name: str, brokers: dict[str, str]) -> GroupView:
        """One group; an unknown one has no members and no queues."""
        members: dict[str, MemberView] = {}
        subscriptions: dict[str, str] = {}
        queues: dict[MessageQueue, OffsetWrapper] = {}
        model: str = ""
        for address in brokers.values():
            online = await self._admin.connections(address, name)
            model = model or online.message_model or ""
            for topic, data in online.subscription_table.items():
                subscriptions[topic] = data.sub_string or "*"
            for connection in online.connection_set:
                client = connection.client_id or "?"
                where = connection.client_addr or "?"
                members[client] = MemberView(client, where, connection.language or "?")
            for wanted in online.subscription_table or (None,):
                stats = await self._admin.consume_stats(address, name, wanted)
                queues |= stats.offset_table
        return GroupView(
            name=name,
            model=model,
            members=tuple(members[client] for client in sorted(members)),
            subscriptions=dict(sorted(subscriptions.items())),
            queues=tuple(
                QueueView(q.topic, q.broker_name, q.queue_id, o.broker_offset, o.consumer_offset)
                for q, o in sorted(queues.items())
            ),
        )

    async def _topics_of(self, broker: str, address: str, cluster: str) -> list[TopicView]:
        own = {cluster, broker, f"{cluster}{REPLY_TOPIC_POSTFIX}"}
        found = []
        for config in (await self._admin.topics(address))[:TOPICS_MAX]:
            name = config.topic_name or ""
            if name in own or is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name):
                continue
            try:
                stats = await self._admin.topic_stats(address, name)
            except NotFound:
                continue  # deleted between two calls
            table = stats.offset_table.values()
            stored = sum(offset.max_offset for offset in table)
            kept = stored - sum(offset.min_offset for offset in table)
            found.append(TopicView(name, config.read_queue_nums, kept, stored, (broker,)))
        return found

    async def _groups_of(self, address: str) -> list[str]:
        names = (group.group_name or "" for group in await self._admin.groups(address))
        return [name for name in names if name and not _is_own_group(name)]


def _is_own_group(name: str) -> bool:
    return name in SYSTEM_GROUPS or is_system_consumer_group(name)


def _merged(views: Iterable[TopicView]) -> TopicView:
    """One topic over all brokers that have it."""
    every = list(views)
    return TopicView(
        name=every[0].name,
        queues=sum(view.queues for view in every),
        messages=sum(view.messages for view in every),
        stored=sum(view.stored for view in every),
        brokers=tuple(name for view in every for name in view.brokers),
    )

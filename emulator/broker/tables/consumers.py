"""Who consumes what: groups, their connections, their subscriptions.

Upstream's three tables live here: ``consumer_table`` (group to members),
``channel_info_table`` (connection to client, within a group) and
``subscription_table`` (topic to subscription, within a group).  The last heartbeat wins:
topics it does not name are removed, so members that disagree evict each other.

Upstream: ConsumerManager, ConsumerGroupInfo.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from emulator.net.results import Peer
from protocol.bodies.groups import ConsumeFromWhere, ConsumeType, MessageModel
from protocol.subscription import SubscriptionData

BROADCASTING = "BROADCASTING"


class ClientChannel(msgspec.Struct):
    """One connection of a group: which client speaks there, and when it last did."""

    peer: Peer
    client_id: str
    language: str
    version: int
    last_update_ms: int


class ConsumerGroup(msgspec.Struct):
    """Everything known of one group while somebody of it is connected."""

    name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    channel_info_table: dict[Peer, ClientChannel] = {}
    subscription_table: dict[str, SubscriptionData] = {}

    def client_ids(self) -> list[str]:
        """One entry a connection, not de-duplicated: a client connected twice is there twice."""
        return [channel.client_id for channel in self.channel_info_table.values()]


class Registered(msgspec.Struct, frozen=True):
    """What a heartbeat changed."""

    joined: bool
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.joined or bool(self.added or self.removed)


class Consumers:
    """The consumer table."""

    def __init__(self) -> None:
        self.consumer_table: dict[str, ConsumerGroup] = {}
        self.member_count = 0  # a connection counts in each of its groups

    def has_member(self, name: str, peer: Peer) -> bool:
        group = self.consumer_table.get(name)
        return group is not None and peer in group.channel_info_table

    def group(self, name: str) -> ConsumerGroup | None:
        return self.consumer_table.get(name)

    def register(
        self,
        name: str,
        channel: ClientChannel,
        *,
        consume_type: ConsumeType | None,
        message_model: MessageModel | None,
        consume_from_where: ConsumeFromWhere | None,
        subscriptions: Iterable[SubscriptionData],
    ) -> Registered:
        """Upstream: ConsumerManager.registerConsumer."""
        group = self.consumer_table.get(name)
        if group is None:
            group = self.consumer_table[name] = ConsumerGroup(name)
        group.consume_type = consume_type
        group.message_model = message_model
        group.consume_from_where = consume_from_where
        joined = channel.peer not in group.channel_info_table
        self.member_count += joined
        group.channel_info_table[channel.peer] = channel
        added, removed = _merge(group.subscription_table, subscriptions)
        return Registered(joined, added, removed)

    def unregister(self, name: str, peer: Peer) -> ClientChannel | None:
        """The connection leaves the group; a group without connections is forgotten."""
        group = self.consumer_table.get(name)
        if group is None:
            return None
        left = group.channel_info_table.pop(peer, None)
        self.member_count -= left is not None
        if not group.channel_info_table:
            del self.consumer_table[name]
        return left

    def closed(self, peer: Peer) -> list[tuple[str, ClientChannel]]:
        """The connection ended: it leaves every group it was in."""
        names = [n for n, g in self.consumer_table.items() if peer in g.channel_info_table]
        return [(n, left) for n in names if (left := self.unregister(n, peer)) is not None]

    def expire(self, now_ms: int, silence_ms_max: int) -> list[tuple[str, ClientChannel]]:
        """Silent connections leave.  Upstream: ConsumerManager.scanNotActiveChannel."""
        silent = [
            (name, channel)
            for name, group in self.consumer_table.items()
            for channel in group.channel_info_table.values()
            if now_ms - channel.last_update_ms > silence_ms_max
        ]
        for name, channel in silent:
            self.unregister(name, channel.peer)
        return silent

    def groups_of_topic(self, topic: str) -> list[str]:
        """Upstream: ConsumerManager.queryTopicConsumeByWho."""
        return [n for n, g in self.consumer_table.items() if topic in g.subscription_table]


def _merge(
    table: dict[str, SubscriptionData], given: Iterable[SubscriptionData]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = {data.topic: data for data in given}
    added = tuple(topic for topic in named if topic not in table)
    removed = tuple(topic for topic in table if topic not in named)
    for topic, data in named.items():
        known = table.get(topic)
        # An older heartbeat must not undo a newer subscription.
        if known is None or data.sub_version > known.sub_version:
            table[topic] = data
    for topic in removed:
        del table[topic]
    return added, removed

"""Connected clients: members of consumer groups, producers, and notices of changed members.

Upstream's tables are here: ``consumer_table`` (group to members), ``channel_info_table``
(connection to client), ``subscription_table``, ``producer_table``, and ``client_channel_table``
(client id to the connection of a producer, for replies).  A heartbeat replaces the
group's subscriptions: topics that it does not list are removed, so members with different topics
remove each other's subscriptions.  Each join and leave is a fact.  A table of groups by
connection lets a closed connection be removed without reading all groups.
NOTIFY_CONSUMER_IDS_CHANGED is sent to all members at once.  The number of notices grows with the
square of the members, so a notified group is quiet for 1 ms per ten members; after the last change
all members are notified.  ``MergedNotices`` (5.x, realTimeNotifyConsumerChange off) merges the
changes of 15 s, for the first time after 30 s.

Upstream: ConsumerManager, ConsumerGroupInfo, ProducerManager, DefaultConsumerIdsChangeListener.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.broker.tables.checks import check_name, check_size
from rocketmq_emulator.facts import (
    MemberJoined,
    MemberLeft,
    MembersNotified,
    Note,
    SubscriptionChanged,
)
from rocketmq_emulator.net.results import CallLater, Peer, Push
from rocketmq_emulator.protocol.bodies.groups import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
)
from rocketmq_emulator.protocol.codes import RequestCode
from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
from rocketmq_emulator.protocol.requests.groups import NotifyConsumerIdsChangedRequest
from rocketmq_emulator.settings.releases import (
    BROADCAST_NOT_NOTIFIED,
    EXPIRED_PRODUCER_COMPARED,
)

if TYPE_CHECKING:
    from rocketmq_emulator.protocol.bodies.groups import HeartbeatData
    from rocketmq_emulator.protocol.fields import Header
    from rocketmq_emulator.settings.config import BrokerConfig


BROADCASTING = "BROADCASTING"
LEAVES_PER_SLICE_MAX = 500  # groups, about 20 µs each
PRODUCERS_TRIED_MAX = 3  # ProducerManager.GET_AVAILABLE_CHANNEL_RETRY_COUNT


class ClientChannel(msgspec.Struct):
    """One connection of a group: its client, and the time of the last heartbeat."""

    peer: Peer
    client_id: str | None  # None if the client sends none
    language: str
    version: int
    last_update_ms: int


class ConsumerGroup(msgspec.Struct):
    """The members, settings and subscriptions of a group while a member is connected."""

    name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    channel_info_table: dict[Peer, ClientChannel] = {}
    subscription_table: dict[str, SubscriptionData] = {}
    subscribed_by: dict[str, str] = {}  # the client of each subscription, by topic
    encoded_client_ids: bytes | None = None  # a cached reply body, until the ids change

    def client_ids(self) -> list[str | None]:
        """One entry a connection: a client with two connections is listed twice."""
        return [channel.client_id for channel in self.channel_info_table.values()]


class ClientChannels:
    """The consumer table and the producer table."""

    def __init__(
        self, config: BrokerConfig, began_ms: int, *, note: Note, push: Push, later: CallLater
    ) -> None:
        self.consumer_table: dict[str, ConsumerGroup] = {}
        self.producer_table: dict[str, dict[Peer, ClientChannel]] = {}
        self.client_channel_table: dict[str, Peer] = {}  # of producers, by client id
        self.member_count = 0  # a connection counts once for each of its groups
        self.config = config
        self.on_group_left: Callable[[str, int], object] = _no_outlet  # the last member has left
        self._broadcast_notified = config.parsed_release < BROADCAST_NOT_NOTIFIED
        self._compares_expired = config.parsed_release >= EXPIRED_PRODUCER_COMPARED
        self._note = note
        self._push = push
        self._later = later
        self._asked_count = 0  # producers that were asked for a transaction
        self._consumer_groups_of: dict[Peer, dict[str, None]] = {}
        self._producer_groups_of: dict[Peer, dict[str, None]] = {}
        notices = MemberNotices(self._connections_of, note=note, push=push, later=later)
        self._notices = (
            notices
            if config.real_time_notices
            else MergedNotices(notices, later=later, began_ms=began_ms)
        )

    def group(self, name: str) -> ConsumerGroup | None:
        """The consumer group *name*; None if no member is connected."""
        return self.consumer_table.get(name)

    def channel(self, group: str, client_id: str) -> ClientChannel | None:
        """The first connection of a client in a consumer group; None if there is none.

        Upstream: ConsumerGroupInfo.findChannel.
        """
        known = self.consumer_table.get(group)
        channels = known.channel_info_table.values() if known is not None else ()
        return next((c for c in channels if c.client_id == client_id), None)

    def producers(self, group: str) -> list[ClientChannel]:
        """The connections of a producer group."""
        return list(self.producer_table.get(group, {}).values())

    def ask_producer(self, group: str, header: Header, body: bytes, *, code: int) -> str:
        """Send a one-way request to one connection of a producer group, to each in turn.

        Returns the client that was asked, by its id or else its address; empty if none could
        be.  One count serves all groups.  Upstream: ProducerManager.getAvailableChannel.
        """
        channels = self.producers(group)
        if not channels:
            return ""
        self._asked_count += 1
        for nth in range(PRODUCERS_TRIED_MAX):
            channel = channels[(self._asked_count + nth) % len(channels)]
            if channel.peer.is_open and self._push(channel.peer, code, header, body):
                return channel.client_id or channel.peer.address
        return ""

    def find_channel(self, client_id: str) -> Peer | None:
        """The connection to which replies for a producer's client are pushed, maybe a closed one.

        Upstream: ProducerManager.findChannel.
        """
        return self.client_channel_table.get(client_id)

    def subscribes(self, name: str, topic: str) -> bool:
        """Whether the group has members and subscribes to *topic*."""
        group = self.consumer_table.get(name)
        return group is not None and topic in group.subscription_table

    def others(self, name: str, client_id: str) -> dict[str, dict[str, SubscriptionData]]:
        """The group's subscriptions that other clients sent, by the client; all are connected."""
        group = self.consumer_table.get(name)
        if group is None:
            return {}
        found: dict[str, dict[str, SubscriptionData]] = {}
        for topic, other in group.subscribed_by.items():
            if other != client_id:
                found.setdefault(other, {})[topic] = group.subscription_table[topic]
        if found:
            online = set(group.client_ids())
            found = {other: table for other, table in found.items() if other in online}
        return found

    def groups_of_topic(self, topic: str) -> list[str]:
        """The groups that subscribe to a topic.

        Upstream: ConsumerManager.queryTopicConsumeByWho.
        """
        return [n for n, g in self.consumer_table.items() if topic in g.subscription_table]

    def consumer_ids(self) -> set[str]:
        """The ids of all clients that are connected as consumers."""
        groups = self.consumer_table.values()
        return {name for group in groups for name in group.client_ids() if name is not None}

    def refresh_all(self, now_ms: int) -> None:
        """Set the last heartbeat of every client to *now_ms*."""
        for group in self.consumer_table.values():
            for channel in group.channel_info_table.values():
                channel.last_update_ms = now_ms
        for channels in self.producer_table.values():
            for channel in channels.values():
                channel.last_update_ms = now_ms

    # Heartbeats -----------------------------------------------------------------------

    def check_room(self, data: HeartbeatData, peer: Peer) -> None:
        """Raises ``Refusal`` if there is no room for all groups and topics of a heartbeat."""
        config = self.config
        check_name(data.client_id or "", "a client id")
        groups = [consumer.group_name or "" for consumer in data.consumer_data_set]
        count = len(groups) + len(data.producer_data_set)
        check_size(count, config.heartbeat_groups_max, "groups in a heartbeat")
        for consumer in data.consumer_data_set:
            count = len(consumer.subscription_data_set)
            check_size(count, config.subscriptions_max, "subscriptions of a group")
        self.check_room_of_members(data.consumer_data_set, peer)
        new = {producer.group_name or "" for producer in data.producer_data_set}
        count = len(self.producer_table) + len(new - self.producer_table.keys())
        check_size(count, config.producer_groups_max, "producer groups")
        if new:
            # It has at most one entry for each member, unless clients unregister under other ids.
            is_new = data.client_id not in self.client_channel_table
            count = len(self.client_channel_table) + is_new
            check_size(count, config.members_max, "client ids of producers")

    def check_room_of_members(self, groups: Iterable[ConsumerData], peer: Peer) -> None:
        """Raises ``Refusal`` if there is no room for the connection in each of the groups."""
        joining = sum(not self._has_member(group.group_name or "", peer) for group in groups)
        members_max = self.config.members_max
        check_size(self.member_count + joining, members_max, "members of groups")

    def shares_client_id(self, name: str, channel: ClientChannel) -> bool:
        """Whether the heartbeat of *channel* shows that two members of a group have one client id.

        A reconnected client has two connections for a while, but sends on the new one only.  So
        they are two if the other connection has sent since the last heartbeat on this one.
        """
        group = self.consumer_table.get(name)
        known = None if group is None else group.channel_info_table.get(channel.peer)
        if group is None or known is None or not channel.client_id:
            return False
        return any(
            other.client_id == channel.client_id and other.last_update_ms > known.last_update_ms
            for peer, other in group.channel_info_table.items()
            if peer is not channel.peer
        )

    def register_consumer(self, data: ConsumerData, channel: ClientChannel) -> bool:
        """Set a group as one member describes it; True if members or subscriptions changed.

        Upstream: ConsumerManager.registerConsumer.
        """
        name = data.group_name or ""
        group = self.consumer_table.get(name)
        if group is None:
            group = self.consumer_table[name] = ConsumerGroup(name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        known = group.channel_info_table.get(channel.peer)
        has_joined = known is None
        self.member_count += has_joined
        if known is None or known.client_id != channel.client_id:
            group.encoded_client_ids = None
        group.channel_info_table[channel.peer] = channel
        added, removed = _merge(group, data.subscription_data_set, channel.client_id or "")
        if has_joined:
            self._consumer_groups_of.setdefault(channel.peer, {})[name] = None
            self._note(_joined(data, channel))
        if added or removed:
            self._note(SubscriptionChanged(name, added, removed))
        return has_joined or bool(added or removed)

    def register_producer(self, group: str, channel: ClientChannel) -> None:
        """Add a connection to a producer group, or note its heartbeat.

        Only a connection that is new in the group is used for replies from now on.
        Upstream: ProducerManager.registerProducer.
        """
        channels = self.producer_table.setdefault(group, {})
        if (known := channels.get(channel.peer)) is not None:
            known.last_update_ms = channel.last_update_ms
            return
        # A copy: a client may have one channel for all its groups, and each has its own time.
        channels[channel.peer] = msgspec.structs.replace(channel)
        if channel.client_id is not None:
            self.client_channel_table[channel.client_id] = channel.peer
        self._producer_groups_of.setdefault(channel.peer, {})[group] = None

    # Leaving --------------------------------------------------------------------------

    def unregister_consumer(self, name: str, peer: Peer, now_ms: int) -> None:
        """Remove a member from its group.  Upstream: ConsumerManager.unregisterConsumer."""
        left = self._remove_member(name, peer)
        if left is not None:
            self._note(MemberLeft(name, left.client_id or "", peer.address, "unregistered"))
            self._report_left(name, now_ms)

    def unregister_producer(self, group: str, peer: Peer, client_id: str) -> None:
        """Remove a connection from a producer group, and the client from those that get replies.

        The client gets none any more, even if another of its groups stays registered.
        Upstream: ProducerManager.unregisterProducer.
        """
        if group in self.producer_table:
            self.client_channel_table.pop(client_id, None)
            self._remove_producer(group, peer)

    def close(self, peer: Peer, now_ms: int) -> None:
        """Remove a closed connection from all its groups, and notify their members.

        Many groups take several slices.  Queue locks stay until they expire.  A producer's client
        gets no more replies, even if it has registered a newer connection before this one closed.
        Upstream: doChannelCloseEvent of both tables.
        """
        producing = list(islice(self._producer_groups_of.get(peer, ()), LEAVES_PER_SLICE_MAX))
        for group in producing:
            closed = self._remove_producer(group, peer)
            if closed is not None and closed.client_id is not None:
                self.client_channel_table.pop(closed.client_id, None)
        room = LEAVES_PER_SLICE_MAX - len(producing)
        for name in list(islice(self._consumer_groups_of.get(peer, ()), room)):
            left = self._remove_member(name, peer)
            if left is not None:
                self._note(MemberLeft(name, left.client_id or "", peer.address, "channel closed"))
                self._report_left(name, now_ms)
                self.notify(name, now_ms)
        if peer in self._producer_groups_of or peer in self._consumer_groups_of:
            self._later(now_ms, lambda at_ms: self.close(peer, at_ms))

    def expire(self, now_ms: int) -> list[Peer]:
        """Remove clients without a recent heartbeat; returns their connections, to be closed.

        Their groups are not notified.  Upstream: scanNotActiveChannel of both tables.
        """
        gone: dict[Peer, None] = {}
        for name, group in list(self.consumer_table.items()):
            for channel in self._silent(group.channel_info_table, now_ms):
                self._remove_member(name, channel.peer)
                address = channel.peer.address
                self._note(MemberLeft(name, channel.client_id or "", address, "expired"))
                gone[channel.peer] = None
        for name, channels in list(self.producer_table.items()):
            for channel in self._silent(channels, now_ms):
                self._remove_producer(name, channel.peer)
                self._forget_expired(channel)
                gone[channel.peer] = None
        return list(gone)

    def notify(self, name: str, now_ms: int) -> None:
        """Send NOTIFY_CONSUMER_IDS_CHANGED to all connections of the group, also the newest."""
        group = self.consumer_table.get(name)
        if group is None or not self.config.notify_consumer_ids_changed:
            return
        if group.message_model == BROADCASTING and not self._broadcast_notified:
            return
        self._notices.changed(name, now_ms)

    def _report_left(self, name: str, now_ms: int) -> None:
        # Upstream reports no group whose members have expired.
        if name not in self.consumer_table:
            self.on_group_left(name, now_ms)

    def _connections_of(self, name: str) -> Iterable[Peer]:
        group = self.consumer_table.get(name)
        return () if group is None else group.channel_info_table

    def _has_member(self, name: str, peer: Peer) -> bool:
        group = self.consumer_table.get(name)
        return group is not None and peer in group.channel_info_table

    def _remove_member(self, name: str, peer: Peer) -> ClientChannel | None:
        """Remove a connection from a group, and the group with its last connection."""
        group = self.consumer_table.get(name)
        if group is None:
            return None
        left = group.channel_info_table.pop(peer, None)
        if left is not None:
            group.encoded_client_ids = None
            self.member_count -= 1
            _drop(self._consumer_groups_of, peer, name)
        if not group.channel_info_table:
            del self.consumer_table[name]
        return left

    def _remove_producer(self, group: str, peer: Peer) -> ClientChannel | None:
        """Remove a connection from a producer group, and the group with its last connection."""
        channels = self.producer_table[group]
        left = channels.pop(peer, None)
        if left is not None:
            _drop(self._producer_groups_of, peer, group)
        if not channels:
            del self.producer_table[group]
        return left

    def _forget_expired(self, channel: ClientChannel) -> None:
        client_id = channel.client_id or ""
        is_newest = self.client_channel_table.get(client_id) is channel.peer
        if is_newest or not self._compares_expired:
            self.client_channel_table.pop(client_id, None)

    def _silent(self, channels: dict[Peer, ClientChannel], now_ms: int) -> list[ClientChannel]:
        silence_ms_max = self.config.client_silence_ms_max
        return [c for c in channels.values() if now_ms - c.last_update_ms > silence_ms_max]


def _no_outlet(_group: str, _now_ms: int) -> None:
    pass


def _joined(data: ConsumerData, channel: ClientChannel) -> MemberJoined:
    return MemberJoined(
        data.group_name or "",
        channel.client_id or "",
        channel.peer.address,
        data.consume_type or "",
        data.message_model or "",
        channel.language,
        channel.version,
    )


def _drop(groups_of: dict[Peer, dict[str, None]], peer: Peer, group: str) -> None:
    groups = groups_of[peer]
    del groups[group]
    if not groups:
        del groups_of[peer]


def _merge(
    group: ConsumerGroup, given: Iterable[SubscriptionData], client: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Set the table to the subscriptions *given*; returns the added and the removed topics."""
    table = group.subscription_table
    named = {data.topic: data for data in given}
    added = tuple(topic for topic in named if topic not in table)
    removed = tuple(topic for topic in table if topic not in named)
    for topic, data in named.items():
        known = table.get(topic)
        # An older heartbeat must not replace a newer subscription.
        if known is None or data.sub_version > known.sub_version:
            table[topic] = data
            group.subscribed_by[topic] = client
    for topic in removed:
        del table[topic]
        group.subscribed_by.pop(topic, None)
    return added, removed


# Notices to members -------------------------------------------------------------------


PUSHES_PER_SLICE_MAX = 200
MERGED_FIRST_MS, MERGED_EVERY_MS = 30_000, 15_000
MEMBERS_PER_QUIET_MS = 10

MembersOf: TypeAlias = Callable[[str], Iterable[Peer]]  # the connections of a group


class _Notice:
    """The notice of one group: in progress, or finished and quiet."""

    __slots__ = ("has_changed", "left", "member_count", "pushed_count")

    def __init__(self) -> None:
        self.has_changed = True  # since the last notice was begun
        self.left: deque[Peer] = deque()  # members that have not been notified yet
        self.member_count = 0
        self.pushed_count = 0


class MemberNotices:
    """Notifies the members of groups, in the order in which the groups changed."""

    def __init__(self, members_of: MembersOf, *, note: Note, push: Push, later: CallLater) -> None:
        self._members_of = members_of
        self._note = note
        self._push = push
        self._later = later
        self._notices: dict[str, _Notice] = {}
        self._in_progress: deque[str] = deque()
        self._room = 0  # for pushes, at the time ``_room_at_ms``
        self._room_at_ms = -1
        self._is_slice_planned = False

    def changed(self, group: str, now_ms: int) -> None:
        """Notify all members of *group*: now, or at the end of its quiet time."""
        notice = self._notices.get(group)
        if notice is not None:
            notice.has_changed = True
            return
        self._notices[group] = _Notice()
        self._in_progress.append(group)
        if not self._is_slice_planned:
            if now_ms != self._room_at_ms:
                self._room, self._room_at_ms = PUSHES_PER_SLICE_MAX, now_ms
            self._push_slice(now_ms)

    def _push_slice(self, now_ms: int) -> None:
        """Push as far as there is room, and plan the next slice for the rest."""
        while self._in_progress:
            group = self._in_progress[0]
            notice = self._notices[group]
            if notice.has_changed and not notice.left:
                self._begin(group, notice)
            while notice.left:
                if self._room <= 0:
                    self._is_slice_planned = True
                    self._later(now_ms, self._run_slice)
                    return
                self._push_to(notice.left.popleft(), group, notice)
            self._in_progress.popleft()
            self._end(group, notice, now_ms)

    def _run_slice(self, now_ms: int) -> None:
        self._is_slice_planned = False
        self._room, self._room_at_ms = PUSHES_PER_SLICE_MAX, now_ms
        self._push_slice(now_ms)

    def _begin(self, group: str, notice: _Notice) -> None:
        notice.has_changed = False
        notice.left.extend(self._members_of(group))
        notice.member_count = len(notice.left)
        notice.pushed_count = 0

    def _push_to(self, peer: Peer, group: str, notice: _Notice) -> None:
        self._room -= 1
        header = NotifyConsumerIdsChangedRequest(consumer_group=group)
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        notice.pushed_count += self._push(peer, code, header, b"")

    def _end(self, group: str, notice: _Notice, now_ms: int) -> None:
        """Begin the quiet time of a group whose members were all notified."""
        if notice.member_count:
            self._note(MembersNotified(group, notice.pushed_count))
        quiet_ms = notice.member_count // MEMBERS_PER_QUIET_MS
        if quiet_ms:
            self._later(now_ms + quiet_ms, lambda at_ms: self._end_quiet(group, at_ms))
        elif notice.has_changed:
            self._in_progress.append(group)  # it has changed during the pushes
        else:
            del self._notices[group]

    def _end_quiet(self, group: str, now_ms: int) -> None:
        if self._notices.pop(group).has_changed:
            self.changed(group, now_ms)


class MergedNotices:
    """Merges changes, and passes them to *notices* every ``MERGED_EVERY_MS``."""

    def __init__(self, notices: MemberNotices, *, later: CallLater, began_ms: int) -> None:
        self._notices = notices
        self._later = later
        self._first_ms = began_ms + MERGED_FIRST_MS
        self._changed: dict[str, None] = {}

    def changed(self, group: str, now_ms: int) -> None:
        """Notify all members of *group* at the end of the interval."""
        if not self._changed:
            rings = max(0, (now_ms - self._first_ms) // MERGED_EVERY_MS + 1)
            self._later(self._first_ms + rings * MERGED_EVERY_MS, self._ring)
        self._changed[group] = None

    def _ring(self, now_ms: int) -> None:
        changed, self._changed = self._changed, {}
        for group in changed:
            self._notices.changed(group, now_ms)

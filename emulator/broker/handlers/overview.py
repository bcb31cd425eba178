"""All data of a broker that the overview screen needs, in one answer.

Answers GET_BROKER_OVERVIEW (9005, our own) in every release.  Upstream's tools request the same
data topic by topic and group by group, which is too slow for a screen drawn every second.
A group without members is listed with the topics that it has committed offsets of, an online
group with those that it subscribes to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice

import msgspec

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.net.results import Call, Reply, Result
from rocketmq_emulator.net.slices import SliceBudget, Slices, in_slices
from rocketmq_emulator.protocol.bodies.extensions import (
    ROWS_MAX,
    BrokerOverview,
    GroupRow,
    MemberView,
    QueueRow,
    ReplicaRole,
    ReplicaRow,
    TopicRow,
)
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.messages.names import (
    SYSTEM_GROUPS,
    is_dlq_topic,
    is_retry_topic,
    is_system_consumer_group,
)

SLICE_QUEUES = 2_000  # about 2 µs each


class OverviewProcessor:
    """GET_BROKER_OVERVIEW."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def overview(self, call: Call[Header]) -> Result:
        """All topics and groups, in the order of their creation."""
        return in_slices(self._overview(), call.now_ms)

    def _overview(self) -> Slices:
        broker, pace = self._broker, SliceBudget(SLICE_QUEUES)
        names = [name for name in broker.topics.topic_config_table if self._is_users_topic(name)]
        groups = [name for name in broker.groups.subscription_group_table if _is_users_group(name)]
        topic_rows: list[TopicRow] = []
        for name in islice(names, ROWS_MAX):
            if (topic := broker.topics.get(name)) is not None:
                topic_rows.append(self._topic(name, topic))
                if pace.is_over(topic.read_queue_nums):
                    yield
        committed: dict[str, list[str]] = {}
        for topic_name, group, _ in broker.offsets.entries():
            committed.setdefault(group, []).append(topic_name)
        if pace.is_over(sum(map(len, committed.values()))):
            yield
        group_rows: list[GroupRow] = []
        for name in islice(groups, ROWS_MAX):
            row = yield from self._group(name, committed.get(name, ()), pace)
            group_rows.append(row)
        found = BrokerOverview(
            topics=tuple(topic_rows),
            groups=tuple(group_rows),
            more_topics=max(0, len(names) - ROWS_MAX),
            more_groups=max(0, len(groups) - ROWS_MAX),
            misuses=broker.misuses.report(),
            replica=_replica(broker),
        )
        return Reply(body=msgspec.json.encode(found))

    def _topic(self, name: str, topic: TopicConfig) -> TopicRow:
        store = self._broker.store
        queues = range(max(topic.read_queue_nums, topic.write_queue_nums))
        stored = sum(store.max_offset(name, queue_id) for queue_id in queues)
        gone = sum(store.min_offset(name, queue_id) for queue_id in queues)
        counts = topic.read_queue_nums, stored - gone, stored, topic.write_queue_nums
        return TopicRow(name, *counts, self._broker.advertised(topic).perm)

    def _group(
        self, name: str, committed: Iterable[str], pace: SliceBudget
    ) -> Generator[None, None, GroupRow]:
        broker = self._broker
        online = broker.clients.group(name)
        subscriptions = dict(online.subscription_table) if online is not None else {}
        rows: list[QueueRow] = []
        for topic_name in subscriptions or committed:
            if (topic := broker.topics.get(topic_name)) is None:
                continue
            for queue_id in range(topic.read_queue_nums):
                offset = broker.offsets.query(name, topic_name, queue_id) or 0
                end = broker.store.max_offset(topic_name, queue_id)
                rows.append(QueueRow(topic_name, queue_id, end, max(0, offset)))
            if pace.is_over(topic.read_queue_nums):
                yield
        members = online.channel_info_table.values() if online is not None else ()
        return GroupRow(
            name=name,
            model=(online.message_model or "") if online is not None else "",
            members=tuple(
                MemberView(member.client_id or "?", member.peer.address, member.language)
                for member in members
            ),
            subscriptions={
                topic_name: data.sub_string or "*" for topic_name, data in subscriptions.items()
            },
            queues=tuple(rows),
        )

    def _is_users_topic(self, name: str) -> bool:
        is_own = self._broker.topics.is_system(name) or is_retry_topic(name)
        return not (is_own or is_dlq_topic(name))


def _replica(broker: Broker) -> ReplicaRow:
    config, ha = broker.config, broker.ha
    role: ReplicaRole = "master"
    if config.enable_controller_mode and broker.members.is_isolated:
        role = "none"
    elif config.is_slave:
        role = "acting master" if broker.has_special_services else "slave"
    row = ReplicaRow(config.name, config.broker_id, role, broker.store.log.end_position)
    if not isinstance(ha, AutoSwitchHaService):
        return row
    in_sync = tuple(sorted(ha.local_sync_state_set)) if role == "master" else None
    epoch = ha.last_epoch if ha.epochs else None
    return msgspec.structs.replace(row, epoch=epoch, sync_state_set=in_sync)


def _is_users_group(name: str) -> bool:
    return not (name in SYSTEM_GROUPS or is_system_consumer_group(name))

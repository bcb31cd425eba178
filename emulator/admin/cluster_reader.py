"""Reads the topics and groups of all brokers at the same time, each with a short timeout.

It reads tables, never facts: by one call of our own, or from any other RocketMQ by upstream's
admin calls.  A broker that does not answer does not delay the others.
System topics and groups of the brokers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio
from msgspec.structs import replace

from rocketmq_emulator.admin.calls import Admin, AdminError, NotAnEmulator, NotFound
from rocketmq_emulator.admin.overview import (
    BrokerReport,
    GroupView,
    Overview,
    group_of,
    overview_of,
)
from rocketmq_emulator.errors.call_errors import NeverSent, NoAnswer, TimedOut
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
from rocketmq_emulator.protocol.bodies.routes import BrokerData
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.messages.names import (
    MASTER_ID,
    REPLY_TOPIC_POSTFIX,
    SYSTEM_GROUPS,
    is_dlq_topic,
    is_retry_topic,
    is_system_consumer_group,
    is_system_topic,
)

BROKER_S_MAX = 4.0  # one broker, with all its topics and groups
PROBLEMS = (  # why a broker did not answer; shown beside its address
    (TimedOut, "does not answer"),
    (NeverSent, "cannot be reached"),
    (NoAnswer, "closed the connection"),
)


class ClusterReader:
    """Reads a cluster.  A broker that does not answer has a ``problem`` in its report."""

    def __init__(self, admin: Admin, namesrv: str) -> None:
        self._admin = admin
        self._namesrv = namesrv

    async def read(self) -> Overview:
        """Read all brokers.  Raises ``AdminError`` only if no NameServer answers."""
        return overview_of(self._namesrv, await self.reports())

    async def reports(self) -> list[BrokerReport]:
        """The reports of all brokers, masters and slaves.  Raises as ``read``."""
        info = await self._admin.cluster_info()
        reports: list[BrokerReport] = []

        async def report(data: BrokerData, broker_id: int) -> None:
            where = data.broker_name, data.broker_addrs[broker_id], data.cluster
            reports.append(await self.report(*where, broker_id))

        async with trio.open_nursery() as nursery:
            for data in info.broker_addr_table.values():
                for broker_id in data.broker_addrs:
                    nursery.start_soon(report, data, broker_id)
        return reports

    async def report(
        self, name: str, address: str, cluster: str, broker_id: int = MASTER_ID
    ) -> BrokerReport:
        """Read one broker, for at most ``BROKER_S_MAX``."""
        found, problem = None, ""
        try:
            with trio.fail_after(BROKER_S_MAX):
                found = await self.broker(name, address, cluster, broker_id)
        except AdminError as error:
            problem = _problem(error)
        except trio.TooSlowError:
            problem = f"has not answered all in {BROKER_S_MAX:g} s"
        return BrokerReport(name, address, cluster, found, problem, broker_id)

    async def group(self, name: str, brokers: Mapping[str, str]) -> GroupView:
        """Read one group; an unknown group has no members and no queues."""
        rows = {broker: await self._group(name, where) for broker, where in brokers.items()}
        return group_of(name, rows)

    async def broker(
        self, broker: str, address: str, cluster: str, broker_id: int = MASTER_ID
    ) -> BrokerOverview:
        """The topics and groups of one broker.  Raises ``AdminError``."""
        try:
            found = await self._admin.overview(address)
        except NotAnEmulator:
            role: ReplicaRole = "master" if broker_id == MASTER_ID else "slave"
            found = await self._piece_by_piece(address)
            end = await self._admin.log_end(address)
            found = replace(found, replica=ReplicaRow(broker, broker_id, role, end))
        own = {cluster, broker, f"{cluster}{REPLY_TOPIC_POSTFIX}"}
        return replace(
            found,
            topics=tuple(each for each in found.topics if not _is_own_topic(each.name, own)),
            groups=tuple(each for each in found.groups if not _is_own_group(each.name)),
        )

    async def _piece_by_piece(self, address: str) -> BrokerOverview:
        topics = {
            topic.topic_name: topic
            for topic in await self._admin.topics(address)
            if topic.topic_name and not is_system_topic(topic.topic_name)
        }
        groups = [
            group.group_name
            for group in await self._admin.groups(address)
            if group.group_name and not _is_own_group(group.group_name)
        ]
        shown = list(topics.items())[:ROWS_MAX]
        rows = [await self._topic(address, name, topic) for name, topic in shown]
        return BrokerOverview(
            topics=tuple(row for row in rows if row is not None),
            groups=tuple([await self._group(name, address) for name in groups[:ROWS_MAX]]),
            more_topics=max(0, len(topics) - ROWS_MAX),
            more_groups=max(0, len(groups) - ROWS_MAX),
        )

    async def _topic(self, address: str, name: str, topic: TopicConfig) -> TopicRow | None:
        try:
            stats = await self._admin.topic_stats(address, name)
        except NotFound:
            return None  # deleted between two calls
        table = stats.offset_table.values()
        stored = sum(offset.max_offset for offset in table)
        kept = stored - sum(row.min_offset for row in table)
        counts = topic.read_queue_nums, kept, stored, topic.write_queue_nums
        return TopicRow(name, *counts, topic.perm)

    async def _group(self, name: str, address: str) -> GroupRow:
        online = await self._admin.connections(address, name)
        queues: dict[tuple[str, int], QueueRow] = {}
        for wanted in online.subscription_table or (None,):
            stats = await self._admin.consume_stats(address, name, wanted)
            for queue, offset in stats.offset_table.items():
                row = QueueRow(
                    queue.topic, queue.queue_id, offset.broker_offset, offset.consumer_offset
                )
                queues[row.topic, row.queue_id] = row
        return GroupRow(
            name=name,
            model=online.message_model or "",
            members=tuple(
                MemberView(each.client_id or "?", each.client_addr or "?", each.language or "?")
                for each in online.connection_set
            ),
            subscriptions={
                topic: data.sub_string or "*" for topic, data in online.subscription_table.items()
            },
            queues=tuple(queues[place] for place in sorted(queues)),
        )


def _is_own_topic(name: str, own: set[str]) -> bool:
    return name in own or is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name)


def _is_own_group(name: str) -> bool:
    return name in SYSTEM_GROUPS or is_system_consumer_group(name)


def _problem(error: AdminError) -> str:
    for kind, text in PROBLEMS:
        if isinstance(error.__cause__, kind):
            return text
    return str(error)

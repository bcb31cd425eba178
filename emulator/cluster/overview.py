"""A cluster at one moment, as tools show it: brokers, topics, groups.

Values only: ``cluster_reader`` reads what each broker has, and here that becomes one
whole.  Names are in natural order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from emulator.cluster.natural_order import in_natural_order, natural
from protocol.bodies.broker_overview import BrokerOverview, GroupRow, MemberView, TopicRow
from protocol.bodies.routes import QueueData
from protocol.idle_queues import is_declared_idle, no_load_ratio


class BrokerView(msgspec.Struct, frozen=True):
    """A broker that is in the route; ``problem`` says why it did not answer."""

    name: str
    address: str
    cluster: str
    topics: int = 0
    messages: int = 0  # ever stored and still counted, over its shown topics
    problem: str = ""


class TopicView(msgspec.Struct, frozen=True):
    """A topic, over all brokers that have it.

    ``no_load_ratio`` is the part of its *queues* to which nobody can write.  ``idle_queues`` are,
    by group with members, those declared idle: read-only, and read to their end (#3465).
    """

    name: str
    queues: int
    messages: int  # stored and not yet dropped
    stored: int  # ever stored
    brokers: tuple[str, ...]
    no_load_ratio: float = 0.0
    read_only: tuple[str, ...] = ()  # brokers
    idle_queues: dict[str, int] = {}


class QueueView(msgspec.Struct, frozen=True, gc=False):
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
    """Brokers, topics and groups, as they were read at about the same time.

    ``more_topics`` and ``more_groups`` are those that are too many to be listed.
    """

    namesrv: str
    brokers: tuple[BrokerView, ...]
    topics: tuple[TopicView, ...]
    groups: tuple[GroupView, ...]
    more_topics: int = 0
    more_groups: int = 0

    @property
    def silent(self) -> tuple[BrokerView, ...]:
        """Brokers of which nothing is known, because they did not answer."""
        return tuple(broker for broker in self.brokers if broker.problem)


class BrokerReport(msgspec.Struct, frozen=True):
    """One broker of a route: what it has, or why that is not known."""

    name: str
    address: str
    cluster: str
    found: BrokerOverview | None = None
    problem: str = ""

    def view(self) -> BrokerView:
        """The broker as a row."""
        topics = self.found.topics if self.found else ()
        stored = sum(topic.stored for topic in topics)
        return BrokerView(self.name, self.address, self.cluster, len(topics), stored, self.problem)


def overview_of(namesrv: str, reports: Iterable[BrokerReport]) -> Overview:
    """What all brokers have, together."""
    every = sorted(reports, key=lambda report: natural(report.name))
    topics: dict[str, dict[str, TopicRow]] = {}
    groups: dict[str, dict[str, GroupRow]] = {}
    for report in every:
        found = report.found or BrokerOverview()
        for topic in found.topics:
            topics.setdefault(topic.name, {})[report.name] = topic
        for group in found.groups:
            groups.setdefault(group.name, {})[report.name] = group
    founds = [report.found for report in every if report.found]
    return Overview(
        namesrv=namesrv,
        brokers=tuple(report.view() for report in every),
        topics=tuple(_topic(name, topics[name], groups) for name in in_natural_order(topics)),
        groups=tuple(group_of(name, groups[name]) for name in in_natural_order(groups)),
        more_topics=max((found.more_topics for found in founds), default=0),
        more_groups=max((found.more_groups for found in founds), default=0),
    )


def group_of(name: str, rows: Mapping[str, GroupRow]) -> GroupView:
    """One group over the brokers of *rows*, in their order; one that none knows is empty.

    Its queues are ordered by topic, broker and number.
    """
    members = {member.client: member for row in rows.values() for member in row.members}
    subscriptions = {
        topic: expression
        for row in rows.values()
        for topic, expression in row.subscriptions.items()
    }
    queues: dict[str, list[QueueView]] = {}
    for broker, group in rows.items():
        for row in group.queues:
            view = QueueView(row.topic, broker, row.queue_id, row.end, row.committed)
            queues.setdefault(row.topic, []).append(view)
    return GroupView(
        name=name,
        model=next((row.model for row in rows.values() if row.model), ""),
        members=tuple(members[client] for client in in_natural_order(members)),
        subscriptions=dict(sorted(subscriptions.items())),
        queues=tuple(queue for topic in in_natural_order(queues) for queue in queues[topic]),
    )


def _topic(
    name: str, rows: Mapping[str, TopicRow], groups: Mapping[str, Mapping[str, GroupRow]]
) -> TopicView:
    route = [
        QueueData(
            broker_name=broker,
            read_queue_nums=row.queues,
            write_queue_nums=row.queues if row.write_queues is None else row.write_queues,
            perm=row.perm,
        )
        for broker, row in rows.items()
    ]
    read_only = [each for each in route if is_declared_idle(each.perm, 0)]
    idle = {
        group: _idle_queues(name, read_only, groups[group])
        for group in in_natural_order(groups)
        if any(row.members for row in groups[group].values())
    }
    return TopicView(
        name=name,
        queues=sum(row.queues for row in rows.values()),
        messages=sum(row.kept for row in rows.values()),
        stored=sum(row.stored for row in rows.values()),
        brokers=tuple(rows),
        no_load_ratio=no_load_ratio(route),
        read_only=tuple(each.broker_name for each in read_only),
        idle_queues={group: count for group, count in idle.items() if count},
    )


def _idle_queues(topic: str, read_only: Iterable[QueueData], group: Mapping[str, GroupRow]) -> int:
    """Of *topic*, at the brokers that are *read_only*, as *group* has read them."""
    return sum(
        queue.topic == topic and is_declared_idle(each.perm, queue.end - queue.committed)
        for each in read_only
        if each.broker_name in group
        for queue in group[each.broker_name].queues
    )

"""A cluster at one moment, as tools show it, and the changes between two moments.

Values only: ``cluster_reader`` reads each broker, and this module merges the reports into one
``Overview`` of brokers, topics and groups, names in natural order.  The live view adds the nodes,
rates and the queues that members report as their own.  The last figures of a node that hangs or
has died are kept and shown as old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from rocketmq_emulator.cluster.node_view import NodeState
from rocketmq_emulator.protocol.bodies.extensions import (
    BrokerOverview,
    GroupRow,
    MemberView,
    MisuseView,
    ReplicaRole,
    ReplicaRow,
    TopicRow,
    misuses_of,
)
from rocketmq_emulator.protocol.bodies.routes import (
    QueueData,
    is_read_only_and_drained,
    no_load_ratio,
)
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.text.values import in_natural_order, natural


class BrokerView(msgspec.Struct, frozen=True):
    """A broker of a NameServer's table; ``problem`` is the reason if it did not answer.

    Brokers with one *name* are a master and its slaves.  ``behind_bytes`` is how much shorter a
    log is than the master's was at about the same time; None: unknown, or this is no slave.
    """

    name: str
    address: str
    cluster: str
    topics: int = 0
    messages: int = 0  # ever stored, in the topics shown
    problem: str = ""
    broker_id: int = MASTER_ID
    role: ReplicaRole = "master"
    epoch: int | None = None  # the last of its log, if it has one: in controller mode
    behind_bytes: int | None = None
    is_in_sync: bool | None = None  # a slave in controller mode: whether it may be elected


class TopicView(msgspec.Struct, frozen=True):
    """A topic on all brokers that have it.

    ``no_load_ratio`` is the part of its *queues* that cannot be written.  ``idle_queues`` counts,
    by group with members, the queues declared idle: read-only, and consumed to the end (#3465).
    """

    name: str
    queues: int
    messages: int  # stored and not deleted yet
    stored: int  # ever stored
    brokers: tuple[str, ...]
    no_load_ratio: float = 0.0
    read_only: tuple[str, ...] = ()  # names of brokers
    idle_queues: dict[str, int] = {}


class QueueView(msgspec.Struct, frozen=True, gc=False):
    """One queue, with the committed offset of one group."""

    topic: str
    broker: str
    queue_id: int
    end: int
    committed: int

    @property
    def lag(self) -> int:
        """The number of messages stored and not committed."""
        return max(0, self.end - self.committed)


class GroupView(msgspec.Struct, frozen=True):
    """A consumer group: connected members, their subscriptions, committed offsets."""

    name: str
    model: str
    members: tuple[MemberView, ...]
    subscriptions: dict[str, str]  # expression by topic
    queues: tuple[QueueView, ...]

    @property
    def lag(self) -> int:
        """The number of messages stored and not committed, over all queues."""
        return sum(queue.lag for queue in self.queues)

    @property
    def committed(self) -> int:
        """The sum of the committed offsets."""
        return sum(queue.committed for queue in self.queues)


class Overview(msgspec.Struct, frozen=True):
    """Brokers, topics and groups, read at about the same time.

    ``more_topics`` and ``more_groups`` count those beyond the limit of the lists.
    """

    namesrv: str
    brokers: tuple[BrokerView, ...]
    topics: tuple[TopicView, ...]
    groups: tuple[GroupView, ...]
    more_topics: int = 0
    more_groups: int = 0
    misuses: tuple[MisuseView, ...] = ()

    @property
    def silent(self) -> tuple[BrokerView, ...]:
        """The brokers that did not answer."""
        return tuple(broker for broker in self.brokers if broker.problem)


class BrokerReport(msgspec.Struct, frozen=True):
    """One broker: its topics and groups, or why they are unknown.

    ``is_old``: it does not answer any more, and this was its last answer.
    """

    name: str
    address: str
    cluster: str
    found: BrokerOverview | None = None
    problem: str = ""
    broker_id: int = MASTER_ID
    is_old: bool = False

    @property
    def replica(self) -> ReplicaRow | None:
        """Its role, id and end of log, as the broker answered; None without an answer."""
        return self.found.replica if self.found else None

    @property
    def role(self) -> ReplicaRole:
        """The role that the broker answered; without one master or slave, by its id."""
        if self.replica is not None:
            return self.replica.role
        return "master" if self.broker_id == MASTER_ID else "slave"

    def view(self, master: BrokerReport) -> BrokerView:
        """The broker as a row of the overview; *master* leads those of its name."""
        topics = self.found.topics if self.found else ()
        own = self.replica
        return BrokerView(
            self.name,
            self.address,
            self.cluster,
            topics=len(topics),
            messages=sum(topic.stored for topic in topics),
            problem=self.problem,
            broker_id=self.broker_id,
            role=self.role,
            epoch=own.epoch if own else None,
            behind_bytes=self._behind_bytes(master) if self.role == "slave" else None,
            is_in_sync=self._is_in_sync(master) if self.role == "slave" else None,
        )

    def _is_in_sync(self, master: BrokerReport) -> bool | None:
        if master.replica is None or master.replica.sync_state_set is None:
            return None
        return self.broker_id in master.replica.sync_state_set

    def _behind_bytes(self, master: BrokerReport) -> int | None:
        own, its = self.replica, master.replica
        if own is None or its is None or own.log_end is None or its.log_end is None:
            return None
        return max(0, its.log_end - own.log_end)


def overview_of(namesrv: str, reports: Iterable[BrokerReport]) -> Overview:
    """The reports of all brokers, merged.

    Topics and groups are those of the broker that leads each name: slaves have copies of them.
    """
    every = sorted(reports, key=lambda report: (natural(report.name), report.broker_id))
    leading = leading_reports(every)
    topics: dict[str, dict[str, TopicRow]] = {}
    groups: dict[str, dict[str, GroupRow]] = {}
    for report in leading.values():
        found = report.found or BrokerOverview()
        for topic in found.topics:
            topics.setdefault(topic.name, {})[report.name] = topic
        for group in found.groups:
            groups.setdefault(group.name, {})[report.name] = group
    founds = [report.found for report in every if report.found]
    return Overview(
        namesrv=namesrv,
        brokers=tuple(report.view(leading[report.name]) for report in every),
        topics=tuple(_topic(name, topics[name], groups) for name in in_natural_order(topics)),
        groups=tuple(group_of(name, groups[name]) for name in in_natural_order(groups)),
        more_topics=max((found.more_topics for found in founds), default=0),
        more_groups=max((found.more_groups for found in founds), default=0),
        misuses=misuses_of(founds),
    )


def leading_reports(reports: Iterable[BrokerReport]) -> dict[str, BrokerReport]:
    """Of each name the master; without one that answers, the broker with the smallest id."""
    leading: dict[str, BrokerReport] = {}
    for report in reports:
        known = leading.get(report.name)
        if known is None or _rank(report) < _rank(known):
            leading[report.name] = report
    return leading


def _rank(report: BrokerReport) -> tuple[bool, bool, int]:
    is_silent = report.is_old or report.found is None
    return is_silent, report.role != "master", report.broker_id


def group_of(name: str, rows: Mapping[str, GroupRow]) -> GroupView:
    """One group on the brokers of *rows*, in their order; empty if no broker knows it.

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
    read_only = [each for each in route if is_read_only_and_drained(each.perm, 0)]
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
    """How many queues of *topic* at *read_only* brokers *group* has consumed to the end."""
    return sum(
        queue.topic == topic and is_read_only_and_drained(each.perm, queue.end - queue.committed)
        for each in read_only
        if each.broker_name in group
        for queue in group[each.broker_name].queues
    )


# Snapshots of a running cluster, and changes between two ------------------------------


SeenState: TypeAlias = NodeState | Literal["silent", "unlisted"]
NAMES_MAX = 3  # listed in one line about several topics or groups
RETURN_TEXTS: Mapping[tuple[SeenState, SeenState], str] = {
    ("dead", "running"): "is back",
    ("stopped", "running"): "was started",
    ("starting", "running"): "is ready",
    ("paused", "running"): "goes on",
    ("silent", "running"): "answers again",
    ("unlisted", "running"): "is in the route",
}
GONE_TEXTS: Mapping[SeenState, str] = {
    "dead": "is dead",
    "stopped": "was stopped",
    "paused": "is paused",
    "silent": "does not answer",
    "starting": "is starting",
    "unlisted": "is not in the route",
}


ROLE_TEXTS: Mapping[ReplicaRole, str] = {
    "master": "the master now",
    "slave": "a slave now",
    "acting master": "the acting master now",
    "none": "without a role now",
}


class NodeSnapshot(msgspec.Struct, frozen=True):
    """A node's state, and since when.

    ``silent``: it runs and does not answer.  ``unlisted``: it answers, but no NameServer has it in
    a route.  ``messages`` is the number in its last answer.
    """

    name: str
    role: str
    address: str
    pid: int | None
    state: SeenState
    since_ms: int
    ending: str = ""  # how it ended: "was killed by signal 9"
    messages: int | None = None
    replica: BrokerView | None = None  # of a broker that was read


class Rates(msgspec.Struct):
    """Messages per second between two samples, by name."""

    brokers: dict[str, float] = {}
    topics: dict[str, float] = {}
    groups: dict[str, float] = {}


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """A running cluster at one moment.

    ``is_complete``: every broker that answers was read at least once.  ``owned`` has the queues
    that a member reports as its own, by group and client; None if it reports nothing.
    """

    nodes: tuple[NodeSnapshot, ...]
    overview: Overview
    rates: Rates
    owned: Mapping[tuple[str, str], tuple[MessageQueue, ...] | None] = {}
    is_complete: bool = True


class BrokerSample(msgspec.Struct, frozen=True):
    """A broker's topics and groups at a time in seconds, of any one clock.

    ``leads``: not a slave, whose topics and groups are copies.
    """

    at_s: float
    found: BrokerOverview
    leads: bool = True


def rates_between(looks: Iterable[tuple[str, BrokerSample, BrokerSample]]) -> Rates:
    """Rates from two samples of each broker, by name; never negative, even after a loss."""
    rates = Rates()
    for broker, before, after in looks:
        seconds = after.at_s - before.at_s
        stored = {topic.name: topic.stored for topic in before.found.topics}
        for topic in after.found.topics:
            rate = _rate(stored.get(topic.name, topic.stored), topic.stored, seconds)
            _add(rates.brokers, broker, rate)
            if after.leads:
                _add(rates.topics, topic.name, rate)
        rates.brokers.setdefault(broker, 0.0)
        committed = {g.name: sum(q.committed for q in g.queues) for g in before.found.groups}
        for group in after.found.groups if after.leads else ():
            now = sum(queue.committed for queue in group.queues)
            _add(rates.groups, group.name, _rate(committed.get(group.name, now), now, seconds))
    return rates


def changes_between(before: ClusterSnapshot, after: ClusterSnapshot) -> list[str]:
    """The changes to report to a user, one line each."""
    lines = list(_of_nodes(before.nodes, after.nodes))
    # When a broker dies, another one may lead its name, and not have copied all tables yet.
    if before.is_complete and after.is_complete and _states(before) == _states(after):
        lines += _of_topics(before.overview, after.overview)
        lines += _of_groups(before.overview.groups, after.overview.groups)
    return lines


def _states(snapshot: ClusterSnapshot) -> list[tuple[SeenState, ReplicaRole | None]]:
    return [(node.state, node.replica.role if node.replica else None) for node in snapshot.nodes]


def _of_nodes(before: Sequence[NodeSnapshot], after: Sequence[NodeSnapshot]) -> Iterator[str]:
    was = {node.name: node for node in before}
    for node in after:
        known = was.get(node.name, node)
        if known.state == node.state and known.pid == node.pid:
            continue
        if node.state == "running":
            yield f"{node.name} {RETURN_TEXTS.get((known.state, node.state), 'was restarted')}"
        elif known.state != node.state:
            yield f"{node.name} {node.ending or GONE_TEXTS[node.state]}"
    for node in after:
        now, then = (each and each.replica for each in (node, was.get(node.name)))
        if now and then and now.role != then.role:
            yield f"{node.name} is {ROLE_TEXTS[now.role]}{_epoch_text(now)}"


def _epoch_text(broker: BrokerView) -> str:
    return "" if broker.epoch is None else f", epoch {broker.epoch}"


def _of_topics(before: Overview, after: Overview) -> Iterator[str]:
    was, now = ([topic.name for topic in each.topics] for each in (before, after))
    yield from _listed("topic", "created", now, was)
    yield from _listed("topic", "deleted", was, now)


def _of_groups(before: Sequence[GroupView], after: Sequence[GroupView]) -> Iterator[str]:
    members = {group.name: set(_clients(group.members)) for group in before}
    new = [group.name for group in after if group.name not in members and not group.members]
    yield from _listed("group", "created", new, ())
    gone = [group.name for group in before if group.name not in {each.name for each in after}]
    yield from _listed("group", "deleted", gone, ())
    for group in after:
        was, now = members.get(group.name, set()), set(_clients(group.members))
        if len(was) != len(now):
            yield f"group {group.name}: {len(was)} → {_count(len(now), 'member')}"
        elif was != now:
            changed = _count(len(now - was), "member")
            yield f"group {group.name}: {changed} of {len(now)} replaced"


def _clients(members: Iterable[MemberView]) -> Iterator[str]:
    return (member.client for member in members)


def _listed(what: str, verb: str, names: Sequence[str], known: Iterable[str]) -> Iterator[str]:
    """One line for all *names* that are not *known*, if there are any."""
    found = set(known)
    new = [name for name in names if name not in found]
    if len(new) == 1:
        yield f"{what} {new[0]} {verb}"
    elif new:
        more = " …" if len(new) > NAMES_MAX else ""
        yield f"{_count(len(new), what)} {verb}: {', '.join(new[:NAMES_MAX])}{more}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _rate(before: int, after: int, seconds: float) -> float:
    return max(0.0, (after - before) / seconds) if seconds > 0 else 0.0


def _add(rates: dict[str, float], name: str, rate: float) -> None:
    rates[name] = rates.get(name, 0.0) + rate

"""The tables of a cluster, for a terminal of any width and for a pipe.

Green means correct, yellow means waiting work, red means wrong; the rest is plain.  No line is
folded, and names are in natural order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rocketmq_emulator.cli.screens.columns import Cell, Column, Row, Sheet, clean

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rocketmq_emulator.admin.overview import BrokerView, GroupView, Overview, TopicView
    from rocketmq_emulator.protocol.bodies.extensions import MisuseView, ReplicaRole

LAG_IS_MUCH = 1_000
ROLES: Mapping[ReplicaRole, str] = {  # with the broker's id
    "master": "master",
    "slave": "slave {}",
    "acting master": "acting master {}",
    "none": "no role yet",
}
MEMBERS_SHOWN_MAX = 6

BROKER_COLUMNS = (
    Column("broker", narrow=12),
    Column("address"),
    Column("topics", is_number=True),
    Column("stored", is_number=True),
    Column("", narrow=10),
)
REPLICA_COLUMNS = (  # beside the name, if a name has more than one broker
    Column("role", narrow=8),
    Column("copy", narrow=8),
)
SYNC_TEXTS = {True: "in sync", False: "not in sync"}
TOPIC_COLUMNS = (
    Column("topic", narrow=16),
    Column("queues", is_number=True),
    Column("messages", is_number=True),
    Column("brokers", narrow=6),
)
NO_LOAD_COLUMNS = (  # of #3465: 1 - write queues / read queues
    Column("topic", narrow=16),
    Column("no-load ratio", is_number=True),
    Column("read-only", narrow=9),
    Column("idle queues", narrow=11),
)
GROUP_COLUMNS = (
    Column("group", narrow=16),
    Column("members", is_number=True),
    Column("queues", is_number=True),
    Column("lag", is_number=True),
    Column("consumes", narrow=10),
)
MEMBER_COLUMNS = (
    Column("group", narrow=16),
    Column("member", narrow=24),
    Column("language"),
    Column("address", spare=True),
)


def cluster_screen(overview: Overview) -> RenderableType:
    """Brokers, topics, groups and members.

    Also topics with queues that refuse writes and likely mistakes of clients, if there are any.
    """
    return Group(
        brokers_table(overview.brokers),
        "",
        topics_table(overview.topics, overview.more_topics),
        *no_load_table(overview.topics),
        "",
        groups_table(overview.groups, overview.more_groups),
        *misuses_list(overview.misuses),
    )


def brokers_table(brokers: Sequence[BrokerView]) -> RenderableType:
    """A row per broker; the row of a broker that did not answer has the reason.

    With slaves there are also columns of roles and of how complete the copies of slaves are.
    """
    if not brokers:
        return none_yet("brokers")
    rows = [_broker_row(broker) for broker in brokers]
    if not has_replicas(brokers):
        return Sheet(BROKER_COLUMNS, rows)
    columns = (BROKER_COLUMNS[0], *REPLICA_COLUMNS, *BROKER_COLUMNS[1:])
    return Sheet(
        columns,
        [
            (row[0], *replica_cells(broker), *row[1:])
            for broker, row in zip(brokers, rows, strict=True)
        ],
    )


def has_replicas(brokers: Iterable[BrokerView]) -> bool:
    """Whether any of *brokers* is a slave, or may become one: it has an epoch."""
    return any(broker.role != "master" or broker.epoch is not None for broker in brokers)


def replica_cells(broker: BrokerView) -> tuple[Cell, Cell]:
    """The cells of *broker* in ``REPLICA_COLUMNS``."""
    role = ROLES[broker.role].format(broker.broker_id)
    long = role if broker.epoch is None else f"{role}, epoch {broker.epoch}"
    return (long, role), _copy_text(broker)


def _copy_text(broker: BrokerView) -> Text:
    """How complete the copy of a slave is."""
    behind = f"{broker.behind_bytes:,} B behind" if broker.behind_bytes else ""
    if broker.is_in_sync is not None:
        behind = ", ".join(filter(None, (SYNC_TEXTS[broker.is_in_sync], behind)))
    elif broker.behind_bytes == 0:
        behind = "complete"
    return Text(behind, "yellow" if broker.behind_bytes or broker.is_in_sync is False else "")


def topics_table(topics: Sequence[TopicView], more: int = 0) -> RenderableType:
    """A row per topic, summed over all brokers; *more* is the number of topics left out."""
    if not topics:
        return none_yet("topics")
    sheet = Sheet(TOPIC_COLUMNS, [topic_row(topic) for topic in topics])
    return Group(sheet, *_and_more(more))


def no_load_table(topics: Sequence[TopicView]) -> list[RenderableType]:
    """A row per topic with queues that refuse writes, with the groups that have read these."""
    rows = [_no_load_row(topic) for topic in topics if topic.no_load_ratio > 0]
    return ["", Sheet(NO_LOAD_COLUMNS, rows)] if rows else []


def groups_table(groups: Sequence[GroupView], more: int = 0) -> RenderableType:
    """Groups, then the members that are online."""
    if not groups:
        return none_yet("groups")
    parts: list[RenderableType] = [Sheet(GROUP_COLUMNS, [group_row(group) for group in groups])]
    parts += _and_more(more)
    members = [row for group in groups for row in _member_rows(group)]
    if members:
        parts += ["", Sheet(MEMBER_COLUMNS, members)]
    return Group(*parts)


def misuses_list(misuses: Sequence[MisuseView]) -> list[RenderableType]:
    """A paragraph for each misuse, with its cure; nothing without any."""
    if not misuses:
        return []
    table = Table("likely mistake", "", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for each in misuses:
        table.add_row(Text(clean(each.misuse), "yellow", no_wrap=True), clean(each.text))
    return ["", table]


def topic_row(topic: TopicView) -> Row:
    """The cells of *topic* in ``TOPIC_COLUMNS``."""
    return (
        clean(topic.name),
        f"{topic.queues}",
        f"{topic.messages:,}",
        some_names(topic.brokers, "brokers"),
    )


def group_row(group: GroupView) -> Row:
    """The cells of *group*; ``queues`` are without retry queues, ``lag`` includes retries."""
    return (
        clean(group.name),
        members_text(group),
        f"{sum(_is_users_own(queue.topic) for queue in group.queues)}",
        lag_text(group.lag),
        subscriptions(group),
    )


def members_text(group: GroupView) -> Text:
    """The number of members; 0 is yellow."""
    return Text(f"{len(group.members)}", "" if group.members else "yellow")


def some_names(names: Sequence[str], what: str) -> Cell:
    """All *names*, or their number if there is no room."""
    return (clean(" ".join(names)), f"{len(names)} {what}")


def subscriptions(group: GroupView) -> Cell:
    """Topics with their expressions; without the retry topic, which every group has."""
    shown = [
        topic if expression == "*" else f"{topic}: {expression}"
        for topic, expression in group.subscriptions.items()
        if _is_users_own(topic)
    ]
    topics = {queue.topic: None for queue in group.queues if _is_users_own(queue.topic)}
    listed = shown or list(topics)
    every = clean(", ".join(listed))
    return (every, f"{len(listed)} topics") if len(listed) > 1 else every


def lag_text(lag: int) -> Text:
    """*lag* in its colour: green is 0, red is ``LAG_IS_MUCH`` or more."""
    style = "green" if lag == 0 else "yellow" if lag < LAG_IS_MUCH else "red"
    return Text(f"{lag:,}", style)


def none_yet(what: str) -> Text:
    """The text in place of an empty table."""
    return Text(f"  no {what} yet")


def a_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table without a frame; the columns in *numbers* are right-aligned."""
    table = Table(box=None, pad_edge=False, expand=False)
    right = set(numbers)
    for column in columns:
        is_number = column in right
        table.add_column(
            column,
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="ellipsis" if is_number else "fold",
        )
    return table


def _broker_row(broker: BrokerView) -> Row:
    if broker.problem:
        return (clean(broker.name), broker.address, "", "", Text(broker.problem, "red"))
    figures = (f"{broker.topics}", f"{broker.messages:,}")
    return (clean(broker.name), broker.address, *figures, Text("ok", "green"))


def _no_load_row(topic: TopicView) -> Row:
    idle = [f"{group} {count}" for group, count in topic.idle_queues.items()]
    ratio = Text(f"{topic.no_load_ratio:.2f}", "yellow")
    return (
        clean(topic.name),
        ratio,
        some_names(topic.read_only, "brokers"),
        clean(", ".join(idle)),
    )


def _member_rows(group: GroupView) -> Iterator[Row]:
    for member in group.members[:MEMBERS_SHOWN_MAX]:
        yield (clean(group.name), clean(member.client), member.language, member.address)
    if more := len(group.members[MEMBERS_SHOWN_MAX:]):
        yield (clean(group.name), f"+{more} more", "", "")


def _and_more(count: int) -> list[RenderableType]:
    return [Text(f"  +{count} more")] if count else []


def _is_users_own(topic: str) -> bool:
    """False for the retry topic and the dead letter topic of a group."""
    return not topic.startswith("%")

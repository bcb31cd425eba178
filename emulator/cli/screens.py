"""A cluster drawn as tables, for terminals of a hundred columns.

Green is as it should be, yellow is work waiting, red is wrong; the rest is plain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from emulator.cluster.overview import BrokerView, GroupView, Overview, TopicView

LAG_IS_MUCH = 1_000
MEMBERS_SHOWN_MAX = 6


class Rates(msgspec.Struct):
    """Messages a second between two looks, by name."""

    brokers: dict[str, float] = {}
    topics: dict[str, float] = {}
    groups: dict[str, float] = {}


def rates_between(before: Overview, after: Overview, seconds: float) -> Rates:
    """What came and went meanwhile.  A broker that was away makes no negative rates."""
    return Rates(
        _rates(_stored(before.brokers), _stored(after.brokers), seconds),
        _rates(
            {topic.name: topic.stored for topic in before.topics},
            {topic.name: topic.stored for topic in after.topics},
            seconds,
        ),
        _rates(
            {group.name: group.committed for group in before.groups},
            {group.name: group.committed for group in after.groups},
            seconds,
        ),
    )


def cluster_screen(overview: Overview, rates: Rates | None = None) -> RenderableType:
    """Brokers, topics, groups; without *rates* their columns are left out."""
    return Group(
        brokers_table(overview.brokers, rates),
        topics_table(overview.topics, rates),
        groups_table(overview.groups, rates),
    )


def a_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table; the columns in *numbers* are right-aligned."""
    """All tables look alike: no frame, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
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


def brokers_table(brokers: Sequence[BrokerView], rates: Rates | None = None) -> RenderableType:
    """Brokers; those that did not answer with the reason."""
    if not brokers:
        return _none_yet("brokers")
    speed = ("in/s",) if rates else ()
    table = a_table("broker", "address", "topics", "stored", *speed, "", numbers=NUMBERS)
    for broker in brokers:
        state = Text(broker.problem, "red") if broker.problem else Text("ok", "green")
        rate = _rate(rates.brokers if rates else None, broker.name)
        table.add_row(
            broker.name, broker.address, f"{broker.topics}", f"{broker.messages:,}", *rate, state
        )
    return table


def topics_table(topics: Sequence[TopicView], rates: Rates | None = None) -> RenderableType:
    """Topics over all brokers."""
    if not topics:
        return _none_yet("topics")
    speed = ("in/s",) if rates else ()
    table = a_table("topic", "queues", "messages", *speed, "brokers", numbers=NUMBERS)
    for topic in topics:
        table.add_row(
            topic.name,
            f"{topic.queues}",
            f"{topic.messages:,}",
            *_rate(rates.topics if rates else None, topic.name),
            " ".join(topic.brokers),
        )
    return table


def groups_table(groups: Sequence[GroupView], rates: Rates | None = None) -> RenderableType:
    """``queues`` are those of the topics; ``lag`` has also what waits to be retried."""
    if not groups:
        return _none_yet("groups")
    speed = ("out/s",) if rates else ()
    table = a_table("group", "consumes", "members", "queues", "lag", *speed, numbers=NUMBERS)
    for group in groups:
        table.add_row(
            group.name,
            _subscriptions(group),
            Text(f"{len(group.members)}", "" if group.members else "yellow"),
            f"{sum(_is_users_own(queue.topic) for queue in group.queues)}",
            lag_text(group.lag),
            *_rate(rates.groups if rates else None, group.name),
        )
        for member in group.members[:MEMBERS_SHOWN_MAX]:
            table.add_row(Text(f"  {member.address}", "dim"), Text(member.client, "dim"))
        if len(group.members) > MEMBERS_SHOWN_MAX:
            more = len(group.members) - MEMBERS_SHOWN_MAX
            table.add_row(Text(f"  and {more} more", "dim"))
    return table


NUMBERS = ("topics", "stored", "in/s", "queues", "messages", "members", "lag", "out/s")


def lag_text(lag: int) -> Text:
    """A lag in its colour."""
    style = "green" if lag == 0 else "yellow" if lag < LAG_IS_MUCH else "red"
    return Text(f"{lag:,}", style)


def _subscriptions(group: GroupView) -> str:
    """Without the retry topic, which every group has."""
    shown = [
        topic if expression == "*" else f"{topic}: {expression}"
        for topic, expression in group.subscriptions.items()
        if _is_users_own(topic)
    ]
    topics = {queue.topic for queue in group.queues if _is_users_own(queue.topic)}
    return ", ".join(shown or sorted(topics))


def _is_users_own(topic: str) -> bool:
    """Neither a group's retries nor its dead letters."""
    return not topic.startswith("%")


def _none_yet(what: str) -> Text:
    return Text(f"  no {what} yet\n")


def _stored(brokers: Sequence[BrokerView]) -> dict[str, int]:
    return {broker.name: broker.messages for broker in brokers if not broker.problem}


def _rates(before: dict[str, int], after: dict[str, int], seconds: float) -> dict[str, float]:
    return {
        name: max(0.0, (count - before[name]) / seconds)
        for name, count in after.items()
        if name in before and seconds > 0
    }


def _rate(rates: dict[str, float] | None, name: str) -> tuple[str, ...]:
    """The cell of a rate; where none are known there is no such column."""
    if rates is None:
        return ()
    rate = rates.get(name)
    if rate is None:
        return ("",)
    return (f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}",)

"""What can be seen of a running cluster at one moment, and what has happened between two.

A node that hangs or has died keeps the figures that it had: they are shown as old ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from emulator.cluster.node_view import NodeState
from emulator.cluster.overview import GroupView, Overview
from protocol.bodies.broker_overview import BrokerOverview, MemberView
from protocol.queues import MessageQueue

SeenState: TypeAlias = NodeState | Literal["silent", "unlisted"]
NAMES_MAX = 3  # in one line about several topics or groups
BACK: Mapping[tuple[SeenState, SeenState], str] = {
    ("dead", "running"): "is back",
    ("stopped", "running"): "was started",
    ("starting", "running"): "is ready",
    ("paused", "running"): "goes on",
    ("silent", "running"): "answers again",
    ("unlisted", "running"): "is in the route",
}
GONE: Mapping[SeenState, str] = {
    "dead": "is dead",
    "stopped": "was stopped",
    "paused": "is paused",
    "silent": "does not answer",
    "starting": "is starting",
    "unlisted": "is not in the route",
}


class NodeSight(msgspec.Struct, frozen=True):
    """A node, and since when it is so.

    ``silent``: it runs and does not answer.  ``unlisted``: it answers, and no NameServer has
    it in its route.  ``messages`` are those it had when it answered last.
    """

    name: str
    role: str
    address: str
    pid: int | None
    state: SeenState
    since_ms: int
    ending: str = ""  # how it ended: "was killed by signal 9"
    messages: int | None = None


class Rates(msgspec.Struct):
    """Messages a second between two looks, by name."""

    brokers: dict[str, float] = {}
    topics: dict[str, float] = {}
    groups: dict[str, float] = {}


class Sight(msgspec.Struct, frozen=True):
    """``is_complete``: every broker that answers has been read at least once.

    ``owned``: which queues a member says it has, by group and client; None if it says nothing.
    """

    nodes: tuple[NodeSight, ...]
    overview: Overview
    rates: Rates
    owned: Mapping[tuple[str, str], tuple[MessageQueue, ...] | None] = {}
    is_complete: bool = True


class Look(msgspec.Struct, frozen=True):
    """What a broker had at a moment of some clock, in seconds."""

    at_s: float
    found: BrokerOverview


def rates_between(looks: Iterable[tuple[str, Look, Look]]) -> Rates:
    """By broker its name and two looks; a broker that lost messages has no negative rate."""
    rates = Rates()
    for broker, before, after in looks:
        seconds = after.at_s - before.at_s
        stored = {topic.name: topic.stored for topic in before.found.topics}
        for topic in after.found.topics:
            rate = _rate(stored.get(topic.name, topic.stored), topic.stored, seconds)
            _add(rates.topics, topic.name, rate)
            _add(rates.brokers, broker, rate)
        rates.brokers.setdefault(broker, 0.0)
        committed = {g.name: sum(q.committed for q in g.queues) for g in before.found.groups}
        for group in after.found.groups:
            now = sum(queue.committed for queue in group.queues)
            _add(rates.groups, group.name, _rate(committed.get(group.name, now), now, seconds))
    return rates


def happened(before: Sight, after: Sight) -> list[str]:
    """What a user should know of, a line each."""
    lines = list(_of_nodes(before.nodes, after.nodes))
    if before.is_complete and after.is_complete:
        lines += _of_topics(before.overview, after.overview)
        lines += _of_groups(before.overview.groups, after.overview.groups)
    return lines


def _of_nodes(before: Sequence[NodeSight], after: Sequence[NodeSight]) -> Iterator[str]:
    was = {node.name: node for node in before}
    for node in after:
        known = was.get(node.name, node)
        if known.state == node.state and known.pid == node.pid:
            continue
        if node.state == "running":
            yield f"{node.name} {BACK.get((known.state, node.state), 'was restarted')}"
        elif known.state != node.state:
            yield f"{node.name} {node.ending or GONE[node.state]}"


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

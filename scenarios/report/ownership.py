"""The owners of each queue over time: overlaps, and times without an owner.

Consumers record the queues that they claim and release.  Clients of other languages record
nothing, only brokers do: the client that commits offsets of a queue counts as its owner, until
another client commits or it leaves the group.  Such a lane is ``inferred``; its gaps are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from rocketmq_emulator.checks.state.queue_positions import QueueOwners
from rocketmq_emulator.facts import (
    ConsumerStarted,
    MemberJoined,
    MemberLeft,
    OffsetCommitted,
    Queue,
    QueuesClaimed,
    QueuesReleased,
)
from rocketmq_emulator.facts.journal import Entry

OPEN_END = -1


class Span(msgspec.Struct, array_like=True):
    """A period with one owner of one queue; *claim* and *release*: numbers of facts, -1: none."""

    owner: str
    from_us: int
    until_us: int  # the end of the journal if it still owns it
    claim: int
    release: int = -1
    why: str = "still owned"  # how it ended: the reason of the release, or what ended the owner


class TimeInterval(msgspec.Struct, array_like=True, frozen=True):
    """A period of time, in µs."""

    from_us: int
    until_us: int


class Lane(msgspec.Struct):
    """One queue of one group: its owners in the order of time."""

    group: str
    queue: Queue
    inferred: bool
    broadcast: bool  # every member owns every queue, so overlaps and gaps are not computed
    spans: list[Span]
    overlaps: list[TimeInterval] = []  # two owners or more
    gaps: list[TimeInterval] = []  # no owner, though there had been one


class Owners:
    """Folds facts of claims, releases, commits and members into lanes."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[str, Queue], list[Span]] = {}
        self._committed: dict[tuple[str, Queue], list[Span]] = {}
        self._owners = QueueOwners[Span]()
        self._broadcast: set[str] = set()  # groups
        self._clients: dict[tuple[str, str], str] = {}  # by broker and address: the client's id

    def started(self, _number: int, _entry: Entry, fact: ConsumerStarted) -> None:
        """A consumer started: record whether its group is broadcasting."""
        if fact.broadcast:
            self._broadcast.add(fact.group)

    def claimed(self, number: int, entry: Entry, fact: QueuesClaimed) -> None:
        """A consumer claimed queues: begin a span of each."""
        for queue in fact.queues:
            span = Span(entry.node, entry.mono_us, OPEN_END, number)
            if self._owners.claim(entry.node, fact.group, queue, span):
                self._claimed.setdefault((fact.group, queue), []).append(span)

    def released(self, number: int, entry: Entry, fact: QueuesReleased) -> None:
        """A consumer released queues: end their spans."""
        for queue in fact.queues:
            span = self._owners.release(entry.node, fact.group, queue)
            if span is not None:
                span.until_us, span.release, span.why = entry.mono_us, number, fact.reason

    def died(self, node: str, at_us: int) -> None:
        """The process of *node* ended: end all its spans."""
        for span in self._owners.end(node).values():
            span.until_us, span.why = max(at_us, span.from_us), "its owner died"

    def committed(self, number: int, entry: Entry, fact: OffsetCommitted) -> None:
        """A client committed: for groups without claims, it counts as the queue's owner."""
        spans = self._committed.setdefault((fact.group, fact.queue), [])
        owner = self._clients.get((entry.node, fact.peer), fact.peer)
        if spans and spans[-1].until_us == OPEN_END:
            if spans[-1].owner == owner:
                return
            last = spans[-1]
            last.until_us, last.release, last.why = entry.mono_us, number, "another one committed"
        spans.append(Span(owner, entry.mono_us, OPEN_END, number))

    def joined(self, _number: int, entry: Entry, fact: MemberJoined) -> None:
        """A member joined: record which client id its address has."""
        self._clients[entry.node, fact.peer] = fact.client

    def left(self, number: int, entry: Entry, fact: MemberLeft) -> None:
        """A client left a group: end its inferred spans at this broker."""
        for (group, queue), spans in self._committed.items():
            last = spans[-1]
            is_its = group == fact.group and queue.broker == entry.node
            if is_its and last.owner == fact.client and last.until_us == OPEN_END:
                last.until_us, last.release, last.why = entry.mono_us, number, fact.reason

    def lanes(self, end_us: int) -> list[Lane]:
        """One lane for each queue that a group ever owned, by group and queue."""
        groups = {group for group, _ in self._claimed}
        inferred = {key: it for key, it in self._committed.items() if key[0] not in groups}
        found = []
        for place, is_inferred in ((self._claimed, False), (inferred, True)):
            for (group, queue), spans in place.items():
                for span in spans:
                    if span.until_us == OPEN_END:
                        span.until_us = end_us
                lane = Lane(group, queue, is_inferred, group in self._broadcast, spans)
                if not lane.broadcast:
                    lane.overlaps = list(overlaps(spans))
                    lane.gaps = [] if is_inferred else list(gaps(spans, end_us))
                found.append(lane)
        return sorted(found, key=_order)


def _order(lane: Lane) -> tuple[str, bool, Queue]:
    """By group; topics for retries come last."""
    return lane.group, lane.queue.topic.startswith("%"), lane.queue


def overlaps(spans: Iterable[Span]) -> Iterator[TimeInterval]:
    """The periods in which more than one of *spans* held, each as long as possible."""
    changes = sorted(
        change
        for span in spans
        if span.until_us > span.from_us
        for change in ((span.from_us, 1), (span.until_us, -1))
    )
    depth, began_us = 0, 0
    for at_us, step in changes:
        depth += step
        if depth == 2 and step == 1:
            began_us = at_us
        elif depth == 1 and step == -1 and at_us > began_us:
            yield TimeInterval(began_us, at_us)


def gaps(spans: list[Span], end_us: int) -> Iterator[TimeInterval]:
    """The periods after the first claim in which none of *spans* held.

    The time after the last span counts, unless its owner shut down: then no owner is expected.
    """
    if not spans:
        return
    ordered = sorted(spans, key=lambda span: span.from_us)
    reached_us = ordered[0].from_us
    for before, after in pairwise(ordered):
        reached_us = max(reached_us, before.until_us)
        if after.from_us > reached_us:
            yield TimeInterval(reached_us, after.from_us)
    last = max(ordered, key=lambda span: span.until_us)
    if last.until_us < end_us and last.why != "shutdown":
        yield TimeInterval(last.until_us, end_us)

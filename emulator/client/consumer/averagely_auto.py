"""AveragelyAuto: averagely while a group has old members, by circle once all are new.

Blocks of neighbouring queues follow the order of brokers, so when a broker turns read-only the
members that hold its block have nothing to do.  By circle everybody holds a few queues of
each broker.  But a group must not mix the two: while some members go averagely and others by
circle, queues have two owners or none, and a backlog grows.  So a member goes by circle only
when it sees that every member is new enough to do the same.

Proposed in apache/rocketmq#3465 and never merged: an extension of this project, in no
release of RocketMQ.  What the proposal leaves open is decided here: an id whose version the
broker does not say counts as old, and a pass whose question is not answered changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from emulator.client.consumer.allocation import AVG, AVG_BY_CIRCLE, Strategy
from protocol.queues import MessageQueue
from protocol.versions import Release

NAME = "AVG_AUTO"


def averagely_auto(newer_than: str | Release) -> Strategy:
    """By circle when the release of every member is above *newer_than*, until then averagely.

    Members of other SDKs count by the version that they send, whatever they allocate by.
    Before each pass one broker is asked (GET_CONSUMER_CONNECTION_LIST), any of the topic.

    Raises ``ValueError`` for what is no release.  Upstream: none, see the file.
    """
    release = Release.parse(newer_than) if isinstance(newer_than, str) else newer_than
    threshold = release.version

    def chosen(versions: Mapping[str, int]) -> partial[list[MessageQueue]]:
        return partial(_allocate, threshold, versions)

    return Strategy(NAME, AVG.allocate, chosen)


def _allocate(
    threshold: int,
    versions: Mapping[str, int],
    queues: Sequence[MessageQueue],
    members: Sequence[str],
    me: str,
) -> list[MessageQueue]:
    all_are_new = all(versions.get(member, 0) > threshold for member in members)
    strategy = AVG_BY_CIRCLE if all_are_new else AVG
    return strategy.allocate(queues, members, me)

"""What one broker has, in one reply: its topics, its groups, who is online, how far they are.

Upstream has no such call: a tool there asks for each topic and each group.  This one is our
own (9005); its rows are JSON arrays, because there are many and somebody looks every second.
"""

from __future__ import annotations

import msgspec

from protocol.perm import READ_WRITE


class MemberView(msgspec.Struct, frozen=True):
    """A client that is online in a group."""

    client: str
    address: str
    language: str


class TopicRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A topic on one broker; ``kept`` of the ``stored`` messages are there still.

    ``queues`` may be read; *perm* is that of the routes, which the broker's own may restrict.
    """

    name: str
    queues: int
    kept: int
    stored: int
    write_queues: int | None = None  # None: as many
    perm: int = READ_WRITE


class QueueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A queue of a group: where it ends, and what the group has committed."""

    topic: str
    queue_id: int
    end: int
    committed: int


class GroupRow(msgspec.Struct, frozen=True):
    """A group on one broker; ``model`` is empty while nobody is online."""

    name: str
    model: str = ""
    members: tuple[MemberView, ...] = ()
    subscriptions: dict[str, str] = {}  # expression by topic
    queues: tuple[QueueRow, ...] = ()  # those of one topic by their numbers


class BrokerOverview(msgspec.Struct, frozen=True):
    """All of it, without retries, dead letters and what the broker keeps for itself.

    At most as many topics and groups as ``ROWS_MAX``; the others are counted.
    """

    topics: tuple[TopicRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    more_topics: int = 0
    more_groups: int = 0


ROWS_MAX = 1_000

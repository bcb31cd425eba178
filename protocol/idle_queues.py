"""Queues that nothing will come to, and how many of a topic's queues are such.

A broker under maintenance turns read-only (perm 4).  Its queues stay in the route and are
shared out as before, and the members that get only such queues have nothing to do once
they have read what is left.  Upstream has no word for that; apache/rocketmq#3465 proposed one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from protocol.bodies.routes import QueueData
from protocol.perm import is_readable, is_writeable
from protocol.queues import MessageQueue


def is_declared_idle(perm: int, lag: int) -> bool:
    """A queue that may be read, not written to, and has been read: nothing will come to it.

    *lag* is the number of messages that the group has not consumed.
    """
    return is_readable(perm) and not is_writeable(perm) and lag <= 0


def no_load_ratio(route: Iterable[QueueData]) -> float:
    """The part of a topic's readable queues that nobody can write to: 1 - sum(write) / sum(read).

    A read-only broker keeps its write count, so only queues of brokers where the topic may be
    written count as write queues; where a topic has more to write than to read, no more than
    those that are read.  0 for a topic without readable queues.
    """
    readable = [row for row in route if is_readable(row.perm)]
    read = sum(row.read_queue_nums for row in readable)
    write = sum(
        min(row.write_queue_nums, row.read_queue_nums)
        for row in readable
        if is_writeable(row.perm)
    )
    return 1 - write / read if read else 0.0


def starved(
    queues: Collection[MessageQueue], shares: Mapping[str, Sequence[MessageQueue]]
) -> list[MessageQueue]:
    """Those of a topic's *queues* that no member has in its share, in order."""
    owned = {queue for share in shares.values() for queue in share}
    return sorted(queue for queue in queues if queue not in owned)

"""The queues of a topic that a member gets: the two strategies that brokers compute, too.

Queues and members must be sorted, so that every member computes the same allocation.  A member
that is listed twice counts twice; the queues of its second place have no owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketmq_emulator.protocol.error_families import Misuse, public
from rocketmq_emulator.protocol.queues import MessageQueue


@public
class CannotAllocate(Misuse, ValueError):
    """The strategy cannot use its inputs; the member keeps the topic's queues it has."""


def averagely(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> list[MessageQueue]:
    """Consecutive runs, the first ``len(queues) % len(members)`` one longer.

    Upstream: AllocateMessageQueueAveragely.allocate.
    """
    if not is_member(queues, members, me):
        return []
    share, extra = divmod(len(queues), len(members))
    index = members.index(me)
    start = index * share + min(index, extra)
    return list(queues[start : start + share + (index < extra)])


def averagely_by_circle(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> list[MessageQueue]:
    """Every n-th queue: queue i goes to member i modulo the number of members.

    Upstream: AllocateMessageQueueAveragelyByCircle.allocate.
    """
    if not is_member(queues, members, me):
        return []
    return list(queues[members.index(me) :: len(members)])


def is_member(queues: Sequence[MessageQueue], members: Sequence[str], me: str) -> bool:
    """Whether *me* is one of *members*; a client that is not gets no queues.

    Raises ``CannotAllocate`` without an id, without queues or without members.
    Upstream: AbstractAllocateMessageQueueStrategy.check.
    """
    if not me:
        raise CannotAllocate("the client has no id")
    if not queues:
        raise CannotAllocate("the topic has no queues")
    if not members:
        raise CannotAllocate("the group has no members")
    return me in members

"""How well a strategy shares queues, by its function alone: no cluster, no time.

Every member computes its share by itself, so the first question is whether the shares fit
together: each queue in one share.  Then what a group sees of it: how even shares are, who has
nothing to do, how many queues move when a member leaves or joins, and what happens while
members disagree about who is in the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from emulator.client.consumer.allocation import Allocate
from protocol.queues import MessageQueue, in_order, java_order

Shares: TypeAlias = Mapping[str, Sequence[MessageQueue]]


class Shape(msgspec.Struct, frozen=True):
    """A topic with *queues* on each of *brokers*, and a group of *members*."""

    brokers: int
    queues: int
    members: int

    def __str__(self) -> str:
        return f"{self.brokers}x{self.queues}/{self.members}"

    @property
    def queue_count(self) -> int:
        """Of the topic."""
        return self.brokers * self.queues


SHAPES = (  # few and many queues for few and many members, even and uneven
    *(Shape(1, 8, 3), Shape(2, 12, 5), Shape(2, 12, 7), Shape(4, 16, 10), Shape(1, 8, 12)),
    *(Shape(4, 4, 3), Shape(4, 4, 4), Shape(4, 4, 8), Shape(4, 4, 16), Shape(3, 8, 6)),
)


class Finding(msgspec.Struct, frozen=True):
    """What a strategy does with one shape; queues are counted.

    ``doubled`` and ``unowned`` are those with two owners and with none.  ``least`` and ``most``
    belong to one member; ``idle_members`` have none.  ``moved_leave`` change their owner when
    the last member leaves, ``left_leave`` of them because it had them; ``moved_join`` and
    ``got_join`` the same when one joins.  While half of the members do not know yet that one
    has joined, ``doubled_meanwhile`` have two owners and ``unowned_meanwhile`` none.
    ``idle_read_only`` members have queues of the last broker only, should that be read-only.
    """

    shape: Shape
    doubled: int
    unowned: int
    least: int
    most: int
    idle_members: int
    moved_leave: int
    left_leave: int
    moved_join: int
    got_join: int
    doubled_meanwhile: int
    unowned_meanwhile: int
    idle_read_only: int

    @property
    def is_partition(self) -> bool:
        """Each queue has one owner."""
        return not self.doubled and not self.unowned


class StrategyFailed(Exception):
    """The function raised, or returned what are no queues of the topic; the text says for what."""


def findings(allocate: Allocate, shapes: Iterable[Shape] = SHAPES) -> list[Finding]:
    """One for each shape.  Raises ``StrategyFailed``."""
    return [finding(allocate, shape) for shape in shapes]


def finding(allocate: Allocate, shape: Shape) -> Finding:
    """What *allocate* does with *shape*."""
    queues = in_order(
        MessageQueue("orders", f"broker-{broker}", number)
        for broker in range(shape.brokers)
        for number in range(shape.queues)
    )
    everybody = [f"10.0.0.{number}@1" for number in range(1, shape.members + 2)]
    members = sorted(everybody[:-1], key=java_order)
    joined = sorted(everybody, key=java_order)
    newcomer, leaver = everybody[-1], members[-1]

    before = shares(allocate, queues, members)
    owners = Counter(queue for share in before.values() for queue in share)
    sizes = [len(share) for share in before.values()]
    smaller = shares(allocate, queues, members[:-1]) if len(members) > 1 else {}
    larger = shares(allocate, queues, joined)
    late = members[::2]  # these do not know the newcomer yet
    mixed = {me: before[me] if me in late else larger[me] for me in joined}
    mixed_owners = Counter(queue for share in mixed.values() for queue in share)
    last = queues[-1].broker_name
    return Finding(
        shape=shape,
        doubled=sum(count > 1 for count in owners.values()),
        unowned=len(queues) - len(owners),
        least=min(sizes),
        most=max(sizes),
        idle_members=sizes.count(0),
        moved_leave=moved(before, smaller),
        left_leave=len(before[leaver]),
        moved_join=moved(before, larger),
        got_join=len(larger[newcomer]),
        doubled_meanwhile=sum(count > 1 for count in mixed_owners.values()),
        unowned_meanwhile=len(queues) - len(mixed_owners),
        idle_read_only=sum(
            bool(share) and all(queue.broker_name == last for queue in share)
            for share in before.values()
        ),
    )


def shares(
    allocate: Allocate, queues: Sequence[MessageQueue], members: Sequence[str]
) -> dict[str, list[MessageQueue]]:
    """What each member computes for itself.  Raises ``StrategyFailed``."""
    known = frozenset(queues)
    found = {}
    for me in members:
        what = f"{me} of {len(members)} members, {len(queues)} queues"
        try:
            share = list(allocate(queues, members, me))
            strange = [queue for queue in share if queue not in known]
        except Exception as error:
            raise StrategyFailed(f"{type(error).__name__}: {error} (for {what})") from error
        if strange:
            raise StrategyFailed(f"{strange[0]!r} is no queue of the topic (for {what})")
        found[me] = share
    return found


def moved(before: Shares, after: Shares) -> int:
    """Queues whose owner is another one afterwards."""
    owner = {queue: me for me, share in before.items() for queue in share}
    return sum(owner.get(queue) != me for me, share in after.items() for queue in share)

"""Strategies: which of a topic's queues a member gets.  Every member computes it locally.

A strategy is a name and a pure function of (sorted queues, sorted member ids, own id); queues sort
as themselves, ids by ``java_order``.  Nothing enforces that members use the same lists: while they
differ, queues have two owners or none, and the next pass corrects that.  Ids are of *connections*:
an id listed twice counts twice, and the queues of its second position have no owner.

``averagely_auto`` (apache/rocketmq#3465, never merged) uses AVG_BY_CIRCLE once all members are new
enough: then no member is idle when a broker becomes read-only.  A mix of AVG and AVG_BY_CIRCLE
would leave queues with two owners or none.  Two strategies use only members on chosen hosts.
``refusing`` is the one in articles: the shares of other members have no owner, and a backlog grows
there (``starved`` names the queues).  ``pinned`` removes other members before sharing:
every queue has an owner while one chosen member runs.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from rocketmq_emulator.protocol.allocation import (
    CannotAllocate,
    averagely,
    averagely_by_circle,
    is_member,
)
from rocketmq_emulator.protocol.queues import MessageQueue, java_order
from rocketmq_emulator.protocol.versions import Release

Allocate: TypeAlias = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
AllocateByVersions: TypeAlias = Callable[[Mapping[str, int]], Allocate]  # by client id
Hash: TypeAlias = Callable[[str], int]

VIRTUAL_NODES = 10  # AllocateMessageQueueConsistentHash


class Strategy(NamedTuple):
    """How a group shares queues; *name* is upstream's name of the strategy.

    *by_versions* is for a strategy that depends on the releases of the group's members: it is
    called with their versions before each pass, and returns the function to use instead of
    *allocate* (``averagely_auto``).  Upstream, without that: AllocateMessageQueueStrategy.
    """

    name: str
    allocate: Allocate
    by_versions: AllocateByVersions | None = None


# Strategies without settings ------------------------------------------------------------


AVG = Strategy("AVG", averagely)
AVG_BY_CIRCLE = Strategy("AVG_BY_CIRCLE", averagely_by_circle)


# Strategies with settings ---------------------------------------------------------------


def configured(mine: Sequence[MessageQueue] | None) -> Strategy:
    """Allocate the fixed list *mine*; topic, route and members are ignored.

    Upstream: AllocateMessageQueueByConfig.
    """
    return Strategy("CONFIG", lambda _queues, _members, _me: list(mine or ()))


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Allocate queues of brokers named ``<room>@<name>`` in *rooms*; other queues have no owner.

    All members share these queues, in any room; the remainder is taken from the tail.
    Upstream: AllocateMessageQueueByMachineRoom.
    """

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me):
            return []
        ours = [q for q in queues if _room_in_name(q.broker_name) in rooms]
        share, extra = divmod(len(ours), len(members))
        index = members.index(me)
        tail = share * len(members) + index
        return ours[share * index : share * (index + 1)] + ours[tail : tail + (index < extra)]

    return Strategy("MACHINE_ROOM", allocate)


def nearby(
    inner: Strategy,
    room_of_queue: Callable[[MessageQueue], str],
    room_of_member: Callable[[str], str],
) -> Strategy:
    """Allocate each room's queues to that room's members; all share a room without members.

    Rooms without members are allocated one by one: if each has few queues, the members that sort
    first get queues of every such room.  Upstream: AllocateMachineRoomNearby.
    """

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me):
            return []
        queues_in = _by_room(queues, room_of_queue, "queue")
        members_in = _by_room(members, room_of_member, "member")
        home = room_of_member(me)
        mine = []
        if home in queues_in:
            mine += inner.allocate(queues_in[home], members_in[home], me)
        for room in sorted(queues_in.keys() - members_in.keys(), key=java_order):
            mine += inner.allocate(queues_in[room], members, me)
        return mine

    return Strategy(f"MACHINE_ROOM_NEARBY-{inner.name}", allocate)


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5, unsigned.  Upstream: ConsistentHashRouter.MD5Hash."""
    digest = hashlib.md5(key.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES, hash_of: Hash = md5_hash) -> Strategy:
    """Allocate each queue to the member whose virtual node follows it on a ring of hashes.

    Without virtual nodes no member gets a queue.  Raises ``ValueError`` below 0.

    Upstream: AllocateMessageQueueConsistentHash.
    """
    if virtual_nodes < 0:
        raise ValueError(f"a member cannot have {virtual_nodes} virtual nodes")

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me):
            return []
        ring = HashRing(members, virtual_nodes, hash_of)
        return [queue for queue in queues if ring.owner(str(queue)) == me]

    return Strategy("CONSISTENT_HASH", allocate)


# Parts of strategies ---------------------------------------------------------------------


class HashRing:
    """Members on a ring of hashes: when a member leaves, only its queues change owners.

    Every member has several positions on the ring (its virtual nodes).  A key belongs to the
    first node at or after the key's hash, or after the last node to the first one.
    Upstream: ConsistentHashRouter.
    """

    def __init__(self, members: Sequence[str], virtual_nodes: int, hash_of: Hash) -> None:
        self._hash_of = hash_of
        placed: dict[str, int] = {}
        nodes: dict[int, str] = {}
        for member in members:
            # For an id listed twice the numbers continue: it gets twice as many nodes.
            start = placed.get(member, 0)
            for number in range(start, start + virtual_nodes):
                nodes[hash_of(f"{member}-{number}")] = member  # of two equal hashes the later wins
            placed[member] = start + virtual_nodes
        self._hashes = sorted(nodes)
        self._members = [nodes[at] for at in self._hashes]

    def owner(self, key: str) -> str | None:
        """The member that owns *key*; None on a ring without nodes."""
        if not self._hashes:
            return None
        at = bisect.bisect_left(self._hashes, self._hash_of(key))
        return self._members[at % len(self._members)]


def _room_in_name(broker_name: str) -> str | None:
    # Java's split drops empty strings at the end, so "room@name@" is valid.
    match broker_name.rstrip("@").split("@"):
        case [room, _name]:
            return room
    return None


T = TypeVar("T")


def _by_room(things: Iterable[T], room_of: Callable[[T], str], what: str) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for thing in things:
        if not (room := room_of(thing)):
            raise CannotAllocate(f"the {what} {thing} is in no room")
        rooms.setdefault(room, []).append(thing)
    return rooms


# AVG_AUTO: AVG_BY_CIRCLE once all members are new ------------------------------------


NAME = "AVG_AUTO"


def averagely_auto(newer_than: str | Release) -> Strategy:
    """AVG_BY_CIRCLE if every member's release is above *newer_than*, otherwise AVG.

    Members of other SDKs count with the version that they send, whatever strategy they use.
    Before each pass one random broker of the topic is queried (GET_CONSUMER_CONNECTION_LIST).

    Raises ``ValueError`` for an invalid release.  Upstream: none, see the top of this file.
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


# Only members on chosen hosts ---------------------------------------------------------


def refusing(hosts: Collection[str], inner: Strategy = AVG) -> Strategy:
    """As in articles: members that are not on *hosts* claim nothing; their shares have no owner.

    A member's host is the part of its client id before the ``@``.
    """
    chosen = frozenset(hosts)

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        return inner.allocate(queues, members, me) if host_of(me) in chosen else []

    return Strategy(f"REFUSING-{inner.name}", allocate)


def pinned(hosts: Collection[str], inner: Strategy = AVG) -> Strategy:
    """Members on *hosts* share all queues, the others get none.

    While no member is on *hosts*, no member consumes; that is intended.
    """
    chosen = frozenset(hosts)

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me) or host_of(me) not in chosen:
            return []
        return inner.allocate(queues, [m for m in members if host_of(m) in chosen], me)

    return Strategy(f"PINNED-{inner.name}", allocate)


def host_of(client_id: str) -> str:
    """The address in a client id: ``10.0.0.7`` for ``10.0.0.7@billing``."""
    return client_id.partition("@")[0]

"""Queues on a ring of hashed members: one that leaves moves only its own queues.

Every member stands on the ring several times (its virtual nodes); a queue belongs to
the first node at or after its own hash, round the end to the smallest.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emulator.client.consumer.allocation import Strategy, is_member

if TYPE_CHECKING:
    from protocol.queues import MessageQueue

Hash = Callable[[str], int]

VIRTUAL_NODES = 10  # AllocateMessageQueueConsistentHash


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5, unsigned.  Upstream: ConsistentHashRouter.MD5Hash."""
    digest = hashlib.md5(key.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES, hash_of: Hash = md5_hash) -> Strategy:
    """No virtual nodes at all is allowed: then nobody gets anything.

    Upstream: AllocateMessageQueueConsistentHash.
    """
    if virtual_nodes < 0:
        raise ValueError(f"a member cannot have {virtual_nodes} virtual nodes")

    def allocate(
        queues: Sequence[MessageQueue], members: Sequence[str], me: str
    ) -> list[MessageQueue]:
        if not is_member(queues, members, me):
            return []
        ring = Ring(members, virtual_nodes, hash_of)
        return [queue for queue in queues if ring.owner(str(queue)) == me]

    return Strategy("CONSISTENT_HASH", allocate)


class Ring:
    """Where each member's virtual nodes stand.  Upstream: ConsistentHashRouter."""

    def __init__(self, members: Sequence[str], virtual_nodes: int, hash_of: Hash) -> None:
        self._hash_of = hash_of
        placed: dict[str, int] = {}
        nodes: dict[int, str] = {}
        for member in members:
            # An id listed twice goes on counting: it gets twice as many nodes.
            start = placed.get(member, 0)
            for number in range(start, start + virtual_nodes):
                nodes[hash_of(f"{member}-{number}")] = member  # the later of two equals stays
            placed[member] = start + virtual_nodes
        self._hashes = sorted(nodes)
        self._members = [nodes[at] for at in self._hashes]

    def owner(self, key: str) -> str | None:
        if not self._hashes:
            return None
        at = bisect.bisect_left(self._hashes, self._hash_of(key))
        return self._members[at % len(self._members)]

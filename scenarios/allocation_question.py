"""How evenly a strategy shares queues, and what it moves: a question to its function alone.

A run of this question needs no cluster.  The seed makes the ids of the group's members, as real
clients make theirs; all else is arithmetic.  Averagely and by circle depend on ids through their
order only; a ring of hashes depends on every character, so there one set of ids says little and
ten thousand sets say what to expect.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from emulator.client.consumer.allocation import HashRing, md5_hash
from protocol.queues import MessageQueue, in_order, java_order
from scenarios.client_ids import FORMATS, ClientIds
from scenarios.problems import nearest
from scenarios.strategies import strategy_named
from scenarios.strategy_judge import shares

Owners: TypeAlias = Mapping[MessageQueue, str]
Owning: TypeAlias = Callable[[Sequence[str]], Owners]  # members, in order -> each queue's owner

MEMBERS_MAX, QUEUES_MAX, NODES_MAX = 1_000, 100_000, 10_000
RING = "consistent_hash"


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked.  *topics* have *queues* on each of *brokers*; a group of *members*.

    ``ids`` is a name of ``client_ids.FORMATS``.  ``virtual_nodes`` count for the ring of hashes
    only.  With ``restart`` all members are restarted one by one, too.
    """

    strategy: str = "averagely"
    brokers: int = 1
    queues: int = 8
    members: int = 3
    topics: int = 1
    virtual_nodes: int = 10
    ids: str = "ip_pid_nanos"
    restart: bool = False

    def __post_init__(self) -> None:
        counts = {"brokers": self.brokers, "queues": self.queues, "members": self.members}
        for name, count in (counts | {"topics": self.topics}).items():
            if count < 1:
                raise ValueError(f"{name} is 1 or more, not {count}")
        if self.members > MEMBERS_MAX:
            raise ValueError(f"members is at most {MEMBERS_MAX:,}, not {self.members:,}")
        if self.queue_count > QUEUES_MAX:
            raise ValueError(f"{self.queue_count:,} queues are more than {QUEUES_MAX:,}")
        if not 0 <= self.virtual_nodes <= NODES_MAX:
            raise ValueError(f"virtual_nodes is 0 to {NODES_MAX:,}, not {self.virtual_nodes:,}")
        if self.ids not in FORMATS:
            known = nearest(self.ids, FORMATS)
            raise ValueError(f"there is no format of ids {self.ids!r}{known}")

    @property
    def queue_count(self) -> int:
        """Of all topics."""
        return self.topics * self.brokers * self.queues


def allocation(asked: Allocation, seed: int) -> dict[str, float]:
    """What the group of *seed* comes to; queues and members are counted.

    ``queues_min``, ``queues_max``, ``queues_sigma`` (of the whole population) and
    ``first_queues`` (of the member that sorts first) are of members before anything changes.
    ``max_to_min`` is missing when somebody is idle.  ``moves_leave`` change their owner when the
    member that sorts last leaves, ``necessary_leave`` of them because it had them;
    ``moves_join`` and ``necessary_join`` the same when one joins.  With several brokers:
    ``read_only_idle_members`` have queues of the last one only, should that be read-only, and
    ``read_only_max_to_mean`` is the largest share then.  ``moves_restart`` counts while all
    members are restarted one by one.
    Raises ``ValueError`` for a strategy that there is not, ``StrategyFailed`` for one that fails.
    """
    queues = _topics_of(asked)
    owning = _owning(asked, queues)
    ids = ClientIds(FORMATS[asked.ids], random.Random(seed))
    members = sorted((ids.start(at) for at in range(asked.members)), key=java_order)
    before = owning(members)
    found = _evenness(before, members)
    found["moves_leave"] = _moved(before, owning(members[:-1])) if asked.members > 1 else 0
    found["necessary_leave"] = _count(before, members[-1])
    newcomer = ids.start(asked.members)
    after = owning(sorted([*members, newcomer], key=java_order))
    found["moves_join"] = _moved(before, after)
    found["necessary_join"] = _count(after, newcomer)
    if asked.brokers > 1:
        found |= _read_only(before, members)
    if asked.restart and asked.members > 1:
        found |= _restarts(asked, owning, random.Random(seed))
    return found


def owners_of(asked: Allocation, members: Sequence[str]) -> Owners:
    """Who has which queue, when all of *members* (in order) agree."""
    return _owning(asked, _topics_of(asked))(members)


def _topics_of(asked: Allocation) -> list[list[MessageQueue]]:
    return [
        in_order(
            MessageQueue(f"orders-{topic}" if topic else "orders", f"broker-{broker}", number)
            for broker in range(asked.brokers)
            for number in range(asked.queues)
        )
        for topic in range(asked.topics)
    ]


def _owning(asked: Allocation, topics: Sequence[Sequence[MessageQueue]]) -> Owning:
    """Every strategy through its own function; the ring is built once, not once a member."""
    if asked.strategy == RING:
        keys = [(queue, str(queue)) for queues in topics for queue in queues]

        def on_ring(members: Sequence[str]) -> Owners:
            ring = HashRing(members, asked.virtual_nodes, _known_hash)
            return {queue: ring.owner(key) or "" for queue, key in keys}

        return on_ring
    allocate = strategy_named(asked.strategy).allocate

    def by_members(members: Sequence[str]) -> Owners:
        return {
            queue: me
            for queues in topics
            for me, share in shares(allocate, queues, members).items()
            for queue in share
        }

    return by_members


@functools.lru_cache(maxsize=1 << 16)
def _known_hash(key: str) -> int:
    return md5_hash(key)


def _evenness(owners: Owners, members: Sequence[str]) -> dict[str, float]:
    counts = Counter(owners.values())
    sizes = [counts[member] for member in members]
    mean = sum(sizes) / len(sizes)
    least, most = min(sizes), max(sizes)
    found: dict[str, float] = {
        "queues_min": least,
        "queues_max": most,
        "queues_sigma": (sum((size - mean) ** 2 for size in sizes) / len(sizes)) ** 0.5,
        "idle_members": sizes.count(0),
        "first_queues": sizes[0],
    }
    if least:
        found["max_to_min"] = most / least
    if mean:
        found["max_to_mean"] = most / mean
    return found


def _moved(before: Owners, after: Owners) -> int:
    return sum(before.get(queue) != owner for queue, owner in after.items())


def _count(owners: Owners, member: str) -> int:
    return sum(owner == member for owner in owners.values())


def _read_only(owners: Owners, members: Sequence[str]) -> dict[str, float]:
    """What is left of each share when nothing comes to the queues of the last broker."""
    last = max(queue.broker_name for queue in owners)
    written = Counter(owner for queue, owner in owners.items() if queue.broker_name != last)
    held = Counter(owners.values())
    idle = sum(held[member] > 0 and not written[member] for member in members)
    return {
        "read_only_idle_members": idle,
        "read_only_idle_share": idle / len(members),
        "read_only_max_to_mean": max(written.values()) * len(members) / written.total(),
    }


def _restarts(asked: Allocation, owning: Owning, rng: random.Random) -> dict[str, float]:
    """Each member leaves, and is back with the id of a new process before the next one leaves."""
    ids = ClientIds(FORMATS[asked.ids], rng)
    group = [ids.start(at) for at in range(asked.members)]
    owners, moved = owning(sorted(group, key=java_order)), 0
    for at in range(asked.members):
        others = group[:at] + group[at + 1 :]
        group[at] = ids.start(at)
        for members in (others, group):
            now = owning(sorted(members, key=java_order))
            moved += _moved(owners, now)
            owners = now
    return {"moves_restart": moved, "moves_restart_per_queue": moved / max(1, len(owners))}

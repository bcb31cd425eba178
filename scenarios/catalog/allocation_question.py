"""How evenly a strategy shares queues, and how many it moves: a question to its function alone.

A run of this question needs no cluster.  The seed makes the ids of the group's members, as real
clients make theirs (``<address>@<instance name>``); all else is arithmetic.  Averagely and by
circle depend only on the order of ids, and the address comes first in it.  A hash ring depends on
every character, of the names of topics and brokers too: one set of names shows little about it,
ten thousand sets show the distribution.  The read-only broker and the member that leaves are
parameters: a result for the last one need not hold for the others.

A Java client whose instance name was not set uses ``<process id>#<nanoseconds>`` since 4.9, and
its process id alone before, as clients in Go and C++ do; in containers the process id is often 1.
Upstream: ClientConfig.buildMQClientId, changeInstanceNameToPID (reference, client behaviour 1.1).
"""

from __future__ import annotations

import functools
import random
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from rocketmq_emulator.client.consumer.group.allocation import HashRing, md5_hash
from rocketmq_emulator.protocol.queues import MessageQueue, java_order, sorted_queues
from rocketmq_emulator.scenarios.catalog.strategy_judge import shares
from rocketmq_emulator.scenarios.plan.strategies import strategy_named
from rocketmq_emulator.text.suggestions import suggestion

Owners: TypeAlias = Mapping[MessageQueue, str]
OwnersOf: TypeAlias = Callable[[Sequence[str]], Owners]  # members, in order -> each queue's owner

MEMBERS_MAX, QUEUES_MAX, NODES_MAX = 1_000, 100_000, 10_000
RING = "consistent_hash"
POSITIONS: Mapping[str, Callable[[int], int]] = {  # from the number of things to an index
    "first": lambda _: 0,
    "middle": lambda count: count // 2,
    "last": lambda count: count - 1,
}
ANY = "any"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters.  *topics* have *queues* on each of *brokers*; the group has *members*.

    ``ids`` is a name of ``FORMATS``.  ``virtual_nodes`` matter for the hash ring only.  With
    ``restart`` all members are restarted one by one, too; with ``surge`` each new process starts
    before the old one ends.  ``leaver`` is a name of ``POSITIONS``, among sorted ids, or ``ANY``:
    then the seed draws it.  ``read_only`` is a name of ``POSITIONS``, among sorted brokers, or a
    broker's name.  With ``ANY`` as ``topic`` the seed draws the names of topics and brokers.
    """

    strategy: str = "averagely"
    brokers: int = 1
    queues: int = 8
    members: int = 3
    topics: int = 1
    virtual_nodes: int = 10
    ids: str = "ip_pid_nanos"
    restart: bool = False
    surge: bool = False
    leaver: str = "last"
    read_only: str = "last"
    topic: str = "orders"

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
        _check("ids", self.ids, FORMATS)
        _check("leaver", self.leaver, (*POSITIONS, ANY))
        named = () if self.topic == ANY else _brokers(self.brokers)
        _check("read_only", self.read_only, (*POSITIONS, *named))
        if not self.topic:
            raise ValueError(f"topic is a name, or {ANY}, not empty")

    @property
    def queue_count(self) -> int:
        """The number of queues of all topics."""
        return self.topics * self.brokers * self.queues


def allocation(asked: Allocation, seed: int) -> dict[str, float]:
    """The metrics of the group of *seed*: numbers of queues and members, and their ratios.

    ``queues_min``, ``queues_max``, ``queues_sigma`` (of the whole population) and
    ``first_queues`` (of the member that sorts first) are queues of a member before any change.
    ``max_to_min`` is missing if a member is idle.  ``moves_leave`` queues change their owner when
    the *leaver* leaves, ``necessary_leave`` of them because they were its queues; ``moves_join``
    and ``necessary_join`` are the same when a member joins.  With more than one broker:
    ``read_only_idle_members`` have queues of the read-only broker only, and
    ``read_only_max_to_mean`` compares shares without its queues; ``read_only_least_share``,
    ``read_only_mean_share`` and ``read_only_most_share`` are fractions of idle members over all
    brokers, one read-only at a time.  ``moves_restart`` counts while all members are restarted
    one by one.  Raises ``ValueError`` for an unknown strategy, ``StrategyFailed`` if it fails.
    """
    queues = _topics_of(asked, seed)
    owning = _owning(asked, queues)
    ids = ClientIds(FORMATS[asked.ids], random.Random(seed))
    members = sorted((ids.start(at) for at in range(asked.members)), key=java_order)
    before = owning(members)
    found = _evenness(before, members)
    leaver = members[_leaver_at(asked, seed)]
    others = [member for member in members if member != leaver]
    found["moves_leave"] = _moved(before, owning(others)) if others else 0
    found["necessary_leave"] = _count(before, leaver)
    newcomer = ids.start(asked.members)
    after = owning(sorted([*members, newcomer], key=java_order))
    found["moves_join"] = _moved(before, after)
    found["necessary_join"] = _count(after, newcomer)
    if asked.brokers > 1:
        found |= _read_only(before, members, asked.read_only)
    if asked.restart and asked.members > 1:
        found |= _restarts(asked, owning, random.Random(seed))
    return found


def owners_of(asked: Allocation, members: Sequence[str]) -> Owners:
    """The owner of each queue, if all members have the same list *members* (in order)."""
    return _owning(asked, _topics_of(asked, 0))(members)


def _check(name: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        text = f"{name} is one of {', '.join(known)}, not {given!r}{suggestion(given, known)}"
        raise ValueError(text)


def _brokers(count: int) -> list[str]:
    return [f"broker-{number}" for number in range(count)]


def _topics_of(asked: Allocation, seed: int) -> list[list[MessageQueue]]:
    """The queues of each topic; drawing names does not change the client ids of the seed."""
    topic, brokers = asked.topic, _brokers(asked.brokers)
    if topic == ANY:
        rng = random.Random(f"names of {seed}")
        topic = "".join(rng.choices(LETTERS, k=8))
        start = "".join(rng.choices(LETTERS, k=4))
        brokers = [f"{start}-{number}" for number in rng.sample(range(10_000), asked.brokers)]
    return [
        sorted_queues(
            MessageQueue(f"{topic}-{number}" if number else topic, broker, queue)
            for broker in brokers
            for queue in range(asked.queues)
        )
        for number in range(asked.topics)
    ]


def _leaver_at(asked: Allocation, seed: int) -> int:
    if asked.leaver == ANY:
        return random.Random(f"leaver of {seed}").randrange(asked.members)
    return POSITIONS[asked.leaver](asked.members)


def _owning(asked: Allocation, topics: Sequence[Sequence[MessageQueue]]) -> OwnersOf:
    """The owners by the strategy's function; the hash ring is built once, not for each member."""
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


def _read_only(owners: Owners, members: Sequence[str], which: str) -> dict[str, float]:
    """Metrics of the shares without the queues of one broker."""
    brokers = sorted({queue.broker_name for queue in owners})
    one = brokers[POSITIONS[which](len(brokers))] if which in POSITIONS else which
    held = Counter(owners.values())
    left = {broker: _written(owners, broker) for broker in brokers}
    idle = {
        broker: sum(held[member] > 0 and not written[member] for member in members)
        for broker, written in left.items()
    }
    shares_of_idle = [count / len(members) for count in idle.values()]
    return {
        "read_only_idle_members": idle[one],
        "read_only_idle_share": idle[one] / len(members),
        "read_only_max_to_mean": max(left[one].values()) * len(members) / left[one].total(),
        "read_only_least_share": min(shares_of_idle),
        "read_only_mean_share": sum(shares_of_idle) / len(brokers),
        "read_only_most_share": max(shares_of_idle),
    }


def _written(owners: Owners, read_only: str) -> Counter[str]:
    """The number of queues of each member that are not on the broker *read_only*."""
    return Counter(owner for queue, owner in owners.items() if queue.broker_name != read_only)


def _restarts(asked: Allocation, owning: OwnersOf, rng: random.Random) -> dict[str, float]:
    """Each member leaves, and joins with the id of a new process before the next one leaves.

    With a surge the new process joins before the old one leaves.
    """
    ids = ClientIds(FORMATS[asked.ids], rng)
    group = [ids.start(at) for at in range(asked.members)]
    owners, moved = owning(sorted(group, key=java_order)), 0
    for at in range(asked.members):
        before = list(group)
        group[at] = ids.start(at)
        between = [*before, group[at]] if asked.surge else before[:at] + before[at + 1 :]
        for members in (between, group):
            now = owning(sorted(members, key=java_order))
            moved += _moved(owners, now)
            owners = now
    return {"moves_restart": moved, "moves_restart_per_queue": moved / max(1, len(owners))}


# Client ids as real clients make them -------------------------------------------------


IdPart: TypeAlias = Callable[[random.Random], str]

HOSTS_A_SUBNET = 250
PID_MAX = 32_768  # the default of Linux
NANOS_MAX = 10**16  # System.nanoTime on a machine that has been up for some months
POD_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes uses no vowels, so names are no words


class IdFormat(NamedTuple):
    """Makes an instance name and an address; with *keeps_address* a restart keeps the address.

    Without *address* the members have consecutive addresses of one subnet, by their numbers.
    """

    instance: IdPart
    address: IdPart | None = None
    keeps_address: bool = True


class ClientIds:
    """Client ids of one group's members; a member that starts again gets another id."""

    def __init__(self, kind: IdFormat, rng: random.Random) -> None:
        self._kind = kind
        self._rng = rng
        self._subnet = rng.randrange(256), rng.randrange(250)
        self._first = rng.randrange(HOSTS_A_SUBNET)
        self._addresses: dict[int, str] = {}
        self._given: set[str] = set()

    def start(self, at: int) -> str:
        """The id of member number *at*, which starts now; it differs from all ids before."""
        while True:
            made = f"{self._address(at)}@{self._kind.instance(self._rng)}"
            if made not in self._given:
                self._given.add(made)
                return made

    def _address(self, at: int) -> str:
        if self._kind.address is None:
            second, third = self._subnet
            subnets, host = divmod(self._first + at, HOSTS_A_SUBNET)
            return f"10.{second}.{third + subnets}.{host + 1}"
        if not self._kind.keeps_address or at not in self._addresses:
            self._addresses[at] = self._kind.address(self._rng)
        return self._addresses[at]


def _any_address(rng: random.Random) -> str:
    return f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _pod_address(rng: random.Random) -> str:
    return f"10.244.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def _pid(rng: random.Random) -> str:
    return str(rng.randrange(2, PID_MAX))


def _pid_nanos(rng: random.Random) -> str:
    return f"{_pid(rng)}#{rng.randrange(NANOS_MAX)}"


def _first_pid_nanos(rng: random.Random) -> str:
    return f"1#{rng.randrange(NANOS_MAX)}"


def _pod_name(rng: random.Random) -> str:
    return f"billing-7d9c5b6f48-{''.join(rng.choices(POD_LETTERS, k=5))}"


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


FORMATS: Mapping[str, IdFormat] = {
    "ip_pid": IdFormat(_pid),
    "ip_pid_nanos": IdFormat(_pid_nanos),
    "any_ip_pid_nanos": IdFormat(_pid_nanos, _any_address),
    "container": IdFormat(_first_pid_nanos, _pod_address, keeps_address=False),
    "pod_name": IdFormat(_pod_name, _pod_address, keeps_address=False),
    "uuid": IdFormat(_uuid, _pod_address, keeps_address=False),
}

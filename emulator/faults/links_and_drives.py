"""What can go wrong with links and drives, as values with a lifetime and a count.

A stream never loses bytes, it only gets late or gets cut: so a rule says how late, or closes a
gate that later bytes queue behind, or cuts.  A rule is *traffic* (which way between which
machines) and a *verdict* (what happens there); it knows no bytes.

A drive can be full, slow, or refuse to flush.  Such faults begin and end at any time, in any
order; of several that hold at once the strictest decides: the least room, the slowest flush; and
each refuses by its own chance.

Each carries a ``Tally`` of what it did: a fault that holds and never met any traffic has an empty
one, and the test that began it tested nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random


# What a fault did ---------------------------------------------------------------------


class Tally:
    """``count`` is how often the fault changed what happened; ``times`` has it by kind.

    ``on_first(what)`` is called at the first one, in the middle of what happens: it may
    note a fact and nothing else.
    """

    __slots__ = ("count", "held_bytes", "on_first", "times")

    def __init__(self, on_first: Callable[[str], object] | None = None) -> None:
        self.count = 0
        self.held_bytes = 0  # of links: how much ever waited because of it
        self.times: dict[str, int] = {}
        self.on_first = on_first

    def add(self, what: str, times: int = 1, *, held_bytes: int = 0) -> None:
        """The fault did *what*, *times* times."""
        if not times:
            return
        is_first = not self.count
        self.count += times
        self.held_bytes += held_bytes
        self.times[what] = self.times.get(what, 0) + times
        if is_first and self.on_first is not None:
            self.on_first(what)


# Rules of links -----------------------------------------------------------------------


Traffic: TypeAlias = Callable[[str, str], bool]  # (source, target): is this way meant?
Distribution: TypeAlias = Literal["uniform", "normal", "exponential", "pareto"]

PARETO_SHAPE = 1.5  # its mean exists, its variance does not: now and then one is very late
JITTER_MS_MAX = 60_000.0  # of the two that have no bound

_DRAWS: Mapping[Distribution, Callable[[Random, float], float]] = {
    "uniform": lambda rng, ms: rng.random() * ms,
    "normal": lambda rng, ms: rng.normalvariate(0.0, ms),
    "exponential": lambda rng, ms: rng.expovariate(1.0) * ms,
    "pareto": lambda rng, ms: (rng.paretovariate(PARETO_SHAPE) - 1.0) * ms,
}


class Slow(msgspec.Struct, frozen=True):
    """Later by ``ms`` and by chance; order is kept within each stream.

    By ``distribution`` chance adds: *uniform* up to ``jitter_ms``; *normal* as much either
    way (one standard deviation, and never earlier than without the rule); *exponential*
    ``jitter_ms`` in the mean; *pareto* half of the time less than 0.6 of it, twice as much in
    the mean, and at times a hundredfold.

    Raises ``ValueError`` with the name of the field that is wrong.
    """

    ms: float
    jitter_ms: float = 0.0
    distribution: Distribution = "uniform"

    def __post_init__(self) -> None:
        for name in ("ms", "jitter_ms"):
            if not 0 <= (given := getattr(self, name)) < float("inf"):
                raise ValueError(f"{name} is a number from 0 on, not {given}")
        if self.distribution not in _DRAWS:
            known = ", ".join(_DRAWS)
            raise ValueError(f"distribution is one of {known}, not {self.distribution}")

    def late_us(self, rng: Random) -> int:
        """How much later one thing is."""
        if not self.jitter_ms:
            return round(self.ms * 1000)
        drawn_ms = min(_DRAWS[self.distribution](rng, self.jitter_ms), JITTER_MS_MAX)
        return max(round((self.ms + drawn_ms) * 1000), 0)


class Throttle(msgspec.Struct, frozen=True):
    """At most ``bytes_per_s`` leave, each way between two hosts; their streams share it.

    What waits counts as unsent with its sender; when the rule ends, all of it leaves.
    """

    bytes_per_s: int

    def __post_init__(self) -> None:
        if self.bytes_per_s < 1:
            raise ValueError(f"bytes_per_s is a number from 1 on, not {self.bytes_per_s}")


class Stall(msgspec.Struct, frozen=True):
    """Nothing passes; when the rule ends, what was held leaves in the order it came."""


class Separate(msgspec.Struct, frozen=True):
    """Nothing passes, and what asks for a connection is lost: nobody can connect.

    Open streams stay and hold what is sent.  Who connects gets no answer, not a refusal; its
    kernel asks again after 1, 3, 7, 15 … s, so that an attempt may outlast the rule.
    """


class Refuse(msgspec.Struct, frozen=True):
    """Nobody can connect; open streams stay."""


class Cut(msgspec.Struct, frozen=True):
    """Open streams are reset when the rule begins, and nobody can connect while it holds."""


Verdict: TypeAlias = Slow | Throttle | Stall | Separate | Refuse | Cut


class Rule(msgspec.Struct, frozen=True, eq=False):
    """Compared by identity: two equal faults may hold at once, and end one by one."""

    traffic: Traffic
    verdict: Verdict
    tally: Tally = msgspec.field(default_factory=Tally)


def everything(_source: str, _target: str) -> bool:
    """All traffic between different hosts."""
    return True


def one_way(sources: str | list[str], targets: str | list[str]) -> Traffic:
    """From any of *sources* to any of *targets*, not back."""
    left, right = _names(sources), _names(targets)
    return lambda source, target: source in left and target in right


def between(some: str | list[str], others: str | list[str]) -> Traffic:
    """Both ways between *some* and *others*."""
    left, right = _names(some), _names(others)
    return lambda source, target: (
        (source in left and target in right) or (source in right and target in left)
    )


def around(names: str | list[str]) -> Traffic:
    """Both ways between *names* and everybody else; among themselves nothing changes."""
    inside = _names(names)
    return lambda source, target: (source in inside) != (target in inside)


def leaving(names: str | list[str]) -> Traffic:
    """What *names* send to others."""
    inside = _names(names)
    return lambda source, target: source in inside and target not in inside


def reaching(names: str | list[str]) -> Traffic:
    """What others send to *names*."""
    inside = _names(names)
    return lambda source, target: source not in inside and target in inside


def _names(names: str | list[str]) -> frozenset[str]:
    return frozenset([names] if isinstance(names, str) else names)


# Faults of drives ---------------------------------------------------------------------


class NoRoom(msgspec.Struct, frozen=True):
    """Only ``free_bytes`` more can be written, counted from when it begins.

    Whoever removes something has that room again.
    """

    free_bytes: int = 0

    def __post_init__(self) -> None:
        if self.free_bytes < 0:
            raise ValueError(f"free_bytes is a number from 0 on, not {self.free_bytes}")


class SlowFlushes(msgspec.Struct, frozen=True):
    """A flush takes at least ``flush_ms``, and what ``bytes_per_s`` makes of its size.

    A flush that is under way when this begins or ends does the rest at the new speed.
    """

    flush_ms: float = 0.0
    bytes_per_s: float = float("inf")

    def __post_init__(self) -> None:
        if not 0 <= self.flush_ms < float("inf"):
            raise ValueError(f"flush_ms is a number from 0 on, not {self.flush_ms}")
        if not self.bytes_per_s >= 1:
            raise ValueError(f"bytes_per_s is a number from 1 on, not {self.bytes_per_s}")


class FailingFlushes(msgspec.Struct, frozen=True):
    """A flush that ends while this holds is an error, with ``probability``.

    Nothing of it is on the platter then; who flushes again flushes all of it.
    """

    probability: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is a number from 0 to 1, not {self.probability}")


DriveCondition: TypeAlias = NoRoom | SlowFlushes | FailingFlushes
T = TypeVar("T", NoRoom, SlowFlushes, FailingFlushes)


class DriveFault(msgspec.Struct, eq=False):
    """Compared by identity: two equal ones may hold at once, and end one by one."""

    condition: DriveCondition
    tally: Tally = msgspec.field(default_factory=Tally)
    used_bytes: int = 0  # of the drive, when it began


class DriveFaults:
    """Those that hold at one drive."""

    def __init__(self) -> None:
        self._held: list[DriveFault] = []

    def begin(self, fault: DriveFault, used_bytes: int) -> None:
        """*fault* holds from now on; so much was used when it began."""
        fault.used_bytes = used_bytes
        self._held.append(fault)

    def end(self, fault: DriveFault) -> None:
        """*fault* holds no more."""
        self._held.remove(fault)

    def bytes_max(self, bytes_max: int, wanted: int) -> int:
        """How much may be used in all; *wanted* is what somebody is about to use."""
        least = bytes_max
        for fault, condition in self._of(NoRoom):
            room = fault.used_bytes + condition.free_bytes
            least = min(least, room)
            fault.tally.add("refused a write", wanted > room)
        return least

    def flush_us(self, size: int, seek_ms: float, bytes_per_s: float) -> int:
        """How long a flush of *size* bytes takes at the speed that holds now."""
        for fault, condition in self._of(SlowFlushes):
            seek_ms = max(seek_ms, condition.flush_ms)
            bytes_per_s = min(bytes_per_s, condition.bytes_per_s)
            fault.tally.add("slowed a flush")
        return round(seek_ms * 1_000 + size * 1_000_000 / bytes_per_s)

    def fails_flush(self, rng: Random) -> bool:
        """Does a flush that ends now fail?"""
        fails = False
        for fault, condition in self._of(FailingFlushes):
            if condition.probability >= 1 or rng.random() < condition.probability:
                fault.tally.add("refused a flush")
                fails = True
        return fails

    def _of(self, kind: type[T]) -> Iterable[tuple[DriveFault, T]]:
        return [(f, f.condition) for f in self._held if isinstance(f.condition, kind)]

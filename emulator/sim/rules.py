"""What can go wrong between two machines, as rules with a lifetime.

A stream never loses bytes, it only gets late or gets cut: so a rule says how late, or
closes a gate that later bytes queue behind, or cuts.  A rule is *traffic* (which way
between whom) and a *verdict* (what happens there); it knows no bytes.  Its *tally* counts
what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from emulator.sim.tally import Tally

if TYPE_CHECKING:
    from random import Random

Traffic: TypeAlias = Callable[[str, str], bool]  # (source, target): is this way meant?
Shape: TypeAlias = Literal["uniform", "normal", "exponential", "pareto"]

PARETO_SHAPE = 1.5  # its mean exists, its variance does not: now and then one is very late
JITTER_MS_MAX = 60_000.0  # of the two that have no bound

_DRAWS: Mapping[Shape, Callable[[Random, float], float]] = {
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
    distribution: Shape = "uniform"

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

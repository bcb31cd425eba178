"""What can go wrong between two machines, as rules with a lifetime.

A stream never loses bytes, it only gets late or gets cut: so a rule says how late, or
closes a gate that later bytes queue behind, or cuts.  A rule is *traffic* (which way
between whom) and a *verdict* (what happens there); it knows no bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

Traffic: TypeAlias = Callable[[str, str], bool]  # (source, target): is this way meant?


class Slow(msgspec.Struct, frozen=True):
    """Later by ``ms``, and by up to ``jitter_ms`` more; order is kept within each stream."""

    ms: float
    jitter_ms: float = 0.0


class Stall(msgspec.Struct, frozen=True):
    """Nothing passes; when the rule ends, what was held leaves in the order it came."""


class Refuse(msgspec.Struct, frozen=True):
    """Nobody can connect; open streams stay."""


class Cut(msgspec.Struct, frozen=True):
    """Open streams are reset when the rule begins, and nobody can connect while it holds."""


Verdict: TypeAlias = Slow | Stall | Refuse | Cut


class Rule(msgspec.Struct, frozen=True, eq=False):
    """Compared by identity: two equal faults may hold at once, and end one by one."""

    traffic: Traffic
    verdict: Verdict


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

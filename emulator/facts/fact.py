"""The base of every fact, and the name of a queue in facts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import ClassVar, Literal

import msgspec

SCHEMA_VERSION = 5

Severity = Literal["debug", "info", "warning", "error"]


class Fact(msgspec.Struct, frozen=True, tag=True, tag_field="kind", gc=False):
    """Something that happened, in the past tense.

    ``severity`` decides where it is shown: ``debug`` in journals only (routine), ``info`` also
    in logs on request (``--log``), ``warning`` and ``error`` always on standard error too.
    ``on_demand`` facts are written only by a journal in which their kind is enabled.
    ``advice`` is the operator's remedy, shown beside the fact.  A log shows the ``sentence`` of
    a fact instead of its fields, if it has one.
    """

    severity: ClassVar[Severity] = "info"
    on_demand: ClassVar[bool] = False
    advice: ClassVar[str] = ""

    def sentence(self) -> str:
        """The fact in plain words, with its numbers and advice; empty: logs show the fields."""
        return ""


Note = Callable[[Fact], None]


class Queue(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """A message queue's name in facts."""

    topic: str
    broker: str
    queue_id: int


def kinds_on_demand(names: Collection[str]) -> frozenset[type[Fact]]:
    """The facts of these *names*; raises ``ValueError`` for a name that is no fact on demand."""
    if not names:
        return frozenset()
    known = {kind.__name__: kind for kind in all_facts() if kind.on_demand}
    if unknown := sorted(set(names) - known.keys()):
        raise ValueError(f"{', '.join(unknown)} cannot be asked for, only {', '.join(known)}")
    return frozenset(known[name] for name in names)


@cache
def all_facts() -> tuple[type[Fact], ...]:
    """Every kind of fact that is defined in ``rocketmq_emulator.facts``, by name."""
    kinds = (kind for kind in Fact.__subclasses__() if kind.__module__.startswith(__package__))
    return tuple(sorted(kinds, key=lambda kind: kind.__name__))

"""Expectations of a scenario, as Python comparisons: ``idle_members("billing") == 0``.

A metric is a number that the checkers compute from a run's journal (docs/checkers.md), for the
whole run, or for one group, topic or broker.  Comparing it gives an ``Expectation``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rocketmq_emulator.scenarios.plan.plan import Expectation


class Measured:
    """A metric of a run, to be compared with ``==``, ``<=`` or ``>=``."""

    def __init__(self, name: str, scope: str = "") -> None:
        self.name, self.scope = name, scope

    def __eq__(self, bound: object) -> Expectation:  # type: ignore[override]
        """Expect exactly *bound*."""
        return Expectation(metric=self.name, operator="==", bound=_number(bound), scope=self.scope)

    def __le__(self, bound: float) -> Expectation:
        """Expect at most *bound*."""
        return Expectation(metric=self.name, operator="<=", bound=_number(bound), scope=self.scope)

    def __ge__(self, bound: float) -> Expectation:
        """Expect at least *bound*."""
        return Expectation(metric=self.name, operator=">=", bound=_number(bound), scope=self.scope)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """Raises ``TypeError``: a metric has no value while a scenario is recorded."""
        raise TypeError(f"{self.name} has no value yet: compare it, and give that to run.expect")

    def __repr__(self) -> str:
        return f"{self.name}({self.scope!r})" if self.scope else f"{self.name}()"


Asked: TypeAlias = Callable[..., Measured]


def metric(name: str, of: str = "") -> Measured:
    """The metric *name*, *of* one group, topic or broker, or of the whole run if empty."""
    return Measured(name, of)


def nothing_lost() -> Expectation:
    """Expect that every group consumed every acknowledged message (see ``lost``)."""
    return Measured("lost") == 0


def duplicates(of: str = "") -> Measured:
    """Messages delivered again."""
    return Measured("duplicates", of)


def unowned_s(of: str = "") -> Measured:
    """Seconds without an owner after the group's start-up, of the queue with most."""
    return Measured("unowned_s", of)


def overlap_s(of: str = "") -> Measured:
    """Seconds with two owners after the group's start-up, of the queue with most."""
    return Measured("overlap_s", of)


def idle_members(of: str = "") -> Measured:
    """Members of a group that got no message for 10 s or more."""
    return Measured("idle_members", of)


def failed_sends(of: str = "") -> Measured:
    """Sends that ended with an error."""
    return Measured("failed_sends", of)


def backlog(of: str = "") -> Measured:
    """Messages left to consume at the end."""
    return Measured("backlog", of)


def _number(bound: object) -> float:
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise TypeError(f"a metric is compared with a number, not {bound!r}")
    return float(bound)

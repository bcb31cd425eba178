"""What a run ends as: one row, the same from the runner, from tests and from a sweep."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from emulator.checks.violation import Violation

Verdict: TypeAlias = Literal["passed", "failed", "error"]
RowWorld: TypeAlias = Literal["virtual", "embedded", "processes", "function"]


class Unmet(msgspec.Struct, frozen=True):
    """An expectation that did not hold."""

    expected: str  # "duplicates <= 64"
    actual: float


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """``failed``: a rule was broken or an expectation not met; ``error``: there is no answer.

    ``reason`` is one line for people; empty when passed.  ``function``: a question's answer.
    """

    scenario: str
    code_version: str
    world: RowWorld
    release: str
    parameters: dict[str, bool | int | float | str]
    seed: int
    verdict: Verdict
    reason: str
    metrics: dict[str, float]
    violations: tuple[Violation, ...]
    unmet: tuple[Unmet, ...]
    run_s: float  # of the run's own time, virtual or not
    took_s: float  # of real time
    fact_count: int
    journal: str = ""  # where it is, if it was kept
    tried: dict[str, int] = {}  # rule: how often its premise held, so that it could object

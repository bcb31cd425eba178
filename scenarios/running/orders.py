"""One run as it is ordered from a process of its own."""

from __future__ import annotations

import msgspec

from emulator.cluster.world import WorldKind
from scenarios.plan import Plan


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One run.  Its journal is written to the file *journal*: always, or unless it passed."""

    plan: Plan
    seed: int
    world: WorldKind = "virtual"
    journal: str = ""
    keeps_passed: bool = False
    paths: tuple[str, ...] = ()  # where modules of the scenario's own are looked for
    counts_coverage: bool = False  # which faults met which states, as metrics of the row

"""The results, and the reasons of survivors: three files that are checked in.

``found.json`` is written by a run, ``before.json`` was written once, before any test was added for
a survivor; ``survivors.toml`` is written by hand.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tools.mutation.diffs import Change, change_of

ROOT = Path(__file__).parent.parent.parent
FOUND = Path(__file__).parent / "found.json"
BEFORE = Path(__file__).parent / "before.json"
REASONS = Path(__file__).parent / "survivors.toml"


class Found(NamedTuple):
    """The results of one module's mutants."""

    caught_by_tests: int
    caught_by_types: int
    survivors: tuple[Change, ...]
    commit: str = ""

    @property
    def mutants(self) -> int:
        return self.caught_by_tests + self.caught_by_types + len(self.survivors)

    @property
    def share(self) -> float:
        """The share of survivors among mutants that mypy accepts: only these need a test."""
        return len(self.survivors) / max(1, self.mutants - self.caught_by_types)


def load_found(path: Path = FOUND) -> dict[str, Found]:
    """The results by module; a module that was never run is missing."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    return {name: _found(row) for name, row in rows.items()}


def _found(row: dict[str, Any]) -> Found:
    return Found(**{**row, "survivors": tuple(Change(*one) for one in row["survivors"])})


def load_reasons(path: Path = REASONS) -> dict[Change, str]:
    """The reason of each survivor; several survivors may have the same one."""
    groups = tomllib.loads(path.read_text()).get("reason", [])
    return {change_of(text): group["why"] for group in groups for text in group["changes"]}

"""Rows of runs that were made before, on disk: a virtual run from one seed is the same again.

A file of rows for each plan (with its release and parameters), code version and world; a line
for each seed.  The code that a plan names (programs, strategies) counts as part of the plan.
What cannot be read there is as if it were not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from scenarios.plan import Plan
from scenarios.result import RunResult
from scenarios.running.code_version import code_version

DIGEST_DIGITS = 32


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocketmq-emulator" / "runs"


class FinishedRuns:
    """Those of *plan* in the virtual world, below *folder*."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._path = folder / f"{made_from(plan)}.jsonl"
        self._rows: dict[int, RunResult] = {row.seed: row for row in self._read()}

    def row(self, seed: int) -> RunResult | None:
        """That of *seed*, if there is one whose journal, if it kept one, is still there."""
        row = self._rows.get(seed)
        if row is None or (row.journal and not Path(row.journal).exists()):
            return None
        return row

    def add(self, row: RunResult) -> None:
        """Keep it, if it is an answer: an error may be another one tomorrow."""
        if row.verdict == "error" or row.world != "virtual":
            return
        self._rows[row.seed] = row
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
        except OSError:
            return  # it is made again then

    def _read(self) -> Iterator[RunResult]:
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            try:
                yield msgspec.json.decode(line, type=RunResult)
            except msgspec.MsgspecError:
                continue


def made_from(plan: Plan) -> str:
    """A digest of all that a virtual run of *plan* follows from, its seed aside."""
    digest = hashlib.sha256(msgspec.json.encode(plan))
    digest.update(code_version().encode())
    for source in sorted(_sources_of(plan)):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:DIGEST_DIGITS]


def _sources_of(plan: Plan) -> Iterator[Path]:
    names = [program.run for program in plan.programs]
    names += [group.strategy for group in plan.consumers if ":" in group.strategy]
    for module in {name.rpartition(":")[0] for name in names}:
        source = _source_of(module)
        if source is not None and source.is_file():
            yield source


def _source_of(module: str) -> Path | None:
    if module.endswith(".py"):
        return Path(module)
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(found.origin) if found is not None and found.origin is not None else None

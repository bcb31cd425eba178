"""Rows of runs as files: a cache of finished runs, and JUnit XML for a CI server.

A virtual run from one seed always gives the same row.  So the cache has a file for each plan (with
its release and parameters) and code version, and a line in it for each seed.  The code that a
plan names (programs, strategies) counts as part of the plan.  Unreadable files and lines are
ignored.

In JUnit XML a suite is a scenario and a case is a seed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET  # its usual name

import msgspec

from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import RunResult, code_version

DIGEST_DIGITS = 32


def cache_folder() -> Path:
    """The folder of cached rows, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocketmq-emulator" / "runs"


class FinishedRuns:
    """The cached rows of *plan* in the virtual world, in a file below *folder*."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._path = folder / f"{made_from(plan)}.jsonl"
        self._rows: dict[int, RunResult] = {row.seed: row for row in self._read()}

    def row(self, seed: int) -> RunResult | None:
        """The row of *seed*; None if there is none, or if its journal no longer exists."""
        row = self._rows.get(seed)
        if row is None or (row.journal and not Path(row.journal).exists()):
            return None
        return row

    def add(self, row: RunResult) -> None:
        """Save *row*, unless it is an error or not virtual: those may differ the next time."""
        if row.verdict == "error" or row.world != "virtual":
            return
        self._rows[row.seed] = row
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
        except OSError:
            return  # not saved: the run is repeated the next time

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
    """A digest of everything that determines a virtual run of *plan*, except its seed."""
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


# JUnit XML ----------------------------------------------------------------------------


NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(rows: Iterable[RunResult]) -> bytes:
    """The document; a case that did not pass has its reason, violations and journal in it."""
    suites = ET.Element("testsuites")
    by_name: dict[str, list[RunResult]] = {}
    for row in rows:
        by_name.setdefault(row.scenario, []).append(row)
    for name, of_one in by_name.items():
        suite = ET.SubElement(suites, "testsuite", name=_clean(name))
        suite.set("tests", str(len(of_one)))
        suite.set("failures", str(sum(row.verdict == "failed" for row in of_one)))
        suite.set("errors", str(sum(row.verdict == "error" for row in of_one)))
        suite.set("time", f"{sum(row.took_s for row in of_one):.3f}")
        for row in sorted(of_one, key=lambda row: row.seed):
            _add_case(suite, row)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_case(suite: ET.Element, row: RunResult) -> None:
    name = f"{row.world} {row.release} seed {row.seed}"
    case = ET.SubElement(suite, "testcase", classname=_clean(row.scenario), name=name)
    case.set("time", f"{row.took_s:.3f}")
    if row.verdict == "passed":
        return
    kind = "failure" if row.verdict == "failed" else "error"
    said = ET.SubElement(case, kind, message=_clean(row.reason))
    lines = [
        f"{one.mono_us / 1_000_000:.3f} s {one.checker}: {one.what}" for one in row.violations
    ]
    if row.journal:
        lines.append(f"journal: {row.journal}")
    said.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return NOT_IN_XML.sub("�", text)

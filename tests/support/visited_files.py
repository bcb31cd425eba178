"""The files that an action visits, and the tables of ARCHITECTURE.md that list them.

A file is visited when one of its functions is called.  In this process a profile function
sees the calls; other processes are started with ``tests/visited`` on their path, and each
writes its own list.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from tests.support.paths import ROOT, TESTS

PAGE = ROOT / "ARCHITECTURE.md"
COMMAND_S_MAX = 500.0  # Spark starts slowly on a busy machine
ROOMS = (  # kept of other processes: code that starts nodes and runs, not the code of nodes
    "emulator/cli/",
    "emulator/processes/",
    "emulator/cluster/",
    "emulator/checks/judging/",
    "scenarios/",
    "pipeline/",
)


# The page -----------------------------------------------------------------------------


class Row(NamedTuple):
    """One row of a table: its first cell, and the files that its column ``files`` names."""

    name: str
    files: list[str]


def table_under(heading: str) -> list[Row]:
    """The rows of the first table under *heading* that has a column ``files`` or ``file``."""
    _, found, text = PAGE.read_text().partition(f"\n### {heading}\n")
    assert found, f"{PAGE.name} has no heading {heading!r}"
    section = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    names, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (column,) = (number for number, name in enumerate(names) if name in ("file", "files"))
    return [Row(cells[0], re.findall(r"`([\w/.]+\.py)`", cells[column])) for cells in rows]


def files_under(heading: str) -> list[str]:
    """All files of that table, in order."""
    return [file for row in table_under(heading) for file in row.files]


def by_process(heading: str) -> dict[str, list[str]]:
    """The files of that table, by the process in its first column."""
    found: dict[str, list[str]] = {}
    for row in table_under(heading):
        found.setdefault(row.name, []).extend(row.files)
    return found


def difference(visited: Sequence[str], shown: Sequence[str]) -> str:
    """The lines that the page lacks (+) or has too much (-); "" if it lists what was visited."""
    lines = difflib.unified_diff(shown, visited, PAGE.name, "this run", lineterm="", n=2)
    return "\n".join(lines)


def without_repeats(files: Iterable[str]) -> list[str]:
    """*files* without immediate repeats."""
    return [file for file, _ in groupby(files)]


# This process -------------------------------------------------------------------------


@cache
def place_of(file: str) -> str:
    """The real path of a source file below the root; "" for other files."""
    real = Path(file).resolve()
    is_ours = real.is_relative_to(ROOT) and ".venv" not in real.parts
    return real.relative_to(ROOT).as_posix() if is_ours else ""


@contextmanager
def calls_kept(counts: Callable[[str], bool] = bool) -> Iterator[list[tuple[str, CodeType]]]:
    """Keep the file and code of each function called inside, if *counts* accepts the file."""
    kept: list[tuple[str, CodeType]] = []

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and counts(file := place_of(frame.f_code.co_filename)):
            kept.append((file, frame.f_code))

    sys.setprofile(on_event)
    try:
        yield kept
    finally:
        sys.setprofile(None)


# Other processes ----------------------------------------------------------------------


class ProcessVisits(NamedTuple):
    """One process: when and how it began, and the files in the order of their first visits."""

    began_ns: int
    pid: int
    parent: int
    command: str
    files: list[str]


def the_scenario_of_the_readme(folder: Path) -> None:
    """Write ``hangs.py`` into *folder*."""
    found = re.search(
        r"```python\n(# hangs\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert found
    (folder / "hangs.py").write_text(found[1])


def visits_of_command(arguments: Sequence[str], folder: Path) -> list[ProcessVisits]:
    """Run the command line in *folder*; its processes that visited files of ROOMS, in order.

    One run warms up the process that forks runs; the visits of that run are left out.
    """
    to = folder / "visits"
    to.mkdir()
    path = os.pathsep.join(map(str, (TESTS / "visited", ROOT)))
    asked = {"VISITS_ROOT": str(ROOT), "VISITS_TO": str(to), "VISITS_LEAVE_OUT": "warm_up"}
    subprocess.run(
        [sys.executable, "-m", "rocketmq_emulator", *arguments],
        cwd=folder,
        env={**os.environ, **asked, "PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        check=False,  # a run that is judged as failed is a row, too
        timeout=COMMAND_S_MAX,
    )
    found = [read_visits(file) for file in to.iterdir()]
    return sorted(visits for visits in found if visits.files)


def read_visits(file: Path) -> ProcessVisits:
    began, *files = file.read_text().splitlines()
    at_ns, parent, command = began.split(" ", 2)
    visited = [name for name in files if name.startswith(ROOMS)]
    return ProcessVisits(int(at_ns), int(file.name), int(parent), command, visited)

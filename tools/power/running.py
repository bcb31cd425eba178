"""A copy of the tree for each bug, and trials in it, side by side."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from tools.power.bug import Bug, planted

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocol", "emulator", "scenarios", "rocketmq_emulator", "tools/power")
RELEASE = "4.9.7"  # of bugs that are in the code of both
RELEASES = ("4.9.7", "5.3.3")


def version_of(bug: Bug, root: Path = ROOT) -> str:
    """Of the bug and of all the code that runs with it: what was found before holds for this."""
    digest = hashlib.sha256(repr(bug).encode())
    for folder in FOLDERS[:-1]:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class PlantedTree:
    """A copy of the tree below *folder* with *bug* in it; ``run`` starts programs there."""

    def __init__(self, bug: Bug, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        for name in FOLDERS:
            shutil.copytree(
                root / name, folder / name, ignore=shutil.ignore_patterns("*.pyc", "node_modules")
            )
        (folder / bug.file).write_text(planted(bug, root))

    def run(self, *arguments: str) -> str:
        """What ``python -m`` with *arguments* prints; raises ``CalledProcessError``."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def tried(
    bug: Bug, shapes: Iterable[str], seeds: range, *, shrinks: bool = True, without: str = ""
) -> dict[str, dict[str, Any]]:
    """What trials of *bug* find, by shape; *without* seeds that show nothing: ``"7,93"``."""
    release = bug.release or RELEASE
    options = ["--shrink"] if shrinks else []
    options += ["--without", without] if without else []
    with tempfile.TemporaryDirectory(prefix="power-") as folder:
        tree = PlantedTree(bug, Path(folder))
        found = {}
        for shape in shapes:
            span = [str(seeds[0]), str(seeds[-1])]
            try:
                text = tree.run("tools.power.trial", release, shape, *span, *options)
            except subprocess.CalledProcessError as error:
                found[shape] = {"seed": None, "error": error.stderr[-500:]}
            else:
                found[shape] = json.loads(text.splitlines()[-1])
        return found


def objected(release: str, shape: str, seeds_max: int) -> str:
    """The seeds with which something objects to this tree itself, as ``trial`` leaves them out."""
    command = [sys.executable, "-m", "tools.power.trial", release, shape, "1", str(seeds_max)]
    done = subprocess.run(
        [*command, "--all"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return ",".join(map(str, json.loads(done.stdout.splitlines()[-1])))


class Results:
    """What was found, kept in a file after each bug: a run that is interrupted goes on later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self.rows = json.loads(path.read_text())

    def keep(self, bug: Bug, version: str, found: dict[str, Any]) -> None:
        """Write it at once."""
        with self._lock:
            self.rows[bug.name] = {"version": version, **found}
            text = json.dumps(dict(sorted(self.rows.items())), indent=1, ensure_ascii=False)
            self._path.write_text(text + "\n")

    def has(self, bug: Bug, version: str) -> bool:
        """It was tried with this very code."""
        return self.rows.get(bug.name, {}).get("version") == version


class Search(NamedTuple):
    """Seeds 1 to *seeds_max* of the small shape, a third as many of the default one.

    First all of them without a bug, of both releases: where something objects, nothing is shown.
    """

    seeds_max: int
    jobs: int
    shrinks: bool = False

    def spans(self) -> Iterator[tuple[str, int]]:
        """Each shape, and its last seed."""
        yield from (("small", self.seeds_max), ("default", self.seeds_max // 3))

    def healthy(self) -> Mapping[tuple[str, str], str]:
        """By release and shape, the seeds that show nothing."""
        wanted = [(release, *span) for release in RELEASES for span in self.spans()]
        with ThreadPoolExecutor(self.jobs) as pool:
            found = pool.map(lambda each: objected(*each), wanted)
            return {
                (release, shape): seeds
                for (release, shape, _), seeds in zip(wanted, found, strict=True)
            }

    def of(self, bug: Bug, healthy: Mapping[tuple[str, str], str]) -> dict[str, Any]:
        """What it finds of *bug*, by shape."""
        found: dict[str, Any] = {"seeds_max": self.seeds_max}
        for shape, seeds_max in self.spans():
            without = healthy[bug.release or RELEASE, shape]
            seeds = range(1, seeds_max + 1)
            found |= tried(bug, [shape], seeds, shrinks=self.shrinks, without=without)
            found[shape] |= {"without": without} if without else {}
        return found


def try_all(bugs: Iterable[Bug], results: Results, search: Search) -> Iterator[Bug]:
    """Each bug when it was tried, some at once."""
    with ThreadPoolExecutor(search.jobs) as pool:
        healthy: Mapping[tuple[str, str], str] | None = None
        waiting = {}
        for bug in bugs:
            version = version_of(bug)
            if results.has(bug, version):
                yield bug
                continue
            healthy = search.healthy() if healthy is None else healthy
            waiting[pool.submit(search.of, bug, healthy)] = bug, version
        for future in as_completed(waiting):
            bug, version = waiting[future]
            results.keep(bug, version, future.result())
            yield bug

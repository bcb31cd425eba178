"""Run each bug in its own copy of the tree, several at once.

An objection that also comes without the bug does not count: a seed with an objection is run
without the bug too, and the search continues if that run does not pass either.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tools.power.bug import Bug, planted

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("protocol", "emulator", "scenarios", "tools/power")
RELEASE = "4.9.7"  # of bugs in code that both releases use
SHAPES = ("small", "default")
SHRINKING = ("steps", "shrink_runs", "explained")  # kept while seed and rules are the same
UNMET_MAX = 5  # seeds with only an unmet expectation that are kept
ERROR_MAX = 500  # last characters of the error output of a run that crashed

Found = dict[str, Any]


def version_of(bug: Bug | None, root: Path = ROOT) -> str:
    """A digest of the bug and of all code that runs with it; a result is valid for one version."""
    digest = hashlib.sha256(repr(bug).encode())
    for folder in FOLDERS[:-1]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".py", ".toml"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_in_copy(folder: Path, *arguments: str) -> Found:
    """The output of a run in *folder*; raises ``CalledProcessError``."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.power.bug_run", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def copy_tree(root: Path, folder: Path) -> None:
    """Copy the files below *root* that runs need, with links.

    What Python has compiled is valid in the copy, too: the copies have the times of the files.
    """
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("*-pytest-*.pyc", "node_modules")
        shutil.copytree(root / name, folder / name, ignore=ignored, symlinks=True)
    (folder / "rocketmq_emulator").symlink_to("emulator")
    # Without this file, Python would import the `tools` of an installed tree, with other code.
    shutil.copy(root / "tools" / "__init__.py", folder / "tools" / "__init__.py")


class PlantedTree:
    """A copy of the tree in *folder* with *bug* in it; ``run`` starts runs there."""

    def __init__(self, bug: Bug, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        copy_tree(root, folder)
        (folder / bug.file).write_text(planted(bug, root))

    def run(self, *arguments: str) -> Found:
        """The output of a run; ``error`` if it crashed."""
        try:
            return run_in_copy(self.folder, *arguments)
        except subprocess.CalledProcessError as error:
            return {"seed": None, "error": error.stderr[-ERROR_MAX:]}


def tried(bug: Bug, shapes: Iterable[str], seeds: range, *, shrinks: bool = True) -> Found:
    """The results of *bug* in weather, by shape; seeds that fail without it are not skipped."""
    options = ["--shrink"] if shrinks else []
    span = str(seeds[0]), str(seeds[-1])
    with tempfile.TemporaryDirectory(prefix="power-") as folder:
        tree = PlantedTree(bug, Path(folder))
        release = bug.release or RELEASE
        return {shape: tree.run("weather", release, shape, *span, *options) for shape in shapes}


class Healthy:
    """Results of this tree without a bug, kept in a file for one version of the code."""

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self._path, self._root = path, root
        self._version = version_of(None, root)
        self._lock = threading.Lock()
        known = json.loads(path.read_text()) if path.is_file() else {}
        self._rows = known if known.get("version") == self._version else {}

    def shows_nothing(self, release: str, shape: str, seed: int) -> bool:
        """Whether this run does not pass without a bug: then it proves nothing."""
        found = self._asked("weather", release, shape, str(seed), str(seed))
        return found["seed"] is not None or bool(found["unmet"])

    def library(self) -> dict[str, list[str]]:
        """The rules that object, by scenario."""
        answer: dict[str, list[str]] = self._asked("library")
        return answer

    def _asked(self, *arguments: str) -> Found:
        key = " ".join(arguments)
        with self._lock:
            if key not in self._rows:
                self._rows[key] = run_in_copy(self._root, *arguments)
                self._rows["version"] = self._version
                rows = dict(sorted(self._rows.items()))
                self._path.write_text(json.dumps(rows, indent=1) + "\n")
            found: Found = self._rows[key]
            return found


class Results:
    """The results, written to a file after each bug: a run may be interrupted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows: dict[str, Found] = {}
        if path.is_file():
            self.rows = json.loads(path.read_text())

    def keep(self, bug: Bug, version: str, found: Found) -> None:
        """Replace the row of *bug* and write the file."""
        with self._lock:
            known = self.rows.get(bug.name, {})
            shapes = {shape: with_shrinking(found[shape], known.get(shape)) for shape in SHAPES}
            self.rows[bug.name] = {"version": version, **found, **shapes}
            text = json.dumps(dict(sorted(self.rows.items())), indent=1, ensure_ascii=False)
            self._path.write_text(text + "\n")

    def of(self, bug: Bug, version: str) -> Found:
        """The results of this version of the code; empty if there are none."""
        row = self.rows.get(bug.name, {})
        return row if row.get("version") == version else {}


def with_shrinking(found: Found, before: Found | None) -> Found:
    """*found*, with the shrinking of *before* if the same rules object to the same seed."""
    same = before and all(before.get(each) == found.get(each) for each in ("seed", "rules"))
    if not same or before is None or "steps" in found:
        return found
    return found | {each: before[each] for each in SHRINKING if each in before}


class Search:
    """Seeds 1 to *seeds_max* of both shapes, until a rule objects; then the library."""

    def __init__(self, seeds_max: int, healthy: Healthy, *, shrinks: bool = False) -> None:
        self._seeds_max = seeds_max
        self._healthy = healthy
        self._shrinks = shrinks

    def is_done(self, known: Found) -> bool:
        """Whether a bug with these results needs no more runs."""
        shapes = (known.get(shape, {}) for shape in SHAPES)
        return "library" in known and not any(self._is_wanted(found) for found in shapes)

    def of(self, bug: Bug, known: Found) -> Found:
        """The results, by shape and in the library; *known* results are not repeated."""
        with tempfile.TemporaryDirectory(prefix="power-") as folder:
            tree = PlantedTree(bug, Path(folder))
            found = {}
            for shape in SHAPES:
                before = known.get(shape, {})
                found[shape] = (
                    self._searched(tree, bug.release or RELEASE, shape, before)
                    if self._is_wanted(before)
                    else before
                )
            found["library"] = known["library"] if "library" in known else self._library(tree)
            return found

    def _is_wanted(self, found: Found) -> bool:
        if found.get("seed") is None:
            return int(found.get("searched", 0)) < self._seeds_max
        return self._shrinks and "steps" not in found

    def _searched(self, tree: PlantedTree, release: str, shape: str, before: Found) -> Found:
        unmet = dict(before.get("unmet", {}))
        first = before.get("seed") or int(before.get("searched", 0)) + 1
        options = ["--shrink"] if self._shrinks else []
        while first <= self._seeds_max:
            span = str(first), str(self._seeds_max)
            found: Found = tree.run("weather", release, shape, *span, *options)
            unmet |= self._shown(release, shape, found.get("unmet", {}))
            if found.get("error"):
                return found
            if (seed := found["seed"]) is None:
                break
            if not self._healthy.shows_nothing(release, shape, seed):
                return found | {"unmet": unmet}
            first = seed + 1
        return {"seed": None, "unmet": unmet, "searched": self._seeds_max}

    def _shown(self, release: str, shape: str, unmet: Found) -> Found:
        """The first seeds with an unmet expectation, without those that fail without the bug."""
        seeds = list(unmet)[:UNMET_MAX]
        return {
            seed: unmet[seed]
            for seed in seeds
            if not self._healthy.shows_nothing(release, shape, int(seed))
        }

    def _library(self, tree: PlantedTree) -> Found:
        """The rules that object only with the bug, by scenario."""
        found: dict[str, list[str]] = run_in_copy(tree.folder, "library")
        healthy = self._healthy.library()
        more = {name: sorted(set(found[name]) - set(healthy[name])) for name in healthy}
        return {name: rules for name, rules in more.items() if rules}


def try_all(bugs: Iterable[Bug], results: Results, search: Search, jobs: int) -> Iterator[Bug]:
    """Yield each bug once it has results; *jobs* bugs are run at once."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for bug in bugs:
            version = version_of(bug)
            if search.is_done(known := results.of(bug, version)):
                yield bug
                continue
            waiting[pool.submit(search.of, bug, known)] = bug, version
        for future in as_completed(waiting):
            bug, version = waiting[future]
            results.keep(bug, version, future.result())
            yield bug

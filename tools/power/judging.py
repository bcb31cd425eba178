"""Run each mutant in weather, in a copy of the tree: checkers replace the unit tests.

One copy is used for all mutants: a file is changed for a mutant, and restored afterwards.  The
code is compiled once, and not while it contains a mutant.  A seed whose run does not execute the
changed statement is not run again, as its result cannot differ.
"""

from __future__ import annotations

import ast
import compileall
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Self

from tools.power.bug import PlaceGone, planted, span_of
from tools.power.drawing import Mutant, same_at_first
from tools.power.running import ROOT, copy_tree, version_of

Row = dict[str, Any]


class Judged:
    """The result of each mutant, written to a file at once: a run may be interrupted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, Row] = json.loads(path.read_text()) if path.is_file() else {}

    def keep(self, mutant: Mutant, row: Row) -> None:
        """Replace the row of *mutant* and write the file."""
        self.rows[mutant.key] = row
        rows = dict(sorted(self.rows.items()))
        self._path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")

    def has(self, mutant: Mutant, version: str, seeds_max: int) -> bool:
        """Whether it was run with this code, and was seen or had at least *seeds_max* seeds."""
        row = self.rows.get(mutant.key, {})
        is_enough = row.get("how") or row.get("searched", 0) >= seeds_max
        return row.get("version") == version and bool(is_enough)


def judge_all(
    mutants: Iterable[Mutant], judged: Judged, seeds_max: int, most: int | None = None
) -> Iterator[Mutant]:
    """Yield each mutant once it has a result; at most *most* mutants are run."""
    code = version_of(None)
    waiting = []
    for mutant in mutants:
        version = _version(code, mutant)
        if judged.has(mutant, version, seeds_max):
            yield mutant
        else:
            waiting.append((mutant, version))
    if not waiting or most == 0:
        return
    with MutantTree() as tree:
        seeds = list(range(1, seeds_max + 1))
        healthy = tree.asked({"seeds": seeds})
        files = sorted({mutant.file for mutant, _ in waiting})
        executed = tree.asked({"seeds": seeds, "lines_of": files})
        assert len(healthy) == len(executed) == len(seeds), "a seed has no run without a mutant"
        for mutant, version in islice(waiting, most):
            row = tree.row_of(mutant, executed, healthy)
            judged.keep(mutant, {"version": version, "searched": seeds_max, **row})
            yield mutant


def _version(code: str, mutant: Mutant) -> str:
    return hashlib.sha256(f"{code} {mutant}".encode()).hexdigest()[:16]


class MutantTree:
    """A copy of the tree, and a process in it that executes the runs."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-"))
        self.folder = Path(folder)
        copy_tree(self._root, self.folder)
        compileall.compile_dir(folder, quiet=2)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.power.mutant_runs"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._stack.close()

    def asked(self, job: Row) -> Row:
        """The answer to one job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer: Row = json.loads(self._process.stdout.readline())
        return answer

    def row_of(self, mutant: Mutant, executed: Row, healthy: Row) -> Row:
        """The result of *mutant*; ``how`` is "gone" if its text is no longer in the code."""
        try:
            text = planted(mutant.as_bug(), self._root)
        except PlaceGone:
            return {"seed": None, "how": "gone"}
        began_s, place = time.monotonic(), self.folder / mutant.file
        wanted = statement_of(mutant, (self._root / mutant.file).read_text())
        seeds = [int(n) for n, lines in executed.items() if wanted & set(lines[mutant.file])]
        place.write_text(text)
        try:
            answer = self.asked({"seeds": seeds, "healthy": healthy})
        finally:
            shutil.copy2(self._root / mutant.file, place)
        took_s = round(time.monotonic() - began_s, 1)
        return {**answer, "reached": len(seeds), "took_s": took_s}


def statement_of(mutant: Mutant, text: str) -> set[int]:
    """The lines of the innermost changed statement; of a compound statement only its head.

    For a change of a ``case``, an ``except`` or a parameter: all lines of the statement.
    """
    begin = span_of(mutant.as_bug(), text)[0]
    same = same_at_first(mutant.old, mutant.new)
    line = text.count("\n", 0, text.index(mutant.old, begin) + same) + 1
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
    innermost = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    last = innermost.end_lineno or innermost.lineno
    body = getattr(innermost, "body", None)
    is_definition = isinstance(innermost, ast.FunctionDef | ast.AsyncFunctionDef)
    if body and not is_definition and line < body[0].lineno:
        last = max(innermost.lineno, body[0].lineno - 1)
    return set(range(innermost.lineno, last + 1))

"""Mutants that unit tests kill, drawn at random: ``python -m tools.power.mutants --draw``.

The results of tools/mutation have the number of killed mutants, not their names.  So mutants of
each module are drawn until enough of them are killed: mypy refuses most; the others are run with
the module's tests.  Each module gets a share in proportion to its mutants.  A drawn mutant is kept
as a text and its replacement (``tools.power.bug``), so later runs need no mutmut.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tools.mutation.diffs import Change, text_of
from tools.mutation.modules import Module
from tools.mutation.records import load_found
from tools.mutation.running import KILLED, NO_ENDS, TIMED_OUT, configure, in_tree, installed
from tools.power.bug import Bug, PlaceGone, planted
from tools.power.running import ROOT

MORE = 1.2  # factor: how many times the probable need is drawn at first


class Mutant(NamedTuple):
    """A mutant of mutmut, as text."""

    name: str
    file: str
    function: str
    old: str
    new: str
    change: str  # the lines before and after, in one line
    rank: str = ""  # random, set at the draw: renamed code does not change the sample

    @property
    def key(self) -> str:
        """Its name in tools/mutation: file, function and the changed text."""
        return str(Change(self.file, self.function, self.change))

    def as_bug(self) -> Bug:
        """The mutant as a bug that can be planted."""
        return Bug(
            self.key, "send", "", "", "", self.file, self.function, old=self.old, new=self.new
        )


class Drawn(NamedTuple):
    """The number of mutants of one module, and the drawn mutants that its tests kill."""

    mutants: int
    killed: list[Mutant]


def parts_of(count: int) -> dict[str, int]:
    """*count* divided in proportion to each module's mutants; larger remainders are rounded up."""
    mutants = {name: found.mutants for name, found in load_found().items()}
    exact = {name: count * number / sum(mutants.values()) for name, number in mutants.items()}
    parts = {name: int(part) for name, part in exact.items()}
    by_rest = sorted(exact, key=lambda name: parts[name] - exact[name])
    for name in by_rest[: count - sum(parts.values())]:
        parts[name] += 1
    return parts


def drawn_of(
    copy: Path, module: Module, count: int, seed: int, shown: Callable[[int], None]
) -> Drawn:
    """*count* mutants of *module* that its tests kill, in the order in which they were drawn."""
    configure(copy, module)
    shutil.rmtree(copy / "mutants", ignore_errors=True)  # of another module
    mutants = list(_all_mutants(copy, module))
    Random(f"mutants {seed} {module.name}").shuffle(mutants)
    codes: dict[str, int | None] = {}
    first = 0
    while first < len(mutants):
        lacking = count - len(_with(mutants[:first], codes, *KILLED, *TIMED_OUT, *NO_ENDS))
        if lacking <= 0:
            break
        some = mutants[first : first + _needed(module, lacking)]
        codes |= _exit_codes(copy, module, [one.name for one in some])
        first += len(some)
        shown(count - lacking)
    killed = _with(mutants[:first], codes, *KILLED, *TIMED_OUT, *NO_ENDS)
    return Drawn(len(mutants), killed[:count])


def _needed(module: Module, lacking: int) -> int:
    found = load_found()[module.name]
    return int(lacking * MORE * found.mutants / found.caught_by_tests) + 1


def _with(mutants: list[Mutant], codes: dict[str, int | None], *wanted: int) -> list[Mutant]:
    return [one for one in mutants if codes.get(one.name) in wanted]


def _exit_codes(copy: Path, module: Module, names: list[str]) -> dict[str, int | None]:
    """Run these mutants; returns mutmut's exit codes.  Raises ``CalledProcessError``."""
    mutmut = Path(sys.executable).parent / "mutmut"
    with (copy / "mutmut.log").open("w") as log:
        command = [str(mutmut), "run", "--max-children", "1", *names]
        subprocess.run(command, cwd=copy, stdout=log, stderr=log, check=True)
    codes: dict[str, int | None] = {}
    for file in module.files:
        codes |= json.loads((copy / "mutants" / f"{installed(file)}.meta").read_text())[
            "exit_code_by_key"
        ]
    return {name: codes[name] for name in names}


def _all_mutants(copy: Path, module: Module) -> Iterator[Mutant]:
    """All mutants of a module, file by file; of mutants with the same text, the first one."""
    command = [sys.executable, "-m", "tools.power.mutant_texts", *map(installed, module.files)]
    answer = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, text=True, check=True)
    known = set()
    for name, file, function, before, after in json.loads(answer.stdout):
        mutant = mutant_of(name, in_tree(file), function, before, after)
        if mutant.key not in known and _applies(mutant):
            known.add(mutant.key)
            yield mutant


def _applies(mutant: Mutant) -> bool:
    try:
        return planted(mutant.as_bug(), ROOT) != (ROOT / mutant.file).read_text()
    except PlaceGone:
        return False


def mutant_of(name: str, file: str, function: str, before: str, after: str) -> Mutant:
    """A mutant with as many lines around the change as make its text unique in the function."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = same_at_first(old, new)
    last = same_at_first(old[first:][::-1], new[first:][::-1])
    change = _in_one_line(old, new, first, last)
    while before.count("".join(old[first : len(old) - last])) != 1 and (first or last):
        first, last = max(0, first - 1), max(0, last - 1)
    removed, added = ("".join(lines[first : len(lines) - last]) for lines in (old, new))
    mutant = Mutant(name, file, function, removed, added, change)
    return mutant._replace(rank=hashlib.sha256(mutant.key.encode()).hexdigest()[:16])


def same_at_first(one: Sequence[object], other: Sequence[object]) -> int:
    """The number of equal elements before the first difference."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (left, right) in pairs if left != right), min(len(one), len(other)))


def _in_one_line(old: list[str], new: list[str], first: int, last: int) -> str:
    removed = [f"-{line}" for line in old[first : len(old) - last]]
    added = [f"+{line}" for line in new[first : len(new) - last]]
    return text_of("".join([*removed, *added]))


def as_json(drawn: dict[str, Drawn]) -> dict[str, Any]:
    """JSON values for ``from_json``."""
    return {
        name: {"mutants": one.mutants, "killed": [mutant._asdict() for mutant in one.killed]}
        for name, one in drawn.items()
    }


def from_json(rows: dict[str, Any]) -> dict[str, Drawn]:
    """The inverse of ``as_json``."""
    return {
        name: Drawn(row["mutants"], [Mutant(**each) for each in row["killed"]])
        for name, row in rows.items()
    }

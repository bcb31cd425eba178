"""Readable names of mutants: file, function, and the changed lines before and after.

    python -m tools.mutation.diffs < names.json   (in a copy in which mutmut ran)

A change is named by its text, not by its number or line: so the reason why it survives stays
valid when the code around it moves.
"""

from __future__ import annotations

import json
import re
import sys
from typing import NamedTuple


class Change(NamedTuple):
    """One mutant."""

    file: str
    function: str
    text: str  # "before -> after", of the lines that differ

    def __str__(self) -> str:
        return f"{self.file} {self.function}: {self.text}"


def change_of(text: str) -> Change:
    """The change whose ``str`` is *text*."""
    place, _, change = text.partition(": ")
    file, _, function = place.partition(" ")
    return Change(file, function, change)


def text_of(diff: str) -> str:
    """The lines that differ in a unified diff of two functions, in one line."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    before = [line[1:].strip() for line in lines if line.startswith("-")]
    after = [line[1:].strip() for line in lines if line.startswith("+")]
    return f"{' '.join(before)} -> {' '.join(after)}".strip()


def function_of(mutant: str) -> str:
    """The ``Class.method`` or ``function`` in mutmut's mangled name."""
    name = re.sub(r"__mutmut_\d+$", "", mutant.rpartition(".")[2])
    return name.removeprefix("x_") if "ǁ" not in name else ".".join(name.split("ǁ")[1:])


def main() -> None:
    from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant  # noqa: PLC0415

    rows = []
    for name in json.load(sys.stdin):
        path = find_mutant(name).path
        rows.append(
            Change(str(path), function_of(name), text_of(get_diff_for_mutant(name, path=path)))
        )
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()

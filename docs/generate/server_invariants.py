"""The table of server invariants in docs/invariants.md, each with its tests.

The rows are in docs/server_invariants.toml.  A test says which rows it checks by its name:
``test_invariant_07_...``, ``test_invariants_34_and_35_...``, ``test_r7_...``,
``test_r22_r26_r27_...``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from docs.generate.sections import DOCS, write_section

PAGE = DOCS / "invariants.md"
ROWS = DOCS / "server_invariants.toml"
TESTS = DOCS.parent / "tests"
DEFINITION = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
PLAIN = re.compile(r"test_invariants?_(\d+(?:_and_\d+)*)_")
REPLICATION = re.compile(r"test_((?:r\d+_(?:and_)?)+)")


class ServerInvariant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row: ``as`` names rows whose tests check this one too, ``unseen`` says why none does."""

    text: str
    same_as: tuple[str, ...] = msgspec.field(default=(), name="as")
    unseen: str = ""


def read_rows(path: Path = ROWS) -> dict[str, dict[str, ServerInvariant]]:
    """The rows by number, by the name of their part."""
    parts = tomllib.loads(path.read_text())
    return {
        part: {key: _row(value) for key, value in rows.items()} for part, rows in parts.items()
    }


def _row(value: str | dict[str, object]) -> ServerInvariant:
    return msgspec.convert({"text": value} if isinstance(value, str) else value, ServerInvariant)


def held_by_row(folder: Path = TESTS) -> dict[str, list[str]]:
    """By number of a row: the sorted names of the tests that check it."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("test_*.py"):
        for name in DEFINITION.findall(path.read_text()):
            for number in numbers_in(name):
                found.setdefault(number, set()).add(name)
    return {number: sorted(names) for number, names in found.items()}


def numbers_in(name: str) -> Iterator[str]:
    """The rows that the test *name* checks: ``7``, ``R7``."""
    if match := PLAIN.match(name):
        yield from (str(int(number)) for number in match[1].split("_and_"))
    if match := REPLICATION.match(name):
        yield from (f"R{number}" for number in re.findall(r"\d+", match[1]))


def server_invariants_text() -> str:
    """A Markdown table for each part."""
    tests = held_by_row()
    return "\n\n".join(_part(name, rows, tests) for name, rows in read_rows().items())


def _part(name: str, rows: dict[str, ServerInvariant], tests: dict[str, list[str]]) -> str:
    title = name.replace("_", " ").capitalize().replace("Ha ", "HA ")
    head = [f"### {title}", "", "|  | server invariant | tests |", "| --- | --- | --- |"]
    return "\n".join([*head, *(_line(key, row, tests) for key, row in rows.items())])


def _line(number: str, row: ServerInvariant, tests: dict[str, list[str]]) -> str:
    names = [f"`{name}`" for name in tests.get(number, [])]
    cells = (*names, *(f"those of {other}" for other in row.same_as), *filter(None, [row.unseen]))
    return f"| {number} | {row.text} | {', '.join(cells)} |"


if __name__ == "__main__":
    write_section(PAGE, "server invariants", server_invariants_text())
